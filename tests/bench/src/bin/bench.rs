//! `bench`: the gateway alone with three policies, beside the floor.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use clap::Parser;
use extender_bench::{
    case::{Bodies, Case},
    contender::{EmptyCalls, Extender, Failure, Keeps},
    measure::{Entrant, Series, measure},
    report::{BUDGET, Line, Report, Table},
    stage::Stage,
};

/// Measures the gateway with three policies, beside an extender that only echoes.
#[derive(Debug, Parser)]
struct Options {
    /// How often everybody is asked in turn.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Where the report goes as JSON.
    #[arg(long, default_value = "target/bench/gateway.json")]
    json: PathBuf,
    /// Only the cases whose name holds this text, such as "500 names".
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody is left to hear that standard error is closed.
            let _ = writeln!(io::stderr(), "bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Failure> {
    let start = Instant::now();
    let stage = Stage::set()?;
    println!("The gateway with three policies beside the floor, {} rounds in turn", options.rounds);
    print!("\n{}", Table::LatencyHead);
    let mut lines = Vec::new();
    for case in Case::all().into_iter().filter(|case| case.label().contains(&options.only)) {
        let line = measure_case(&stage, &case, options.rounds.into())?;
        print!("{}", Table::Latency(&line));
        lines.push(line);
    }
    print!("\n{}", Table::CostsHead);
    for line in &lines {
        print!("{}", Table::Costs(line));
    }
    write_json(&options.json, &Report { rounds: options.rounds.into(), budget: BUDGET, cases: lines })?;
    println!(
        "\nIn names mode the last column of the first table is to be at most {BUDGET}.\n\
         {} s; the same as JSON in {}",
        start.elapsed().as_secs(),
        options.json.display()
    );
    Ok(())
}

fn measure_case(stage: &Stage, case: &Case, rounds: usize) -> Result<Line, Failure> {
    let roles = stage.roles(case.form);
    let bodies = Bodies::new(case, roles.cluster, Stage::refused);
    let mut gateway = Extender::open(roles.gateway, Keeps::Survivors)?;
    let mut floor = Extender::open(stage.echo(), Keeps::All)?;
    let mut empty_calls = EmptyCalls::open(stage.policies())?;
    let policies = ("policies", stage.policy_processes());
    let gateway_processes = vec![("gateway", vec![roles.gateway_process]), policies.clone()];
    let mut entrants = [
        Entrant { contender: &mut gateway, processes: gateway_processes },
        Entrant { contender: &mut floor, processes: vec![("floor", vec![stage.echo_process()])] },
        Entrant { contender: &mut empty_calls, processes: vec![policies] },
    ];
    let series = measure(case, &bodies, rounds, &mut entrants)?;
    let [gateway, floor, empty_calls]: [Series; 3] =
        series.try_into().map_err(|_| "three were asked and another number answered")?;
    Ok(Line::new(case.label(), &gateway, &floor, &empty_calls))
}

fn write_json(file: &Path, report: &Report) -> Result<(), Failure> {
    let failed = |cause: io::Error| format!("{}: the report cannot be written: {cause}", file.display());
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(file, serde_json::to_vec_pretty(report)?).map_err(failed)?;
    Ok(())
}

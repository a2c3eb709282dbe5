//! `bench`: compares the gateway alone, with three policies, with the floor.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use clap::Parser;
use extender_bench::{
    case::{Case, Offers},
    contender::{EmptyCalls, Extender, Failure, Keeps},
    fleet::{self, FleetReport},
    measure::{Entrant, Series, measure},
    observed::{self, Comparison, Observed},
    pods::Pods,
    report::{BUDGET, Line, Report, Table},
    stage::{Role, Stage},
};

/// Compares the gateway with three policies with an extender that only echoes.
#[derive(Debug, Parser)]
struct Options {
    /// The number of rounds in which every contender is called.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Where the report goes as JSON.
    #[arg(long, default_value = "target/bench/gateway.json")]
    json: PathBuf,
    /// Only the cases whose name holds this text, such as "420 names" or "fleet".
    #[arg(long, default_value = "")]
    only: String,
}

/// The pods that the roles are asked about. They live as long as the run: no pod of the second kind comes twice.
struct Workloads {
    of_deployments: Pods,
    all_different: Pods,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Standard error is closed: the message cannot be delivered.
            let _ = writeln!(io::stderr(), "bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Failure> {
    let start = Instant::now();
    let rounds = usize::from(options.rounds);
    let cases: Vec<Case> =
        Case::all().into_iter().filter(|case| case.label().contains(&options.only)).collect();
    let stage = Stage::set()?;
    let workloads =
        Workloads { of_deployments: Pods::of_deployments(), all_different: Pods::all_different() };
    println!("The gateway with three policies beside the floor, {rounds} rounds in turn\n");
    let mut lines = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let line = measure_case(&stage, &workloads, case, rounds)?;
        if number == 0 {
            print!("{}", Table::LatencyHead(&line));
        }
        print!("{}", Table::Latency(&line));
        lines.push(line);
        say_time_left(start, &cases, number + 1)?;
    }
    print_rest(&lines);
    let fleet = measure_fleet(options, rounds)?;
    let observability = compare_observed(&stage, &workloads, &cases, rounds)?;
    let report = Report {
        rounds,
        budget: BUDGET,
        cases: lines,
        observability_budget: observed::BUDGET,
        observability,
        fleet,
    };
    write_json(&options.json, &report)?;
    println!(
        "\nWith names, the second table is to hold nothing above {BUDGET}; the last one with 1 % of traces nothing \
         above {}.\n{} s; the same as JSON in {}",
        observed::BUDGET,
        start.elapsed().as_secs(),
        options.json.display()
    );
    Ok(())
}

fn measure_case(stage: &Stage, workloads: &Workloads, case: &Case, rounds: usize) -> Result<Line, Failure> {
    let offers = Offers::new(case, stage.cluster(case.form), Stage::refused);
    let mut floor = Extender::open(stage.echo(), Keeps::All)?;
    let mut empty_calls = EmptyCalls::open(stage.ensembles[0].policies())?;
    let gateways: Result<Vec<Extender>, _> = stage
        .ensembles
        .iter()
        .map(|ensemble| Extender::open(ensemble.gateway(case.form).extender, Keeps::Survivors))
        .collect();
    let (mut gateways, pods) = (gateways?, &workloads.of_deployments);
    let mut entrants = vec![
        Entrant { contender: &mut floor, pods, processes: vec![("floor", vec![stage.echo_process()])] },
        Entrant { contender: &mut empty_calls, pods, processes: vec![] },
    ];
    for (ensemble, gateway) in stage.ensembles.iter().zip(&mut gateways) {
        let pods = workloads.of(ensemble.role);
        let gateway_process = ensemble.gateway(case.form).process.id();
        let processes = vec![("gateway", vec![gateway_process]), ("policies", ensemble.policy_processes())];
        entrants.push(Entrant { contender: gateway, pods, processes });
    }
    let mut series = measure(case, &offers, rounds, &mut entrants)?.into_iter();
    let (Some(floor), Some(calls)) = (series.next(), series.next()) else {
        return Err("nothing was measured".into());
    };
    let roles: Vec<(&str, Series)> = Role::ALL.map(Role::label).into_iter().zip(series).collect();
    Ok(Line::new(case.label(), &floor, &calls, &roles))
}

/// Only if the options select it.
fn measure_fleet(options: &Options, rounds: usize) -> Result<Option<FleetReport>, Failure> {
    if !fleet::LABEL.contains(&options.only) {
        return Ok(None);
    }
    let report = FleetReport::measure(rounds)?;
    print!("\n{}", Table::Fleet(&report));
    Ok(Some(report))
}

/// Small differences need more rounds.
const ROUNDS_OF_OBSERVED: usize = 5;

/// Compares the gateway with and without observability.
fn compare_observed(
    stage: &Stage,
    workloads: &Workloads,
    cases: &[Case],
    rounds: usize,
) -> Result<Vec<Comparison>, Failure> {
    let cases: Vec<&Case> = cases.iter().filter(|case| Observed::is_about(case)).collect();
    if cases.is_empty() {
        return Ok(Vec::new());
    }
    let (observed, rounds) = (Observed::start(stage)?, ROUNDS_OF_OBSERVED * rounds);
    println!(
        "\nWhat observing costs the gateway, and how much that is of the first, {rounds} rounds in turn\n"
    );
    let mut all = Vec::new();
    for case in cases {
        let offers = Offers::new(case, stage.cluster(case.form), Stage::refused);
        let compared = observed.compare((case, &offers, &workloads.of_deployments), rounds)?;
        for (number, comparison) in compared.iter().enumerate() {
            if all.is_empty() && number == 0 {
                print!("{}", Table::ObservedHead(comparison));
            }
            print!("{}", Table::Observed(comparison));
        }
        all.extend(compared);
    }
    Ok(all)
}

impl Workloads {
    fn of(&self, role: Role) -> &Pods {
        match role {
            Role::Cold => &self.all_different,
            Role::Warm | Role::Node | Role::Set => &self.of_deployments,
        }
    }
}

fn print_rest(lines: &[Line]) {
    let Some(first) = lines.first() else { return };
    print!("\n{}", Table::RatiosHead(first));
    for line in lines {
        print!("{}", Table::Ratios(line));
    }
    print!("\n{}", Table::CostsHead(first));
    for line in lines {
        print!("{}", Table::Costs(line));
    }
}

/// On standard error, separate from the report.
fn say_time_left(start: Instant, cases: &[Case], done: usize) -> io::Result<()> {
    let weight = |cases: &[Case]| cases.iter().map(Case::weight).sum::<f64>();
    let (past, future) = cases.split_at(done);
    let seconds = start.elapsed().as_secs_f64() * weight(future) / weight(past);
    // The sum of nothing is -0.
    let seconds = seconds.abs();
    writeln!(io::stderr(), "{done} of {} cases, about {seconds:.0} s left", cases.len())
}

fn write_json(file: &Path, report: &Report) -> Result<(), Failure> {
    let failed = |cause: io::Error| format!("{}: the report cannot be written: {cause}", file.display());
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(file, serde_json::to_vec_pretty(report)?).map_err(failed)?;
    Ok(())
}

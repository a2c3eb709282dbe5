//! `policy-speed`: how fast backends answer, side by side.

mod round;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser;
use extender_bench::statistics::{Spread, percentile};
use policy_conformance::{Asking, Mode, StartError, Suite, UsageError, begin};

use self::round::{Measured, measure};

const EXAMPLES: &str = "\
Examples:
  policy-speed --endpoint rust=http://127.0.0.1:9000 --endpoint go=http://127.0.0.1:9001
  policy-speed --endpoint http://127.0.0.1:9000 --nodes 5000 --rounds 3
  policy-speed --endpoint python=http://127.0.0.1:9000,http://127.0.0.1:9001";

/// Measures how fast policy backends answer: the time of one call after the other, and the calls a second of eight at once.
///
/// The backends are asked in turn, round by round, so that what else the machine does is the same for all.
#[derive(Debug, Parser)]
#[command(name = "policy-speed", version, after_help = EXAMPLES)]
struct SpeedOptions {
    /// A backend, with a name for the table, and the URLs of its processes; may be repeated.
    #[arg(long = "endpoint", value_name = "[NAME=]URL[,URL...]", required = true)]
    endpoints: Vec<String>,
    #[command(flatten)]
    asking: Asking,
    /// The nodes of each call.
    #[arg(long, value_name = "NUMBER", default_value_t = 500)]
    nodes: usize,
    /// How often each backend is measured.
    #[arg(long, value_name = "NUMBER", default_value_t = 7)]
    rounds: usize,
    /// The calls of a round.
    #[arg(long, value_name = "NUMBER", default_value_t = 200)]
    calls: usize,
}

#[derive(Debug, thiserror::Error)]
enum SpeedFailure {
    #[error(transparent)]
    Usage(#[from] UsageError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("{name}: {why}")]
    Call { name: String, why: String },
    #[error("cannot start: {0}")]
    Runtime(io::Error),
}

/// A backend and what was measured of it.
struct Row {
    /// Of the backend in the command line.
    at: usize,
    name: String,
    mode: Mode,
    measured: Result<Measured, String>,
}

fn main() -> ExitCode {
    let options = SpeedOptions::parse();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(SpeedFailure::Runtime);
    match runtime.and_then(|runtime| runtime.block_on(run(&options))) {
        Ok(table) => {
            // Standard output may be closed.
            drop(write!(io::stdout(), "{table}"));
            ExitCode::SUCCESS
        }
        Err(error) => {
            drop(writeln!(io::stderr(), "policy-speed: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(options: &SpeedOptions) -> Result<String, SpeedFailure> {
    let mut backends = Vec::new();
    for endpoint in &options.endpoints {
        let (name, urls) = endpoint.split_once('=').unwrap_or((endpoint, endpoint));
        let mut suites = Vec::new();
        for url in urls.split(',') {
            suites.push(begin(options.asking.target(url)?).await?);
        }
        backends.push((name.to_owned(), suites));
    }
    let mut rows: Vec<_> = backends
        .iter()
        .enumerate()
        .flat_map(|(at, (name, _))| {
            [Mode::Rows, Mode::Table].map(|mode| Row {
                at,
                name: name.clone(),
                mode,
                measured: Ok(Measured::default()),
            })
        })
        .collect();
    for round in 1..=options.rounds {
        drop(writeln!(io::stderr(), "round {round} of {}", options.rounds));
        for row in &mut rows {
            if let Some((_, suites)) = backends.get(row.at) {
                once(options, suites, row).await?;
            }
        }
    }
    Ok(table(&rows))
}

/// A backend without tables has no row for them.
async fn once(options: &SpeedOptions, suites: &[Suite], row: &mut Row) -> Result<(), SpeedFailure> {
    let Ok(measured) = &mut row.measured else { return Ok(()) };
    match measure(suites, row.mode, options.nodes, options.calls).await {
        Ok(round) => measured.add(round),
        Err(why) if row.mode == Mode::Table => row.measured = Err(why),
        Err(why) => return Err(SpeedFailure::Call { name: row.name.clone(), why }),
    }
    Ok(())
}

fn table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| backend | nodes by | p50 ms | p99 ms | calls/s, 8 at once | all processes |\n|---|---|---|---|---|---|\n",
    );
    for Row { name, mode, measured, .. } in rows {
        let mode = match mode {
            Mode::Rows => "rows",
            Mode::Table => "table",
        };
        let line = match measured {
            Ok(Measured { times, .. }) if times.is_empty() => {
                format!("| {name} | {mode} | – | – | – | – |\n")
            }
            Ok(Measured { times, rates, together }) => {
                let mut times = times.clone();
                times.sort_by(f64::total_cmp);
                let [p50, p99] = [50, 99].map(|percent| percentile(&times, percent));
                let rate = Spread::of(rates.iter().copied()).median;
                let together = match together.as_slice() {
                    [] => "–".to_owned(),
                    rates => format!("{:.0}", Spread::of(rates.iter().copied()).median),
                };
                format!("| {name} | {mode} | {p50:.2} | {p99:.2} | {rate:.0} | {together} |\n")
            }
            Err(why) => format!("| {name} | {mode} | – | – | {why} | – |\n"),
        };
        text.push_str(&line);
    }
    text
}

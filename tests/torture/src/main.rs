//! `torture`: attacks the built gateway on loopback and overloads it, and measures what honest calls notice. It fails if one
//! of them fails, or if the gateway takes more memory than its documentation says.

use std::{
    error::Error,
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use clap::Parser;

mod attack;
mod caller;
mod honest;
mod overload;
mod report;
mod slow;
mod stage;

use self::{attack::Attack, honest::Calls, report::Row, stage::Stage};

/// An error ends the program.
type Failure = Box<dyn Error>;

const EXAMPLES: &str = "\
Examples:
  torture --judge                all attacks and overload, six minutes
  torture --connections 200 --calls 300
  torture --only slow --rounds 15 --overload 0
  torture --only overload --overload 4";

/// Attacks the gateway, and measures what honest calls notice.
#[derive(Debug, Parser)]
#[command(name = "torture", after_help = EXAMPLES)]
struct Options {
    /// The connections of an attack, at each address.
    #[arg(long, value_name = "NUMBER", default_value_t = 1000)]
    connections: usize,
    /// The honest calls before, during and after an attack, in each round; beside a single large body a fifth of them.
    #[arg(long, value_name = "NUMBER", default_value_t = 5000)]
    calls: usize,
    /// How often each attack is repeated.
    #[arg(long, value_name = "NUMBER", default_value_t = 5)]
    rounds: usize,
    /// Also fail if honest calls are late or overload leaves too few of them; the machine must be quiet.
    #[arg(long)]
    judge: bool,
    /// How long overload is measured, in seconds for each situation: six loads, each of some six times as long; 0 leaves it out.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    overload: u64,
    /// Only attacks and loads whose name has this text: the loads are `overload: 500 names, 5000 ms, 1500` and so on.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            // Standard error may be closed.
            let _ = writeln!(io::stderr(), "torture: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<bool, Failure> {
    let mut rows = Vec::new();
    for attack in Attack::ALL.into_iter().filter(|attack| attack.name().contains(&options.only)) {
        let _ = writeln!(io::stderr(), "{} ...", attack.name());
        rows.push(measured(attack, options)?);
    }
    let mut is_good = rows.iter().all(|row| row.is_good() && (!options.judge || row.is_in_time()));
    let mut table = if rows.is_empty() { String::new() } else { report::table(&rows) };
    let overload = overload::measure(Duration::from_secs(options.overload), &options.only)?;
    if !overload.is_empty() {
        is_good &=
            overload.iter().all(|overload| overload.is_good() && (!options.judge || overload.is_in_time()));
        table += &overload::table(&overload);
    }
    let _ = write!(io::stdout(), "{table}");
    Ok(is_good)
}

/// Each attack has a gateway of its own, so that its memory is that of this attack.
fn measured(attack: Attack, options: &Options) -> Result<Row, Failure> {
    let stage = Stage::set(stage::LONG, stage::OFFERED, None)?;
    let mut row = Row::new(attack, stage.resident()?);
    let calls = attack.calls(options.calls);
    // The first calls fill caches.
    honest::calls(&stage, calls);
    for _ in 0..options.rounds {
        let before = honest::calls(&stage, calls);
        let held = attack.begin(&stage, options.connections)?;
        let meanwhile = honest::calls(&stage, calls);
        row.resident = row.resident.max(stage.resident()?);
        row.bytes = held.bytes;
        drop(held);
        stage.settle()?;
        row.add(before, meanwhile, honest::calls(&stage, calls));
    }
    row.peak = stage.peak()?;
    Ok(row)
}

impl std::ops::AddAssign for Calls {
    fn add_assign(&mut self, other: Self) {
        self.times.extend(other.times);
        self.failed += other.failed;
    }
}

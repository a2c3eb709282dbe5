//! `--watch`: decides again when a file or a backend changes.

use std::{path::PathBuf, time::Duration};

use extender_files::Follower;
use extender_gateway_cluster::file::{FileVersion, version};
use extender_gateway_serve::simulation::Simulation;
use jiff::Zoned;
use tokio::{signal::ctrl_c, time::sleep};

use super::{Outcome, TryOptions};

use crate::output::{Console, Failure, Output};

/// The period of checks.
const PERIOD: Duration = Duration::from_millis(200);

/// The versions of files; `None` for one that does not exist.
type Versions = Vec<Option<FileVersion>>;

fn versions(files: &[PathBuf]) -> Versions {
    files.iter().map(|file| version(file)).collect()
}

/// Decides and prints, again after each change, until Ctrl-C.
pub(super) async fn run(options: &TryOptions, console: &mut Console<'_>) -> Result<(), Failure> {
    let mut latest: Option<Outcome> = None;
    loop {
        let files = options.files();
        // Before they are read, so that a change in the meantime is noticed.
        let read = versions(&files);
        let decided = tokio::select! {
            decided = options.decide() => decided,
            stopped = ctrl_c() => return Ok(stopped?),
        };
        let simulation = match decided {
            Ok((simulation, outcome)) => {
                show(latest.as_ref(), &outcome, options, console)?;
                latest = Some(outcome);
                Some(simulation)
            }
            Err(failure) => {
                writeln!(console.notes, "{failure}")?;
                latest = None;
                None
            }
        };
        console.out.flush()?;
        let what = tokio::select! {
            file = changed_file(&files, read) => file,
            () = changed_backend(simulation.as_ref()) => "a backend".to_owned(),
            stopped = ctrl_c() => return Ok(stopped?),
        };
        let line = format!("--- {}: {what} has changed", Zoned::now().strftime("%H:%M:%S"));
        // Other formats have nothing but the decisions.
        match options.output {
            Output::Table => writeln!(console.out, "\n{line}")?,
            Output::Json | Output::Yaml => writeln!(console.notes, "{line}")?,
        }
    }
}

fn show(
    latest: Option<&Outcome>,
    outcome: &Outcome,
    options: &TryOptions,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    if options.output == Output::Table && latest.is_some_and(|latest| latest.is_same(outcome)) {
        writeln!(console.out, "The decision is the same.")?;
    } else {
        outcome.write(options, console)?;
    }
    if let Err(failure) = outcome.result() {
        writeln!(console.notes, "{failure}")?;
    }
    Ok(())
}

/// Waits until one of the files is different, and returns its name.
async fn changed_file(files: &[PathBuf], read: Versions) -> String {
    let followed = files.to_vec();
    let now = Follower::new(read.clone(), PERIOD, move || versions(&followed)).changed().await;
    let different = files.iter().zip(read.iter().zip(&now)).find(|(_, (read, now))| read != now);
    different.map_or_else(|| "a file".to_owned(), |(file, _)| file.display().to_string())
}

/// Waits until a backend is available, is not, or has another revision.
async fn changed_backend(simulation: Option<&Simulation>) {
    let Some(simulation) = simulation else { return std::future::pending().await };
    let before = simulation.revisions();
    while simulation.revisions() == before {
        sleep(PERIOD).await;
    }
}

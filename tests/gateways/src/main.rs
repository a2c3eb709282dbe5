//! `gateway-conformance`: checks a gateway.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::Parser;
use conformance_report::{Selection, junit, print, progress};
use gateway_conformance::{Fault, Launcher, all, markdown, run, summary, yaml};

/// Exit status if a case failed, and if none could be run.
const FAILED: u8 = 1;
const BAD_USAGE: u8 = 2;

const EXAMPLES: &str = "\
Examples:
  gateway-conformance --extender-gateway target/release/extender-gateway
  gateway-conformance --only tables. --launcher ./start-my-gateway
  gateway-conformance --list

Exit status: 0 all cases pass or are skipped; 1 a case failed; 2 wrong usage; no case was run.
SPEC.md has the rules by their numbers.";

/// Checks that a gateway keeps the rules of the policy API.
///
/// It starts the gateway between scripted backends and calls it as kube-scheduler does.
#[derive(Debug, Parser)]
#[command(name = "gateway-conformance", version, after_help = EXAMPLES)]
struct Options {
    /// A program, with arguments, that starts a gateway for a document in JSON and prints its URL. The last option.
    #[arg(long, value_name = "PROGRAM", num_args = 1.., allow_hyphen_values = true,
        required_unless_present_any = ["list", "extender_gateway"], conflicts_with = "extender_gateway")]
    launcher: Vec<String>,
    /// The program extender-gateway, which needs no launcher.
    #[arg(long, value_name = "PATH")]
    extender_gateway: Option<PathBuf>,
    /// Which cases run, and where their results go.
    #[command(flatten)]
    selection: Selection,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("no case has a name that contains one of --only; see --list")]
    NoCase,
    #[error("{} cannot be found; expected the path of a program", .0.display())]
    NoProgram(PathBuf),
    #[error("cannot write {path}: {source}")]
    Write { path: String, source: io::Error },
    #[error("cannot start: {0}")]
    Runtime(io::Error),
}

fn main() -> ExitCode {
    match judge(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        Err(error) => {
            // Nothing is left to do if standard error is closed.
            drop(writeln!(io::stderr(), "gateway-conformance: {error}"));
            ExitCode::from(BAD_USAGE)
        }
    }
}

/// Whether all cases passed or were skipped.
fn judge(options: &Options) -> Result<bool, Failure> {
    let selection = &options.selection;
    let mut cases = all();
    cases.retain(|case| selection.has(&case.name));
    if let Some(list) = selection.listed(&cases, markdown) {
        print(&list);
        return Ok(true);
    }
    if cases.is_empty() {
        return Err(Failure::NoCase);
    }
    let launcher = launcher(options)?;
    print(&format!("{} cases\n\n", cases.len()));
    // Two threads: backends answer while others wait.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let fault = Fault::default();
    let judged = run(&launcher, selection, &fault, |finding| print(&progress(finding, selection.quiet)));
    let findings = runtime.map_err(Failure::Runtime)?.block_on(judged);
    print(&summary(&findings));
    let written = selection.write(|| yaml(&findings), || junit("gateway-conformance", &findings, false));
    written.map_err(|(path, source)| Failure::Write { path: path.display().to_string(), source })?;
    Ok(!findings.iter().any(|finding| finding.outcome.fails(false)))
}

fn launcher(options: &Options) -> Result<Launcher, Failure> {
    let (program, launcher) = match (&options.extender_gateway, options.launcher.split_first()) {
        (None, Some((program, arguments))) => {
            (program.into(), Launcher::Program(program.into(), arguments.to_vec()))
        }
        (path, _) => {
            let path = path.clone().unwrap_or_default();
            (path.clone(), Launcher::ExtenderGateway(path))
        }
    };
    // One without a slash is looked for in PATH.
    if program.components().count() > 1 && !program.is_file() {
        return Err(Failure::NoProgram(program));
    }
    Ok(launcher)
}

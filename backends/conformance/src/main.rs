//! `policy-conformance`: checks a running policy backend.

use std::{
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use clap::Parser as _;
use conformance_report::{Finding, junit, print, progress};
use policy_conformance::{
    Case, Options, Run, StartError, Suite, UsageError, all, begin, markdown, plain, summary, title, yaml,
};

/// Exit status if a case failed, and if none could be run.
const FAILED: u8 = 1;
const BAD_USAGE: u8 = 2;

fn main() -> ExitCode {
    let options = Options::parse();
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        Err(error) => {
            // Nothing is left to do if standard error is closed.
            drop(writeln!(io::stderr(), "policy-conformance: {error}"));
            ExitCode::from(BAD_USAGE)
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Usage(#[from] UsageError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("no case has a name that contains one of --only; see --list")]
    NoCase,
    #[error("cannot write {path}: {source}")]
    Write { path: String, source: io::Error },
    #[error("cannot start: {0}")]
    Runtime(io::Error),
}

/// Whether all cases passed or were skipped.
fn run(options: &Options) -> Result<bool, Failure> {
    let infos: Vec<_> = selected(options).into_iter().map(|case| case.info).collect();
    if let Some(list) = options.selection.listed(&infos, markdown) {
        print(&list);
        return Ok(true);
    }
    let target = options.target()?;
    if infos.is_empty() {
        return Err(Failure::NoCase);
    }
    // Two threads: answers are read while the next requests are made.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let (suite, findings) = runtime.map_err(Failure::Runtime)?.block_on(ask(options, target))?;
    let junit = || junit("policy-conformance", &findings, options.strict);
    let written = options.selection.write(|| yaml(&suite, &findings), junit);
    written.map_err(|(path, source)| Failure::Write { path: path.display().to_string(), source })?;
    Ok(!findings.iter().any(|finding| finding.outcome.fails(options.strict)))
}

async fn ask(
    options: &Options,
    target: policy_conformance::Target,
) -> Result<(Suite, Vec<Finding>), StartError> {
    let suite = begin(target).await?;
    print(&title(&suite, selected(options).len()));
    let mut run = Run::new(&suite, options.max_seconds.map(Duration::from_secs));
    let mut findings = Vec::new();
    // Without an answer to its plain question, the cases about a verb would all fail for the same reason.
    let unselected = plain().into_iter().filter(|case| !is_selected(options, case));
    for case in unselected.chain(selected(options)) {
        let finding = run.case(&case).await;
        if is_selected(options, &case) || finding.outcome.fails(options.strict) {
            print(&progress(&finding, options.selection.quiet));
            findings.push(finding);
        }
    }
    print(&summary(&suite, &findings, run.over()));
    Ok((suite, findings))
}

fn selected(options: &Options) -> Vec<Case> {
    all().into_iter().filter(|case| is_selected(options, case)).collect()
}

fn is_selected(options: &Options, case: &Case) -> bool {
    options.selection.has(case.name())
}

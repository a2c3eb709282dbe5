//! `policy-conformance`: checks a running policy backend.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    process::ExitCode,
    time::Duration,
};

use clap::Parser as _;
use policy_conformance::{
    Case, Finding, ListFormat, Options, Run, StartError, Suite, UsageError, all, begin, junit, list,
    markdown, plain, progress, summary, title, yaml,
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
    if let Some(format) = options.list {
        let cases = selected(options);
        print(&match format {
            ListFormat::Text => list(&cases),
            ListFormat::Markdown => markdown(&cases),
        });
        return Ok(true);
    }
    let target = options.target()?;
    if selected(options).is_empty() {
        return Err(Failure::NoCase);
    }
    // Two threads: answers are read while the next requests are made.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let (suite, findings) = runtime.map_err(Failure::Runtime)?.block_on(ask(options, target))?;
    if let Some(path) = &options.report {
        write(path, &yaml(&suite, &findings))?;
    }
    if let Some(path) = &options.junit {
        write(path, &junit(&findings, options.strict))?;
    }
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
            print(&progress(&finding, options.quiet));
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
    let named = |texts: &[String]| texts.iter().any(|text| case.name().contains(text.as_str()));
    (options.only.is_empty() || named(&options.only)) && !named(&options.skip)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|source| Failure::Write { path: path.display().to_string(), source })
}

/// Standard output may be closed, as by `head`; the exit status still says how the cases ended.
fn print(text: &str) {
    let mut stdout = io::stdout().lock();
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

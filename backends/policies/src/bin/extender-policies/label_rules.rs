//! Serves a file of label rules as a policy backend.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

use clap::Args;
use extender_config::ConfigErrors;
use extender_policies::{
    label_rules::{LabelRules, reload::RuleFile, summary::Summary},
    program::{self, Fault, Listen},
};
use extender_policy_sdk::{Backend, DeclarationError, ServeError, serve};

/// Refuses and scores nodes by their labels.
///
/// The rules are in a YAML file, which is read again when it changes. Prints `listening on ADDRESS` when it
/// is ready.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LabelRulesArguments {
    /// File with the rules
    #[arg(long, value_name = "FILE", required_unless_present = "check")]
    rules: Option<PathBuf>,
    /// Check these files and exit: prints what their rules do and read, or all mistakes
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["rules", "name", "address"])]
    check: Vec<PathBuf>,
    /// Name of the policy in its handshake, 1 to 63 bytes
    #[arg(long, default_value = "label-rules", value_parser = program::name)]
    name: String,
    #[command(flatten)]
    listen: Listen,
}

const EXAMPLES: &str = "\
Examples:
  extender-policies label-rules --rules racks-drained.yaml
  extender-policies label-rules --rules zones-preferred.yaml --name zones --address 0.0.0.0:9000
  extender-policies label-rules --check racks-drained.yaml zones-preferred.yaml

Exit codes: 0 stopped by a signal or all checked files are valid, 1 failed to start, 2 usage error or invalid rules.";

impl LabelRulesArguments {
    /// Checks files, or serves until a signal stops it.
    pub(crate) fn run(self) -> ExitCode {
        if !self.check.is_empty() {
            return program::run(|| check(&self.check, &self.name), StartError::fault);
        }
        program::run(|| start(self), StartError::fault)
    }
}

#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Rules(#[from] ConfigErrors),
    #[error("{0}")]
    Checked(String),
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("no runtime: {0}")]
    Runtime(io::Error),
    /// clap requires one of both.
    #[error("name a file with --rules or --check")]
    NoFile,
    #[error("cannot write the output: {0}")]
    Print(io::Error),
}

impl StartError {
    fn fault(&self) -> Fault {
        match self {
            Self::Rules(_) | Self::Checked(_) | Self::NoFile => Fault::Usage,
            Self::Declaration(_) | Self::Serve(_) | Self::Runtime(_) | Self::Print(_) => Fault::Other,
        }
    }
}

/// Prints what the rules of these files do and read.
///
/// # Errors
/// All mistakes of all files, as at a start.
fn check(files: &[PathBuf], name: &str) -> Result<(), StartError> {
    let mut mistakes = Vec::new();
    for path in files {
        let checked = RuleFile::open(path.clone()).map_err(StartError::from).and_then(|(_, rules)| {
            let summary = format!("{}: valid\n{}", path.display(), Summary(&rules));
            // Also what only a start would notice.
            Backend::replaceable(LabelRules::new(name, rules))?;
            Ok(summary)
        });
        match checked {
            Ok(summary) => io::stdout().write_all(summary.as_bytes()).map_err(StartError::Print)?,
            Err(StartError::Declaration(error)) => mistakes.push(format!("{}: {error}", path.display())),
            Err(error) => mistakes.push(error.to_string()),
        }
    }
    if mistakes.is_empty() { Ok(()) } else { Err(StartError::Checked(mistakes.join("\n"))) }
}

fn start(arguments: LabelRulesArguments) -> Result<(), StartError> {
    let LabelRulesArguments { rules, check: _, name, listen } = arguments;
    let (file, rules) = RuleFile::open(rules.ok_or(StartError::NoFile)?)?;
    let (backend, replace) = Backend::replaceable(LabelRules::new(&name, rules))?;
    program::runtime().map_err(StartError::Runtime)?.block_on(async {
        tokio::select! {
            served = serve(backend, listen.options()) => Ok(served?),
            never = file.follow(&name, &replace) => match never {},
        }
    })
}

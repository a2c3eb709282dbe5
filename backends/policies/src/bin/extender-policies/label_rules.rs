//! Serves a file of label rules as a policy backend.

use std::{io, path::PathBuf, process::ExitCode};

use clap::Args;
use extender_config::ConfigErrors;
use extender_policies::{
    label_rules::{LabelRules, reload::RuleFile},
    program::{self, Fault, Listen},
};
use extender_policy_sdk::{Backend, DeclarationError, ServeError, serve};

/// Refuses and scores nodes by their labels.
///
/// The rules are in a YAML file, which is read again when it changes. Prints `listening on ADDRESS` when it
/// is ready.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// File with the rules
    #[arg(long, value_name = "FILE")]
    rules: PathBuf,
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

Exit codes: 0 stopped by a signal, 1 failed to start, 2 usage error or invalid rules.";

impl Arguments {
    /// Serves until a signal stops it.
    pub(crate) fn run(self) -> ExitCode {
        program::run(|| start(self), Error::fault)
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Rules(#[from] ConfigErrors),
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("no runtime: {0}")]
    Runtime(io::Error),
}

impl Error {
    fn fault(&self) -> Fault {
        match self {
            Self::Rules(_) => Fault::Usage,
            Self::Declaration(_) | Self::Serve(_) | Self::Runtime(_) => Fault::Other,
        }
    }
}

fn start(arguments: Arguments) -> Result<(), Error> {
    let Arguments { rules, name, listen } = arguments;
    let (file, rules) = RuleFile::open(rules)?;
    let (backend, replace) = Backend::replaceable(LabelRules::new(&name, rules))?;
    program::runtime().map_err(Error::Runtime)?.block_on(async {
        tokio::select! {
            served = serve(backend, listen.options()) => Ok(served?),
            never = file.follow(&name, &replace) => match never {},
        }
    })
}

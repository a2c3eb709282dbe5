//! Serves a file of label rules as a policy backend.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
};

use clap::Parser;
use extender_policies::{
    label_rules::{
        LabelRules,
        reload::{RuleFile, RulesError},
    },
    program,
};
use extender_policy_sdk::{Backend, DeclarationError, Options, ServeError, serve};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Refuses and scores nodes by their labels.
///
/// The rules are in a YAML file, which is read again when it changes. Prints `listening on ADDRESS` when it
/// is ready.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
struct Arguments {
    /// File with the rules
    #[arg(long, value_name = "FILE")]
    rules: PathBuf,
    /// What the policy calls itself, 1 to 63 bytes
    #[arg(long, default_value = "label-rules", value_parser = program::name)]
    name: String,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    address: SocketAddr,
}

const EXAMPLES: &str = "\
Examples:
  label-rules --rules racks-drained.yaml
  label-rules --rules zones-preferred.yaml --name zones --address 0.0.0.0:9000

Exit codes: 0 stopped by a signal, 1 failed to start, 2 bad usage or bad rules.";

/// Exit code for rules that cannot be used, as clap's for arguments.
const BAD_USAGE: u8 = 2;

fn main() -> ExitCode {
    program::log();
    match start(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // For people, before there is anything to log; the exit code tells programs.
            drop(writeln!(io::stderr(), "{error}"));
            error.exit_code()
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Rules(#[from] RulesError),
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("the rule file is not followed any more: {0}")]
    Follow(io::Error),
    #[error("no runtime: {0}")]
    Runtime(io::Error),
}

impl Error {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::Rules(_) => ExitCode::from(BAD_USAGE),
            Self::Declaration(_) | Self::Serve(_) | Self::Follow(_) | Self::Runtime(_) => ExitCode::FAILURE,
        }
    }
}

fn start(arguments: Arguments) -> Result<(), Error> {
    let Arguments { rules, name, address } = arguments;
    let (file, rules) = RuleFile::open(rules)?;
    let (backend, replace) = Backend::replaceable(LabelRules::new(&name, rules))?;
    // One thread: a call is short, and waking a second thread for it would cost more.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
    runtime.block_on(async {
        tokio::select! {
            served = serve(backend, Options { address, ..Options::default() }) => Ok(served?),
            ended = file.follow(&name, &replace) => Err(Error::Follow(ended)),
        }
    })
}

//! The commands of the program, one file a command.

mod admin;
mod apiserver;
mod check_config;
mod explain;
mod failure;
mod names;
mod output;
mod scheduler_config;
mod status;
#[cfg(test)]
mod tests;
mod text;

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::{
    config::Config,
    observe::debug::{DebugTables, MOST},
};

use self::output::{Console, on_console};
pub use admin::Away;
pub use failure::Failure;

/// What the command line says. `--help` and a wrong command line end the process in
/// [`Parser::parse`], the latter with exit code 2.
#[derive(Debug, Parser)]
#[command(
    name = "extender-gateway",
    version,
    about = "Stands between kube-scheduler and gRPC policy backends",
    long_about = "Stands between kube-scheduler and gRPC policy backends.\n\n\
        kube-scheduler sees one HTTP extender. The gateway asks every backend in parallel over gRPC, merges \
        their answers and replies.",
    after_help = EXIT_CODES,
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  the gateway could not start, or stopped because of a failure
  2  the command line is wrong
  3  the configuration cannot be read or has mistakes
  4  status found a problem
  5  no gateway could be asked
  6  nothing is known about the pod that was to be explained";

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve kube-scheduler's extender calls until SIGTERM or SIGINT
    #[command(after_help = "\
Examples:
  extender-gateway serve --config /etc/extender-gateway/gateway.yaml
  sed s/9000/9001/ gateway.yaml | extender-gateway serve --config -")]
    Serve(Serve),

    /// Print all mistakes of a configuration, or what it means
    #[command(long_about = check_config::ABOUT, after_help = check_config::EXAMPLES)]
    CheckConfig(check_config::CheckConfigOptions),

    /// Print the extenders of kube-scheduler's configuration
    #[command(long_about = scheduler_config::ABOUT, after_help = scheduler_config::EXAMPLES)]
    SchedulerConfig(scheduler_config::SchedulerConfigOptions),

    /// Say why a pod is where it is, or nowhere
    #[command(long_about = explain::ABOUT, after_help = explain::EXAMPLES)]
    Explain(Box<explain::ExplainOptions>),

    /// Say how the gateway and its backends are, and what is to be done
    #[command(long_about = status::ABOUT, after_help = status::EXAMPLES)]
    Status(status::StatusOptions),
}

#[derive(Debug, Args)]
struct Serve {
    /// The configuration, a YAML file, which is followed; relative paths in it are relative to its folder. `-`:
    /// standard input, read once, with paths relative to the working directory
    #[arg(long = "config", value_name = "FILE")]
    path: PathBuf,

    /// Write the N best nodes of each call that scores to the log, as a table; while the gateway runs, POST N to
    /// /debug/flags/s of the admin address
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = rows())]
    debug_scores: u32,

    /// Write N rejected nodes of each call that filters to the log, as a table; while the gateway runs, POST N to
    /// /debug/flags/f
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = rows())]
    debug_filters: u32,
}

fn rows() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=i64::from(MOST))
}

/// What the command line of `kubectl extender-explain` says, which is `explain` under another name.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-extender_explain",
    bin_name = "kubectl extender-explain",
    version,
    about = "Say why a pod is where it is, or nowhere",
    long_about = explain::ABOUT,
    after_help = explain::EXAMPLES,
)]
pub struct Plugin {
    #[command(flatten)]
    options: explain::ExplainOptions,
}

impl Plugin {
    /// Explains, tells failures to standard error and says how the process ends.
    pub fn run(self) -> ExitCode {
        on_console(|console| explain::run(&self.options, console))
    }
}

impl Arguments {
    /// Runs the command, tells failures to standard error and says how the process ends. `serve` runs the
    /// gateway until it is told to stop.
    pub fn run<E: Display>(
        self,
        serve: impl FnOnce(&Path, Config, DebugTables) -> Result<(), E>,
    ) -> ExitCode {
        on_console(|console| self.outcome(serve, console))
    }

    fn outcome<E: Display>(
        self,
        serve: impl FnOnce(&Path, Config, DebugTables) -> Result<(), E>,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        match self.command {
            Command::Serve(Serve { path, debug_scores: scores, debug_filters: rejections }) => {
                serve(&path, Config::read(&path)?, DebugTables { scores, rejections })
                    .map_err(|error| Failure::Serve(error.to_string()))
            }
            Command::CheckConfig(options) => check_config::run(&options, console),
            Command::SchedulerConfig(options) => scheduler_config::run(&options, console),
            Command::Explain(options) => explain::run(&options, console),
            Command::Status(options) => status::run(&options, console),
        }
    }
}

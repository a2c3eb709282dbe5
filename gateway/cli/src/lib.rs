//! The commands of the program, one file each.

mod admin;
mod apiserver;
mod backend;
mod check_config;
mod completion;
mod explain;
mod introspect;
mod names;
mod new_policy;
mod output;
mod retry;
mod scheduler_config;
mod simulate;
mod status;
#[cfg(test)]
mod tests;
mod version;

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use extender_gateway_observe::debug::{DebugTables, MAX_ROWS};
use extender_gateway_settings::Config;
use tokio::runtime;

use self::output::{Console, Failure, on_console};

/// Runs this to its end. No command needs a second thread for it.
fn block_on<T>(work: impl Future<Output = T>) -> io::Result<T> {
    Ok(runtime::Builder::new_current_thread().enable_all().build()?.block_on(work))
}

/// The command line. `--help` and a wrong command line end the process in
/// [`Parser::parse`], the latter with exit code 2.
#[derive(Debug, Parser)]
#[command(
    name = "extender-gateway",
    version,
    about = "A kube-scheduler extender in front of gRPC policy backends",
    long_about = "A kube-scheduler extender in front of gRPC policy backends.\n\n\
        kube-scheduler calls one HTTP extender. The gateway calls all backends in parallel over gRPC and merges \
        their answers.",
    after_help = EXIT_CODES,
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  the gateway could not start, or stopped because of a failure; try got no decision or an unexpected one
  2  usage error
  3  invalid configuration, or an invalid file of try
  4  status found a problem
  5  no gateway answered
  6  pod not found, or no decisions known for it";

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve kube-scheduler's extender calls until SIGTERM or SIGINT
    #[command(after_help = "\
Examples:
  extender-gateway serve --config /etc/extender-gateway/gateway.yaml
  sed s/9000/9001/ gateway.yaml | extender-gateway serve --config -")]
    Serve(Serve),

    /// Validate a configuration; print all mistakes or the effective configuration
    #[command(long_about = check_config::ABOUT, after_help = check_config::EXAMPLES)]
    CheckConfig(check_config::CheckConfigOptions),

    /// Print the extenders entries for kube-scheduler's configuration
    #[command(long_about = scheduler_config::ABOUT, after_help = scheduler_config::EXAMPLES)]
    SchedulerConfig(scheduler_config::SchedulerConfigOptions),

    /// Decide about pods and nodes in files, with running backends and without a cluster
    #[command(long_about = simulate::ABOUT, after_help = simulate::EXAMPLES)]
    Try(Box<simulate::TryOptions>),

    #[command(flatten)]
    Query(Query),

    /// Write a policy backend to start from
    #[command(long_about = new_policy::ABOUT, after_help = new_policy::EXAMPLES)]
    NewPolicy(new_policy::NewPolicyOptions),

    /// Print the completion script of a shell
    #[command(long_about = completion::ABOUT, after_help = completion::EXAMPLES)]
    Completion(completion::CompletionOptions),
}

/// The commit that a program was built from; `None` if its build did not name one.
pub type Commit = Option<&'static str>;

/// The commands that query running gateways. The kubectl plugin has them too.
#[derive(Debug, Subcommand)]
enum Query {
    /// Explain why a pod was scheduled where it is, or not at all
    #[command(long_about = explain::ABOUT, after_help = explain::EXAMPLES)]
    Explain(Box<explain::ExplainOptions>),

    /// Show the health of the gateway and its backends, and how to fix problems
    #[command(long_about = status::ABOUT, after_help = status::EXAMPLES)]
    Status(status::StatusOptions),

    /// Show what a backend knows, or what backends are told about a node
    #[command(long_about = introspect::ABOUT, after_help = introspect::EXAMPLES)]
    Introspect(introspect::IntrospectOptions),

    /// Set the mode of a backend for a while, in every replica
    #[command(long_about = backend::ABOUT, after_help = backend::EXAMPLES)]
    Backend(backend::BackendOptions),

    /// Print the version of this program, and of each gateway that answers
    #[command(long_about = version::ABOUT, after_help = version::EXAMPLES)]
    Version(version::VersionOptions),
}

impl Query {
    fn run(&self, commit: Commit, console: &mut Console<'_>) -> Result<(), Failure> {
        match self {
            Self::Explain(options) => explain::run(options, console),
            Self::Status(options) => status::run(options, console),
            Self::Introspect(options) => introspect::run(options, console),
            Self::Backend(options) => backend::run(options, console),
            Self::Version(options) => version::run(options, commit, console),
        }
    }
}

#[derive(Debug, Args)]
struct Serve {
    /// Configuration file (YAML), reloaded when it changes; relative paths are relative to its folder. `-` reads
    /// standard input once, with paths relative to the working directory
    #[arg(long = "config", value_name = "FILE")]
    path: PathBuf,

    /// Log the N best nodes of each prioritize call as a table; while the gateway runs, POST N to /debug/flags/s of
    /// the admin address
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = rows())]
    debug_scores: u32,

    /// Log N rejected nodes of each filter call as a table; while the gateway runs, POST N to /debug/flags/f
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = rows())]
    debug_filters: u32,
}

fn rows() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=i64::from(MAX_ROWS))
}

/// The command line of `kubectl extender`.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-extender",
    bin_name = "kubectl extender",
    version,
    about = "Explain the decisions of extender-gateway, and show its health",
    after_help = PLUGIN_EXAMPLES,
)]
pub struct Plugin {
    #[command(subcommand)]
    query: Query,
}

const PLUGIN_EXAMPLES: &str = "\
Examples:
  kubectl extender explain pod/web-0 -n shop --gateway-namespace extender-gateway
  kubectl extender status --gateway-namespace extender-gateway";

impl Plugin {
    /// Runs the command, prints failures to standard error and returns the exit code.
    pub fn run(self, commit: Commit) -> ExitCode {
        on_console(|console| self.query.run(commit, console))
    }
}

impl Arguments {
    /// Runs the command, prints failures to standard error and returns the exit code. `serve` runs the gateway
    /// until a stop signal.
    pub fn run<E: Display>(
        self,
        commit: Commit,
        serve: impl FnOnce(&Path, Config, DebugTables) -> Result<(), E>,
    ) -> ExitCode {
        on_console(|console| self.execute(commit, serve, console))
    }

    fn execute<E: Display>(
        self,
        commit: Commit,
        serve: impl FnOnce(&Path, Config, DebugTables) -> Result<(), E>,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        match self.command {
            Command::Serve(Serve { path, debug_scores: scores, debug_filters: rejections }) => serve(
                &path,
                Config::read(&path)?,
                DebugTables { scores: scores.into(), rejections: rejections.into() },
            )
            .map_err(|error| Failure::Serve(error.to_string())),
            Command::CheckConfig(options) => check_config::run(&options, console),
            Command::SchedulerConfig(options) => scheduler_config::run(&options, console),
            Command::Try(options) => simulate::run(&options, console),
            Command::Query(query) => query.run(commit, console),
            Command::NewPolicy(options) => new_policy::run(&options, console),
            Command::Completion(options) => completion::run(&options, Self::command(), console),
        }
    }
}

//! The common parts of all policy programs: log, error output, runtime, name.

use std::{
    error::Error,
    io::{self, IsTerminal as _, Write as _},
    panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook},
    process::ExitCode,
};

use clap::{ArgMatches, error::ErrorKind};
use extender_policy_api::limits::NAME_BYTES;
use extender_policy_sdk::{Args, ArgsError, Backend, Options, Policy, ServeError, Telemetry, serve_blocking};
use tokio::runtime::{Builder, Runtime};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::EnvFilter;

/// The log directives without `RUST_LOG`. The HTTP/2 library warns about each invalid frame of a peer, without a
/// limit, and kube logs the whole answer that it cannot read.
const LOG_DIRECTIVES: &str = "info,h2=error,kube_client=off";

/// Log lines that wait for standard error. More are dropped.
const MAX_WAITING_LINES: usize = 1_000;

/// What has to change after a program has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The command line, or a file that it names.
    Usage,
    /// Something else.
    Other,
}

impl Fault {
    /// The table of exit codes. clap itself ends a process with 2.
    fn exit_code(self) -> u8 {
        match self {
            Self::Other => 1,
            Self::Usage => 2,
        }
    }
}

/// Runs a program with a log on standard error, prints its failure there and returns the exit code.
pub fn run<E: Error>(start: impl FnOnce() -> Result<(), E>, fault: fn(&E) -> Fault) -> ExitCode {
    let (mut stderr, waiting_lines) = log();
    let exit_code = match start() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Plain text for people; programs read the exit code.
            drop(writeln!(stderr, "{error}"));
            ExitCode::from(fault(&error).exit_code())
        }
    };
    // Waits for the last lines, about a second at most. If standard error is not read, it prints to standard
    // output, and panics if that is closed.
    drop(catch_unwind(AssertUnwindSafe(|| drop(waiting_lines))));
    exit_code
}

/// Starts the log. Another thread writes to standard error, and lines that do not fit into the queue are dropped:
/// if standard error is not read, writing to it would block all calls and the signals.
fn log() -> (NonBlocking, WorkerGuard) {
    let writer =
        NonBlockingBuilder::default().lossy(true).buffered_lines_limit(MAX_WAITING_LINES).thread_name("log");
    let (stderr, last_lines) = writer.finish(io::stderr());
    tracing_subscriber::fmt()
        .with_env_filter(log_filter())
        .with_writer(stderr.clone())
        .with_ansi(io::stderr().is_terminal())
        .log_internal_errors(false)
        .init();
    set_hook(Box::new(log_panic));
    (stderr, last_lines)
}

/// `RUST_LOG`, if it is valid.
fn log_filter() -> EnvFilter {
    let given = std::env::var(EnvFilter::DEFAULT_ENV).ok().filter(|given| !given.is_empty());
    given.and_then(|given| EnvFilter::try_new(given).ok()).unwrap_or_else(|| EnvFilter::new(LOG_DIRECTIVES))
}

/// The standard library's hook writes to standard error itself.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let message = panic.payload_as_str().unwrap_or("(a value that is not text)");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(place, "panic: {message}; the call fails, the next one is served");
}

/// A runtime with one thread: a policy does not wait for the processor, and waking a second thread for each call
/// would cost more.
///
/// # Errors
/// The system refuses a resource.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// The options of every server, which those of the SDK are: clap reads the texts, the SDK the values and the `EXTENDER_POLICY_*`
/// variables.
#[derive(Clone, Debug)]
pub struct Listen(Options);

#[derive(clap::Args)]
#[expect(clippy::doc_markdown, reason = "--help shows them as they are")]
struct ListenArguments {
    /// Where to listen; port 0 takes a free one [env: EXTENDER_POLICY_ADDRESS] [default: 127.0.0.1:0]
    #[arg(long, value_name = "HOST:PORT")]
    address: Option<String>,
    /// Serve with TLS: the certificate chain, a PEM file; a changed file is read again [env: EXTENDER_POLICY_TLS_CERT]
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// The private key of that certificate, a PEM file [env: EXTENDER_POLICY_TLS_KEY]
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Accept only clients with a certificate of these CAs, a PEM file [env: EXTENDER_POLICY_TLS_CLIENT_CA]
    #[arg(long, value_name = "FILE")]
    tls_client_ca: Option<String>,
    /// Serve a policy that binds, or http-extender, also beyond loopback without --tls-client-ca: anyone who reaches the
    /// address may then use it [env: EXTENDER_POLICY_ALLOW_UNAUTHENTICATED_BIND]
    #[arg(long)]
    allow_unauthenticated_bind: bool,
    /// Where GET /metrics is answered for Prometheus, without TLS [env: EXTENDER_POLICY_METRICS_ADDRESS]
    #[arg(long, value_name = "HOST:PORT")]
    metrics_address: Option<String>,
    /// Log a line for each call: verb, call, pod, nodes, result, milliseconds [env: EXTENDER_POLICY_LOG_CALLS]
    #[arg(long)]
    log_calls: bool,
}

impl clap::FromArgMatches for Listen {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let arguments = ListenArguments::from_arg_matches(matches)?;
        let flag = |given: bool| given.then(|| "true".to_owned());
        let given = [
            ("--address", arguments.address),
            ("--tls-cert", arguments.tls_cert),
            ("--tls-key", arguments.tls_key),
            ("--tls-client-ca", arguments.tls_client_ca),
            ("--allow-unauthenticated-bind", flag(arguments.allow_unauthenticated_bind)),
            ("--metrics-address", arguments.metrics_address),
            ("--log-calls", flag(arguments.log_calls)),
        ];
        let given = given.into_iter().filter_map(|(option, value)| Some((option, value?)));
        let wrong = |error| clap::Error::raw(ErrorKind::ValueValidation, format!("{error}\n"));
        Options::of_program(given).map(Self).map_err(wrong)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Listen {
    fn augment_args(command: clap::Command) -> clap::Command {
        ListenArguments::augment_args(command)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        ListenArguments::augment_args_for_update(command)
    }
}

impl Listen {
    /// The options of the server.
    pub fn options(self) -> Options {
        self.0
    }
}

/// The options of a server whose spans have this name: all policies are one program.
pub fn options(name: &str, listen: Listen) -> Options {
    Options { telemetry: Telemetry::environment().service_name(name), ..listen.options() }
}

/// Serves a policy of this name, which is built from args, until a signal stops it: the whole of a program that has no
/// files of its own.
pub fn serve<P: Policy>(
    name: String,
    listen: Listen,
    build: impl Fn(&str, &Args) -> Result<P, ArgsError> + Send + Sync + 'static,
) -> ExitCode {
    let options = options(&name, listen);
    let backend = Backend::configured(move |args| build(&name, args));
    serve_backend(backend, options)
}

/// Serves a backend until a signal stops it.
pub fn serve_backend(backend: Backend, options: Options) -> ExitCode {
    run(|| serve_blocking(backend, options), |_: &ServeError| Fault::Other)
}

/// The name of a policy, as clap parses it.
///
/// # Errors
/// It does not have 1 to 63 bytes.
pub fn name(text: &str) -> Result<String, String> {
    if (1..=NAME_BYTES).contains(&text.len()) {
        Ok(text.to_owned())
    } else {
        Err(format!("it has {} bytes; expected 1 to {NAME_BYTES}", text.len()))
    }
}

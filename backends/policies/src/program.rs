//! The common parts of all policy programs: log, error output, runtime, name.

use std::{
    error::Error,
    io::{self, IsTerminal as _, Write as _},
    net::{SocketAddr, ToSocketAddrs as _},
    panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook},
    path::PathBuf,
    process::ExitCode,
};

use extender_policy_api::limits::NAME_BYTES;
use extender_policy_sdk::{
    Args, ArgsError, Backend, Options, Policy, ServeError, Telemetry, TlsFiles, serve_blocking,
};
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

/// Where a program listens, and its TLS files: options of all of them.
#[derive(Clone, Debug, clap::Args)]
pub struct Listen {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0", value_parser = address)]
    address: SocketAddr,
    /// Serve with TLS: the certificate chain, a PEM file; a changed file is read again
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of that certificate, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Accept only clients with a certificate of these CAs, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Serve a policy that binds, or http-extender, also beyond loopback without --tls-client-ca: anyone who reaches the
    /// address may then use it
    #[arg(long)]
    allow_unauthenticated_bind: bool,
}

impl Listen {
    /// The options of the server.
    pub fn options(self) -> Options {
        let Self { address, tls_cert, tls_key, tls_client_ca: client_ca, allow_unauthenticated_bind } = self;
        let tls = tls_cert.zip(tls_key).map(|(cert, key)| TlsFiles { cert, key, client_ca });
        Options { address, tls, allow_unauthenticated_bind, ..Options::default() }
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

/// An address to listen on, as clap parses it: `HOST:PORT` with an IP address or a name such as `localhost`.
fn address(text: &str) -> Result<SocketAddr, String> {
    const RIGHT: &str = "expected HOST:PORT such as 127.0.0.1:9000, localhost:9000 or [::]:9000";
    let is_complete = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if !is_complete {
        return Err(RIGHT.to_owned());
    }
    let addresses =
        text.to_socket_addrs().map_err(|error| format!("cannot resolve the host: {error}; {RIGHT}"))?;
    let mut addresses: Vec<_> = addresses.collect();
    // A name with addresses of both families is that of the machine itself: what calls it may know IPv4 only.
    addresses.sort_by_key(SocketAddr::is_ipv6);
    addresses.first().copied().ok_or_else(|| format!("the host has no address; {RIGHT}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_host_and_a_port() {
        for (text, expected) in
            [("127.0.0.1:9000", "127.0.0.1:9000"), ("localhost:0", "127.0.0.1:0"), ("[::1]:7", "[::1]:7")]
        {
            assert_eq!(address(text).unwrap().to_string(), expected);
        }
        for text in ["here", "localhost", ":9000", "127.0.0.1", "127.0.0.1:port", "127.0.0.1:70000", "::1"] {
            let wrong = address(text).unwrap_err();
            assert!(wrong.contains("expected HOST:PORT such as 127.0.0.1:9000"), "{text}: {wrong}");
        }
    }
}

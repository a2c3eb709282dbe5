//! `main` for a policy without options of its own.

use std::{ffi::OsString, io, net::SocketAddr, path::PathBuf, process::ExitCode};

use crate::{Backend, Options, ServeError, TlsFiles, serve};

/// Exit code for invalid arguments.
const BAD_USAGE: u8 = 2;

/// Runs a policy as a program: accepts `--address HOST:PORT`, the TLS files and `--help`, then does what [`serve()`] does on a
/// runtime with one thread. Exit codes: 0 stopped by a signal, 1 failed to start or ended by itself, 2 usage error.
///
/// ```no_run
/// # use extender_policy_sdk::{Info, Policy, Verb};
/// # struct AcceptsAll;
/// # impl Policy for AcceptsAll {
/// #     fn info(&self) -> Info { Info::new("no-arm", "1").filters(Verb::per_node().pure()) }
/// # }
/// fn main() -> std::process::ExitCode {
///     extender_policy_sdk::run(AcceptsAll)
/// }
/// ```
pub fn run(backend: impl Into<Backend>) -> ExitCode {
    match command(std::env::args_os().skip(1)) {
        Ok(Command::Serve(options)) => exit_code(serve_blocking(backend, options)),
        Ok(Command::Help) => say(&mut io::stdout(), &help(), ExitCode::SUCCESS),
        Err(mistake) => say(&mut io::stderr(), &mistake, ExitCode::from(BAD_USAGE)),
    }
}

/// [`serve()`] on a runtime with one thread: a policy's calls are short, and a second thread would cost each of them
/// a wake-up.
///
/// # Errors
///
/// As for [`serve()`].
pub fn serve_blocking(backend: impl Into<Backend>, options: Options) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(serve(backend, options));
    // A thread of introspection that never returns must not hold up the end of the process.
    runtime.shutdown_background();
    served
}

const HELP: &str = "\
Serves one policy to the extender gateway over gRPC.

  --address HOST:PORT     where to listen; port 0 takes a free one [default: 127.0.0.1:0]";

/// The options with the feature `tls`. Without it they are errors that say so.
const TLS_HELP: &str = "
  --tls-cert FILE         serve with TLS: the certificate chain, PEM; changed files are read again
  --tls-key FILE          its private key, PEM
  --tls-client-ca FILE    accept only clients with a certificate of these CAs, PEM";

const MORE_HELP: &str = "
  --allow-unauthenticated-bind
                          serve a policy that binds also beyond loopback without --tls-client-ca: anyone who
                          reaches the address may then bind pods
  --help                  prints this

Prints `listening on HOST:PORT` when it is ready. SIGTERM drains, a second one ends at once.";

/// The additional help with the feature `otlp`.
const VARIABLES: &str = "

Calls that the gateway traces are continued, and their spans sent to an OpenTelemetry collector, where the
standard variables name one: OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317, OTEL_EXPORTER_OTLP_PROTOCOL,
OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_TIMEOUT, OTEL_EXPORTER_OTLP_CERTIFICATE (each also as
OTEL_EXPORTER_OTLP_TRACES_...), OTEL_TRACES_EXPORTER=none, OTEL_TRACES_SAMPLER, OTEL_SERVICE_NAME,
OTEL_RESOURCE_ATTRIBUTES, OTEL_BSP_..., OTEL_SDK_DISABLED.";

fn help() -> String {
    let tls = if cfg!(feature = "tls") { TLS_HELP } else { "" };
    let variables = if cfg!(feature = "otlp") { VARIABLES } else { "" };
    format!("{HELP}{tls}{MORE_HELP}{variables}")
}

#[derive(Debug)]
enum Command {
    Serve(Options),
    Help,
}

fn command(arguments: impl Iterator<Item = OsString>) -> Result<Command, String> {
    let mut options = Options::default();
    let mut files = Files::default();
    let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    while let Some(argument) = arguments.next() {
        let (option, value) = match argument.split_once('=') {
            Some((option, value)) => (option, Some(value.to_owned())),
            None => (&*argument, None),
        };
        let mut value = || value.clone().or_else(|| arguments.next()).unwrap_or_default();
        match option {
            "--help" | "-h" => return Ok(Command::Help),
            "--address" => options.address = address(&value())?,
            "--tls-cert" => files.cert = Some(file(option, &value())?),
            "--tls-key" => files.key = Some(file(option, &value())?),
            "--tls-client-ca" => files.client_ca = Some(file(option, &value())?),
            "--allow-unauthenticated-bind" => options.allow_unauthenticated_bind = true,
            _ => return Err(format!("unknown option {argument}\n\n{}", help())),
        }
    }
    options.tls = files.complete()?;
    Ok(Command::Serve(options))
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("invalid --address {text:?}; expected HOST:PORT such as 0.0.0.0:9000"))
}

fn file(option: &str, text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err(format!("{option} has no value; expected a PEM file")) } else { Ok(text.into()) }
}

/// The TLS files that were named so far.
#[derive(Default)]
struct Files {
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    client_ca: Option<PathBuf>,
}

impl Files {
    fn complete(self) -> Result<Option<TlsFiles>, String> {
        match self {
            Self { cert: Some(cert), key: Some(key), client_ca } => {
                Ok(Some(TlsFiles { cert, key, client_ca }))
            }
            Self { cert: None, key: None, client_ca: None } => Ok(None),
            Self { cert, key, .. } => {
                let missing = match (cert, key) {
                    (None, None) => "--tls-cert FILE and --tls-key FILE are",
                    (None, Some(_)) => "--tls-cert FILE is",
                    _ => "--tls-key FILE is",
                };
                Err(format!("{missing} missing; TLS needs a certificate and its key, two PEM files"))
            }
        }
    }
}

fn exit_code(served: Result<(), ServeError>) -> ExitCode {
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => say(&mut io::stderr(), &error.to_string(), ExitCode::FAILURE),
    }
}

/// The exit code reports the failure even if the text is not read.
fn say(to: &mut dyn io::Write, text: &str, code: ExitCode) -> ExitCode {
    drop(writeln!(to, "{text}"));
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Command, String> {
        command(arguments.iter().map(OsString::from))
    }

    #[test]
    fn the_address_comes_in_both_spellings() {
        for arguments in [&["--address", "0.0.0.0:9000"][..], &["--address=0.0.0.0:9000"]] {
            let Ok(Command::Serve(options)) = parse(arguments) else { panic!("{arguments:?}") };
            assert_eq!(options.address.to_string(), "0.0.0.0:9000");
        }
    }

    #[test]
    fn tls_files_come_in_both_spellings() {
        let Ok(Command::Serve(options)) = parse(&["--tls-cert=a", "--tls-key", "b", "--tls-client-ca", "c"])
        else {
            panic!("these are right");
        };
        let client_ca = Some("c".into());
        assert_eq!(options.tls, Some(TlsFiles { cert: "a".into(), key: "b".into(), client_ca }));
    }

    #[test]
    fn the_option_for_binders_has_no_value() {
        let Ok(Command::Serve(options)) = parse(&["--allow-unauthenticated-bind"]) else {
            panic!("it is right")
        };
        assert!(options.allow_unauthenticated_bind && !Options::default().allow_unauthenticated_bind);
    }

    #[test]
    fn help_names_the_variables_that_are_read() {
        let named = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME", "OTEL_SDK_DISABLED"];
        assert!(named.iter().all(|name| help().contains(name) == cfg!(feature = "otlp")), "{}", help());
        assert!(help().starts_with(HELP));
        assert_eq!(help().contains("--tls-cert"), cfg!(feature = "tls"), "{}", help());
    }

    #[test]
    fn bad_usage_says_what_would_be_right() {
        for (arguments, expected) in [
            (&["--adress"][..], "unknown option --adress"),
            (&["--address"], "expected HOST:PORT"),
            (
                &["--address", "localhost"],
                "invalid --address \"localhost\"; expected HOST:PORT such as 0.0.0.0:9000",
            ),
            (&["--address=1.2.3.4:x"], "expected HOST:PORT"),
            (&["--tls-cert", "a"], "--tls-key FILE is missing; TLS needs a certificate and its key"),
            (&["--tls-key=a"], "--tls-cert FILE is missing"),
            (&["--tls-client-ca", "a"], "--tls-cert FILE and --tls-key FILE are missing"),
            (&["--tls-cert"], "--tls-cert has no value; expected a PEM file"),
        ] {
            let mistake = parse(arguments).unwrap_err();
            assert!(mistake.contains(expected), "{arguments:?}: {mistake}");
        }
    }
}

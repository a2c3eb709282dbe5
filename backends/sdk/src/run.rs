//! `main` for a policy without options of its own.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    path::PathBuf,
    process::ExitCode,
};

use crate::{Backend, Options, ServeError, TlsFiles, serve};

/// Exit code for invalid arguments.
const BAD_USAGE: u8 = 2;

/// Runs a policy as a program: accepts `--address HOST:PORT`, other options that `--help` names, and their variables, then does
/// what [`serve()`] does on a runtime with one thread. Exit codes: 0 stopped by a signal, 1 failed to start or ended by itself, 2 usage error.
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
    match command(std::env::args_os().skip(1), &environment) {
        Ok(Command::Serve(options)) => exit_code(serve_blocking(backend, options)),
        Ok(Command::Help) => say(&mut io::stdout(), &help(), ExitCode::SUCCESS),
        Err(mistake) => say(&mut io::stderr(), &mistake.to_string(), ExitCode::from(BAD_USAGE)),
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
  --metrics-address HOST:PORT
                          where GET /metrics is answered for Prometheus, without TLS
  --allow-unauthenticated-bind
                          serve a policy that binds also beyond loopback without --tls-client-ca: anyone who
                          reaches the address may then bind pods
  --log-calls             log a line for each call: verb, call, pod, nodes, result, milliseconds
  --help                  prints this

Each option but --help can be set by a variable, such as EXTENDER_POLICY_ADDRESS for --address; the option wins, and an
empty variable counts as unset:
";

const END_OF_HELP: &str = "

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
    let otlp = if cfg!(feature = "otlp") { VARIABLES } else { "" };
    let variables = OPTIONS.map(|(_, variable)| format!("\n  {variable}")).concat();
    format!("{HELP}{tls}{MORE_HELP}{variables}{END_OF_HELP}{otlp}")
}

/// The options, each with the variable that sets it, too.
const OPTIONS: [(&str, &str); 7] = [
    ("--address", "EXTENDER_POLICY_ADDRESS"),
    ("--tls-cert", "EXTENDER_POLICY_TLS_CERT"),
    ("--tls-key", "EXTENDER_POLICY_TLS_KEY"),
    ("--tls-client-ca", "EXTENDER_POLICY_TLS_CLIENT_CA"),
    ("--allow-unauthenticated-bind", "EXTENDER_POLICY_ALLOW_UNAUTHENTICATED_BIND"),
    ("--metrics-address", "EXTENDER_POLICY_METRICS_ADDRESS"),
    ("--log-calls", "EXTENDER_POLICY_LOG_CALLS"),
];

/// The options whose value is true where they have none.
const FLAGS: [&str; 2] = ["--allow-unauthenticated-bind", "--log-calls"];

/// What is wrong with the options of a program: one sentence that names the option or the variable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(String);

impl Options {
    /// As [`run`](run()) reads them, for a program with more options: those that are `given` on its command line, such as
    /// `("--address", "0.0.0.0:9000")` or `("--log-calls", "true")`, and otherwise those of the `EXTENDER_POLICY_*` variables.
    ///
    /// # Errors
    ///
    /// A value is invalid, or one of the TLS files is missing.
    pub fn of_program<'a>(given: impl IntoIterator<Item = (&'a str, String)>) -> Result<Self, UsageError> {
        options(&given.into_iter().collect(), &environment)
    }
}

/// Of this process.
fn environment(variable: &str) -> Option<String> {
    std::env::var_os(variable).map(|value| value.to_string_lossy().into_owned())
}

#[derive(Debug)]
enum Command {
    Serve(Options),
    Help,
}

fn command(
    arguments: impl Iterator<Item = OsString>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Command, UsageError> {
    let mut given = BTreeMap::new();
    let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    while let Some(argument) = arguments.next() {
        let (option, value) = match argument.split_once('=') {
            Some((option, value)) => (option, Some(value.to_owned())),
            None => (&*argument, None),
        };
        if matches!(option, "--help" | "-h") {
            return Ok(Command::Help);
        }
        let Some((option, _)) = OPTIONS.into_iter().find(|(known, _)| *known == option) else {
            return Err(UsageError(format!("unknown option {argument}\n\n{}", help())));
        };
        let implied = || if FLAGS.contains(&option) { Some("true".to_owned()) } else { arguments.next() };
        given.insert(option, value.or_else(implied).unwrap_or_default());
    }
    options(&given, variable).map(Command::Serve)
}

fn options(
    given: &BTreeMap<&str, String>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Options, UsageError> {
    let (mut options, mut files) = (Options::default(), Files::default());
    for (option, name) in OPTIONS {
        let set = || Some((name, variable(name).filter(|value| !value.is_empty())?));
        let Some((source, value)) = given.get(option).map(|value| (option, value.clone())).or_else(set)
        else {
            continue;
        };
        match option {
            "--address" => options.address = address(source, &value)?,
            "--metrics-address" => options.metrics_address = Some(address(source, &value)?),
            "--tls-cert" => files.cert = Some(file(source, &value)?),
            "--tls-key" => files.key = Some(file(source, &value)?),
            "--tls-client-ca" => files.client_ca = Some(file(source, &value)?),
            "--log-calls" => options.log_calls = flag(source, &value)?,
            _ => options.allow_unauthenticated_bind = flag(source, &value)?,
        }
    }
    options.tls = files.complete()?;
    Ok(options)
}

/// `HOST:PORT` with an IP address or a name such as `localhost`.
fn address(source: &str, text: &str) -> Result<SocketAddr, UsageError> {
    let wrong = |why: &str| {
        let right = "expected HOST:PORT such as 127.0.0.1:9000, localhost:9000 or [::]:9000";
        UsageError(format!("invalid {source} {text:?}: {why}{right}"))
    };
    let has_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if !has_port {
        return Err(wrong(""));
    }
    let unresolved = |error: io::Error| wrong(&format!("cannot resolve the host: {error}; "));
    let mut addresses: Vec<_> = text.to_socket_addrs().map_err(unresolved)?.collect();
    // A name with addresses of both families is that of the machine itself: what calls it may know IPv4 only.
    addresses.sort_by_key(SocketAddr::is_ipv6);
    addresses.first().copied().ok_or_else(|| wrong("the host has no address; "))
}

fn file(source: &str, text: &str) -> Result<PathBuf, UsageError> {
    if text.is_empty() {
        return Err(UsageError(format!("{source} has no value; expected a PEM file")));
    }
    Ok(text.into())
}

fn flag(source: &str, text: &str) -> Result<bool, UsageError> {
    text.parse().map_err(|_| UsageError(format!("invalid {source} {text:?}; expected true or false")))
}

/// The TLS files that were named so far.
#[derive(Default)]
struct Files {
    cert: Option<PathBuf>,
    key: Option<PathBuf>,
    client_ca: Option<PathBuf>,
}

impl Files {
    fn complete(self) -> Result<Option<TlsFiles>, UsageError> {
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
                let text = format!("{missing} missing; TLS needs a certificate and its key, two PEM files");
                Err(UsageError(text))
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

    fn read(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Command, UsageError> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        command(arguments.iter().map(OsString::from), &variable)
    }

    fn read_options(arguments: &[&str], variables: &[(&str, &str)]) -> Options {
        match read(arguments, variables) {
            Ok(Command::Serve(options)) => options,
            other => panic!("{arguments:?} {variables:?}: {other:?}"),
        }
    }

    #[test]
    fn options_come_in_both_spellings() {
        for arguments in [&["--address", "0.0.0.0:9000"][..], &["--address=0.0.0.0:9000"]] {
            assert_eq!(read_options(arguments, &[]).address.to_string(), "0.0.0.0:9000");
        }
        let options = read_options(&["--tls-cert=a", "--tls-key", "b", "--tls-client-ca", "c"], &[]);
        let client_ca = Some("c".into());
        assert_eq!(options.tls, Some(TlsFiles { cert: "a".into(), key: "b".into(), client_ca }));
    }

    #[test]
    fn a_host_is_an_address_or_a_name() {
        for (text, expected) in
            [("127.0.0.1:9000", "127.0.0.1:9000"), ("localhost:0", "127.0.0.1:0"), ("[::1]:7", "[::1]:7")]
        {
            assert_eq!(read_options(&["--address", text], &[]).address.to_string(), expected);
        }
    }

    /// Everything that options set.
    fn shown(options: Options) -> String {
        let Options { address, tls, allow_unauthenticated_bind, metrics_address, log_calls, .. } = options;
        format!("{address} {tls:?} {allow_unauthenticated_bind} {metrics_address:?} {log_calls}")
    }

    #[test]
    fn variables_are_options_and_the_option_wins() {
        let set = OPTIONS.map(|(option, variable)| match option {
            "--address" => (option, variable, "1.2.3.4:5"),
            "--metrics-address" => (option, variable, "1.2.3.4:6"),
            flag if FLAGS.contains(&flag) => (option, variable, "true"),
            file => (file, variable, "file.pem"),
        });
        let variables = set.map(|(_, variable, value)| (variable, value));
        let arguments: Vec<_> = set
            .iter()
            .flat_map(
                |(option, _, value)| {
                    if FLAGS.contains(option) { vec![*option] } else { vec![*option, *value] }
                },
            )
            .collect();
        let nothing = shown(Options::default());
        let of_variables = shown(read_options(&[], &variables));
        assert_eq!(of_variables, shown(read_options(&arguments, &[])));
        for variable in variables.iter().filter(|(name, _)| !name.contains("_TLS_")) {
            assert_ne!(shown(read_options(&[], &[*variable])), nothing, "{variable:?}");
        }
        let wrong = OPTIONS.map(|(_, variable)| (variable, "wrong"));
        assert_eq!(shown(read_options(&arguments, &wrong)), of_variables, "the options win");
        let empty = OPTIONS.map(|(_, variable)| (variable, ""));
        assert_eq!(shown(read_options(&[], &empty)), nothing);
        assert!(!read_options(&["--log-calls=false"], &variables).log_calls);
    }

    #[test]
    fn help_names_the_variables_that_are_read() {
        let named = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SERVICE_NAME", "OTEL_SDK_DISABLED"];
        assert!(named.iter().all(|name| help().contains(name) == cfg!(feature = "otlp")), "{}", help());
        assert!(help().starts_with(HELP));
        for (option, variable) in OPTIONS {
            let is_there = cfg!(feature = "tls") || !option.starts_with("--tls-");
            assert_eq!(help().contains(&format!("\n  {option}")), is_there, "{option}");
            assert!(help().contains(&format!("\n  {variable}\n")), "{variable}");
        }
    }

    #[test]
    fn bad_usage_says_what_would_be_right() {
        for (arguments, variables, expected) in [
            (&["--adress"][..], &[][..], "unknown option --adress"),
            (&["--address"], &[], "expected HOST:PORT"),
            (
                &["--address", "localhost"],
                &[],
                "invalid --address \"localhost\": expected HOST:PORT such as 127.0.0.1:9000",
            ),
            (&["--address=1.2.3.4:x"], &[], "expected HOST:PORT"),
            (&["--address=:9000"], &[], "expected HOST:PORT"),
            (&["--address=::1"], &[], "invalid --address \"::1\": cannot resolve the host: "),
            (&["--metrics-address=9"], &[], "invalid --metrics-address \"9\": expected HOST:PORT"),
            (&["--tls-cert", "a"], &[], "--tls-key FILE is missing; TLS needs a certificate and its key"),
            (&["--tls-key=a"], &[], "--tls-cert FILE is missing"),
            (&["--tls-client-ca", "a"], &[], "--tls-cert FILE and --tls-key FILE are missing"),
            (&["--tls-cert"], &[], "--tls-cert has no value; expected a PEM file"),
            (
                &[],
                &[("EXTENDER_POLICY_ADDRESS", "a")],
                "invalid EXTENDER_POLICY_ADDRESS \"a\": expected HOST",
            ),
            (
                &[],
                &[("EXTENDER_POLICY_LOG_CALLS", "yes")],
                "invalid EXTENDER_POLICY_LOG_CALLS \"yes\"; expected true or false",
            ),
            (&["--log-calls=1"], &[], "invalid --log-calls \"1\"; expected true or false"),
            (&[], &[("EXTENDER_POLICY_TLS_KEY", "a")], "--tls-cert FILE is missing"),
        ] {
            let mistake = read(arguments, variables).unwrap_err().to_string();
            assert!(mistake.contains(expected), "{arguments:?}: {mistake}");
        }
    }
}

//! The output of commands and its format (`-o`), their failures and exit codes.

use std::{
    fmt::{self, Display},
    fs,
    io::{self, ErrorKind, StdoutLock, Write},
    path::Path,
    process::ExitCode,
};

use clap::ValueEnum;
use extender_gateway_api::explain::replicas::Away;
use extender_gateway_object::text::{clean, counted};
use extender_gateway_observe::log::Stderr;
use extender_gateway_settings::ConfigErrors;
use serde::Serialize;

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    /// For people
    Table,
    /// For programs
    Json,
    /// For programs, and for people who like to see all of it
    Yaml,
}

impl Output {
    /// Writes a value, which is displayed as tables.
    pub(super) fn write<T: Serialize + Display>(
        self,
        value: &T,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        match self {
            Self::Table => write!(console.out, "{value}")?,
            Self::Json => {
                let json = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
                writeln!(console.out, "{json}")?;
            }
            Self::Yaml => {
                let yaml = serde_saphyr::to_string(value).map_err(io::Error::other)?;
                write!(console.out, "{yaml}")?;
            }
        }
        Ok(())
    }
}

/// Writes a file that the user has named.
///
/// # Errors
/// It cannot be written.
pub(super) fn write_file(file: &Path, content: &[u8]) -> Result<(), Failure> {
    fs::write(file, content).map_err(|error| {
        let text = format!("{}: {error}; name a file that can be written", file.display());
        Failure::Print(io::Error::new(error.kind(), text))
    })
}

/// JSON with indents, for people. It escapes control characters; others could still change the terminal.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(super) struct PrettyJson<'v, T>(pub(super) &'v T);

impl<T: Serialize> Display for PrettyJson<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = serde_json::to_string_pretty(self.0).map_err(|_| fmt::Error)?;
        json.lines().try_for_each(|line| writeln!(out, "{}", clean(line)))
    }
}

/// The destinations of a command's output.
pub(super) struct Console<'a> {
    /// The result: standard output.
    pub(super) out: &'a mut dyn Write,
    /// Additional notes: standard error.
    pub(super) notes: &'a mut dyn Write,
}

/// Runs a command with standard output and standard error.
pub(super) fn on_console(command: impl FnOnce(&mut Console<'_>) -> Result<(), Failure>) -> ExitCode {
    let (mut out, mut notes) = (Pipe(io::stdout().lock()), io::stderr());
    command(&mut Console { out: &mut out, notes: &mut notes })
        .map_or_else(|failure| failure.report(&mut Stderr), |()| ExitCode::SUCCESS)
}

/// Standard output. Its reader may close it early, like `head`: the rest is dropped without an error.
struct Pipe(StdoutLock<'static>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        ignore_closed(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        ignore_closed(self.0.flush(), ())
    }
}

fn ignore_closed<T>(written: io::Result<T>, otherwise: T) -> io::Result<T> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(otherwise),
        written => written,
    }
}

/// Why a command failed, as shown to the operator.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The configuration cannot be read or has mistakes.
    #[error("{}", with_count(.0))]
    Config(#[from] ConfigErrors),
    /// The command line conflicts with the configuration.
    #[error("extender-gateway: {0}")]
    Usage(String),
    /// A file of the command line is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The decision differs from what is expected.
    #[error("extender-gateway: {}{}", counted(.0.len() as u64, "difference"), dashed(.0))]
    Unexpected(Vec<String>),
    /// The filter call of a simulation ended with an error.
    #[error("extender-gateway: no decision: {}", .0.trim_start_matches("extender-gateway: "))]
    Undecided(String),
    /// The gateway could not start, or stopped because of a failure.
    #[error("extender-gateway: {0}")]
    Serve(String),
    /// The output could not be written.
    #[error("extender-gateway: cannot write the output: {0}")]
    Print(#[from] io::Error),
    /// Gateways have problems, which were printed; their number.
    #[error("extender-gateway: {}", counted(*.0 as u64, "problem"))]
    Problems(usize),
    /// No gateway could be queried.
    #[error("extender-gateway: no gateway answered{}", lines(.0))]
    Away(Vec<Away>),
    /// No gateway has an answer.
    #[error("extender-gateway: no gateway has an answer{}", lines(.0))]
    NotShown(Vec<Away>),
    /// No gateway has done what was requested.
    #[error("extender-gateway: no gateway has done it{}", lines(.0))]
    NotDone(Vec<Away>),
    /// Pods could not be tried again.
    #[error(
        "extender-gateway: pods were not tried again: {0}; your account needs the verbs list and patch for nodes"
    )]
    NotRetried(String),
    /// There is no data about a pod, for this reason.
    #[error("extender-gateway: {0}")]
    Unknown(String),
}

impl Failure {
    /// The exit code. clap itself ends a process with 2.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Serve(_) | Self::Print(_) | Self::Unexpected(_) | Self::Undecided(_) => 1,
            Self::Usage(_) => 2,
            Self::Config(_) | Self::Invalid(_) => 3,
            Self::Problems(_) | Self::NotRetried(_) => 4,
            Self::Away(_) | Self::NotShown(_) | Self::NotDone(_) => 5,
            Self::Unknown(_) => 6,
        }
    }

    /// Prints the failure, and returns the exit code.
    pub(super) fn report(&self, out: &mut impl Write) -> ExitCode {
        // There is nowhere left to report a failure of this.
        let _ = out.write_all(format!("{self}\n").as_bytes()).and_then(|()| out.flush());
        ExitCode::from(self.exit_code())
    }
}

/// The mistakes, and their number if one could be overlooked.
fn with_count(errors: &ConfigErrors) -> String {
    match errors.mistakes().len() {
        1 => errors.to_string(),
        count => format!("{errors}\n{count} mistakes"),
    }
}

/// One line for each text.
fn dashed(texts: &[String]) -> String {
    texts.iter().flat_map(|text| ["\n- ".into(), clean(text)]).collect()
}

/// One line for each gateway.
fn lines(away: &[Away]) -> String {
    away.iter()
        .flat_map(|Away { gateway, why }| ["\n- ".into(), clean(gateway), ": ".into(), clean(why)])
        .collect()
}

//! Why a command failed, and its exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use super::{
    admin::Away,
    text::{clean, counted},
};
use crate::config::ConfigErrors;

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The configuration cannot be read or has mistakes.
    Config(ConfigErrors),
    /// The command line conflicts with the configuration.
    Usage(String),
    /// The gateway could not start, or stopped because of a failure.
    Serve(String),
    /// The output could not be written.
    Print(io::Error),
    /// Gateways have problems, which were printed; their number.
    Problems(usize),
    /// No gateway could be queried.
    Away(Vec<Away>),
    /// There is no data about a pod, for this reason.
    Unknown(String),
}

impl Failure {
    /// The table of exit codes. clap itself ends a process with 2.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Serve(_) | Self::Print(_) => 1,
            Self::Usage(_) => 2,
            Self::Config(_) => 3,
            Self::Problems(_) => 4,
            Self::Away(_) => 5,
            Self::Unknown(_) => 6,
        }
    }

    /// Prints the failure for the operator, and returns the exit code.
    pub(super) fn report(&self, out: &mut impl Write) -> ExitCode {
        // There is nowhere left to report this failure.
        let _ = out.write_all(format!("{}\n", self.text()).as_bytes()).and_then(|()| out.flush());
        ExitCode::from(self.exit_code())
    }

    fn text(&self) -> String {
        match self {
            Self::Config(errors) => all(errors),
            Self::Serve(text) | Self::Usage(text) | Self::Unknown(text) => {
                format!("extender-gateway: {text}")
            }
            Self::Away(away) => format!("extender-gateway: no gateway answered{}", each(away)),
            Self::Problems(count) => format!("extender-gateway: {}", counted(*count as u64, "problem")),
            Self::Print(error) => format!("extender-gateway: cannot write the output: {error}"),
        }
    }
}

/// The mistakes, and their number if one could be overlooked.
fn all(errors: &ConfigErrors) -> String {
    match errors.mistakes().len() {
        1 => errors.to_string(),
        count => format!("{errors}\n{count} mistakes"),
    }
}

/// One line for each gateway.
fn each(away: &[Away]) -> String {
    away.iter()
        .flat_map(|Away { gateway, why }| ["\n- ".into(), clean(gateway), ": ".into(), clean(why)])
        .collect()
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Self {
        Self::Config(errors)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Print(error)
    }
}

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
    /// The command line does not go with the configuration.
    Usage(String),
    /// The gateway could not start, or stopped because of a failure.
    Serve(String),
    /// What was to be printed could not be.
    Print(io::Error),
    /// Something is wrong with a gateway, as was printed; how much.
    Problems(usize),
    /// No gateway could be asked.
    Away(Vec<Away>),
    /// Nothing is known about a pod, for this reason.
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

    /// Tells the operator, and how the process ends.
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

/// The mistakes, and how many there are where one could be overlooked.
fn all(errors: &ConfigErrors) -> String {
    match errors.mistakes().len() {
        1 => errors.to_string(),
        count => format!("{errors}\n{count} mistakes"),
    }
}

/// A line for each.
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

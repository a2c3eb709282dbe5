//! Why a command failed, and the exit code that says so.

use std::io::{self, Write};
use std::process::ExitCode;

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
}

impl Failure {
    /// The table of exit codes. clap itself ends a process with 2.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Serve(_) | Self::Print(_) => 1,
            Self::Usage(_) => 2,
            Self::Config(_) => 3,
        }
    }

    /// Tells the operator, and how the process ends.
    pub(super) fn report(&self, out: &mut impl Write) -> ExitCode {
        // Nobody is left to be told that telling failed.
        let _ = writeln!(out, "{}", self.text());
        ExitCode::from(self.exit_code())
    }

    fn text(&self) -> String {
        match self {
            Self::Config(errors) => counted(errors),
            Self::Serve(error) | Self::Usage(error) => format!("extender-gateway: {error}"),
            Self::Print(error) => format!("extender-gateway: cannot print: {error}"),
        }
    }
}

/// The mistakes, and how many there are where one could be overlooked.
fn counted(errors: &ConfigErrors) -> String {
    match errors.mistakes().len() {
        1 => errors.to_string(),
        count => format!("{errors}\n{count} mistakes"),
    }
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

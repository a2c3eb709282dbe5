//! The output of commands: its destination and its format (`-o`).

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write},
    process::ExitCode,
};

use clap::ValueEnum;
use serde::Serialize;

use super::Failure;
use crate::observe::log::Stderr;

/// How an answer is written.
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
    /// Writes `value`; in table format, `table`.
    pub(super) fn write(
        self,
        value: &impl Serialize,
        table: &impl Display,
        console: &mut Console<'_>,
    ) -> Result<(), Failure> {
        match self {
            Self::Table => write!(console.out, "{table}")?,
            Self::Json => writeln!(console.out, "{}", json(value)?)?,
            Self::Yaml => write!(console.out, "{}", yaml(value)?)?,
        }
        Ok(())
    }
}

fn json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map_err(|error| Failure::Print(error.into()))
}

fn yaml(value: &impl Serialize) -> Result<String, Failure> {
    serde_saphyr::to_string(value).map_err(|error| Failure::Print(io::Error::other(error)))
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
struct Pipe<W>(W);

impl<W: Write> Write for Pipe<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_left(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_left(self.0.flush(), ())
    }
}

fn unless_left<T>(written: io::Result<T>, otherwise: T) -> io::Result<T> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(otherwise),
        written => written,
    }
}

//! Where a command writes.

use std::{
    io::{self, ErrorKind, Write},
    process::ExitCode,
};

use super::Failure;
use crate::observe::log::Stderr;

/// Where a command writes.
pub(super) struct Console<'a> {
    /// What was asked for: standard output.
    pub(super) out: &'a mut dyn Write,
    /// What is worth knowing beside it: standard error.
    pub(super) notes: &'a mut dyn Write,
}

/// Runs a command on standard output and standard error.
pub(super) fn on_console(command: impl FnOnce(&mut Console<'_>) -> Result<(), Failure>) -> ExitCode {
    let (mut out, mut notes) = (Pipe(io::stdout().lock()), io::stderr());
    command(&mut Console { out: &mut out, notes: &mut notes })
        .map_or_else(|failure| failure.report(&mut Stderr), |()| ExitCode::SUCCESS)
}

/// Standard output, whose reader may have enough before all is written, as `head` has: the rest is for nobody, and that
/// is no failure.
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

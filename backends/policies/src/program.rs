//! What the programs of all policies have in common: the log, how a failure is told, the runtime, the name.

use std::{
    error::Error,
    io::{self, IsTerminal as _, Write as _},
    net::SocketAddr,
    process::ExitCode,
};

use extender_policy_sdk::{Backend, Options, ServeError, serve_blocking};
use tokio::runtime::{Builder, Runtime};

/// The longest name of a policy, in bytes.
const LONGEST_NAME: usize = 63;

/// Who has to set right what ended a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The operator, on the command line or in a file that it names.
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

/// Runs a program with a log on standard error, tells its failure there and says how the process ends.
pub fn run<E: Error>(start: impl FnOnce() -> Result<(), E>, fault: fn(&E) -> Fault) -> ExitCode {
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(io::stderr().is_terminal()).init();
    let Err(error) = start() else { return ExitCode::SUCCESS };
    // For people, before there is anything to log; the exit code tells programs.
    drop(writeln!(io::stderr(), "{error}"));
    ExitCode::from(fault(&error).exit_code())
}

/// A runtime of one thread: what a policy waits for is not the processor, and waking a second thread for each call
/// would cost more.
///
/// # Errors
/// The system refuses what it needs.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Serves a backend until a signal stops it: all that a program without files of its own does.
pub fn serve(backend: impl Into<Backend>, address: SocketAddr) -> ExitCode {
    run(|| serve_blocking(backend, Options { address, ..Options::default() }), |_: &ServeError| Fault::Other)
}

/// The name of a policy, as clap parses it.
///
/// # Errors
/// It is not of 1 to 63 bytes.
pub fn name(text: &str) -> Result<String, String> {
    if (1..=LONGEST_NAME).contains(&text.len()) {
        Ok(text.to_owned())
    } else {
        Err(format!("it has {} bytes; 1 to {LONGEST_NAME} are right", text.len()))
    }
}

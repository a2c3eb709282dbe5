//! What the programs have in common.

use std::{
    io::{self, IsTerminal as _, Write as _},
    net::SocketAddr,
    process::ExitCode,
};

use extender_policy_sdk::{Backend, Options, serve_blocking};

/// Reads `--name`: what a policy calls itself, 1 to 63 bytes.
///
/// # Errors
///
/// A sentence for the person who typed it.
pub fn name(text: &str) -> Result<String, String> {
    if (1..=63).contains(&text.len()) {
        Ok(text.to_owned())
    } else {
        Err(format!("it has {} bytes; 1 to 63 are right", text.len()))
    }
}

/// Logs to stderr, in colours where a person looks.
pub fn log() {
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(io::stderr().is_terminal()).init();
}

/// Serves a backend until a signal stops it: all that a program without files of its own does.
pub fn serve(backend: impl Into<Backend>, address: SocketAddr) -> ExitCode {
    log();
    match serve_blocking(backend, Options { address, ..Options::default() }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // For people, before there is anything to log; the exit code tells programs.
            drop(writeln!(io::stderr(), "{error}"));
            ExitCode::FAILURE
        }
    }
}

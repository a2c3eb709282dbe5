//! A program that runs as a child process, and ends with the process that started it.
//!
//! A child is killed when its [`Process`] is dropped. If this process is killed itself, nothing is dropped, so each
//! child has a watchdog. Ctrl-C reaches all of them through the terminal.

use std::{
    io,
    net::SocketAddr,
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::RecvTimeoutError,
    time::Duration,
};

use self::{
    output::{Announcements, Tail},
    watchdog::Watchdog,
};

mod output;
mod watchdog;

/// A program that is not ready by then will not become ready. The limit is long because a machine that builds at
/// the same time is slow.
const READY_WITHIN: Duration = Duration::from_secs(30);

/// A running program.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    watchdog: Option<Watchdog>,
    stderr: Tail,
}

/// Why a program did not become ready.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The system did not start it.
    #[error("{name} could not be started: {cause}")]
    Spawn {
        /// The name of the program.
        name: String,
        /// The system's error.
        cause: io::Error,
    },
    /// It ended before it was ready.
    #[error("{name} ended ({status}) before it printed `{missing}…`; it said:\n{stderr}")]
    Ended {
        /// The name of the program.
        name: String,
        /// Its exit status.
        status: ExitStatus,
        /// The expected line.
        missing: &'static str,
        /// The end of its standard error.
        stderr: String,
    },
    /// It runs, and is not ready.
    #[error("{name} has not printed `{missing}…` within {} s; it said:\n{stderr}", READY_WITHIN.as_secs())]
    Late {
        /// The name of the program.
        name: String,
        /// The expected line.
        missing: &'static str,
        /// The end of its standard error.
        stderr: String,
    },
    /// The expected line contains no address.
    #[error("{name} printed `{line}`, which does not end with an address such as 127.0.0.1:8888")]
    NotAnAddress {
        /// The name of the program.
        name: String,
        /// Its line.
        line: String,
    },
}

impl Process {
    /// Starts the program and waits until it has printed, on its standard output and in any order, a line
    /// with each of the beginnings: the rest of such a line is the address that it listens on.
    pub fn start<const N: usize>(
        name: &str,
        mut command: Command,
        beginnings: [&'static str; N],
    ) -> Result<(Self, [SocketAddr; N]), StartError> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let spawn_error = |cause| StartError::Spawn { name: name.to_owned(), cause };
        let mut child = command.spawn().map_err(spawn_error)?;
        let stdout = child.stdout.take().expect("standard output is piped");
        let stderr = child.stderr.take().expect("standard error is piped");
        let watchdog = Watchdog::beside(&child);
        let mut process = Self { name: name.to_owned(), child, watchdog: None, stderr: Tail::of(stderr) };
        process.watchdog = Some(watchdog.map_err(spawn_error)?);
        let mut announcements = Announcements::of(stdout, READY_WITHIN);
        let mut addresses = [SocketAddr::from(([0, 0, 0, 0], 0)); N];
        for (address, beginning) in addresses.iter_mut().zip(beginnings) {
            *address = process.announced(&mut announcements, beginning)?;
        }
        Ok((process, addresses))
    }

    /// The name that it was started with.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The process id, for `/proc`.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Prints what it says on its standard error from now on.
    pub fn show(&self) {
        self.stderr.show();
    }

    /// The last lines of its standard error, for messages.
    pub fn last_words(&self) -> String {
        self.stderr.text()
    }

    /// Asks the program to end (SIGTERM) and waits until it has; after `within` it is killed. The status is its own
    /// in the first case, the signal's in the second.
    pub fn finish(mut self, within: Duration) -> io::Result<ExitStatus> {
        Command::new("sh").args(["-c", r#"kill -TERM "$1""#, "finish", &self.id().to_string()]).status()?;
        self.stderr.wait_for_end(within);
        self.stop()
    }

    fn announced(
        &mut self,
        announcements: &mut Announcements,
        beginning: &'static str,
    ) -> Result<SocketAddr, StartError> {
        match announcements.beginning_with(beginning) {
            Ok(line) => self.address_in(beginning, line),
            Err(end) => Err(self.not_ready(beginning, end)),
        }
    }

    fn address_in(&self, beginning: &str, line: String) -> Result<SocketAddr, StartError> {
        let address = line[beginning.len()..].trim().parse();
        address.map_err(|_| StartError::NotAnAddress { name: self.name.clone(), line })
    }

    fn not_ready(&mut self, missing: &'static str, end: RecvTimeoutError) -> StartError {
        let name = self.name.clone();
        let status = match end {
            // A closed output is the end of the process, or equivalent.
            RecvTimeoutError::Disconnected => self.stop().ok(),
            RecvTimeoutError::Timeout => None,
        };
        let stderr = self.last_words();
        match status {
            Some(status) => StartError::Ended { name, status, missing, stderr },
            None => StartError::Late { name, missing, stderr },
        }
    }

    /// Ends the process if it still runs. Its watchdog ends first: as long as it watches, the process must not be
    /// reaped, or another process could have its id by then.
    fn stop(&mut self) -> io::Result<ExitStatus> {
        drop(self.watchdog.take());
        if let Some(status) = self.ended_by_itself()? {
            return Ok(status);
        }
        self.child.kill()?;
        self.child.wait()
    }

    /// The status, if the process ends on its own when it closes its output.
    fn ended_by_itself(&mut self) -> io::Result<Option<ExitStatus>> {
        self.stderr.wait_for_end(Duration::from_millis(200));
        self.child.try_wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.watchdog.take());
        // Both fail only if the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests;

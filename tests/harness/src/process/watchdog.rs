//! Ends a child when this process ends, however it ends.
//!
//! Linux can do that itself (`PR_SET_PDEATHSIG`), but a call between fork and exec is unsafe code, which no crate
//! of the workspace may contain. So a shell for each child waits for a line from a pipe whose only writer is this
//! process. When the kernel closes the pipe with this process, the shell kills the child. It works with any POSIX
//! shell, and costs nothing while it waits.

use std::{
    io,
    process::{Child, Command, Stdio},
};

/// What the shell does: `$1` is the child. A line never comes, so `read` returns at the end of the pipe.
const SCRIPT: &str = r#"read -r _; kill -KILL "$1""#;

/// The shell that watches. Dropped before the child is reaped, it leaves the child alone.
#[derive(Debug)]
pub(super) struct Watchdog(Child);

impl Watchdog {
    /// Starts the watchdog. The child must not have been waited for.
    pub(super) fn beside(child: &Child) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", SCRIPT, "watchdog", &child.id().to_string()]);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        shell.spawn().map(Self)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // The pipe is closed only after the shell is dead: `wait` would close it first.
        let pipe = self.0.stdin.take();
        let _ = self.0.kill();
        let _ = self.0.wait();
        drop(pipe);
    }
}

//! The tests of this crate on sockets, as one program: linking takes longer than the tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod label_rules;
mod log;
mod programs;
mod reservation;

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_extender-policies");

/// A policy that runs until it is told to stop.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    address: String,
}

impl Running {
    /// Starts `extender-policies` with these arguments, and waits for the line with its address.
    fn start(arguments: &[&str]) -> Self {
        Self::of(Command::new(PROGRAM).args(arguments))
    }

    fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        assert!(address.starts_with("127.0.0.1:") && !address.ends_with(":0"), "{line}");
        Self { child, stdout, address }
    }

    /// As a signal does.
    fn stop(&mut self) {
        let told =
            Command::new("sh").args(["-c", &format!("kill -TERM {}", self.child.id())]).status().unwrap();
        assert!(told.success());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended unless the test has failed.
        drop(self.child.kill());
    }
}

/// With these arguments, the program ends with this code and says this.
fn ends(arguments: &[&str], code: i32, says: &str) {
    let mut command = Command::new(PROGRAM);
    let output = command.args(arguments).env_remove("POD_NAMESPACE").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
    assert!(text.contains(says), "{arguments:?}: {text}");
}

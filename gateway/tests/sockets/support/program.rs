//! The program as a process.

use std::{
    fs,
    io::{self, Write},
    net::SocketAddr,
    path::Path,
    process::Stdio,
    thread,
    time::Duration,
};

use tempfile::NamedTempFile;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};

use super::http::Client;

/// The first lines of a configuration: all addresses have free ports.
pub(crate) const OWN: &str = "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n\
    extender: {address: 127.0.0.1:0}\nmetrics: {address: 127.0.0.1:0}\nadmin: {address: 127.0.0.1:0}\n";

/// One that serves.
pub(crate) struct Program {
    pub(crate) child: Child,
    log: Log,
    pub(crate) extender: SocketAddr,
    pub(crate) metrics: SocketAddr,
    pub(crate) admin: SocketAddr,
}

/// A program that does not serve yet.
pub(crate) struct Starting {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    metrics: SocketAddr,
    pub(crate) admin: SocketAddr,
    log: Log,
}

/// What a program writes to standard error; shown when a test fails.
struct Log(NamedTempFile);

impl Log {
    fn text(&self) -> String {
        fs::read_to_string(self.0.path()).unwrap()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ = io::stderr().write_all(self.text().as_bytes());
        }
    }
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_extender-gateway");

fn program() -> Command {
    Command::new(PROGRAM)
}

impl Starting {
    pub(crate) async fn new(file: &Path) -> Self {
        let log = Log(NamedTempFile::new().unwrap());
        let errors = log.0.reopen().unwrap();
        Self::spawn(file, program(), (errors, log)).await
    }

    /// A program whose standard error goes elsewhere: [`Program::said`] finds nothing.
    pub(crate) async fn with_errors_to(file: &Path, errors: impl Into<Stdio>) -> Self {
        Self::spawn(file, program(), (errors, Log(NamedTempFile::new().unwrap()))).await
    }

    /// A program that may open this many files.
    pub(crate) async fn with_descriptors(file: &Path, most: u32) -> Self {
        let log = Log(NamedTempFile::new().unwrap());
        let errors = log.0.reopen().unwrap();
        let mut limited = Command::new("sh");
        limited.args(["-c", &format!("ulimit -n {most} && exec \"$0\" \"$@\""), PROGRAM]);
        Self::spawn(file, limited, (errors, log)).await
    }

    async fn spawn(file: &Path, mut command: Command, (errors, log): (impl Into<Stdio>, Log)) -> Self {
        command.args(["serve", "--config"]).arg(file).kill_on_drop(true);
        command.stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let metrics = address(&mut lines, "metrics listening on ").await;
        let admin = address(&mut lines, "admin listening on ").await;
        Self { child, lines, metrics, admin, log }
    }

    pub(crate) async fn serving(mut self) -> Program {
        let extender = address(&mut self.lines, "extender listening on ").await;
        Program { child: self.child, extender, metrics: self.metrics, admin: self.admin, log: self.log }
    }
}

impl Program {
    pub(crate) async fn start(file: &Path) -> Self {
        Starting::new(file).await.serving().await
    }

    pub(crate) async fn signal(&self, name: &str) {
        signal(&self.child, name).await;
    }

    /// The lines of the log that contain this.
    pub(crate) fn said(&self, part: &str) -> Vec<String> {
        self.log.text().lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }

    /// Waits until this many lines of the log contain this.
    pub(crate) async fn wrote(&self, part: &str, count: usize) {
        while self.said(part).len() < count {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the metrics have this line.
    pub(crate) async fn counted(&self, line: &str) {
        loop {
            let answer = Client::connect(self.metrics).await.send("GET", "/metrics", b"").await;
            if String::from_utf8(answer.body).unwrap().contains(line) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

pub(crate) async fn signal(child: &Child, name: &str) {
    let id = child.id().unwrap().to_string();
    assert!(Command::new("kill").args(["-s", name, &id]).status().await.unwrap().success());
}

async fn address(lines: &mut Lines<BufReader<ChildStdout>>, prefix: &str) -> SocketAddr {
    let line = lines.next_line().await.unwrap().expect("the program says where it listens");
    line.strip_prefix(prefix).unwrap_or_else(|| panic!("{line}")).parse().unwrap()
}

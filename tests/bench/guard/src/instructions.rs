//! How many instructions a call takes in the built gateway, as its users run it: callgrind counts them.
//!
//! callgrind counts everything from start to end, and reading a file of nodes at the start costs as much as two
//! hundred calls. So the gateway runs twice, and the difference is the cost of the second run's additional calls.
//! Handshakes and timers, which depend on time, are some thousandths of that.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
};

use extender_harness::{
    binaries::{BinaryError, Program},
    gateway::NodeSource,
    process::{Process, StartError},
};
use tempfile::TempDir;
use tokio::{
    runtime::{Builder, Runtime},
    sync::oneshot,
    time::timeout,
};

use crate::{
    calls::Call,
    configuration::{TIMEOUT, configuration},
    peers::Peers,
};

/// Calls of the first run: they fill connections, tables and caches.
const WARM_UP: u32 = 20;

/// Calls that the second run has in addition.
const COUNTED: u32 = 120;

/// Why counting failed.
#[derive(Debug, thiserror::Error)]
pub enum CountError {
    /// valgrind is missing, and nothing else counts instructions.
    #[error("valgrind is missing: install valgrind, whose callgrind counts the instructions")]
    NoValgrind,
    /// The gateway has not been built.
    #[error(transparent)]
    NoGateway(#[from] BinaryError),
    /// The gateway did not become ready.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The gateway did not do its part of a call.
    #[error("after {} s the gateway has not {missing}; it said:\n{stderr}", TIMEOUT.as_secs())]
    Unanswered {
        /// The missing part.
        missing: &'static str,
        /// The end of its standard error.
        stderr: String,
    },
    /// The gateway did not end normally, so its count is not complete.
    #[error("the gateway ended with {0}")]
    Ended(ExitStatus),
    /// callgrind's output has no count.
    #[error("{} has no line of totals", .0.display())]
    NoTotals(PathBuf),
    /// A file or process could not be created.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// The number of instructions of such a call. callgrind's output for both runs stays in the folder, in files named
/// after the call and its number of repetitions.
pub fn of(call: &Call, folder: &Path) -> Result<u64, CountError> {
    let few = total(call, WARM_UP, folder)?;
    let many = total(call, WARM_UP + COUNTED, folder)?;
    Ok((many - few) / u64::from(COUNTED))
}

/// Everything from the gateway's start to its end, with this many calls in between.
fn total(call: &Call, calls: u32, folder: &Path) -> Result<u64, CountError> {
    let counts = folder.join(format!("callgrind.out.{}.{calls}", call.name.replace(' ', "-")));
    let files = TempDir::new()?;
    let run = Run::start((call.source(&files), Hook::None), call.nodes, counts)?;
    for body in call.bodies(calls as usize) {
        run.make(call.verb.path(), body)?;
    }
    run.finish()
}

/// The hook that runs before filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hook {
    None,
    /// It changes each node in its own way.
    OfEachNode,
}

/// A gateway under callgrind, with its peers.
pub(crate) struct Run {
    gateway: Process,
    address: SocketAddr,
    peers: Peers,
    runtime: Runtime,
    counts: PathBuf,
    /// Holds the configuration.
    _files: TempDir,
}

impl Run {
    /// Starts it with nodes from this source, for calls about this many. callgrind's output goes to `counts`.
    pub(crate) fn start(
        (source, hook): (NodeSource, Hook),
        nodes: usize,
        counts: PathBuf,
    ) -> Result<Self, CountError> {
        let files = TempDir::new()?;
        let peers = Peers::start(nodes, None);
        let config = files.path().join("gateway.yaml");
        let text = configuration(source, peers.backends());
        // A field of the last backend, whose fields end the text.
        let hook = match hook {
            Hook::OfEachNode => format!("  beforeFilterNodes: {{timeout: {}s}}\n", TIMEOUT.as_secs()),
            Hook::None => String::new(),
        };
        let text = format!("{text}{hook}");
        fs::write(&config, text)?;
        let (gateway, address) = start(&config, &counts)?;
        peers.connect(address);
        let runtime = Builder::new_current_thread().enable_time().build()?;
        Ok(Self { gateway, address, peers, runtime, counts, _files: files })
    }

    /// Its address.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Makes a call, taking turns with the peers.
    pub(crate) fn make(&self, path: &'static str, body: Vec<u8>) -> Result<(), CountError> {
        let unanswered = |missing| CountError::Unanswered { missing, stderr: self.gateway.last_words() };
        let in_time = |until: oneshot::Receiver<()>| {
            let until = self.runtime.block_on(async { timeout(TIMEOUT, until).await });
            matches!(until, Ok(Ok(()))).then_some(())
        };
        let turn = self.peers.ask(path, body);
        in_time(turn.asked).ok_or_else(|| unanswered("asked its backends"))?;
        turn.answer.release();
        in_time(turn.answered).ok_or_else(|| unanswered("answered"))
    }

    /// Ends it and returns its count.
    pub(crate) fn finish(self) -> Result<u64, CountError> {
        let status = self.gateway.finish(TIMEOUT)?;
        if status.success() { totals(self.counts) } else { Err(CountError::Ended(status)) }
    }
}

fn start(config: &Path, counts: &Path) -> Result<(Process, SocketAddr), CountError> {
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", counts.display()));
    command.arg(Program::Gateway.path()?).arg("serve").arg("--config").arg(config);
    match Process::start("extender-gateway under valgrind", command, ["extender listening on "]) {
        Ok((process, [address])) => Ok((process, address)),
        Err(StartError::Spawn { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {
            Err(CountError::NoValgrind)
        }
        Err(error) => Err(error.into()),
    }
}

fn totals(counts: PathBuf) -> Result<u64, CountError> {
    let text = fs::read_to_string(&counts)?;
    let totals = text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok());
    totals.ok_or(CountError::NoTotals(counts))
}

//! The gateway, alone on the calling thread.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

use allocation_counter::AllocationInfo;
use extender_gateway_cluster::file::NodeFile;
use extender_gateway_door::{self as door, Door};
use extender_gateway_observe::{Metrics, Observer};
use extender_gateway_pace::cadences::Cadences;
use extender_gateway_serve::assembly::Assembly;
use extender_gateway_settings::{Config, NodeSource as Source};
use extender_harness::gateway::{Configuration, NodeSource};
use tempfile::TempDir;
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
    sync::oneshot,
};

use crate::{
    calls::Call,
    configuration::{TIMEOUT, configuration},
    cost::Cost,
    peers::{BACKENDS, Peers, Turn},
};

/// Calls before the counted ones: they fill connections, tables and caches.
const WARM_UP: usize = 8;

/// Counted calls.
const COUNTED: usize = 31;

/// The cost of a call, from several repetitions.
pub fn cost_of(call: &'static Call) -> Cost {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let (subject, peers) = Subject::with_peers(call.source(&folder), call.nodes);
    let mut costs = Vec::new();
    for body in call.bodies(WARM_UP + COUNTED) {
        costs.push(subject.counted(&peers, call, body));
    }
    Cost::common(&costs[WARM_UP..])
}

/// How the gateway's thread sleeps.
#[derive(Debug, Default)]
pub struct Sleep {
    times: AtomicU64,
    is_asleep: AtomicBool,
}

impl Sleep {
    /// Waits until the gateway has no work left. Otherwise the next step would find its thread awake or asleep at
    /// random.
    pub async fn begun(&self) {
        while !self.is_asleep.load(SeqCst) {
            tokio::task::yield_now().await;
        }
    }

    fn begin(&self) {
        self.times.fetch_add(1, SeqCst);
        self.is_asleep.store(true, SeqCst);
    }

    fn end(&self) {
        self.is_asleep.store(false, SeqCst);
    }

    fn times(&self) -> u64 {
        self.times.load(SeqCst)
    }
}

/// A gateway on the calling thread, which runs only while this is measured.
pub(crate) struct Subject {
    runtime: Runtime,
    sleep: Arc<Sleep>,
    address: SocketAddr,
    /// Holds the connections.
    _assembly: Assembly,
}

impl Subject {
    fn start(nodes: NodeSource, backends: [SocketAddr; BACKENDS], sleep: Arc<Sleep>) -> Self {
        let (begins, ends) = (Arc::clone(&sleep), Arc::clone(&sleep));
        let runtime = Builder::new_current_thread()
            .enable_all()
            .on_thread_park(move || begins.begin())
            .on_thread_unpark(move || ends.end())
            .build()
            .expect("a runtime can be made");
        let config = parsed(&configuration(nodes, backends));
        let (address, assembly) = runtime.block_on(serve(&config));
        Self { runtime, sleep, address, _assembly: assembly }
    }

    /// A gateway and its peers, which answer calls with this many nodes.
    pub(crate) fn with_peers(source: NodeSource, nodes: usize) -> (Self, Peers) {
        let sleep = Arc::new(Sleep::default());
        let peers = Peers::start(nodes, Some(Arc::clone(&sleep)));
        let subject = Self::start(source, peers.backends(), sleep);
        peers.connect(subject.address);
        (subject, peers)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The most bytes that the gateway has at one time for a call.
    pub(crate) fn most_of(&self, turn: Turn) -> u64 {
        let asking = self.measured(turn.asked);
        turn.answer.release();
        let answering = self.measured(turn.answered);
        let kept = u64::try_from(asking.bytes_current).unwrap_or(0);
        asking.bytes_max.max(kept + answering.bytes_max)
    }

    /// The most bytes that the gateway has at one time until this is ready.
    pub(crate) fn most_until(&self, until: oneshot::Receiver<()>) -> u64 {
        self.measured(until).bytes_max
    }

    /// Makes a call, taking turns with the peers.
    fn counted(&self, peers: &Peers, call: &Call, body: Vec<u8>) -> Cost {
        let turn = peers.ask(call.verb.path(), body);
        if call.is_small() {
            turn.written();
        }
        let asking = self.run(turn.asked);
        turn.answer.release();
        let answering = self.run(turn.answered);
        Cost {
            allocations: asking.allocations + answering.allocations,
            bytes: asking.bytes + answering.bytes,
            wakeups: asking.wakeups + answering.wakeups,
        }
    }

    /// Lets the gateway run until the peers have what they wait for.
    fn run(&self, until: oneshot::Receiver<()>) -> Cost {
        let before = self.sleep.times();
        let used = self.measured(until);
        let wakeups = self.sleep.times() - before;
        Cost { allocations: used.count_total, bytes: used.bytes_total, wakeups }
    }

    fn measured(&self, until: oneshot::Receiver<()>) -> AllocationInfo {
        allocation_counter::measure(|| {
            let in_time = async { tokio::time::timeout(TIMEOUT, until).await };
            self.runtime.block_on(in_time).expect("it does not take half a minute").expect("the peers live");
        })
    }
}

fn parsed(configuration: &Configuration) -> Config {
    let text = configuration.to_string();
    Config::parse(&text, Path::new(".")).unwrap_or_else(|mistakes| unreachable!("{mistakes}\n{text}"))
}

async fn serve(config: &Config) -> (SocketAddr, Assembly) {
    let observer = Arc::new(Observer::new(Arc::new(Metrics::new()), 64 << 20));
    let mut assembly = Assembly::new(config, "guard".into(), Arc::clone(&observer), Cadences::default());
    if let (Source::File { path }, Some(table)) = (&config.nodes, assembly.table()) {
        NodeFile::open(path.clone(), &table).expect("it was written for this");
    }
    let served = assembly.serve(config).await.expect("no backend binds, so no apiserver is needed");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
    let address = listener.local_addr().expect("it is bound");
    let door = Arc::new(Door::new(served, observer));
    tokio::spawn(door::serve(listener, door, std::future::pending()));
    (address, assembly)
}

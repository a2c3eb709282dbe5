//! The gateway, alone on the calling thread.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
};

use extender_gateway::{
    cadences::Cadences,
    cluster::file::NodeFile,
    config::{Config, NodeSource as Source},
    door::{self, Door},
    observe::{Metrics, Observer},
    serve::assembly::Assembly,
};
use extender_harness::gateway::{Configuration, NodeSource};
use tempfile::TempDir;
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
};

use crate::{
    calls::Call,
    configuration::{TIMEOUT, configuration},
    cost::Cost,
    peers::{BACKENDS, Peers},
};

/// Calls before the counted ones: they fill connections, tables and caches.
const WARM_UP: usize = 8;

/// Counted calls.
const COUNTED: usize = 31;

/// The cost of a call, from several repetitions.
pub fn cost_of(call: &'static Call) -> Cost {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let sleep = Arc::new(Sleep::default());
    let peers = Peers::start(call.nodes, Some(Arc::clone(&sleep)));
    let subject = Subject::start(call.source(&folder), peers.backends(), sleep);
    peers.connect(subject.address);
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

struct Subject {
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
    fn run(&self, until: tokio::sync::oneshot::Receiver<()>) -> Cost {
        let before = self.sleep.times();
        let used = allocation_counter::measure(|| {
            let in_time = async { tokio::time::timeout(TIMEOUT, until).await };
            self.runtime.block_on(in_time).expect("it does not take half a minute").expect("the peers live");
        });
        let wakeups = self.sleep.times() - before;
        Cost { allocations: used.count_total, bytes: used.bytes_total, wakeups }
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

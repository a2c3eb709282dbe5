//! A running gateway: the real HTTP server on its own port, with the case's configuration.

use std::{net::SocketAddr, num::NonZeroU32, path::Path, sync::Arc, time::Duration};

use extender_gateway_backend::{remote_table::TableSource, session::Session};
use extender_gateway_cluster::table::NodeTable;
use extender_gateway_door::{self as door, Door};
use extender_gateway_observe::{Metrics, Observer};
use extender_gateway_pace::cadences::Cadences;
use extender_gateway_serve::assembly::Assembly;
use extender_gateway_settings::Config;
use tokio::{
    net::TcpListener,
    time::{sleep, timeout},
};

use super::{
    client::{Answer, Client},
    world::Cluster,
};
use crate::case::{Source, World};

/// Bounds a hang; nothing takes that long.
const TEST_TIMEOUT: Duration = Duration::from_mins(2);

/// Short intervals for what a case needs, and no dependence on the machine's speed.
fn cadences() -> Cadences {
    Cadences {
        start: TEST_TIMEOUT,
        connect: TEST_TIMEOUT,
        handshake: TEST_TIMEOUT,
        refresh: Duration::from_millis(200),
        announced_refresh: Duration::from_millis(200),
        shortest_refresh: Duration::from_millis(20),
        // The search itself finds out whether the cache is correct.
        check_every: NonZeroU32::MAX,
        // What a breaker refuses ends as the call that it saves, so one may open at once.
        breaker_failures: 1,
        // The table is complete before a call.
        unknown_nodes: Duration::from_millis(1),
        early_scores: Duration::from_hours(1),
        ..Cadences::default()
    }
}

/// A gateway with one source of nodes and one of pods. It runs in the test's own runtime.
pub(super) struct Gateway {
    assembly: Assembly,
    door: Arc<Door>,
    client: Client,
    address: SocketAddr,
    offered: Arc<NodeTable>,
    pub(super) cluster: Cluster,
}

impl Gateway {
    pub(super) async fn start(text: &str, world: &World) -> Self {
        let config = read(text);
        let observer = Arc::new(Observer::new(Arc::new(Metrics::new()), 1 << 20));
        let mut assembly = Assembly::new(&config, "equivalence".into(), Arc::clone(&observer), cadences());
        let cluster = Cluster::new(assembly.table(), assembly.offered(), assembly.pods());
        cluster.list(world);
        cluster.list_pods(world);
        tokio::spawn(cluster.clone().follow_pods());
        let served = assembly.serve(&config).await.expect("no backend binds, so no apiserver is needed");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
        let address = listener.local_addr().expect("it is bound");
        let door = Arc::new(Door::new(served, observer));
        tokio::spawn(door::serve(listener, Arc::clone(&door), std::future::pending()));
        let offered = assembly.offered();
        Self { assembly, door, client: Client::connect(address).await, address, offered, cluster }
    }

    /// Applies another configuration, as a reload does.
    pub(super) async fn configure(&mut self, text: &str) {
        let served = self.assembly.serve(&read(text)).await;
        let served = served.expect("no backend binds, so no apiserver is needed");
        self.door.served.store(Arc::new(served));
    }

    /// The total of a counter over all its labels.
    pub(super) fn counted(&self, counter: &str) -> u64 {
        let text = self.door.observer.metrics.text();
        let counts = text.lines().filter(|line| line.starts_with(counter));
        counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Waits until the revision of every backend with cached answers is known.
    pub(super) async fn know(&self, is_latest: impl Fn(&str) -> bool) {
        let forgets = |link: &Session| link.cache.verdicts.is_none() && link.cache.scores.is_none();
        self.wait(|link| forgets(link) || is_latest(&link.info.revision)).await;
    }

    /// Waits until every backend with a node table has all nodes.
    pub(super) async fn filled(&self, source: Source) {
        let version = self.cluster.version();
        self.wait(|link| {
            let view_is_filled = |view| match (source, version) {
                (Source::File, Some(version)) => {
                    let held = link.tables.latest(TableSource::Cluster, view);
                    held.is_some_and(|held| held.rows >= version)
                }
                (Source::Request, _) => link.tables.latest(TableSource::Calls, view).is_some(),
                _ => true,
            };
            !link.info.keeps_tables || link.info.views().all(view_is_filled)
        })
        .await;
    }

    /// Waits until every backend with a node table has the nodes of calls.
    pub(super) async fn brought(&self) {
        let version = self.offered.read().version();
        self.wait(|link| {
            let has_it = |view| {
                let held = link.tables.latest(TableSource::Calls, view);
                held.is_some_and(|held| held.rows >= version)
            };
            self.offered.is_empty() || !link.info.keeps_tables || link.info.views().all(has_it)
        })
        .await;
    }

    /// A separate connection, for a concurrent caller.
    pub(super) async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    /// Replaces the connection. The gateway closes idle ones, and the last case of this gateway can be long ago.
    pub(super) async fn connect_again(&mut self) {
        self.client = self.connect().await;
    }

    async fn wait(&self, holds: impl Fn(&Session) -> bool) {
        let all_hold = || {
            let served = self.door.served.load_full();
            let mut links = served.decider.sessions();
            links.all(|(_, link)| link.is_err() || link.is_ok_and(|link| holds(&link)))
        };
        let waited = async {
            while !all_hold() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(TEST_TIMEOUT, waited).await.expect("backends are told everything soon");
    }

    pub(super) async fn post(&mut self, path: &str, body: String) -> Answer {
        self.client.post(path, body).await
    }
}

fn read(text: &str) -> Config {
    Config::parse(text, Path::new(".")).unwrap_or_else(|mistakes| unreachable!("{mistakes}\n{text}"))
}

//! The real HTTP server on port 0, in front of scripted backends on real sockets.

pub(crate) mod admin;
pub(crate) mod apiserver;
pub(crate) mod backend;
pub(crate) mod binding;
pub(crate) mod certificates;
pub(crate) mod frames;
pub(crate) mod function;
pub(crate) mod http;
pub(crate) mod preempting;
pub(crate) mod program;
pub(crate) mod reading;
pub(crate) mod relay;
pub(crate) mod reviewer;
pub(crate) mod sdk;
pub(crate) mod secured;
pub(crate) mod written;

use std::{num::NonZeroU32, path::Path, sync::Arc, time::Duration};

use extender_gateway_backend::resolver::{Resolve, SystemResolver};
use extender_gateway_cluster::{pods::PodTable, table::NodeTable};
use extender_gateway_door::{self as door, Door, Entrance, Tls};
use extender_gateway_observe::{Metrics, Observer};
use extender_gateway_pace::cadences::Cadences;
use extender_gateway_serve::assembly::Assembly;
use extender_gateway_settings::Config;
use tokio::{
    net::{TcpListener, TcpSocket, UnixListener},
    task::yield_now,
    time::timeout,
};

/// Waits until a condition holds, and panics with `what` if it does not for [`TEST_TIMEOUT`].
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let there = async {
        while !is_so() {
            yield_now().await;
        }
    };
    ended(what, there).await;
}

/// The result of a future. Panics with `what` if it does not end within [`TEST_TIMEOUT`].
pub(crate) async fn ended<T>(what: &str, future: impl Future<Output = T>) -> T {
    timeout(TEST_TIMEOUT, future).await.unwrap_or_else(|_| panic!("{what}"))
}

/// A gateway that runs in the test's own runtime.
pub(crate) struct Gateway {
    pub(crate) address: std::net::SocketAddr,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) observer: Arc<Observer>,
    pub(crate) table: Arc<NodeTable>,
    pub(crate) pods: Option<Arc<PodTable>>,
    pub(crate) door: Arc<Door>,
    /// Ends when the server is closed and the last call answered.
    pub(crate) served: tokio::task::JoinHandle<()>,
}

impl Gateway {
    /// Waits until the metrics contain this text. Panics with the case and all metrics if they do not within
    /// [`TEST_TIMEOUT`].
    pub(crate) async fn until_counted(&self, case: &str, text: &str) {
        let counted = async {
            while !self.metrics.text().contains(text) {
                yield_now().await;
            }
        };
        let is_counted = timeout(TEST_TIMEOUT, counted).await.is_ok();
        assert!(is_counted, "{case}: no {text}\n{}", self.metrics.text());
    }

    /// Starts one with `nodes` and `backends` of a configuration, and waits until every backend was tried.
    pub(crate) async fn start(rest: &str) -> Self {
        Self::start_as("", rest, std::future::pending()).await
    }

    /// Starts one with these further fields of `extender`, which serves until `stop` ends.
    pub(crate) async fn start_as(
        extender: &str,
        rest: &str,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self::start_with(configuration(extender, rest), stop).await
    }

    /// Starts one with `nodes` and `backends` of a configuration, and these cadences.
    pub(crate) async fn start_paced(rest: &str, cadences: Cadences) -> Self {
        Self::start_as_paced("", rest, cadences).await
    }

    /// The same with these further fields of `extender`.
    pub(crate) async fn start_as_paced(extender: &str, rest: &str, cadences: Cadences) -> Self {
        let parts = Parts { cadences, ..Parts::of(observer()) };
        Self::start_in_full(configuration(extender, rest), parts, std::future::pending()).await
    }

    /// The same with another resolver of the backends' hosts.
    pub(crate) async fn start_resolving(rest: &str, cadences: Cadences, resolver: Arc<dyn Resolve>) -> Self {
        let parts = Parts { observer: observer(), cadences, resolver };
        Self::start_in_full(configuration("", rest), parts, std::future::pending()).await
    }

    /// Starts one with this configuration, including its addresses.
    pub(crate) async fn start_with(config: Config, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        Self::start_in_full(config, Parts::of(observer()), stop).await
    }

    /// Starts one with this configuration, whose calls are reported to this observer.
    pub(crate) async fn start_seen(config: Config, observer: Observer) -> Self {
        Self::start_in_full(config, Parts::of(observer), std::future::pending()).await
    }

    async fn start_in_full(
        config: Config,
        Parts { observer, cadences, resolver }: Parts,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let (metrics, observer) = (Arc::clone(&observer.metrics), Arc::new(observer));
        let assembly = Assembly::new(&config, "test".into(), Arc::clone(&observer), cadences);
        let mut assembly = assembly.resolving(resolver);
        let table = assembly.table().unwrap_or_default();
        table.replace(table.relist());
        let pods = assembly.pods();
        if let Some(pods) = &pods {
            pods.replace(pods.relist());
            tokio::spawn(count(Arc::clone(pods), [Arc::clone(&table), assembly.offered()]));
        }
        let served = assembly.serve(&config).await.unwrap_or_else(|error| panic!("{error}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let door = Arc::new(Door::new(served, Arc::clone(&observer)));
        tokio::spawn(async move { panic!("{}", assembly.panicked().await) });
        let tls = config.extender.tls.map(|tls| Arc::new(Tls::open(tls).unwrap()));
        let socket = config.extender.socket.map(|path| UnixListener::bind(path).unwrap());
        let served = tokio::spawn(door::serve(Entrance { listener, tls, socket }, Arc::clone(&door), stop));
        Self { address, metrics, observer, table, pods, door, served }
    }

    /// Posts a body and returns the answer.
    pub(crate) async fn post(&self, path: &str, body: impl AsRef<[u8]>) -> http::Answer {
        http::Client::connect(self.address).await.post(path, body.as_ref()).await
    }
}

/// What a gateway is made of besides its configuration.
struct Parts {
    observer: Observer,
    cadences: Cadences,
    resolver: Arc<dyn Resolve>,
}

impl Parts {
    fn of(observer: Observer) -> Self {
        Self { observer, cadences: steady(), resolver: Arc::new(SystemResolver) }
    }
}

/// What the background thread does after each change of pods.
async fn count(pods: Arc<PodTable>, tables: [Arc<NodeTable>; 2]) {
    loop {
        pods.follow_views(tables.iter().map(|table| &**table));
        pods.pass_on(tables.iter().map(|table| &**table));
        pods.usage_changed().await;
    }
}

fn observer() -> Observer {
    Observer::new(Arc::new(Metrics::new()), 16 << 20)
}

/// An address that is taken and not listened on: connections are refused, and no other process gets it.
pub(crate) struct ClosedPort {
    pub(crate) address: std::net::SocketAddr,
    _socket: TcpSocket,
}

impl ClosedPort {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self { address: socket.local_addr().unwrap(), _socket: socket }
    }
}

/// As if this much time had passed.
pub(crate) async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Bounds a hang; nothing takes that long.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_mins(2);

/// The cadences of tests that do not depend on them: on a slow machine no handshake fails and no cache entry
/// expires, and on a fast one there are no checks and no pod backs off.
pub(crate) fn steady() -> Cadences {
    Cadences {
        start: TEST_TIMEOUT,
        connect: TEST_TIMEOUT,
        handshake: TEST_TIMEOUT,
        probe: Duration::from_hours(1),
        check_every: NonZeroU32::MAX,
        early_scores: Duration::from_hours(1),
        refusals: Duration::ZERO,
        first_reasons: Duration::from_hours(1),
        ..Cadences::default()
    }
}

/// The same with handshakes one after the other, for tests that wait for the result of one.
pub(crate) fn eager() -> Cadences {
    let refresh = Duration::from_millis(10);
    Cadences { refresh, announced_refresh: refresh, shortest_refresh: Duration::from_millis(5), ..steady() }
}

/// The same with a check at every tenth call that the cache could answer.
pub(crate) fn checking() -> Cadences {
    Cadences { check_every: NonZeroU32::new(10).unwrap(), ..steady() }
}

/// A configuration with these further fields of `extender`, and with `nodes` and `backends`.
pub(crate) fn configuration(extender: &str, rest: &str) -> Config {
    // A minute for every call whose budget the test does not set.
    let timeouts = if rest.contains("timeouts:") { "" } else { "timeouts: {decision: 60s, bind: 60s}\n" };
    let yaml = format!(
        "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n\
         extender: {{address: 127.0.0.1:0, maxRequestBytes: 1Mi{extender}}}\n\
         metrics: {{address: 127.0.0.1:0}}\nadmin: {{address: 127.0.0.1:0}}\n{timeouts}{rest}"
    );
    let config = Config::parse(&yaml, Path::new("."));
    unhurried(config.unwrap_or_else(|mistakes| panic!("{mistakes}\n{yaml}")))
}

/// The same with the whole budget in place of every timeout that a test leaves at its default.
fn unhurried(mut config: Config) -> Config {
    let at_default = |timeout: &mut Duration, default: Duration, most: Duration| {
        if *timeout == default {
            *timeout = most;
        }
    };
    let timeouts = config.timeouts;
    for backend in &mut config.backends {
        let filter = backend.filter.as_mut().map(|verb| &mut verb.timeout);
        let score = backend.score.as_mut().map(|verb| &mut verb.timeout);
        let preempt = backend.preempt.as_mut().map(|verb| &mut verb.timeout);
        let before_filter = backend.before_filter.as_mut().map(|hook| &mut hook.timeout);
        let before_filter_nodes = backend.before_filter_nodes.as_mut().map(|hook| &mut hook.timeout);
        let before_score = backend.before_score.as_mut().map(|hook| &mut hook.timeout);
        let hooks = [before_filter, before_filter_nodes, before_score];
        for timeout in [filter, score, preempt].into_iter().chain(hooks).flatten() {
            at_default(timeout, Duration::from_millis(200), timeouts.decision);
        }
        if let Some(bind) = &mut backend.bind {
            at_default(&mut bind.timeout, Duration::from_secs(5), timeouts.bind);
        }
    }
    config
}

/// A request in names mode about a pod of namespace `shop`.
pub(crate) fn by_name(names: &[&str]) -> String {
    serde_json::json!({"Pod": pod(), "Nodes": null, "NodeNames": names}).to_string()
}

/// A request with full objects.
pub(crate) fn in_full(names: &[&str]) -> String {
    let items: Vec<_> = names.iter().map(|name| node(name)).collect();
    serde_json::json!({"Pod": pod(), "Nodes": {"metadata": {}, "items": items}, "NodeNames": null})
        .to_string()
}

pub(crate) fn pod() -> serde_json::Value {
    serde_json::json!({"metadata": {"name": "web-0", "namespace": "shop", "uid": "u-1", "labels": {"app": "web"}}})
}

pub(crate) fn node(name: &str) -> serde_json::Value {
    serde_json::json!({"metadata": {"name": name, "labels": {"name": name}}, "status": {"allocatable": {"cpu": "2"}}})
}

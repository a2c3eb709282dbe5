//! The real door on port 0, in front of scripted backends on real sockets.

pub(crate) mod admin;
pub(crate) mod apiserver;
pub(crate) mod backend;
pub(crate) mod binding;
pub(crate) mod certificates;
pub(crate) mod function;
pub(crate) mod http;
pub(crate) mod preempting;
pub(crate) mod program;
pub(crate) mod relay;
pub(crate) mod sdk;
pub(crate) mod secured;
pub(crate) mod written;

use std::{path::Path, sync::Arc};

use extender_gateway::{
    cluster::{pods::PodTable, table::NodeTable},
    config::Config,
    door::{self, Door, Entrance, Tls},
    observe::{Metrics, Observer},
    serve::assembly::Assembly,
};
use tokio::net::TcpListener;

/// A gateway that runs in the test's own runtime.
pub(crate) struct Gateway {
    pub(crate) address: std::net::SocketAddr,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) observer: Arc<Observer>,
    pub(crate) table: Arc<NodeTable>,
    pub(crate) pods: Option<Arc<PodTable>>,
    pub(crate) door: Arc<Door>,
    /// Ends when the door is closed and the last call answered.
    pub(crate) served: tokio::task::JoinHandle<()>,
}

impl Gateway {
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

    /// Starts one with this configuration, whatever its addresses are.
    pub(crate) async fn start_with(config: Config, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        Self::start_seen(config, Observer::new(Arc::new(Metrics::new()), 16 << 20), stop).await
    }

    /// Starts one with this configuration, of whose calls this observer is told.
    pub(crate) async fn start_seen(
        config: Config,
        observer: Observer,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let (metrics, observer) = (Arc::clone(&observer.metrics), Arc::new(observer));
        let mut assembly = Assembly::new(&config, "test".into(), Arc::clone(&observer));
        let table = assembly.table().unwrap_or_default();
        table.replace(table.relist());
        let pods = assembly.pods();
        let served = assembly.serve(&config).await.unwrap_or_else(|error| panic!("{error}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let door = Arc::new(Door::new(served, Arc::clone(&observer)));
        tokio::spawn(async move { panic!("{}", assembly.panicked().await) });
        let tls = config.extender.tls.map(|tls| Arc::new(Tls::open(tls).unwrap()));
        let served = tokio::spawn(door::serve(Entrance { listener, tls }, Arc::clone(&door), stop));
        Self { address, metrics, observer, table, pods, door, served }
    }

    /// Posts a body and returns the answer.
    pub(crate) async fn post(&self, path: &str, body: impl AsRef<[u8]>) -> http::Answer {
        http::Client::connect(self.address).await.post(path, body.as_ref()).await
    }
}

/// A configuration with these further fields of `extender`, and with `nodes` and `backends`.
pub(crate) fn configuration(extender: &str, rest: &str) -> Config {
    let yaml = format!(
        "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n\
         extender: {{address: 127.0.0.1:0, maxRequestBytes: 1Mi{extender}}}\n\
         metrics: {{address: 127.0.0.1:0}}\nadmin: {{address: 127.0.0.1:0}}\n{rest}"
    );
    Config::parse(&yaml, Path::new(".")).unwrap_or_else(|mistakes| panic!("{mistakes}\n{yaml}"))
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

//! The state of the gateway, assembled for each request.

mod backend;
mod problems;

use extender_gateway_core::Verb;
use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    api::{API_VERSION, ConfigurationStatus, Status, TableStatus, VerbFailure, VerbStatus},
    cluster::{SourceHealth, pods::PodTable, table::NodeTable},
    config::NodeSource,
    door::Door,
    observe::{Health, Metrics, Observer, metrics::Gauge},
};

/// The sources of the gateway's status.
#[derive(Debug)]
pub struct GatewayStatus {
    gateway: Arc<str>,
    started: Timestamp,
    file: String,
    source: NodeSource,
    table: Option<Arc<NodeTable>>,
    pods: Arc<PodTable>,
    health: Arc<Health>,
    door: OnceLock<Arc<Door>>,
    loaded: Mutex<Loaded>,
}

/// The configuration in use, and a rejected one.
#[derive(Debug)]
struct Loaded {
    since: Timestamp,
    refused: Option<VerbFailure>,
}

/// The initial sources of a [`GatewayStatus`].
#[derive(Debug)]
pub struct StatusSources {
    /// The name of this replica.
    pub gateway: Arc<str>,
    /// The configuration file.
    pub file: String,
    /// The source of nodes.
    pub source: NodeSource,
    /// The node table, if a watch or a file fills it.
    pub table: Option<Arc<NodeTable>>,
    /// The pod table, which a watch may fill.
    pub pods: Arc<PodTable>,
    /// Whether calls are accepted.
    pub health: Arc<Health>,
}

impl GatewayStatus {
    /// The status of a gateway that is starting.
    pub fn new(known: StatusSources) -> Self {
        let StatusSources { gateway, file, source, table, pods, health } = known;
        let started = Timestamp::now();
        let loaded = Mutex::new(Loaded { since: started, refused: None });
        Self { gateway, started, file, source, table, pods, health, door: OnceLock::new(), loaded }
    }

    /// The name of this replica.
    pub fn gateway(&self) -> &str {
        &self.gateway
    }

    /// Records that calls are accepted at this door from now on.
    pub fn open(&self, door: &Arc<Door>) {
        // There is only one door.
        let _ = self.door.set(Arc::clone(door));
    }

    /// Records that another configuration is in use.
    pub fn loaded(&self) {
        *self.loaded.lock() = Loaded { since: Timestamp::now(), refused: None };
    }

    /// Records that a change of the configuration was rejected.
    pub fn refused(&self, why: String) {
        self.loaded.lock().refused = Some(VerbFailure { time: Timestamp::now(), message: why });
    }

    /// Records that the configuration file matches the configuration in use again.
    pub fn unchanged(&self) {
        self.loaded.lock().refused = None;
    }

    /// When the configuration in use was loaded.
    pub fn loaded_at(&self) -> Timestamp {
        self.loaded.lock().since
    }

    /// Registers the gauges of the status.
    pub fn gauges(self: &Arc<Self>, metrics: &Metrics) {
        let known = |gauge, value: fn(&Self) -> Option<f64>| {
            let gateway_status = Arc::downgrade(self);
            metrics.gauge(gauge, move || value(&*gateway_status.upgrade()?));
        };
        known(Gauge::KnownNodes, |it| it.table.as_ref().map(|table| float(table.len())));
        known(Gauge::NodesSynced, |it| it.table.as_ref().map(|table| f64::from(u8::from(table.is_synced()))));
        known(Gauge::NodesSilence, |it| it.table.as_ref().and_then(|table| silence(&table.source_health)));
        known(Gauge::KnownPods, |it| it.pods.is_synced().then(|| float(it.pods.len())));
        known(Gauge::PodsSynced, |it| it.pods.is_synced().then_some(1.0));
        known(Gauge::PodsSilence, |it| silence(&it.pods.source_health));
        known(Gauge::ConfigurationGeneration, |it| {
            Some(float(usize::try_from(it.door.get()?.served.load().generation).unwrap_or_default()))
        });
        known(Gauge::ConfigurationLoaded, |it| Some(it.loaded_at().as_duration().as_secs_f64()));
        let gateway_status = Arc::downgrade(self);
        metrics.connected(move || {
            gateway_status.upgrade().map_or_else(Vec::new, |gateway_status| gateway_status.connected())
        });
    }

    /// Each backend that is called, and whether its connection has a successful handshake.
    fn connected(&self) -> Vec<(String, bool)> {
        let Some(door) = self.door.get() else { return Vec::new() };
        let served = door.served.load_full();
        served.decider.sessions().map(|(settings, link)| (settings.name.to_string(), link.is_ok())).collect()
    }

    /// The status; `None` before calls are accepted.
    pub fn status(&self, observer: &Observer) -> Option<Status> {
        let served = self.door.get()?.served.load_full();
        let configuration = {
            let loaded = self.loaded.lock();
            ConfigurationStatus {
                file: self.file.clone(),
                generation: served.generation,
                digest: served.config.digest(),
                loaded: loaded.since,
                refused: loaded.refused.clone(),
            }
        };
        let mut status = Status {
            api_version: API_VERSION.to_owned(),
            kind: "Status".to_owned(),
            gateway: self.gateway.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.started,
            ready: self.health.is_ready(),
            configuration,
            verbs: Verb::ALL.into_iter().map(|verb| of_verb(observer, verb)).collect(),
            backends: backend::all(&served, observer),
            nodes: self.nodes(),
            pods: self.pods.is_synced().then(|| self.watched_pods()),
            log: observer.decisions.state(),
            traces: observer.tracer.as_ref().map(|tracer| delivered(&tracer.delivery())),
            problems: Vec::new(),
        };
        status.problems = problems::of(&status, &served.config, (self, observer));
        Some(status)
    }

    fn nodes(&self) -> TableStatus {
        let source = match self.source {
            NodeSource::Watch => "Watch",
            NodeSource::Request => "Request",
            NodeSource::File { .. } => "File",
            NodeSource::NamesOnly => "NamesOnly",
        };
        let silence = self.table.as_ref().and_then(|table| silence(&table.source_health));
        TableStatus {
            source: source.to_owned(),
            count: self.table.as_ref().map_or(0, |table| table.len() as u64),
            synced: self.table.as_ref().is_none_or(|table| table.is_synced()),
            silent_seconds: silence,
        }
    }

    fn watched_pods(&self) -> TableStatus {
        TableStatus {
            source: "Watch".to_owned(),
            count: self.pods.len() as u64,
            synced: self.pods.is_synced(),
            silent_seconds: silence(&self.pods.source_health),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
fn float(count: usize) -> f64 {
    count as f64
}

fn silence(source_health: &SourceHealth) -> Option<f64> {
    source_health.silence().map(|silence| silence.as_secs_f64())
}

fn of_verb(observer: &Observer, verb: Verb) -> VerbStatus {
    let metrics = observer.metrics.verb(Some(verb));
    let lately = metrics.lately();
    let seconds = |time: Option<std::time::Duration>| time.map(|time| time.as_secs_f64());
    VerbStatus {
        verb: verb.name().to_owned(),
        calls: metrics.calls(),
        failed: metrics.failures(),
        median_seconds: seconds(lately.and_then(|lately| lately.median)),
        p99_seconds: seconds(lately.and_then(|lately| lately.p99)),
        last: observer.latest.of(verb),
    }
}

fn delivered(delivery: &extender_otlp::Delivery) -> String {
    let extender_otlp::Delivery { waiting, delivered, failed, dropped, .. } = delivery;
    format!("{delivered} spans delivered, {waiting} waiting, {failed} failed, {dropped} dropped")
}

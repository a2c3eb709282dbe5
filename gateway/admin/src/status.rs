//! The state of the gateway, assembled for each request.

mod problems;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, OnceLock},
    time::Duration,
};

use extender_gateway_api::{
    API_VERSION, AddressStatus, BackendStatus, BackendVerb, CertificateStatus, CircuitState, CircuitStatus,
    ConfigurationStatus, ControllersStatus, ExcessiveRejectionsStatus, Handshake, LostLogLines, ReadsStatus,
    RejectedBecause, RejectedChange, ShadowStatus, Status, TableStatus, UnresolvedStatus, UntriedPods,
    VerbStatus, WaitingStatus,
};
use extender_gateway_backend::{Backend, breaker::OpenBreaker, endpoints::AddressState, info::Info};
use extender_gateway_cluster::{SourceHealth, pods::PodTable, table::NodeTable};
use extender_gateway_core::{PolicyVerb, Verb};
use extender_gateway_decide::overrides::{ExcessiveRejections, Overrides};
use extender_gateway_door::{Door, Served};
use extender_gateway_observe::{
    Health, Metrics, Observer, log,
    metrics::{BackendState, RecentSummary, Source},
    waiting::WaitingSummary,
};
use extender_gateway_settings::{BackendSettings, Choice, Mode, NodeSource, Requeueing};
use extender_gateway_tls::{CertificateFile, Certificates, Validity};

use crate::overrides::override_status;
use jiff::Timestamp;
use parking_lot::Mutex;

/// The gateway's status.
#[derive(Debug)]
pub struct GatewayStatus {
    sources: StatusSources,
    started: Timestamp,
    door: OnceLock<Arc<Door>>,
    loaded: Mutex<Loaded>,
}

/// The configuration in use, and a rejected one.
#[derive(Clone, Debug)]
struct Loaded {
    since: Timestamp,
    refused: Option<RejectedChange>,
}

/// The sources of a [`GatewayStatus`] from the start.
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
    /// The exempt namespaces if the configuration does not name them.
    pub exempt: BTreeSet<String>,
    /// The certificate files.
    pub certificates: Arc<Certificates>,
    /// Whether calls are accepted.
    pub health: Arc<Health>,
}

impl GatewayStatus {
    /// The status of a gateway that is starting.
    pub fn new(sources: StatusSources) -> Self {
        let started = Timestamp::now();
        let loaded = Mutex::new(Loaded { since: started, refused: None });
        Self { sources, started, door: OnceLock::new(), loaded }
    }

    /// The name of this replica.
    pub fn gateway(&self) -> &str {
        &self.sources.gateway
    }

    /// Records that calls are accepted at this door from now on.
    pub fn open(&self, door: &Arc<Door>) {
        // There is only one door.
        let _ = self.door.set(Arc::clone(door));
    }

    /// Records that another configuration is in use.
    pub fn record_load(&self) {
        *self.loaded.lock() = Loaded { since: Timestamp::now(), refused: None };
    }

    /// Records that a change of the configuration was rejected.
    pub fn record_refusal(&self, message: String, because: RejectedBecause) {
        self.loaded.lock().refused = Some(RejectedChange { time: Timestamp::now(), message, because });
    }

    /// Records that the configuration file matches the configuration in use again. Returns whether a change was rejected before.
    pub fn take_refusal(&self) -> bool {
        self.loaded.lock().refused.take().is_some()
    }

    /// Registers the gauges of the status.
    pub fn register_gauges(self: &Arc<Self>, metrics: &Metrics) {
        let metrics = metrics.process();
        self.register(&metrics.known_nodes, |it| Some(float(it.table()?.len())));
        self.register(&metrics.nodes_synced, |it| Some(flag(it.table()?.is_synced())));
        self.register(&metrics.nodes_watch_failing, |it| Some(is_failing(&it.table()?.source_health)));
        self.register(&metrics.pods_watch_failing, |it| Some(is_failing(&it.pods()?.source_health)));
        self.register(&metrics.nodes_silence, |it| silence(&it.table()?.source_health));
        self.register(&metrics.unreadable_nodes, |it| Some(float(it.table()?.unreadable.count())));
        self.register(&metrics.unreadable_pods, |it| Some(float(it.pods()?.unreadable.count())));
        self.register(&metrics.reduced_pods, |it| Some(float(it.pods()?.reduced())));
        self.register(&metrics.known_pods, |it| Some(float(it.pods()?.len())));
        self.register(&metrics.pods_synced, |it| it.pods().map(|_| 1.0));
        self.register(&metrics.pods_silence, |it| silence(&it.sources.pods.source_health));
        self.register(&metrics.configuration_generation, |it| {
            Some(float(usize::try_from(it.served()?.generation).unwrap_or_default()))
        });
        self.register(&metrics.configuration_loaded, |it| {
            Some(it.loaded.lock().since.as_duration().as_secs_f64())
        });
        self.register(&metrics.configuration_rejected, |it| Some(flag(it.loaded.lock().refused.is_some())));
        self.register(&metrics.oldest_untried_pod, |it| {
            let oldest = it.pods()?.untried.summary(Duration::ZERO).map(|untried| untried.oldest);
            Some(oldest.unwrap_or_default().as_secs_f64())
        });
        self.register(&metrics.certificates, Self::certificate_ends);
        self.register(&metrics.overrides, Self::override_ends);
        self.register(&metrics.reject_limits, Self::reject_limits);
        self.register(&metrics.backends, Self::backend_states);
    }

    fn register<T: Default + 'static>(self: &Arc<Self>, gauge: &Source<T>, value: fn(&Self) -> T) {
        let status = Arc::downgrade(self);
        gauge.set(move || status.upgrade().map_or_else(T::default, |status| value(&status)));
    }

    /// The state of each backend that is called, by its name.
    fn backend_states(&self) -> Vec<(String, BackendState)> {
        let Some(door) = self.door.get() else { return Vec::new() };
        let (served, waiting) = (door.served.load_full(), self.refresh_waiting(&door.observer));
        let state = |backend: &Backend| {
            let settings = &backend.settings;
            let waiting = waiting.get(settings.name.as_str());
            let addresses = backend.addresses();
            let breakers = || addresses.iter().flat_map(|address| &address.open_breakers);
            let open = |verb| breakers().filter(|(open, _)| *open == verb).count();
            let state = BackendState {
                open_circuits: settings
                    .verbs()
                    .map(|verb| (verb, u32::try_from(open(verb)).unwrap_or(u32::MAX)))
                    .collect(),
                connected: backend.connected_since().map(|since| since.as_duration().as_secs_f64()),
                rejects_configuration: rejected_configuration(&addresses).is_some(),
                addresses: u32::try_from(connected(&addresses)).unwrap_or(u32::MAX),
                waiting_calls: u32::try_from(backend.waiting_calls()).unwrap_or(u32::MAX),
                waiting_pods: waiting.map_or(0, |waiting| waiting.pods),
                waiting_workloads: waiting.map_or(0, |waiting| waiting.workloads),
                oldest_waiting_pod: waiting.map_or(0.0, |waiting| waiting.oldest.as_secs_f64()),
            };
            (settings.name.to_string(), state)
        };
        served.decider.backends().map(state).collect()
    }

    /// The backend and mode of each override that applies, and the Unix time at which it ends.
    fn override_ends(&self) -> Vec<([String; 2], f64)> {
        let Some(served) = self.served() else { return Vec::new() };
        let names = served.config.backends.iter().map(|backend| backend.name.as_str());
        let end = |name: &str| {
            let found = served.decider.overrides().find(name)?;
            Some(([name.to_owned(), found.mode.word().to_owned()], found.ends.as_duration().as_secs_f64()))
        };
        names.filter_map(end).collect()
    }

    /// Each backend with a limit of rejections, and whether it is over it.
    fn reject_limits(&self) -> Vec<(String, bool)> {
        let Some(served) = self.served() else { return Vec::new() };
        let limited = served.config.backends.iter().filter(|backend| backend.max_reject_share.is_some());
        let excess = |backend: &BackendSettings| {
            let excess = served.decider.overrides().excessive_rejections(backend);
            (backend.name.to_string(), excess.is_some())
        };
        limited.map(excess).collect()
    }

    /// The field and file of each certificate file, and the Unix time at which it ceases to be valid.
    fn certificate_ends(&self) -> Vec<([String; 2], f64)> {
        let ends = |(file, validity): (CertificateFile, Validity)| {
            let labels = [file.field, file.path.display().to_string()];
            (labels, validity.ends.as_duration().as_secs_f64())
        };
        self.sources.certificates.all().into_iter().map(ends).collect()
    }

    /// The pods that wait because of each backend.
    fn refresh_waiting(&self, observer: &Observer) -> BTreeMap<String, WaitingSummary> {
        observer.waiting.refresh(&self.sources.pods);
        observer.waiting.by_backend()
    }

    /// The pods that wait although what held them has changed.
    pub fn refresh_untried(&self, observer: &Observer) -> Option<UntriedPods> {
        observer.waiting.refresh(&self.sources.pods);
        let (pods, changed) = observer.waiting.untried()?;
        let requeue = self.served()?.config.requeue;
        Some(UntriedPods {
            pods,
            changed_seconds: changed.as_secs(),
            is_requeued: requeue == Requeueing::PodCondition,
        })
    }

    /// The node table, if a watch or a file fills it.
    fn table(&self) -> Option<&NodeTable> {
        self.sources.table.as_deref()
    }

    /// The pod table, once a watch has filled it.
    fn pods(&self) -> Option<&PodTable> {
        Some(&*self.sources.pods).filter(|pods| pods.is_synced())
    }

    /// The configuration in use; `None` before calls are accepted.
    pub fn served(&self) -> Option<Arc<Served>> {
        Some(self.door.get()?.served.load_full())
    }

    /// The status; `None` before calls are accepted.
    pub fn status(&self, observer: &Observer) -> Option<Status> {
        let served = self.door.get()?.served.load_full();
        let Loaded { since, refused } = self.loaded.lock().clone();
        let mut status = Status {
            api_version: API_VERSION.to_owned(),
            kind: "Status".to_owned(),
            gateway: self.sources.gateway.to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.started,
            time: Some(Timestamp::now()),
            ready: self.sources.health.check_ready(),
            configuration: ConfigurationStatus {
                file: self.sources.file.clone(),
                generation: served.generation,
                digest: served.summary.digest.clone(),
                settings: served.summary.settings.clone(),
                loaded: since,
                refused,
            },
            verbs: Verb::ALL.into_iter().map(|verb| verb_status(observer, verb)).collect(),
            backends: self.backends(&served, observer),
            nodes: self.nodes(),
            pods: self.pods().map(|pods| TableStatus {
                source: "Watch".to_owned(),
                count: pods.len() as u64,
                synced: true,
                silent_seconds: silence(&pods.source_health),
            }),
            requeue: served.config.requeue.word().to_owned(),
            requeued_pods: observer.metrics.process().requeued_pods.sum(|[outcome]| outcome == "ok"),
            untried: self.refresh_untried(observer),
            waiting: observer.waiting.groups(),
            shadows: self.shadows(&served, observer),
            log: observer.decisions.state(),
            lost_log_lines: log::last_lost().map(|last| LostLogLines { lines: log::lost(), last }),
            traces: observer.tracer.as_ref().map(|tracer| delivered(&tracer.delivery())),
            certificates: self.certificates(),
            overrides: served.decider.overrides().all().into_iter().map(override_status).collect(),
            problems: Vec::new(),
        };
        status.problems = problems::of(&status, &served.config, self, observer);
        Some(status)
    }

    /// Reads the decision log only if a backend may have been in shadow mode.
    fn shadows(&self, served: &Served, observer: &Observer) -> Vec<ShadowStatus> {
        let in_shadow = |backend: &BackendSettings| backend.mode == Mode::Shadow || backend.canary.is_some();
        let is_overridden = !served.decider.overrides().all().is_empty();
        if !is_overridden && !served.config.backends.iter().any(in_shadow) {
            return Vec::new();
        }
        let node = |uid: &str| Some(self.pods()?.get(uid)?.node.clone()).filter(|node| !node.is_empty());
        observer.decisions.shadows(node)
    }

    fn certificates(&self) -> Vec<CertificateStatus> {
        let status = |(file, validity): (CertificateFile, Validity)| CertificateStatus {
            field: file.field,
            file: file.path.display().to_string(),
            name: validity.name,
            not_after: validity.ends,
        };
        self.sources.certificates.all().into_iter().map(status).collect()
    }

    fn nodes(&self) -> TableStatus {
        let table = self.table();
        TableStatus {
            source: self.sources.source.word().to_owned(),
            count: table.map_or(0, |table| table.len() as u64),
            synced: table.is_none_or(NodeTable::is_synced),
            silent_seconds: table.and_then(|table| silence(&table.source_health)),
        }
    }

    /// All configured backends, with those that are called first, in effective order.
    fn backends(&self, served: &Served, observer: &Observer) -> Vec<BackendStatus> {
        let (overrides, waiting) = (served.decider.overrides(), self.refresh_waiting(observer));
        let status = |settings: &BackendSettings, called: Option<&Backend>| BackendStatus {
            overridden: overrides.find(settings.name.as_str()).map(override_status),
            excessive_rejections: excessive_rejections(overrides, settings),
            waiting: waiting.get(settings.name.as_str()).map(waiting_status),
            ..self.backend(settings, called, observer)
        };
        let called = served.decider.backends().map(|backend| status(&backend.settings, Some(backend)));
        let disabled = served.config.backends.iter().filter(|backend| backend.mode == Mode::Disabled);
        called.chain(disabled.map(|settings| status(settings, None))).collect()
    }

    /// A backend without what calls have made of it.
    fn backend(
        &self,
        settings: &BackendSettings,
        called: Option<&Backend>,
        observer: &Observer,
    ) -> BackendStatus {
        let (session, failure) = match called.map(Backend::any_session).transpose() {
            Ok(session) => (session, None),
            Err(failure) => (None, Some(failure.detail)),
        };
        let addresses = called.map(Backend::addresses).unwrap_or_default();
        let several = if addresses.len() > 1 { addresses.as_slice() } else { &[] };
        let unresolved = called.and_then(Backend::stale_addresses);
        let info = session.as_ref().map(|session| &session.info);
        let mut verbs: Vec<_> =
            settings.verbs().map(|verb| backend_verb(settings, verb, info, &addresses, observer)).collect();
        if let (Some(info), Some(table)) = (info, self.table()) {
            // A label that no node has is often why a backend rejects everything.
            for verb in verbs.iter_mut().filter(|verb| verb.rejects_all.is_some()) {
                verb.missing_labels = table.labels_of_no_node(info.filtered_labels());
            }
        }
        BackendStatus {
            name: settings.name.to_string(),
            url: settings.url.to_string(),
            mode: settings.mode.word().to_owned(),
            overridden: None,
            canary_percent: settings.canary.map(|canary| canary.percent.value()),
            excessive_rejections: None,
            matches: settings.matches.to_string(),
            connected: session.is_some(),
            connected_since: called.and_then(Backend::connected_since),
            unresolved: unresolved.map(|(lasted, failure)| UnresolvedStatus {
                seconds: lasted.as_secs(),
                failure: failure.detail,
            }),
            outages: observer.metrics.backend(settings.name.as_str()).outages.get(),
            controllers: controllers(&addresses),
            waiting: None,
            failure,
            rejected_configuration: rejected_configuration(&addresses),
            handshake: session.as_ref().map(|session| Handshake {
                name: session.info.name.clone(),
                version: session.info.version.clone(),
                revision: session.info.revision.clone(),
                holds_nodes: session.info.keeps_tables,
                filters_by_bound_pods: session.info.filters_by_bound_pods(),
                changes_too_often: session.is_outdated(),
            }),
            verbs,
            addresses: several.iter().map(address_status).collect(),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
fn float(count: usize) -> f64 {
    count as f64
}

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

fn silence(source_health: &SourceHealth) -> Option<f64> {
    source_health.silence().map(|silence| silence.as_secs_f64())
}

fn is_failing(source_health: &SourceHealth) -> f64 {
    flag(source_health.failing().is_some())
}

fn verb_status(observer: &Observer, verb: Verb) -> VerbStatus {
    let metrics = observer.metrics.verb(Some(verb));
    let recent = metrics.recent();
    VerbStatus {
        verb: verb.name().to_owned(),
        calls: metrics.calls(),
        failed: metrics.failures(),
        median_seconds: recent.as_ref().and_then(|recent| recent.median_seconds),
        p99_seconds: recent.as_ref().and_then(|recent| recent.p99_seconds),
        last: metrics.last(),
        refused: metrics.refused(),
    }
}

fn delivered(delivery: &extender_otlp::Delivery) -> String {
    let extender_otlp::Delivery { waiting, delivered, failed, dropped, .. } = delivery;
    format!("{delivered} spans delivered, {waiting} waiting, {failed} failed, {dropped} dropped")
}

fn excessive_rejections(
    overrides: &Overrides,
    settings: &BackendSettings,
) -> Option<ExcessiveRejectionsStatus> {
    let most = settings.max_reject_share.as_ref()?.share.share();
    let ExcessiveRejections { share, since } = overrides.excessive_rejections(settings)?;
    Some(ExcessiveRejectionsStatus { share, most, since })
}

/// The number of addresses with a session.
fn connected(addresses: &[AddressState]) -> usize {
    addresses.iter().filter(|address| address.session.is_ok()).count()
}

/// Why one of the connected addresses does not use a configuration of its own.
fn rejected_configuration(addresses: &[AddressState]) -> Option<String> {
    let connected = addresses.iter().filter(|address| address.session.is_ok());
    connected.map(|address| &address.rejected_configuration).find(|why| !why.is_empty()).cloned()
}

/// The controllers that connected addresses report.
fn controllers(addresses: &[AddressState]) -> Option<ControllersStatus> {
    let connected = addresses.iter().filter(|address| address.session.is_ok());
    let reported: Vec<_> = connected.filter_map(|address| address.controllers.as_ref()).collect();
    let first = reported.first()?;
    let has_leader = reported.iter().any(|report| report.leads());
    let counts = reported.iter().filter(|report| report.leads() || !has_leader);
    let leaders: BTreeSet<_> = counts.filter_map(|report| report.leader()).collect();
    Some(ControllersStatus {
        names: first.names().to_vec(),
        lease: first.lease().to_owned(),
        leaders: leaders.into_iter().map(str::to_owned).collect(),
    })
}

/// The open circuit breakers of a verb.
fn circuits(addresses: &[AddressState], verb: PolicyVerb) -> Vec<CircuitStatus> {
    let of_address = |address: &AddressState| {
        let open = address.open_breakers.iter().filter(|(open, _)| *open == verb);
        let place = address.address.to_string();
        open.map(move |(_, OpenBreaker { since, cause, is_probing })| CircuitStatus {
            address: place.clone(),
            state: if *is_probing { CircuitState::Probing } else { CircuitState::Open },
            since: *since,
            cause: cause.clone(),
        })
        .collect::<Vec<_>>()
    };
    addresses.iter().flat_map(of_address).collect()
}

/// Why an address is not called although it is connected.
const NOT_SERVING: &str = "UNAVAILABLE: its health service reports NOT_SERVING";

fn address_status(state: &AddressState) -> AddressStatus {
    let session = state.session.as_ref();
    let not_serving = || (!state.serves).then(|| NOT_SERVING.to_owned());
    AddressStatus {
        address: state.address.to_string(),
        connected: session.is_ok(),
        failure: session.err().map(|failure| failure.detail.clone()).or_else(not_serving),
        calls: u32::try_from(state.calls).unwrap_or(u32::MAX),
        version: session.map(|session| session.info.version.clone()).unwrap_or_default(),
        revision: session.map(|session| session.info.revision.clone()).unwrap_or_default(),
    }
}

fn waiting_status(summary: &WaitingSummary) -> WaitingStatus {
    let WaitingSummary { pods, workloads, oldest, untried, changed } = *summary;
    WaitingStatus {
        pods,
        workloads,
        oldest_seconds: oldest.as_secs(),
        untried,
        changed_seconds: changed.map(|changed| changed.as_secs()),
    }
}

/// Those of existing extenders have no bound, which their operators know: only a declared one is reported.
fn unscaled_scores(info: &Info) -> Option<String> {
    info.unscaled_scores().filter(|scores| scores.largest.is_some()).map(|scores| scores.to_string())
}

fn backend_verb(
    settings: &BackendSettings,
    verb: PolicyVerb,
    info: Option<&Info>,
    addresses: &[AddressState],
    observer: &Observer,
) -> BackendVerb {
    let metrics = observer.metrics.backend(settings.name.as_str());
    let rejects_all = (verb == PolicyVerb::Filter).then(|| metrics.rejecting.series()).flatten();
    let metrics = &metrics.verbs[verb];
    let recent = metrics.recent();
    let recent = recent.as_ref();
    BackendVerb {
        verb: verb.name().to_owned(),
        failure_policy: settings.failure_policy(verb).to_owned(),
        unsuitable: info.and_then(|info| info.refusal(verb)).map(|failure| failure.detail.clone()),
        unscaled_scores: info.filter(|_| verb == PolicyVerb::Score).and_then(unscaled_scores),
        circuits: circuits(addresses, verb),
        reads: info
            .and_then(|info| info.reads_in_words(verb))
            .map(|(pods, nodes)| ReadsStatus { pods, nodes }),
        decisions: metrics.decisions(),
        calls: metrics.calls(),
        failures: metrics.failures(),
        failed_lately: recent.map_or(0, RecentSummary::failed),
        lately: recent.map_or(0, |recent| recent.calls),
        failure_kinds: recent.map_or_else(Vec::new, |recent| recent.failures.clone()),
        last_failed: recent.is_some_and(|recent| recent.last_failed),
        minute: recent.map(|recent| recent.minute.clone()).unwrap_or_default(),
        median_seconds: recent.and_then(|recent| recent.median_seconds),
        p99_seconds: recent.and_then(|recent| recent.p99_seconds),
        rejected_share: metrics.recent_rejected_share(),
        missing_labels: Vec::new(),
        rejects_all,
        last_failure: metrics.last_failure(),
    }
}

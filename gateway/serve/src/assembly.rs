//! Assembles everything that answers calls from a configuration.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use extender_apiserver::ConnectError;
use extender_gateway_backend::{connections::Connections, info::ClusterTables, resolver::Resolve};
use extender_gateway_cluster::{binder::Apiserver, pods::PodTable, table::NodeTable};
use extender_gateway_decide::overrides::{OverrideChange, Overrides};
use extender_gateway_decide::{Binders, Decider, DeciderSettings, DecisionPurpose, RetryPacing};
use extender_gateway_door::Served;
use extender_gateway_observe::Observer;
use extender_gateway_pace::cadences::Cadences;
use extender_gateway_settings::{
    BackendName, Binder, Config, Events, Mode, PodSource, Requeueing, default_exempt,
};
use extender_gateway_tls::{CertificateFile, certificate_files};
use tokio::{
    sync::{mpsc, watch},
    task::{JoinError, spawn_blocking},
    time::timeout,
};

use super::{
    background::PodFeed,
    override_events::{OverrideEvents, own_pod},
    requeue::Requeue,
};

/// How long the first lists of nodes and pods may delay a start or a reload. After that, calls are decided with the
/// available data.
const START: Duration = Duration::from_secs(10);

/// The most beginnings and ends of overrides that wait for their Event.
const CHANGES: usize = 64;

/// The parts that outlive a configuration: connections, tables, metrics.
#[derive(Debug)]
pub struct Assembly {
    tables: ClusterTables,
    /// The pod table, whether pods are watched or not.
    pods: Arc<PodTable>,
    /// Whether pods are watched.
    pods_wanted: watch::Sender<bool>,
    /// Whether kube-scheduler is made to try pods again.
    requeue_wanted: watch::Sender<bool>,
    /// Whether overrides become Events.
    events_wanted: watch::Sender<bool>,
    /// Taken by the task that creates them.
    changes: Option<mpsc::Receiver<OverrideChange>>,
    /// The name of this replica.
    gateway: Arc<str>,
    /// The certificate files of the configuration in use.
    certificate_files: watch::Sender<Vec<CertificateFile>>,
    connections: Connections,
    /// The exempt namespaces if the configuration does not set them.
    exempt: BTreeSet<String>,
    /// Kept, so that a reload does not change the reasons that pods got.
    pacing: Arc<RetryPacing>,
    /// The apiserver for Bindings and its kubeconfig, once a configuration has a binder.
    apiserver: Option<(Option<PathBuf>, Apiserver)>,
    observer: Arc<Observer>,
    /// Kept, so that a reload does not end what an operator has set.
    overrides: Arc<Overrides>,
    cadences: Cadences,
    purpose: DecisionPurpose,
    /// The number of configurations served so far.
    generation: u64,
}

impl Assembly {
    /// An assembly for this configuration and later ones with the same source of nodes. `gateway` is the name of
    /// this replica.
    pub fn new(config: &Config, gateway: Arc<str>, observer: Arc<Observer>, cadences: Cadences) -> Self {
        // Without an apiserver the start fails, as for nodes.
        let pods_wanted = watch::Sender::new(config.pod_source() == PodSource::Watch);
        let tables = ClusterTables::of_source(config.nodes.clone());
        let exempt = default_exempt(own_namespace());
        let (overridden, changes) = mpsc::channel(CHANGES);
        Self {
            connections: Connections::new(Arc::clone(&gateway), &observer, cadences)
                .of_cluster(config.cluster.name.as_deref().unwrap_or_default()),
            gateway,
            tables,
            pods: Arc::default(),
            pods_wanted,
            requeue_wanted: watch::Sender::new(false),
            events_wanted: watch::Sender::new(false),
            changes: Some(changes),
            certificate_files: watch::Sender::new(certificate_files(config)),
            exempt,
            pacing: Arc::new(RetryPacing::new(&cadences)),
            apiserver: None,
            overrides: Arc::new(Overrides::new(Arc::clone(&observer.waiting), overridden)),
            observer,
            cadences,
            purpose: DecisionPurpose::Scheduling,
            generation: 0,
        }
    }

    /// The same with another resolver of the backends' hosts.
    #[must_use]
    pub fn resolving(self, resolver: Arc<dyn Resolve>) -> Self {
        Self { connections: self.connections.resolving(resolver), ..self }
    }

    /// The same for decisions that nothing acts on.
    #[must_use]
    pub fn simulating(self) -> Self {
        Self { purpose: DecisionPurpose::Simulation, ..self }
    }

    /// The exempt namespaces if the configuration does not name them.
    pub fn default_exempt(&self) -> &BTreeSet<String> {
        &self.exempt
    }

    /// The node table; `None` if nodes come with calls or not at all.
    pub fn table(&self) -> Option<Arc<NodeTable>> {
        self.tables.table.clone()
    }

    /// The nodes that calls bring.
    pub fn offered(&self) -> Arc<NodeTable> {
        Arc::clone(&self.tables.offered)
    }

    /// The pod table; `None` while pods are not watched.
    pub fn pods(&self) -> Option<Arc<PodTable>> {
        self.pods_wanted.borrow().then(|| self.pod_table())
    }

    /// The pod table, whether pods are watched or not.
    pub fn pod_table(&self) -> Arc<PodTable> {
        Arc::clone(&self.pods)
    }

    /// The feed of the pod table, to be run on any thread.
    pub fn pod_feed(&self) -> PodFeed {
        let nodes = self.tables.table.iter().chain([&self.tables.offered]).cloned().collect();
        PodFeed { table: self.pod_table(), nodes, wanted: self.pods_wanted.subscribe() }
    }

    /// The task that makes kube-scheduler try pods again, to be run on any thread.
    pub fn requeue(&self) -> Requeue {
        Requeue {
            observer: Arc::clone(&self.observer),
            pods: self.pod_table(),
            wanted: self.requeue_wanted.subscribe(),
        }
    }

    /// The task that creates Events, to be run on any thread. The first one gets the changes.
    pub fn override_events(&mut self) -> OverrideEvents {
        OverrideEvents {
            changes: self.changes.take().unwrap_or_else(|| mpsc::channel(1).1),
            wanted: self.events_wanted.subscribe(),
            pod: own_pod(&self.gateway),
        }
    }

    /// The certificate files of the configuration in use.
    pub fn certificate_files(&self) -> watch::Receiver<Vec<CertificateFile>> {
        self.certificate_files.subscribe()
    }

    /// The state that answers calls under this configuration. Waits, for a limited time, until a connection to each
    /// backend was attempted.
    ///
    /// # Errors
    /// No apiserver is found for a binder, for `requeue`, for `events`, or for a watch of pods that is not running yet.
    pub async fn serve(&mut self, config: &Config) -> Result<Served, ConnectError> {
        for warning in config.warnings(&self.exempt) {
            tracing::warn!("configuration: {warning}");
        }
        let binders = self.binders(config).await?;
        let pods = self.pods_for(config).await?;
        self.follow_requeue(config).await?;
        self.follow_events(config).await?;
        self.certificate_files.send_replace(certificate_files(config));
        let order = config.effective_order().into_iter().map(|at| &config.backends[at]);
        let asked = order.filter(|backend| backend.mode != Mode::Disabled);
        let tables = ClusterTables { pods, ..self.tables.clone() };
        let backends: Vec<_> = asked.map(|backend| self.connections.backend(backend, &tables)).collect();
        let hooks = config.backends.iter().filter(|backend| backend.has_hooks());
        let named = |name: &BackendName| backends.iter().find(|backend| backend.settings.name == *name);
        let hooks = hooks.filter_map(|settings| named(&settings.name)).cloned().collect();
        let settings = DeciderSettings {
            tables,
            timeouts: config.timeouts,
            reasons: config.reasons,
            exempt: config.exempt.namespaces.clone().unwrap_or_else(|| self.exempt.clone()),
            pacing: Arc::clone(&self.pacing),
            binders,
            observer: Arc::clone(&self.observer),
            cadences: self.cadences,
            purpose: self.purpose,
            overrides: Arc::clone(&self.overrides),
        };
        let decider = Decider::new(backends, hooks, settings);
        let start = self.cadences.start;
        if timeout(start, decider.first_attempts()).await.is_err() {
            tracing::warn!("some backends are not connected after {start:?}; serving without them");
        }
        self.generation += 1;
        let shown = config.clone();
        // It is only shown: a configuration that triggers a bug is served all the same.
        let summary = spawn_blocking(move || shown.summary()).await.unwrap_or_default();
        Ok(Served {
            summary,
            decider,
            most: config.extender.max_request_bytes,
            most_in_flight: config.extender.max_bytes_in_flight.max(config.extender.max_request_bytes),
            verbs: config.extender.verbs.clone(),
            config: config.clone(),
            generation: self.generation,
        })
    }

    async fn binders(&mut self, config: &Config) -> Result<Option<Binders>, ConnectError> {
        let first = match &config.binder {
            Binder::None => return Ok(None),
            Binder::BuiltIn => None,
            Binder::Backend(name) => Some(name.clone()),
        };
        Ok(Some(Binders { apiserver: self.apiserver(config).await?, first }))
    }

    /// The pods for this configuration. Starts the watch if it is not running, and then waits, for a limited time,
    /// until they are listed. A running watch continues, and is used unless the file sets None.
    async fn pods_for(&mut self, config: &Config) -> Result<Option<Arc<PodTable>>, ConnectError> {
        if config.pods.source == Some(PodSource::None) {
            return Ok(None);
        }
        if config.pod_source() == PodSource::Watch && self.pods().is_none() {
            // Checked here, because without an apiserver the watch would end the process.
            self.apiserver(config).await?;
            self.pods_wanted.send_replace(true);
            listed("pods", self.pods.synced()).await;
        }
        Ok(self.pods())
    }

    /// Starts or stops the task that makes kube-scheduler try pods again.
    async fn follow_requeue(&mut self, config: &Config) -> Result<(), ConnectError> {
        let wanted = config.requeue == Requeueing::PodCondition;
        if wanted {
            // Checked here, so that a configuration without an apiserver is rejected.
            self.apiserver(config).await?;
        }
        self.requeue_wanted.send_replace(wanted);
        Ok(())
    }

    /// Starts or stops the Events of overrides.
    async fn follow_events(&mut self, config: &Config) -> Result<(), ConnectError> {
        let wanted = config.events == Events::Overrides;
        if wanted {
            self.apiserver(config).await?;
            if own_namespace().is_none() {
                tracing::warn!(
                    "events: Overrides has no effect: set POD_NAMESPACE to the namespace of the gateway's pod"
                );
            }
        }
        self.events_wanted.send_replace(wanted);
        Ok(())
    }

    /// The apiserver of the kubeconfig; its connections outlive a configuration.
    async fn apiserver(&mut self, config: &Config) -> Result<Apiserver, ConnectError> {
        let kubeconfig = config.cluster.kubeconfig.clone();
        if let Some((known, apiserver)) = &self.apiserver
            && *known == kubeconfig
        {
            return Ok(apiserver.clone());
        }
        let apiserver = Apiserver::connect(kubeconfig.as_deref()).await?;
        self.apiserver = Some((kubeconfig, apiserver.clone()));
        Ok(apiserver)
    }

    /// Waits until a task ends that never should.
    pub async fn panicked(&mut self) -> JoinError {
        self.connections.panicked().await
    }
}

/// Waits, for a limited time, until the objects are listed.
pub(super) async fn listed(objects: &str, synced: impl Future) {
    if timeout(START, synced).await.is_err() {
        tracing::warn!("{objects} not listed after {START:?}; serving without them");
    }
}

/// The namespace that the gateway runs in; `None` outside a cluster.
pub fn own_namespace() -> Option<String> {
    let mounted = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
    let name = std::env::var("POD_NAMESPACE").or_else(|_| std::fs::read_to_string(mounted)).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

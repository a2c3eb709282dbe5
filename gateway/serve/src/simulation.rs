//! Decides about pods and nodes of files, with running backends and without a cluster.
//!
//! The parts are those of a serving gateway: an [`Assembly`] with its tables and connections, and a [`Door`] that is
//! called in this process instead of by kube-scheduler. The tables are filled from files, the calls have the purpose
//! `PURPOSE_SIMULATE`, and nothing listens, binds or writes to an apiserver.

mod files;
mod objects;
mod pod;
mod workload;

use std::{path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use extender_apiserver::ConnectError;
use extender_gateway_core::{PolicyVerb, Verb};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};

use self::files::Nodes;
pub use self::{
    files::{ClusterFiles, FileProblem},
    objects::recorded,
    pod::SimulatedPod,
};
use extender_gateway_admin::status::{GatewayStatus, StatusSources};
use extender_gateway_api::{API_VERSION, Decision, DecisionList, Status};
use extender_gateway_backend::info::Info;
use extender_gateway_cluster::table::NodeTable;
use extender_gateway_door::Door;
use extender_gateway_observe::{Health, Metrics, Observer, Query};
use extender_gateway_pace::cadences::Cadences;
use extender_gateway_settings::{Binder, Config, Events, NodeSource, PodSource, Requeueing};
use extender_gateway_tls::Certificates;

use super::assembly::Assembly;

/// The name of the gateway in handshakes and decisions.
const GATEWAY: &str = "try";
/// The size of the decision log: enough for the decisions of a run.
const LOG_BYTES: usize = 1 << 30;
/// How long recording a call may take, and calls in shadow mode beyond the decision's timeout.
const RECORDING: Duration = Duration::from_secs(5);

/// How often it is checked whether a backend has become available.
const POLL: Duration = Duration::from_millis(50);

/// Why there is nothing to decide with.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileProblem),
    /// A backend reads the pods on nodes, and they are not known.
    #[error(
        "backend {backend} reads {what}, which needs the pods that run on the nodes; add --pods FILE with the output of \
         `kubectl get pods -A -o json`, or an empty list for an empty cluster"
    )]
    NeedsPods {
        /// The backend.
        backend: String,
        /// What it reads.
        what: &'static str,
    },
    /// An apiserver is needed, which the changed configuration excludes.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

/// A gateway that serves only this process.
#[derive(Debug)]
pub struct Simulation {
    door: Arc<Door>,
    observer: Arc<Observer>,
    gateway_status: GatewayStatus,
    nodes: Vec<String>,
    /// The longest time that a call may take.
    longest: Duration,
    /// Owns the backends' connections.
    _assembly: Assembly,
    /// Keep the tables up to date.
    _tasks: JoinSet<()>,
}

impl Simulation {
    /// Connects to the backends of this configuration, and waits, for a limited time, until each has answered its
    /// handshake or failed. Those that have failed may be starting: they have `until` then to become available.
    ///
    /// # Errors
    /// A file is invalid, or a backend reads the pods on nodes and there is no file of pods.
    pub async fn start(
        config: Config,
        files: &ClusterFiles,
        tried: &[&SimulatedPod],
        until: Instant,
    ) -> Result<Self, SimulationError> {
        // A provider that is already installed stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let config = without_cluster(config, files.nodes.clone());
        let observer = Arc::new(Observer::new(Arc::new(Metrics::new()), LOG_BYTES));
        let gateway: Arc<str> = GATEWAY.into();
        let mut assembly =
            Assembly::new(&config, Arc::clone(&gateway), Arc::clone(&observer), Cadences::default())
                .simulating();
        let table = assembly.table().unwrap_or_default();
        let nodes = files.read_nodes(&table)?;
        let uids: Vec<&str> = tried.iter().map(|pod| pod.uid.as_str()).collect();
        files.read_pods(&assembly.pod_table(), &uids)?;
        let names = nodes.names.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(keep_json(nodes, Arc::clone(&table)));
        let feed = assembly.pod_feed();
        tasks.spawn(async move { match feed.follow().await {} });
        let longest = config.timeouts.decision;
        let door = Arc::new(Door::new(assembly.serve(&config).await?, Arc::clone(&observer)));
        // One that is still not available is a part of the decision.
        let _ = timeout_at(until, all_available(&door)).await;
        if files.pods.is_none() {
            needs_pods(&door).map_or(Ok(()), Err)?;
        }
        assembly.pod_feed().pass_on();
        let gateway_status = GatewayStatus::new(StatusSources {
            gateway,
            file: String::new(),
            source: config.nodes.clone(),
            table: Some(table),
            pods: assembly.pod_table(),
            exempt: assembly.default_exempt().clone(),
            certificates: Arc::<Certificates>::default(),
            health: Arc::new(Health::default()),
        });
        gateway_status.open(&door);
        Ok(Self { door, observer, gateway_status, nodes: names, longest, _assembly: assembly, _tasks: tasks })
    }

    /// Decides about a pod: filter for all nodes, then prioritize for those that are left. kube-scheduler does not
    /// request scores for a single node; here it gets them, too. The latest call first, as in the decision log.
    pub async fn decide(&self, pod: &SimulatedPod) -> DecisionList {
        self.call(Verb::Filter, pod, &self.nodes).await;
        let filtered = self.decisions(pod);
        let left: Vec<String> = filtered.items.first().map(feasible).unwrap_or_default();
        if left.is_empty() {
            return filtered;
        }
        self.call(Verb::Prioritize, pod, &left).await;
        self.decisions(pod)
    }

    /// The present state of the backends, with the problems that it has and their remedies.
    pub fn status(&self) -> Option<Status> {
        self.gateway_status.status(&self.observer)
    }

    /// The revision of each backend; `None` while it is not available. Other answers may be expected when one changes.
    pub fn revisions(&self) -> Vec<Option<String>> {
        let served = self.door.served.load();
        let sessions = served.decider.sessions();
        sessions.map(|(_, session)| session.ok().map(|session| session.info.revision.clone())).collect()
    }

    async fn call(&self, verb: Verb, pod: &SimulatedPod, nodes: &[String]) {
        self.door.call_locally(verb, body(pod, nodes)).await;
        self.observer.finished(self.longest + RECORDING).await;
    }

    fn decisions(&self, pod: &SimulatedPod) -> DecisionList {
        let query = Query { uid: Some(pod.uid.clone()), ..Query::default() };
        let (items, truncated) = self.observer.decisions.find(&query);
        DecisionList {
            api_version: API_VERSION.to_owned(),
            kind: "DecisionList".to_owned(),
            gateway: GATEWAY.to_owned(),
            log: self.observer.decisions.state(),
            truncated,
            items,
        }
    }
}

/// The nodes that a filter call has left.
pub fn feasible(filter: &Decision) -> Vec<String> {
    let left = filter.nodes.iter().filter(|node| filter.outcome == "ok" && node.rejected_by.is_none());
    left.map(|node| node.name.clone()).collect()
}

/// The same backends, timeouts and exempt namespaces, with everything that needs a cluster replaced by files.
fn without_cluster(mut config: Config, nodes: PathBuf) -> Config {
    config.nodes = NodeSource::File { path: nodes };
    // The table of pods is used, and filled from a file.
    config.pods.source = Some(PodSource::Watch);
    config.binder = Binder::None;
    config.requeue = Requeueing::None;
    config.events = Events::None;
    for backend in &mut config.backends {
        (backend.preempt, backend.bind) = (None, None);
    }
    config.backends.retain(|backend| backend.verbs().next().is_some());
    config
}

async fn all_available(door: &Door) {
    let served = door.served.load_full();
    while served.decider.sessions().any(|(_, session)| session.is_err()) {
        sleep(POLL).await;
    }
}

/// The JSON of nodes is kept from when a backend reads it: then the file is read again.
async fn keep_json(nodes: Nodes, table: Arc<NodeTable>) {
    let mut wanted: watch::Receiver<bool> = table.raw_wanted();
    while wanted.changed().await.is_ok() {
        if let Some(relist) = nodes.relist(&table) {
            table.replace(relist);
        }
    }
}

/// The first backend that reads the pods on nodes.
fn needs_pods(door: &Door) -> Option<SimulationError> {
    let served = door.served.load();
    let mut sessions = served.decider.sessions();
    sessions.find_map(|(settings, session)| {
        let what = reads_pods(&session.ok()?.info)?;
        Some(SimulationError::NeedsPods { backend: settings.name.to_string(), what })
    })
}

fn reads_pods(info: &Info) -> Option<&'static str> {
    let plans = PolicyVerb::ALL.into_iter().filter_map(|verb| info.about_nodes(verb).ok());
    plans.into_iter().find_map(|plan| match () {
        () if plan.nodes.rows.wants_usage() => Some("usage of nodes"),
        () if plan.nodes.rows.wants_nominated() => Some("nominated pods"),
        () if plan.counts_pods() => Some("counts of pods"),
        () => None,
    })
}

/// `ExtenderArgs` of kube-scheduler, with names of nodes.
fn body(pod: &SimulatedPod, nodes: &[String]) -> Bytes {
    #[derive(Serialize)]
    #[serde(rename_all = "PascalCase")]
    struct ExtenderArgs<'a> {
        pod: &'a RawValue,
        node_names: &'a [String],
    }
    let pod = serde_json::from_slice(&pod.json);
    let args = pod.and_then(|pod| serde_json::to_vec(&ExtenderArgs { pod, node_names: nodes }));
    args.expect("a pod that was read is JSON").into()
}

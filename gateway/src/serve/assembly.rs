//! From a configuration to what calls are answered with.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use tokio::{task::JoinError, time::timeout};

use crate::{
    backend::{connections::Connections, info::Known},
    cluster::{binder::Apiserver, pods::PodTable, table::NodeTable, watch::ConnectError},
    config::{Binder, Config, NodeSource, PodSource},
    decide::{Attempts, Binders, Decider, Terms},
    door::Served,
    observe::Metrics,
};

/// How long first attempts to connect to backends may hold up a start or a reload. After that calls are
/// decided with what is there.
const START: Duration = Duration::from_secs(10);

/// What outlives a configuration: connections, the tables, metrics.
#[derive(Debug)]
pub struct Assembly {
    known: Known,
    connections: Connections,
    /// Exempt where the configuration does not say which namespaces are.
    exempt: BTreeSet<String>,
    /// What pods were told, so that a reload does not forget it.
    attempts: Arc<Attempts>,
    /// Where Bindings go, once a configuration has a binder, and the kubeconfig that says so.
    apiserver: Option<(Option<PathBuf>, Apiserver)>,
    metrics: Arc<Metrics>,
}

impl Assembly {
    /// For configurations with this one's source of nodes. `gateway` is the name of this replica.
    pub fn new(config: &Config, gateway: Arc<str>, metrics: Arc<Metrics>) -> Self {
        let table = match config.nodes {
            NodeSource::Watch | NodeSource::File { .. } => Some(Arc::new(NodeTable::new())),
            NodeSource::Request | NodeSource::NamesOnly => None,
        };
        let pods = (config.pods == PodSource::Watch).then(|| Arc::new(PodTable::new()));
        let offered = Arc::new(NodeTable::of_calls());
        let known = Known { source: config.nodes.clone(), table, offered, pods };
        let exempt = ["kube-system".to_owned()].into_iter().chain(own_namespace()).collect();
        Self {
            connections: Connections::new(known.clone(), gateway),
            known,
            exempt,
            attempts: Arc::default(),
            apiserver: None,
            metrics,
        }
    }

    /// The node table; `None` where nodes come with the calls or not at all.
    pub fn table(&self) -> Option<Arc<NodeTable>> {
        self.known.table.clone()
    }

    /// The pod table; `None` where pods are not watched.
    pub fn pods(&self) -> Option<Arc<PodTable>> {
        self.known.pods.clone()
    }

    /// What calls are answered with under this configuration. Waits, not for ever, until each of its backends
    /// was tried.
    ///
    /// # Errors
    /// Pods are to be bound, and there is no way to the apiserver.
    pub async fn serve(&mut self, config: &Config) -> Result<Served, ConnectError> {
        for warning in config.warnings() {
            tracing::warn!("configuration: {warning}");
        }
        let binders = self.binders(config).await?;
        let order = config.effective_order().into_iter();
        let backends = order.map(|at| self.connections.backend(&config.backends[at])).collect();
        let terms = Terms {
            known: self.known.clone(),
            timeouts: config.timeouts,
            reasons: config.reasons,
            exempt: config.exempt_namespaces.clone().unwrap_or_else(|| self.exempt.clone()),
            attempts: Arc::clone(&self.attempts),
            binders,
            metrics: Arc::clone(&self.metrics),
        };
        let decider = Decider::new(backends, terms);
        if timeout(START, decider.tried_all()).await.is_err() {
            tracing::warn!("some backends did not answer within {START:?}; serving without them");
        }
        Ok(Served { decider, most: config.extender.max_request_bytes, verbs: config.extender.verbs.clone() })
    }

    async fn binders(&mut self, config: &Config) -> Result<Option<Binders>, ConnectError> {
        let first = match config.binder {
            Binder::None => return Ok(None),
            Binder::BuiltIn => None,
            Binder::Backend(at) => Some(config.backends[at].name.clone()),
        };
        Ok(Some(Binders { apiserver: self.apiserver(config.kubeconfig.clone()).await?, first }))
    }

    /// The apiserver of this kubeconfig; connections outlive a configuration.
    async fn apiserver(&mut self, kubeconfig: Option<PathBuf>) -> Result<Apiserver, ConnectError> {
        if let Some((known, apiserver)) = &self.apiserver
            && *known == kubeconfig
        {
            return Ok(apiserver.clone());
        }
        let apiserver = Apiserver::connect(kubeconfig.as_deref()).await?;
        self.apiserver = Some((kubeconfig, apiserver.clone()));
        Ok(apiserver)
    }

    /// Waits until something ends that never should.
    pub async fn panicked(&mut self) -> JoinError {
        self.connections.panicked().await
    }
}

/// The namespace that the gateway runs in; `None` outside a cluster.
fn own_namespace() -> Option<String> {
    let mounted = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
    let name = std::env::var("POD_NAMESPACE").or_else(|_| std::fs::read_to_string(mounted)).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

//! The second thread: the sources of nodes and pods, the metrics and admin addresses, and export to a collector.
//!
//! The watch of pods starts with the first configuration that needs it, at the start or after a reload, and
//! continues from then on: its data stays available for later configurations.

use std::{
    convert::Infallible, future::pending, io, net::TcpListener as Bound, path::PathBuf, sync::Arc, thread,
    time::Duration,
};

use axum::Router;
use extender_apiserver::ConnectError;
use extender_gateway_admin::authorization::{self, Reviews};
use extender_gateway_admin::{self as admin, AdminState};
use extender_gateway_cluster::{
    client::SharedClient, file::NodeFile, pods::PodTable, table::NodeTable, watch as cluster_watch,
};
use extender_gateway_door::{Address, Pages, Tls, TlsError};
use extender_gateway_observe::{Health, Metrics, health};
use extender_gateway_settings::{AdminSettings, Authorization, MetricsSettings, NodeSource, PageTls};
use extender_gateway_tls::{CertificateFile, Certificates};
use kube::Client;
use tokio::{
    runtime::Runtime,
    sync::{oneshot, watch},
    task::spawn_blocking,
    time::sleep,
};

use super::{ServeError, certificates, listen, override_events::OverrideEvents, requeue::Requeue, telemetry};

/// The minimum time between two updates of usage: many pods may be bound at once.
const PAUSE: Duration = Duration::from_millis(5);

/// The tasks of the second thread.
pub(super) struct Background {
    pub(super) source: NodeSource,
    /// The kubeconfig for the apiserver.
    pub(super) kubeconfig: Option<PathBuf>,
    /// The node table, filled from `source`.
    pub(super) table: Option<Arc<NodeTable>>,
    pub(super) pods: PodFeed,
    /// Makes kube-scheduler try pods again.
    pub(super) requeue: Requeue,
    pub(super) override_events: OverrideEvents,
    /// The certificate files of the configuration in use, and what is known of them.
    pub(super) certificate_files: watch::Receiver<Vec<CertificateFile>>,
    pub(super) certificates: Arc<Certificates>,
    pub(super) health: Arc<Health>,
    pub(super) metrics_address: PageAddress,
    pub(super) admin_address: PageAddress,
    /// What the admin address shows.
    pub(super) admin: Arc<AdminState>,
}

/// The metrics or the admin address.
pub(super) struct PageAddress {
    pub(super) listener: Bound,
    pub(super) address: Address,
    /// The settings of TLS, and its files.
    pub(super) tls: Option<(PageTls, Arc<Tls>)>,
    pub(super) authorization: Authorization,
}

impl PageAddress {
    /// The metrics address; blocks while the files of its TLS are read.
    pub(super) fn metrics(settings: &MetricsSettings) -> Result<Self, ServeError> {
        let MetricsSettings { address, tls, authorization } = settings;
        Self::open(Address::Metrics, listen("metrics.address", *address), tls.as_ref(), *authorization)
    }

    /// The admin address; blocks while the files of its TLS are read.
    pub(super) fn admin(settings: &AdminSettings) -> Result<Self, ServeError> {
        let AdminSettings { address, hosts: _, tls, authorization } = settings;
        Self::open(Address::Admin, listen("admin.address", *address), tls.as_ref(), *authorization)
    }

    fn open(
        address: Address,
        listener: Result<Bound, ServeError>,
        tls: Option<&PageTls>,
        authorization: Authorization,
    ) -> Result<Self, ServeError> {
        let files =
            |tls: &PageTls| Ok::<_, TlsError>((tls.clone(), Arc::new(Tls::open_pages(address, tls)?)));
        Ok(Self { tls: tls.map(files).transpose()?, listener: listener?, address, authorization })
    }

    /// Routes at this address; they are given its authorization.
    fn pages(
        self,
        routes: impl FnOnce(&dyn Fn(Router) -> Router) -> Router,
        reviews: &Arc<Reviews>,
        metrics: &Arc<Metrics>,
    ) -> Pages {
        let Self { listener, address, tls, authorization } = self;
        let settings = tls.as_ref().map(|(settings, _)| settings);
        let routes = routes(&|routes| {
            authorization::protected(routes, address, settings, authorization, reviews, metrics)
        });
        Pages { listener, address, tls: tls.map(|(_, tls)| tls), routes }
    }

    /// Whether tokens are reviewed by the apiserver.
    fn reviews_tokens(&self) -> bool {
        self.authorization == Authorization::Kubernetes
    }
}

/// The watch of pods, which starts when it is needed.
#[derive(Debug)]
pub struct PodFeed {
    pub(super) table: Arc<PodTable>,
    /// Receives the usage of each node.
    pub(super) nodes: Vec<Arc<NodeTable>>,
    pub(super) wanted: watch::Receiver<bool>,
}

impl Background {
    /// Starts the thread, which runs this runtime. The receiver gets the failure that ended it, which should never
    /// happen; a dropped sender means a panic.
    pub(super) fn start(self, runtime: Runtime) -> io::Result<oneshot::Receiver<String>> {
        let (sender, failed) = oneshot::channel();
        thread::Builder::new().name("background".to_owned()).spawn(move || {
            runtime.block_on(async {
                let failure = Box::pin(self.run()).await;
                // Without a receiver the process is about to end.
                let _ = sender.send(failure);
                // The last spans are sent by tasks of this runtime; the process ends after that.
                pending::<()>().await;
            });
        })?;
        Ok(failed)
    }

    async fn run(self) -> String {
        let observer = Arc::clone(&self.admin.observer);
        let metrics = || Arc::clone(&observer.metrics);
        let client = Arc::new(SharedClient::new(self.kubeconfig));
        let connect = async || client.get().await;
        let reviews = Arc::new(Reviews::new(Arc::clone(&client)));
        let addresses = [&self.metrics_address, &self.admin_address];
        let reviewed = addresses.into_iter().find(|at| at.reviews_tokens()).map(|at| at.address.as_str());
        let scraped = health::routes(metrics(), self.health);
        let scraped = self.metrics_address.pages(|protect| protect(scraped), &reviews, &observer.metrics);
        let administered = |protect: &dyn Fn(Router) -> Router| admin::routes(self.admin, protect);
        let administered = self.admin_address.pages(administered, &reviews, &observer.metrics);
        tokio::select! {
            error = administered.serve(metrics()) => format!("admin server stopped: {error}"),
            never = telemetry::count(&observer) => match never {},
            failure = feed_nodes(self.source, self.table, &connect) => failure,
            failure = self.pods.run(&connect) => failure,
            failure = reviewer(reviewed, &connect) => failure,
            never = self.requeue.run(&connect) => match never {},
            never = self.override_events.run(&connect) => match never {},
            never = certificates::follow(self.certificate_files, self.certificates) => match never {},
            error = scraped.serve(metrics()) => format!("metrics server stopped: {error}"),
        }
    }
}

/// Checks that there is an apiserver for the address that needs one to review tokens; returns why there is none.
async fn reviewer(
    address: Option<&'static str>,
    connect: impl AsyncFn() -> Result<Client, ConnectError>,
) -> String {
    let Some(address) = address else { return pending().await };
    match connect().await {
        Ok(_) => pending().await,
        Err(error) => format!("{address}.authorization Kubernetes: {error}"),
    }
}

/// Feeds the node table indefinitely; returns the error that ended it.
async fn feed_nodes(
    source: NodeSource,
    table: Option<Arc<NodeTable>>,
    connect: impl AsyncFn() -> Result<Client, ConnectError>,
) -> String {
    match (source, table) {
        (NodeSource::Watch, Some(table)) => match connect().await {
            Ok(client) => match cluster_watch::nodes(table, client).await {},
            Err(error @ ConnectError::NotFound(_)) => format!(
                "nodes.source Watch: {error}; cluster.kubeconfig names one. Without an apiserver, set nodes.source: Request or NamesOnly"
            ),
            Err(error) => format!("nodes.source Watch: {error}"),
        },
        (NodeSource::File { path }, Some(table)) => {
            let target = Arc::clone(&table);
            match spawn_blocking(move || NodeFile::open(path, &target)).await {
                Ok(Ok(file)) => match file.follow(table).await {},
                Ok(Err(error)) => format!("nodes.file: {error}"),
                Err(error) => format!("nodes.file: {error}"),
            }
        }
        _ => pending().await,
    }
}

impl PodFeed {
    /// Passes on what another source brings into the table.
    pub(super) async fn follow(self) -> Infallible {
        update_usage(self.table, self.nodes).await
    }

    /// Passes on what the table has now.
    pub(super) fn pass_on(&self) {
        let nodes = self.nodes.iter().map(|table| &**table);
        self.table.follow_views(nodes.clone());
        self.table.pass_on(nodes);
    }

    /// Waits until the watch is needed, and feeds the table indefinitely; returns the error that ended it.
    pub(super) async fn run(mut self, connect: impl AsyncFn() -> Result<Client, ConnectError>) -> String {
        if self.wanted.wait_for(|wanted| *wanted).await.is_err() {
            // It can no longer be requested.
            return pending().await;
        }
        match connect().await {
            Ok(client) => {
                let usage = update_usage(Arc::clone(&self.table), self.nodes);
                tokio::select! {
                    never = cluster_watch::pods(self.table, client) => match never {},
                    never = usage => match never {},
                }
            }
            Err(error) => format!("pods.source Watch: {error}"),
        }
    }
}

/// Passes the resources that pods have requested to the node tables.
async fn update_usage(pods: Arc<PodTable>, nodes: Vec<Arc<NodeTable>>) -> Infallible {
    pods.synced().await;
    loop {
        pods.follow_views(nodes.iter().map(|table| &**table));
        // At first all pods, since after that unnamed nodes count as empty.
        pods.pass_on(nodes.iter().map(|table| &**table));
        sleep(PAUSE).await;
        pods.usage_changed().await;
    }
}

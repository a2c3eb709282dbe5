//! The connections of a running gateway, kept across reloads of its configuration.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use extender_gateway_observe::{Metrics, Observer, WaitingPods};
use extender_gateway_pace::cadences::Cadences;
use extender_gateway_settings as config;
use tokio::{
    sync::watch,
    task::{JoinError, JoinSet},
};

use super::{
    Backend,
    answer_cache::SharedCaches,
    availability::{Availability, Reports},
    endpoints::{Endpoints, Shared, Supervisor},
    info::ClusterTables,
    outcomes::Outcomes,
    resolver::{Resolve, SystemResolver},
    session::{HandshakeKey, SessionTask},
};

/// Creates the backends of each configuration. A connection is reused from the previous configuration if nothing
/// that it depends on has changed, and ends when no configuration and no call uses it.
#[derive(Debug)]
pub struct Connections {
    gateway: Arc<str>,
    cluster: Arc<str>,
    metrics: Arc<Metrics>,
    waiting: Arc<WaitingPods>,
    cadences: Cadences,
    resolver: Arc<dyn Resolve>,
    live: Vec<Live>,
    /// Those of the backends in use, by their names.
    outcomes: HashMap<config::BackendName, Weak<Outcomes>>,
    tasks: JoinSet<()>,
}

/// A connection that may still be in use.
#[derive(Debug)]
struct Live {
    settings: config::BackendSettings,
    /// Whether pods were watched when it was created, which decides which views a handshake can request.
    pods: bool,
    connection: Weak<Endpoints>,
}

impl Connections {
    /// No connections yet. `gateway` is the name of this replica.
    pub fn new(gateway: Arc<str>, observer: &Observer, cadences: Cadences) -> Self {
        let (metrics, waiting) = (Arc::clone(&observer.metrics), Arc::clone(&observer.waiting));
        let resolver = Arc::new(SystemResolver);
        Self {
            gateway,
            cluster: "".into(),
            metrics,
            waiting,
            cadences,
            resolver,
            live: Vec::new(),
            outcomes: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// The same for calls of the cluster with this name.
    #[must_use]
    pub fn of_cluster(self, name: &str) -> Self {
        Self { cluster: name.into(), ..self }
    }

    /// The same with another resolver of hosts, for later backends.
    #[must_use]
    pub fn resolving(self, resolver: Arc<dyn Resolve>) -> Self {
        Self { resolver, ..self }
    }

    /// A backend with its current settings, and the tables that its requests are built from.
    pub fn backend(&mut self, settings: &config::BackendSettings, known: &ClusterTables) -> Arc<Backend> {
        self.live.retain(|live| live.connection.strong_count() > 0);
        let key = HandshakeKey::from(settings);
        let is_same =
            |live: &&Live| HandshakeKey::from(&live.settings) == key && live.pods == known.pods.is_some();
        let connection = self.live.iter().find(is_same).and_then(|live| live.connection.upgrade());
        let connection = connection.unwrap_or_else(|| self.connect(settings, known));
        let mut longest_timeout = connection.shared.longest_timeout.lock();
        *longest_timeout = settings.longest_timeout().max(*longest_timeout);
        drop(longest_timeout);
        // Its series are shown from now on.
        self.metrics.backend(settings.name.as_str()).configure(settings);
        let outcomes = self.outcomes(&settings.name);
        outcomes.use_settings(&connection, known.pods.as_ref());
        Arc::new(Backend::new(settings, &self.metrics, connection, outcomes))
    }

    /// The outcomes for the backend of this name: what is pending outlives its settings.
    fn outcomes(&mut self, name: &config::BackendName) -> Arc<Outcomes> {
        self.outcomes.retain(|_, outcomes| outcomes.strong_count() > 0);
        if let Some(known) = self.outcomes.get(name).and_then(Weak::upgrade) {
            return known;
        }
        let (outcomes, reporter) = Outcomes::new(name, &self.metrics);
        self.tasks.spawn(reporter.run());
        self.outcomes.insert(name.clone(), Arc::downgrade(&outcomes));
        outcomes
    }

    fn connect(&mut self, settings: &config::BackendSettings, known: &ClusterTables) -> Arc<Endpoints> {
        let availability = Availability::new(Reports {
            backend: settings.name.clone(),
            metrics: Arc::clone(&self.metrics),
            waiting: Arc::clone(&self.waiting),
        });
        let shared = Arc::new(Shared::new(availability));
        let (in_use, used) = watch::channel(());
        let endpoints = Arc::new(Endpoints::new(Arc::clone(&shared), used));
        let supervisor = Supervisor {
            task: Arc::new(SessionTask {
                settings: settings.clone(),
                tables: known.clone(),
                gateway: Arc::clone(&self.gateway),
                cluster: Arc::clone(&self.cluster),
                metrics: Arc::clone(&self.metrics),
                cadences: self.cadences,
                caches: SharedCaches::default(),
            }),
            resolver: Arc::clone(&self.resolver),
            endpoints: Arc::downgrade(&endpoints),
            shared,
            sessions: JoinSet::new(),
        };
        self.tasks.spawn(supervisor.run(in_use));
        let (pods, connection) = (known.pods.is_some(), Arc::downgrade(&endpoints));
        self.live.push(Live { settings: settings.clone(), pods, connection });
        endpoints
    }

    /// Waits until a task that supervises a connection panics, which should never happen: the process must stop. A
    /// panic in code that reads the backend's bytes does not get here; it ends that connection as a failure of the
    /// backend.
    pub async fn panicked(&mut self) -> JoinError {
        loop {
            match self.tasks.join_next().await {
                Some(Err(panicked)) => return panicked,
                Some(Ok(())) => {}
                None => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use extender_gateway_cluster::table::NodeTable;
    use extender_gateway_settings::samples;

    use super::*;

    #[tokio::test]
    async fn a_connection_that_is_reused_has_the_longest_timeout_of_its_configurations() {
        let observer = Observer::new(Arc::new(Metrics::new()), 0);
        let mut connections = Connections::new("test".into(), &observer, Cadences::default());
        let (source, offered) = (config::NodeSource::NamesOnly, Arc::new(NodeTable::of_calls()));
        let tables = ClusterTables { source, table: None, offered, pods: None };
        let mut first: Option<Arc<Backend>> = None;
        for (timeout, longest) in [(100, 100), (900, 900), (200, 900)] {
            let filter = format!("filter: {{timeout: {timeout}ms}}");
            let config = samples::config(&format!("- {{name: a, url: 'http://127.0.0.1:1', {filter}}}\n"));
            let backend = connections.backend(&config.backends[0], &tables);
            assert_eq!(*backend.endpoints.shared.longest_timeout.lock(), Duration::from_millis(longest));
            let first = first.get_or_insert_with(|| Arc::clone(&backend));
            assert!(Arc::ptr_eq(&first.endpoints, &backend.endpoints));
        }
    }

    #[test]
    fn a_connection_is_shared_while_the_handshake_means_the_same() {
        let read = |fields: &str| {
            samples::config(&format!("- {{name: a, url: 'http://127.0.0.1:1', {fields}}}\n"))
                .backends
                .remove(0)
        };
        let before = read("filter: {}, score: {weight: 1}");
        for (fields, is_shared) in [
            ("filter: {timeout: 50ms}, score: {weight: 2}, mode: Shadow, match: {namespaces: [a]}", true),
            ("filter: {}", false),
            ("filter: {}, score: {normalize: Max}", false),
            ("filter: {}, score: {}, args: {a: 1}", false),
            ("filter: {}, score: {}, pureAnswers: AskedEachTime", false),
        ] {
            assert_eq!(
                HandshakeKey::from(&before) == HandshakeKey::from(&read(fields)),
                is_shared,
                "{fields}"
            );
        }
    }
}

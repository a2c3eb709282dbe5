//! The connections of a running gateway, kept across reloads of its configuration.

use std::sync::{Arc, Weak};

use tokio::task::{JoinError, JoinSet};

use super::{
    Backend,
    info::Known,
    link::{self, Seen, Task},
};
use crate::config;

/// Makes the backends of each configuration. A connection is taken over from the configuration before when
/// nothing that it depends on has changed, and ends when no configuration and no call uses it any more.
#[derive(Debug)]
pub struct Connections {
    known: Known,
    gateway: Arc<str>,
    live: Vec<(config::Backend, Weak<Seen>)>,
    tasks: JoinSet<()>,
}

impl Connections {
    /// None yet. `gateway` is the name of this replica.
    pub fn new(known: Known, gateway: Arc<str>) -> Self {
        Self { known, gateway, live: Vec::new(), tasks: JoinSet::new() }
    }

    /// A backend as it is configured now.
    pub fn backend(&mut self, settings: &config::Backend) -> Arc<Backend> {
        self.live.retain(|(_, connection)| connection.strong_count() > 0);
        let same = self.live.iter().find(|(known, _)| link::same(known, settings));
        let connection = same.and_then(|(_, connection)| connection.upgrade());
        let connection = connection.unwrap_or_else(|| self.connect(settings));
        Arc::new(Backend { settings: settings.clone(), connection })
    }

    fn connect(&mut self, settings: &config::Backend) -> Arc<Seen> {
        let (publisher, seen) = link::channel();
        let (known, gateway) = (self.known.clone(), Arc::clone(&self.gateway));
        self.tasks.spawn(link::keep(Task { settings: settings.clone(), known, gateway }, publisher));
        let seen = Arc::new(seen);
        self.live.push((settings.clone(), Arc::downgrade(&seen)));
        seen
    }

    /// Waits until a connection's task panics, which should never happen: the process has to stop.
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

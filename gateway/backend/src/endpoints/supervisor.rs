//! The task that keeps the addresses of a backend up to date. It resolves the host again every few seconds, and at once
//! when a connection has ended. New addresses are connected to; those that are gone get no new calls, and calls in
//! progress on their connections finish. While the host cannot be resolved, the known addresses stay in use: DNS that
//! is away must not take working backends away.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, SocketAddr},
    panic::resume_unwind,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use extender_gateway_core::BackendFailure;
use extender_gateway_pace::backoff::Backoff;
use tokio::{
    sync::watch,
    task::{JoinError, JoinSet},
    time::{Instant, sleep, timeout},
};

use super::{Endpoint, Endpoints, Shared};
use crate::{
    connect,
    resolver::{MOST_ADDRESSES, Resolve, subset},
    session::{self, Outage, Place, SessionHandle, SessionTask},
};

/// The pauses after failures to resolve a host without known addresses.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The data of the task.
#[derive(Debug)]
pub(crate) struct Supervisor {
    pub task: Arc<SessionTask>,
    pub resolver: Arc<dyn Resolve>,
    pub endpoints: Weak<Endpoints>,
    pub shared: Arc<Shared>,
    /// The tasks of the addresses.
    pub sessions: JoinSet<()>,
}

impl Supervisor {
    /// Keeps a backend connected while its [`Endpoints`] exist.
    pub(crate) async fn run(mut self, in_use: watch::Sender<()>) {
        let task = Arc::clone(&self.task);
        tokio::select! {
            () = in_use.closed() => tracing::info!(backend = %task.settings.name, "connection closed: its settings are no longer in use"),
            never = self.follow() => match never {},
        }
    }

    async fn follow(&mut self) -> Infallible {
        let mut pauses = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut outage = Outage::default();
        loop {
            match self.resolve().await {
                Ok(addresses) => {
                    pauses.reset();
                    outage = Outage::default();
                    self.set_stale(None);
                    self.reconcile(&addresses);
                    self.until_due().await;
                }
                Err(failure) if !self.sessions.is_empty() => {
                    let backend = &self.task.settings.name;
                    tracing::debug!(%backend, "the host cannot be resolved, known addresses stay in use: {failure}");
                    self.set_stale(Some(failure));
                    self.until_due().await;
                }
                Err(failure) => {
                    outage.log(&Place::host(&self.task.settings), &failure, false);
                    self.set_unresolved(failure);
                    sleep(pauses.next_pause()).await;
                }
            }
        }
    }

    /// The addresses of the backend, at least one.
    async fn resolve(&self) -> Result<Vec<SocketAddr>, BackendFailure> {
        let SessionTask { settings, cadences, gateway, .. } = &*self.task;
        let url = &settings.url;
        if let Some(address) = literal(url.host()) {
            return Ok(vec![SocketAddr::new(address, url.port())]);
        }
        let found = timeout(cadences.connect, self.resolver.resolve(url.host(), url.port())).await;
        let found = found.map_err(|_| connect::late(url, cadences.connect))?;
        let none = || io::Error::new(io::ErrorKind::NotFound, "lookup found no address");
        let found = found.and_then(|found| if found.is_empty() { Err(none()) } else { Ok(found) });
        let found = found.map_err(|error| connect::refused(url, &error))?;
        if found.len() > MOST_ADDRESSES {
            tracing::debug!(backend = %settings.name, found = found.len(), "only {MOST_ADDRESSES} of its addresses are used");
        }
        Ok(subset(gateway, found))
    }

    /// Waits until the host is to be resolved again; for an address in the URL never.
    async fn until_due(&mut self) {
        let Self { task, shared, sessions, .. } = self;
        let is_literal = literal(task.settings.url.host()).is_some();
        let due = async {
            if is_literal {
                std::future::pending::<()>().await;
            }
            // A backend that refuses connections is resolved at each attempt.
            sleep(task.cadences.shortest_refresh).await;
            let _ = timeout(task.cadences.resolve, shared.lost.notified()).await;
        };
        tokio::pin!(due);
        loop {
            tokio::select! {
                () = &mut due => return,
                Some(ended) = sessions.join_next() => rethrown(ended),
            }
        }
    }

    /// Records that known addresses stay in use although the host cannot be resolved, or that it can.
    fn set_stale(&self, failure: Option<BackendFailure>) {
        let Some(endpoints) = self.endpoints.upgrade() else { return };
        let mut stale = endpoints.stale.lock();
        let since = stale.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        *stale = failure.map(|failure| (since, failure));
    }

    fn set_unresolved(&self, failure: BackendFailure) {
        if let Some(endpoints) = self.endpoints.upgrade() {
            *endpoints.unresolved.lock() = Some(failure);
        }
        self.shared.availability.set_unresolved();
    }

    /// Uses these addresses. Others stay in use until one of these has a session.
    fn reconcile(&mut self, addresses: &[SocketAddr]) {
        // Without it this task ends.
        let Some(endpoints) = self.endpoints.upgrade() else { return };
        let before = endpoints.list.load_full();
        let handle = |address: &SocketAddr| {
            let known = before.iter().find(|known| known.endpoint.address == *address);
            known.cloned().unwrap_or_else(|| self.start(*address))
        };
        let mut list: Vec<_> = addresses.iter().map(handle).collect();
        let is_gone = |known: &&SessionHandle| !addresses.contains(&known.endpoint.address);
        if !list.iter().any(SessionHandle::is_live) {
            list.extend(before.iter().filter(is_gone).filter(|known| known.is_live()).cloned());
        }
        let of = |known: &SessionHandle| known.endpoint.address;
        if list.iter().map(of).eq(before.iter().map(of)) {
            return;
        }
        for address in before.iter().map(of).filter(|known| !list.iter().any(|kept| of(kept) == *known)) {
            let backend = &self.task.settings.name;
            tracing::info!(%backend, %address, "address removed: the host no longer resolves to it; calls in progress finish");
            self.shared.availability.remove(address);
        }
        *endpoints.unresolved.lock() = None;
        self.shared.several.store(list.len() > 1, Ordering::Relaxed);
        endpoints.list.store(Arc::new(list));
    }

    /// Starts the task of a new address.
    fn start(&mut self, address: SocketAddr) -> SessionHandle {
        let SessionTask { settings, gateway, cadences, .. } = &*self.task;
        let endpoint = Arc::new(Endpoint::new(gateway, settings.name.as_str(), address, cadences.into()));
        self.shared.availability.add(address);
        let (publisher, handle) = session::channel(endpoint, Arc::clone(&self.shared));
        self.sessions.spawn(session::run(Arc::clone(&self.task), publisher));
        handle
    }
}

/// The address that a host in a URL is.
fn literal(host: &str) -> Option<IpAddr> {
    host.parse().ok()
}

/// A task of an address ends when the address is removed; its panic is this task's.
fn rethrown(ended: Result<(), JoinError>) {
    if let Err(ended) = ended
        && ended.is_panic()
    {
        resume_unwind(ended.into_panic());
    }
}

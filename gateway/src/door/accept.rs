//! The accept loop of all addresses.
//!
//! It never stops accepting: connections that wait in the system's queue look alive to their callers. Connections
//! beyond the [limit](super::limit) are closed immediately.

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    time::{MissedTickBehavior, interval, sleep},
};

use super::limit::{Address, Admission, ConnectionLimit, ConnectionSlot};
use crate::observe::{Metrics, RateLimitedLog};

/// How long a connection may be without a complete request head. More than the 90 seconds for which kube-scheduler
/// keeps idle connections: closing a connection while a request is in transit fails that request.
pub(super) const IDLE: Duration = Duration::from_mins(2);
/// The interval for closing connections without any request. In HTTP/1.1 a timer ends them; this is for HTTP/2
/// connections that were negotiated and never start.
const SWEEP: Duration = Duration::from_secs(30);
/// The pause after a failed accept, whose usual cause is a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// The largest request head, in bytes. That of kube-scheduler has some hundred.
pub(super) const LARGEST_HEAD: u32 = 16 << 10;

/// Accepts the connections of an address.
#[derive(Debug)]
pub(super) struct Accept {
    listener: TcpListener,
    address: Address,
    limit: Arc<ConnectionLimit>,
    metrics: Arc<Metrics>,
    failed: RateLimitedLog,
    full: RateLimitedLog,
}

/// An accepted connection.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) stream: TcpStream,
    pub(super) caller: SocketAddr,
    /// Kept until the connection has ended.
    pub(super) slot: ConnectionSlot,
}

impl Accept {
    pub(super) fn new(listener: TcpListener, address: Address, metrics: Arc<Metrics>) -> Self {
        let limit = ConnectionLimit::of(address);
        Self {
            listener,
            address,
            limit,
            metrics,
            failed: RateLimitedLog::default(),
            full: RateLimitedLog::default(),
        }
    }

    /// Serves each connection in a task until `until` ends.
    pub(super) async fn until<S>(&self, until: impl Future<Output = ()>, serve: impl Fn(Accepted) -> S)
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let mut sweeps = interval(SWEEP);
        sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tokio::pin!(until);
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, caller)) => self.admit((stream, caller), &serve).await,
                    Err(error) => self.not_accepted(&error).await,
                },
                _ = sweeps.tick() => self.dropped("silent", self.limit.close_silent(IDLE)),
                () = &mut until => return,
            }
        }
    }

    /// Stops accepting. Returns the open connections.
    pub(super) fn close(self) -> Arc<ConnectionLimit> {
        self.limit
    }

    async fn admit<S>(&self, (stream, caller): (TcpStream, SocketAddr), serve: impl Fn(Accepted) -> S)
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let admission = self.limit.admit();
        let is_free = matches!(admission, Admission::Free(_));
        let (Admission::Free(slot) | Admission::InPlaceOf(slot)) = admission else {
            return self.refuse(caller);
        };
        // Without it, a small response waits for the acknowledgment of an earlier one.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("cannot set TCP_NODELAY: {error}");
        }
        let ending = slot.ending();
        ending.by(tokio::spawn(serve(Accepted { stream, caller, slot })).abort_handle());
        if !is_free {
            self.dropped("evicted", 1);
            // The closed connection returns its descriptor when its task ends.
            tokio::task::yield_now().await;
        }
    }

    fn refuse(&self, caller: SocketAddr) {
        self.dropped("full", 1);
        if let Some(similar) = self.full.turn() {
            let address = self.address.as_str();
            tracing::warn!(
                address, %caller, similar,
                "connection refused: all {} connections of this address have requests in progress; look for callers \
                 that open too many, or raise the limit of open files",
                self.limit.most()
            );
        }
    }

    async fn not_accepted(&self, error: &io::Error) {
        self.dropped("accept", 1);
        if let Some(similar) = self.failed.turn() {
            let address = self.address.as_str();
            tracing::warn!(address, similar, "cannot accept a connection: {error}");
        }
        // These errors concern only that connection.
        if !matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) {
            sleep(PAUSE).await;
        }
    }

    fn dropped(&self, cause: &'static str, connections: u64) {
        if connections > 0 {
            self.metrics.connections_dropped((self.address.as_str(), cause), connections);
        }
    }
}

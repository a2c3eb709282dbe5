//! The accept loop of all addresses.
//!
//! It never stops accepting: connections that would wait in the system's queue would look alive to their callers.
//! What the
//! [limit](super::limit) has no room for is closed at once.

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

/// How long a connection may go without a complete request head. More than the 90 seconds for which
/// kube-scheduler keeps idle connections: a connection that closes while a request is on its way fails that
/// request.
pub(super) const IDLE: Duration = Duration::from_mins(2);
/// How often connections without any request are looked for. In HTTP/1.1 a timer ends them; this is for
/// what comes before: HTTP/2 that is agreed on and never begins.
const SWEEP: Duration = Duration::from_secs(30);
/// The pause after a failed accept, which is most often a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// The largest head of a request. Kube-scheduler's has some hundred bytes.
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

/// A connection.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) stream: TcpStream,
    pub(super) caller: SocketAddr,
    /// To be kept until it has ended.
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

    /// Accepts no more. Returns the connections that there are.
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
        // Without it a small answer waits for the acknowledgement of an earlier one.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("cannot set TCP_NODELAY: {error}");
        }
        let ending = slot.ending();
        ending.by(tokio::spawn(serve(Accepted { stream, caller, slot })).abort_handle());
        if !is_free {
            self.dropped("evicted", 1);
            // The one that was closed gives its descriptor back when its task ends.
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
        // These are about that connection alone.
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

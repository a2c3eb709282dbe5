//! The accept loop of all addresses, and the limits of all connections.
//!
//! It never stops accepting: connections that wait in the system's queue look alive to their callers. Connections
//! beyond the [limit](super::limit) are closed immediately.

use std::{
    io::{self, ErrorKind},
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use extender_gateway_observe::Metrics;
use extender_gateway_pace::rate_limited_log::RateLimitedLog;
use tokio::{
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    time::{MissedTickBehavior, interval, sleep},
};
use tokio_util::either::Either;

use super::limit::{Address, ConnectionLimit, ConnectionSlot};

/// How long a connection may be without a complete request head. More than the 90 seconds for which kube-scheduler
/// keeps idle connections: closing a connection while a request is in transit fails that request.
pub(super) const IDLE: Duration = Duration::from_mins(2);
/// The interval for closing connections without any request, and connections with answers that are not read.
const TICK: Duration = Duration::from_secs(10);
/// The pause after a failed accept, whose usual cause is a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// The largest request head, in bytes. That of kube-scheduler has some hundred.
pub(super) const LARGEST_HEAD: u32 = 16 << 10;
/// The most that an HTTP/1.1 connection has read in advance, in bytes, and the most that it has to write: what a caller
/// that does not read its responses takes besides them. hyper would take 400 KiB for each.
pub(super) const LARGEST_BUFFER: usize = 32 << 10;

/// A socket that accepts connections.
#[derive(Debug)]
pub(super) enum Listening {
    /// At an IP address.
    Tcp(TcpListener),
    /// At a path.
    Unix(UnixListener),
}

/// A connection of either kind.
pub(super) type Socket = Either<TcpStream, UnixStream>;

impl Listening {
    /// The next connection, and its caller: one at a path has no address, and is on this machine.
    async fn accept(&self) -> io::Result<(Socket, SocketAddr)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, caller) = listener.accept().await?;
                // Without it, a small response waits for the acknowledgment of an earlier one.
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!("cannot set TCP_NODELAY: {error}");
                }
                Ok((Either::Left(stream), caller))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok((Either::Right(stream), SocketAddr::from((Ipv4Addr::LOCALHOST, 0))))
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Accept {
    listener: Listening,
    address: Address,
    /// How long a caller may take to read an answer.
    answer_timeout: Duration,
    limit: Arc<ConnectionLimit>,
    metrics: Arc<Metrics>,
    failed: RateLimitedLog,
    full: RateLimitedLog,
}

#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) stream: Socket,
    pub(super) caller: SocketAddr,
    /// Kept until the connection has ended.
    pub(super) slot: ConnectionSlot,
}

impl Accept {
    pub(super) fn new(listener: Listening, address: Address, metrics: Arc<Metrics>) -> Self {
        let limit = ConnectionLimit::of(address);
        Self {
            listener,
            address,
            answer_timeout: address.answer_timeout(),
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
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let unread = self.answer_timeout.as_secs() / TICK.as_secs();
        tokio::pin!(until);
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, caller)) => self.admit(stream, caller, &serve).await,
                    Err(error) => self.not_accepted(&error).await,
                },
                _ = ticks.tick() => {
                    self.dropped("silent", self.limit.close_silent(IDLE));
                    self.dropped("unread", self.limit.close_unread(unread));
                }
                () = &mut until => return,
            }
        }
    }

    /// Stops accepting. Returns the open connections.
    pub(super) fn close(self) -> Arc<ConnectionLimit> {
        self.limit
    }

    async fn admit<S>(&self, stream: Socket, caller: SocketAddr, serve: impl Fn(Accepted) -> S)
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let Some((slot, has_evicted)) = self.limit.admit() else { return self.refuse(caller) };
        let connection = slot.connection();
        connection.served_by(tokio::spawn(serve(Accepted { stream, caller, slot })).abort_handle());
        if has_evicted {
            self.dropped("evicted", 1);
            // The closed connection returns its descriptor when its task ends.
            tokio::task::yield_now().await;
        }
    }

    fn refuse(&self, caller: SocketAddr) {
        self.dropped("full", 1);
        if let Some(similar) = self.full.permit() {
            let address = self.address.as_str();
            tracing::warn!(
                address, %caller, similar,
                "connection refused: all {} connections of this address have requests in progress; look for callers \
                 that open too many, or raise the limit of open files",
                self.limit.most
            );
        }
    }

    async fn not_accepted(&self, error: &io::Error) {
        self.dropped("accept", 1);
        if let Some(similar) = self.failed.permit() {
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
            self.metrics.process().dropped_connections.add([self.address.as_str(), cause], connections);
        }
    }
}

//! The accept loop of all addresses, and the limits of all connections.
//!
//! It never stops accepting: connections that wait in the system's queue look alive to their callers. Connections
//! beyond the [limit](super::limit) are closed immediately.

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::AsyncWrite,
    net::{TcpListener, TcpStream},
    time::{MissedTickBehavior, interval, sleep},
};
use tokio_io_timeout::TimeoutWriter;

use super::limit::{Address, ConnectionLimit, ConnectionSlot};
use crate::observe::{Metrics, RateLimitedLog};

/// How long a connection may be without a complete request head. More than the 90 seconds for which kube-scheduler
/// keeps idle connections: closing a connection while a request is in transit fails that request.
pub(super) const IDLE: Duration = Duration::from_mins(2);
/// The interval for closing connections without any request. In HTTP/1.1 a timer ends them; this is for HTTP/2
/// connections that were negotiated and never start.
const SWEEP: Duration = Duration::from_secs(30);
/// The pause after a failed accept, whose usual cause is a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a caller may leave available bytes unread: otherwise its responses would stay in memory indefinitely.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest request head, in bytes. That of kube-scheduler has some hundred.
pub(super) const LARGEST_HEAD: u32 = 16 << 10;

#[derive(Debug)]
pub(super) struct Accept {
    listener: TcpListener,
    address: Address,
    limit: Arc<ConnectionLimit>,
    metrics: Arc<Metrics>,
    failed: RateLimitedLog,
    full: RateLimitedLog,
}

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
        let Some((slot, has_evicted)) = self.limit.admit() else { return self.refuse(caller) };
        // Without it, a small response waits for the acknowledgment of an earlier one.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("cannot set TCP_NODELAY: {error}");
        }
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
        if let Some(similar) = self.full.turn() {
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

/// A connection that ends if the caller does not read for too long.
pub(super) type WriteTimeout<S = TcpStream> = Pin<Box<TimeoutWriter<S>>>;

/// Ends `stream` if the caller does not read for too long.
pub(super) fn with_write_timeout<S: AsyncWrite>(stream: S) -> WriteTimeout<S> {
    let mut writer = TimeoutWriter::new(stream);
    writer.set_timeout(Some(WRITE_TIMEOUT));
    Box::pin(writer)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_takes_nothing_loses_its_connection() {
        let (ours, _theirs) = duplex(8);
        let began = Instant::now();
        let error = with_write_timeout(ours).write_all(&[0; 9]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed().as_secs()), (ErrorKind::TimedOut, WRITE_TIMEOUT.as_secs()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_one_does_not() {
        let (ours, mut theirs) = duplex(8);
        let read = tokio::spawn(async move {
            for _ in 0..4 {
                sleep(WRITE_TIMEOUT / 2).await;
                theirs.read_exact(&mut [0; 8]).await.unwrap();
            }
        });
        let mut ours = with_write_timeout(ours);
        ours.write_all(&[0; 32]).await.unwrap();
        read.await.unwrap();
    }
}

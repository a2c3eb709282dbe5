//! Follows the changes of a backend: the client of `WatchService`. A message only means that a handshake is due, so it is
//! never read, and any number of messages cost one handshake. While there is no stream, handshakes are frequent.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use extender_gateway_observe::Metrics;
use extender_gateway_pace::backoff::Backoff;
use extender_policy_api::v1beta1::WatchRequest;
pub(super) use extender_policy_api::v1beta1::watch_service_server::SERVICE_NAME;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    containment::contained,
    grpc::{Duplex, RpcError, framed},
    session::{Connection, SessionTask},
};

/// The pauses before the stream is opened again.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The stream of a connection, which ends with this.
#[derive(Debug)]
pub(super) struct Changes {
    is_open: Arc<AtomicBool>,
    _running: JoinSet<()>,
}

impl Changes {
    pub(super) fn follow(task: &SessionTask, connection: &Arc<Connection>) -> Self {
        let settings = &task.settings;
        let (backend, args) = (settings.name.to_string(), settings.args.clone().unwrap_or_default());
        let is_open = Arc::default();
        let stream = ChangeStream {
            request: WatchRequest { backend, args },
            connection: Arc::clone(connection),
            is_open: Arc::clone(&is_open),
            metrics: Arc::clone(&task.metrics),
        };
        let mut running = JoinSet::new();
        running.spawn(stream.keep());
        Self { is_open, _running: running }
    }

    /// Whether the backend says what changes.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Relaxed)
    }
}

struct ChangeStream {
    request: WatchRequest,
    connection: Arc<Connection>,
    is_open: Arc<AtomicBool>,
    /// Where panics are counted.
    metrics: Arc<Metrics>,
}

impl ChangeStream {
    async fn keep(self) {
        let mut retries = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        loop {
            let began = Instant::now();
            let Err(ended) = contained(&self.metrics, self.run()).await;
            self.is_open.store(false, Ordering::Relaxed);
            // What it would have announced from now on is asked for.
            self.connection.endpoint.recheck.notify_one();
            let backend = &self.request.backend;
            if ended.is_unimplemented() {
                tracing::warn!(
                    backend,
                    "backend announces {SERVICE_NAME} but does not implement it: {ended}"
                );
                return;
            }
            if began.elapsed() > LONGEST_RETRY {
                retries.reset();
            }
            tracing::debug!(backend, "stream of changes ended: {ended}");
            sleep(retries.next_pause()).await;
        }
    }

    async fn run(&self) -> Result<Infallible, RpcError> {
        let mut stream = Duplex::open(&self.connection.requests, &self.connection.paths.watch).await?;
        stream.send_only(framed(&self.request)?);
        loop {
            stream.next().await?;
            self.is_open.store(true, Ordering::Relaxed);
            self.connection.endpoint.recheck.notify_one();
        }
    }
}

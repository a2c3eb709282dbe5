//! `/metrics`, `/livez` and `/readyz`. They are served by another thread than calls, so a response alone proves
//! nothing: the thread that serves calls updates a heartbeat, and both probes fail if it is old.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    routing::get,
};
use tokio::time::{Instant, sleep};

use super::metrics::{self, Metrics};

/// The interval of heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// A thread without a heartbeat for this long is stuck. The largest calls take some hundred milliseconds each, and
/// several may be decided between two heartbeats.
const STUCK: Duration = Duration::from_secs(10);

/// Whether the gateway accepts calls, and whether the thread that serves them runs.
#[derive(Debug)]
pub struct Health {
    ready: AtomicBool,
    began: Instant,
    /// Milliseconds from `began` to the latest heartbeat.
    heartbeat: AtomicU64,
}

impl Default for Health {
    /// Not ready, with a heartbeat of now.
    fn default() -> Self {
        Self { ready: AtomicBool::new(false), began: Instant::now(), heartbeat: AtomicU64::new(0) }
    }
}

impl Health {
    /// Updates the heartbeat indefinitely; runs on the thread that serves calls.
    pub async fn beat(&self) -> Infallible {
        loop {
            let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.heartbeat.store(now, Ordering::Relaxed);
            sleep(HEARTBEAT).await;
        }
    }

    /// The time since the latest heartbeat.
    pub fn silence(&self) -> Duration {
        let heartbeat = Duration::from_millis(self.heartbeat.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(heartbeat)
    }

    /// The response of `/livez`.
    fn live(&self) -> (StatusCode, String) {
        let silence = self.silence();
        if silence < STUCK {
            return (StatusCode::OK, "ok\n".to_owned());
        }
        let text = format!(
            "not live: the thread that serves calls has not run for {} seconds; restart the gateway\n",
            silence.as_secs()
        );
        (StatusCode::SERVICE_UNAVAILABLE, text)
    }

    /// The response of `/readyz`.
    fn readiness(&self) -> (StatusCode, String) {
        if self.is_ready() {
            return self.live();
        }
        let text = "not ready: waiting for nodes, pods or backends, or stopping\n";
        (StatusCode::SERVICE_UNAVAILABLE, text.to_owned())
    }

    /// Marks the gateway as ready: it accepts calls from now on.
    pub fn ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    /// Marks the gateway as stopping: it should get no more calls.
    pub fn stopping(&self) {
        self.ready.store(false, Ordering::Relaxed);
    }

    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }
}

/// The routes of the metrics address.
pub fn routes(metrics: Arc<Metrics>, health: Arc<Health>) -> Router {
    let page =
        async |State(metrics): State<Arc<Metrics>>| ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics.text());
    let livez = async |State(health): State<Arc<Health>>| health.live();
    let readyz = async |State(health): State<Arc<Health>>| health.readiness();
    Router::new()
        .route("/metrics", get(page).with_state(metrics))
        .route("/livez", get(livez).with_state(Arc::clone(&health)))
        .route("/readyz", get(readyz).with_state(health))
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn probes_fail_while_the_thread_that_answers_calls_is_stuck() {
        let health = Arc::new(Health::default());
        health.ready();
        let answers = || (health.live(), health.readiness());
        let fine = (StatusCode::OK, "ok\n".to_owned());
        let beating = tokio::spawn({
            let health = Arc::clone(&health);
            async move { health.beat().await }
        });
        sleep(STUCK * 3).await;
        assert_eq!(answers(), (fine.clone(), fine.clone()));
        beating.abort();
        advance(STUCK.saturating_sub(HEARTBEAT * 2)).await;
        assert_eq!(answers(), (fine.clone(), fine.clone()));
        advance(HEARTBEAT * 2).await;
        let ((live, text), (ready, _)) = answers();
        assert_eq!((live.as_u16(), ready.as_u16()), (503, 503));
        assert!(text.starts_with("not live: the thread that serves calls has not run for 1"), "{text}");
    }
}

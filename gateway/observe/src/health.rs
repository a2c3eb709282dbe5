//! `/metrics`, `/livez` and `/readyz`. They are served by another thread than calls, so a response alone proves
//! nothing: the thread that serves calls updates a heartbeat, and both probes fail if it is old.

use std::{
    collections::BTreeSet,
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
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::metrics::{self, Metrics, Source};

/// What it waits for at first: the configuration, the first attempts to connect to backends, and the listening socket.
const CALLS: &str = "the first connections to backends";

/// The interval of heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// A thread without a heartbeat for this long is stuck. The largest calls take some hundred milliseconds each, and
/// several may be decided between two heartbeats.
const STUCK: Duration = Duration::from_secs(10);

/// Whether the gateway should get calls, and whether the thread that serves them runs.
#[derive(Debug)]
pub struct Health {
    /// What is missing before it should get calls.
    missing: Mutex<BTreeSet<&'static str>>,
    /// The backends that have to answer before that, each with the reason while it is not connected.
    pub required: Source<Vec<(String, Option<String>)>>,
    /// Those that have answered, at some time.
    answered: Mutex<BTreeSet<String>>,
    /// It was ready once, and waits for no backend since then.
    was_ready: AtomicBool,
    is_stopping: AtomicBool,
    began: Instant,
    /// Milliseconds from `began` to the latest heartbeat.
    heartbeat: AtomicU64,
}

impl Default for Health {
    /// Not ready, with a heartbeat of now.
    fn default() -> Self {
        Self {
            missing: Mutex::new(BTreeSet::from([CALLS])),
            required: Source::default(),
            answered: Mutex::default(),
            was_ready: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            began: Instant::now(),
            heartbeat: AtomicU64::new(0),
        }
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
    fn check_readiness(&self) -> (StatusCode, String) {
        if self.check_ready() {
            return self.live();
        }
        let text = if self.is_stopping.load(Ordering::Relaxed) {
            "not ready: stopping\n".to_owned()
        } else {
            let missing: Vec<_> = self.missing.lock().iter().map(|missing| (*missing).to_owned()).collect();
            let backends = self.note_answers().into_iter();
            let backends = backends.map(|(backend, failure)| format!("backend {backend} ({failure})"));
            format!(
                "not ready: waiting for {}\n",
                missing.into_iter().chain(backends).collect::<Vec<_>>().join(", ")
            )
        };
        (StatusCode::SERVICE_UNAVAILABLE, text)
    }

    /// Calls are accepted from now on. It is ready once everything else that [it waits for](Self::wait_for) is there.
    pub fn accept_calls(&self) {
        self.mark_present(CALLS);
    }

    /// Not ready until this is there.
    pub fn wait_for(&self, what: &'static str) {
        self.missing.lock().insert(what);
    }

    /// This is there, and counts as there from now on.
    pub fn mark_present(&self, what: &'static str) {
        self.missing.lock().remove(what);
    }

    /// Notes which backends have answered; returns those that have to and have not, each with the reason. Before calls are accepted they are not known.
    fn note_answers(&self) -> Vec<(String, String)> {
        let required = self.required.read().unwrap_or_default();
        let mut answered = self.answered.lock();
        let missing = required.into_iter().filter_map(|(backend, failure)| match failure {
            None => {
                answered.insert(backend);
                None
            }
            Some(failure) => (!answered.contains(&backend)).then_some((backend, failure)),
        });
        missing.collect()
    }

    /// Marks the gateway as stopping: it should get no more calls.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }

    /// Whether it should get calls from now on. Once it has been ready, it waits for no backend any more.
    pub fn check_ready(&self) -> bool {
        let is_complete = self.missing.lock().is_empty();
        if is_complete && !self.was_ready.load(Ordering::Relaxed) && self.note_answers().is_empty() {
            self.was_ready.store(true, Ordering::Relaxed);
        }
        is_complete && self.was_ready.load(Ordering::Relaxed) && !self.is_stopping.load(Ordering::Relaxed)
    }
}

/// The routes of the metrics address.
pub fn routes(metrics: Arc<Metrics>, health: Arc<Health>) -> Router {
    let page =
        async |State(metrics): State<Arc<Metrics>>| ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics.text());
    let livez = async |State(health): State<Arc<Health>>| health.live();
    let readyz = async |State(health): State<Arc<Health>>| health.check_readiness();
    Router::new()
        .route("/metrics", get(page).with_state(metrics))
        .route("/livez", get(livez).with_state(Arc::clone(&health)))
        .route("/readyz", get(readyz).with_state(health))
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test]
    async fn a_gateway_without_its_nodes_is_live_and_not_ready() {
        let health = Health::default();
        health.wait_for("nodes");
        health.wait_for("pods");
        health.accept_calls();
        let unavailable = |text: &str| (StatusCode::SERVICE_UNAVAILABLE, text.to_owned());
        assert_eq!(health.check_readiness(), unavailable("not ready: waiting for nodes, pods\n"));
        assert_eq!(health.live().0, StatusCode::OK);
        health.mark_present("pods");
        assert_eq!(health.check_readiness(), unavailable("not ready: waiting for nodes\n"));
        health.mark_present("nodes");
        assert_eq!(health.check_readiness().0, StatusCode::OK);
        health.stop();
        assert_eq!(health.check_readiness(), unavailable("not ready: stopping\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn probes_fail_while_the_thread_that_answers_calls_is_stuck() {
        let health = Arc::new(Health::default());
        health.accept_calls();
        let answers = || (health.live(), health.check_readiness());
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

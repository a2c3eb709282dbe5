//! Runs sessions with a backend one after the other, with backoff and log lines in between. An outage is over when
//! a session has lasted, not when one has started: a backend that completes the handshake and disconnects is as
//! unavailable as one that does not listen.

use std::{convert::Infallible, time::Duration};

use extender_gateway_core::{BackendFailure, FailureKind};
use tokio::time::{Instant, sleep};

use super::SessionPublisher;
use crate::{backend::outage::Outage, config};

/// The pause after the first session that did not last; it doubles up to the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// A session that was usable for this long ends the outage before it.
const LASTING: Duration = Duration::from_secs(10);

/// How a session ended.
#[derive(Debug)]
pub(super) struct SessionEnd {
    pub(super) failure: BackendFailure,
    /// When its first handshake succeeded; `None` if none did.
    pub(super) ready_since: Option<Instant>,
}

/// Starts a session whenever the previous one has ended, with growing pauses while none of them lasts.
pub(super) async fn retry<S>(
    settings: &config::BackendSettings,
    publisher: &SessionPublisher,
    mut session: impl FnMut() -> S,
) -> Infallible
where
    S: Future<Output = SessionEnd>,
{
    let mut pause = FIRST_PAUSE;
    let mut outage = Outage::default();
    loop {
        let SessionEnd { failure, ready_since: greeted } = session().await;
        let has_lasted = greeted.is_some_and(|greeted| greeted.elapsed() >= LASTING);
        if has_lasted {
            outage = Outage::default();
        }
        if failure.kind == FailureKind::Oversize {
            // It sends more than allowed, and is likely to do it again.
            pause = LONGEST_PAUSE;
        } else if has_lasted {
            pause = FIRST_PAUSE;
            // A replica that is being replaced closes the connection; the next one may already be available.
            tracing::info!(backend = %settings.name, "connection lost, reconnecting: {failure}");
            continue;
        }
        outage.say(settings, &failure);
        publisher.down(failure);
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::Mutex};

    use tokio::time::timeout;

    use super::*;
    use crate::{
        backend::{containment::contained, session::channel},
        config::Config,
        observe::Metrics,
    };

    fn settings() -> config::BackendSettings {
        let yaml = "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n\
                    nodes: {source: Request}\nbackends: [{name: racks, url: 'http://127.0.0.1:1', filter: {}}]\n";
        Config::parse(yaml, Path::new(".")).unwrap().backends.remove(0)
    }

    fn hung_up() -> BackendFailure {
        BackendFailure::new(FailureKind::Reset, "the connection was lost")
    }

    /// The pauses before each session in this time, in milliseconds.
    async fn pauses<S: Future<Output = SessionEnd>>(within: Duration, session: impl Fn() -> S) -> Vec<u128> {
        let (publisher, _seen) = channel();
        let ended = Mutex::new(Instant::now());
        let pauses = Mutex::new(Vec::new());
        let settings = settings();
        let sessions = retry(&settings, &publisher, || {
            pauses.lock().unwrap().push(ended.lock().unwrap().elapsed().as_millis());
            let session = session();
            async {
                let how = session.await;
                *ended.lock().unwrap() = Instant::now();
                how
            }
        });
        let _ = timeout(within, sessions).await;
        pauses.into_inner().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_greets_and_hangs_up_is_left_alone_for_longer_and_longer() {
        let pauses = pauses(Duration::from_mins(10), || async {
            let ready_since = Some(Instant::now());
            // Longer than one interval, but too short to be useful.
            sleep(Duration::from_millis(1500)).await;
            SessionEnd { failure: hung_up(), ready_since }
        })
        .await;
        assert_eq!(pauses[..8], [0, 50, 100, 200, 400, 800, 1600, 2000]);
        assert!(pauses[8..].iter().all(|pause| *pause == 2000), "{pauses:?}");
        assert!(pauses.len() < 180, "{}", pauses.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_has_lasted_is_followed_at_once() {
        let pauses = pauses(Duration::from_mins(2), || async {
            let ready_since = Some(Instant::now());
            sleep(LASTING).await;
            SessionEnd { failure: hung_up(), ready_since }
        })
        .await;
        assert!(pauses.iter().all(|pause| *pause == 0), "{pauses:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_floods_the_connection_is_left_alone_for_the_longest_pause() {
        let pauses = pauses(Duration::from_mins(2), || async {
            let ready_since = Some(Instant::now());
            sleep(LASTING).await;
            SessionEnd { failure: BackendFailure::new(FailureKind::Oversize, "frames"), ready_since }
        })
        .await;
        assert!(pauses[0] == 0 && pauses[1..].iter().all(|pause| *pause == 2000), "{pauses:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_panics_is_an_outage_like_any_other() {
        let metrics = Metrics::new();
        let pauses = pauses(Duration::from_secs(10), || async {
            let panics: Result<Infallible, BackendFailure> =
                contained(&metrics, async { panic!("a bug") }).await;
            let Err(failure) = panics;
            SessionEnd { failure, ready_since: None }
        })
        .await;
        assert_eq!(pauses, [0, 50, 100, 200, 400, 800, 1600, 2000, 2000, 2000]);
        let counted = format!("extender_gateway_panics_total {}\n", pauses.len());
        assert!(metrics.text().contains(&counted));
    }
}

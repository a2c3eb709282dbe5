//! Writes an Event at the gateway's own pod when the mode of a backend is overridden, and when that ends.

use std::{convert::Infallible, env, future::pending, time::Duration};

use extender_apiserver::{ConnectError, EventPod, PodEvent, RequestError, create_event};
use extender_gateway_decide::overrides::OverrideChange;
use jiff::Timestamp;
use kube::Client;
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

use super::assembly::own_namespace;

/// The time limit of an attempt.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often a request that failed is repeated, and the pause before: later Events wait meanwhile.
const RETRIES: usize = 12;
const RETRY: Duration = Duration::from_secs(5);
/// The least time between two Events: whoever may override modes may not flood the apiserver.
const PAUSE: Duration = Duration::from_secs(1);

/// The task that writes Events while the configuration wants it.
#[derive(Debug)]
pub struct OverrideEvents {
    pub(super) changes: mpsc::Receiver<OverrideChange>,
    pub(super) wanted: watch::Receiver<bool>,
    pub(super) pod: Option<EventPod>,
}

/// The gateway's own pod: by the downward API; its name otherwise is that of the host.
pub(super) fn own_pod(host: &str) -> Option<EventPod> {
    let name = env::var("POD_NAME").unwrap_or_else(|_| host.to_owned());
    Some(EventPod { namespace: own_namespace()?, name, uid: env::var("POD_UID").ok() })
}

impl OverrideEvents {
    /// Runs indefinitely.
    pub(super) async fn run(mut self, connect: impl AsyncFn() -> Result<Client, ConnectError>) -> Infallible {
        while let Some(change) = self.changes.recv().await {
            let Some(pod) = &self.pod else { continue };
            // Read at once: as long as it is borrowed, the configuration cannot be reloaded.
            let is_wanted = *self.wanted.borrow();
            if !is_wanted {
                continue;
            }
            tokio::select! {
                () = write(pod, &change, &connect) => {}
                () = until_unwanted(self.wanted.clone()) => {}
            }
            sleep(PAUSE).await;
        }
        // Its sender lives as long as the process.
        pending().await
    }
}

async fn until_unwanted(mut wanted: watch::Receiver<bool>) {
    // An error means that it can no longer change.
    if wanted.wait_for(|wanted| !*wanted).await.is_err() {
        pending::<()>().await;
    }
}

async fn write(
    pod: &EventPod,
    change: &OverrideChange,
    connect: impl AsyncFn() -> Result<Client, ConnectError>,
) {
    let event = event(change);
    let namespace = &pod.namespace;
    for attempt in 0..=RETRIES {
        let Err(failed) = attempted(pod, &event, change.at, &connect).await else { return };
        if attempt == 0 {
            tracing::warn!(
                "cannot create an Event in namespace {namespace}: {}; the gateway's account needs `create` on `events` \
                 there, or set events: None",
                failed.why
            );
        }
        if failed.is_final {
            return;
        }
        sleep(RETRY).await;
    }
    tracing::warn!(
        "no Event was created in namespace {namespace} in {} attempts: {}",
        RETRIES + 1,
        event.message
    );
}

/// Why there is no Event.
struct Failed {
    why: String,
    /// Another attempt would fail, too.
    is_final: bool,
}

async fn attempted(
    pod: &EventPod,
    event: &PodEvent,
    at: Timestamp,
    connect: impl AsyncFn() -> Result<Client, ConnectError>,
) -> Result<(), Failed> {
    let created = async {
        let client = connect().await.map_err(|error| Failed { why: error.to_string(), is_final: false })?;
        match create_event(&client, pod, event, at).await {
            // An attempt without an answer has created it.
            Err(error) if error.code() == Some(409) => Ok(()),
            created => created.map_err(|error| Failed { is_final: is_final(&error), why: error.to_string() }),
        }
    };
    let late = || Failed { why: format!("no answer in {} s", TIMEOUT.as_secs()), is_final: false };
    timeout(TIMEOUT, created).await.unwrap_or_else(|_| Err(late()))
}

/// Permissions may be given and limits may end, but a request that is wrong stays so.
fn is_final(error: &RequestError) -> bool {
    matches!(error.code(), Some(code @ 400..500) if !matches!(code, 401 | 403 | 429))
}

fn event(change: &OverrideChange) -> PodEvent {
    let reason = if change.is_end { "ModeOverrideEnded" } else { "ModeOverridden" };
    PodEvent { reason, message: change.text.clone(), is_warning: !change.is_end }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU16, AtomicUsize, Ordering::Relaxed},
    };

    use http::{Request, Response};
    use kube::client::Body;
    use tokio::time::{Instant, advance};

    use super::*;

    /// The task, and an apiserver that answers with a status and counts requests.
    struct Scene {
        changes: mpsc::Sender<OverrideChange>,
        wanted: watch::Sender<bool>,
        status: Arc<AtomicU16>,
        requests: Arc<AtomicUsize>,
    }

    impl Scene {
        /// Runs the script beside the task.
        async fn run(status: u16, script: impl AsyncFnOnce(&Self)) {
            let ((changes, receiver), (wanted, is_wanted)) = (mpsc::channel(8), watch::channel(true));
            let (status, requests) = (Arc::new(AtomicU16::new(status)), Arc::<AtomicUsize>::default());
            let pod = EventPod { namespace: "gw".into(), name: "gateway-0".into(), uid: None };
            let task = OverrideEvents { changes: receiver, wanted: is_wanted, pod: Some(pod) };
            let scene =
                Self { changes, wanted, status: Arc::clone(&status), requests: Arc::clone(&requests) };
            let service = tower::service_fn(move |_: Request<Body>| {
                requests.fetch_add(1, Relaxed);
                let response = Response::builder().status(status.load(Relaxed));
                let response = response.body(Body::from(b"{}".to_vec())).expect("a response");
                async move { Ok::<_, std::io::Error>(response) }
            });
            let client = Client::new(service, "default");
            tokio::select! {
                never = task.run(async || Ok(client.clone())) => match never {},
                () = script(&scene) => {}
            }
        }

        async fn change(&self) {
            let change =
                OverrideChange { text: "racks: Shadow".into(), is_end: false, at: Timestamp::UNIX_EPOCH };
            self.changes.send(change).await.unwrap();
            // Its request is made before the clock moves.
            sleep(Duration::from_millis(1)).await;
        }

        fn requests(&self) -> usize {
            self.requests.load(Relaxed)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_setting_can_be_changed_while_an_event_cannot_be_created_and_ends_the_attempts() {
        Scene::run(403, async |scene| {
            scene.change().await;
            sleep(RETRY).await;
            assert_eq!(scene.requests(), 2);
            scene.wanted.send_replace(false);
            sleep(RETRY * 3).await;
            scene.change().await;
            assert_eq!(scene.requests(), 2, "nothing is wanted");
            scene.wanted.send_replace(true);
            scene.status.store(201, Relaxed);
            scene.change().await;
            assert_eq!(scene.requests(), 3);
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn later_events_wait_for_a_minute_at_most_and_not_for_one_that_is_wrong() {
        Scene::run(500, async |scene| {
            scene.change().await;
            let begun = Instant::now();
            scene.change().await;
            while scene.requests() <= RETRIES + 1 {
                advance(Duration::from_millis(100)).await;
            }
            assert!(begun.elapsed() < Duration::from_secs(70), "{:?}", begun.elapsed());
        })
        .await;
        Scene::run(422, async |scene| {
            scene.change().await;
            scene.change().await;
            sleep(PAUSE).await;
            assert_eq!(scene.requests(), 2);
        })
        .await;
    }
}

//! Writes an Event at the gateway's own pod when the mode of a backend is overridden, and when that ends.

use std::{convert::Infallible, env, future::pending, time::Duration};

use extender_apiserver::{ConnectError, EventPod, PodEvent, create_event};
use jiff::Timestamp;
use kube::Client;
use tokio::{
    sync::{mpsc, watch},
    time::{sleep, timeout},
};

use super::assembly::own_namespace;
use crate::overrides::OverrideChange;

/// The time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often a request that failed is repeated, and the pause before.
const RETRIES: usize = 60;
const PAUSE: Duration = Duration::from_secs(5);

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
            if let (true, Some(pod)) = (*self.wanted.borrow(), &self.pod) {
                self.write(pod, &change, &connect).await;
            }
        }
        // Its sender lives as long as the process.
        pending().await
    }

    async fn write(
        &self,
        pod: &EventPod,
        change: &OverrideChange,
        connect: impl AsyncFn() -> Result<Client, ConnectError>,
    ) {
        let event = event(change);
        for attempt in 0..=RETRIES {
            let Err(why) = attempted(pod, &event, change.at, &connect).await else { return };
            if attempt == 0 {
                let namespace = &pod.namespace;
                tracing::warn!(
                    "cannot create an Event in namespace {namespace}: {why}; the gateway's account needs `create` on \
                     `events` there, or set events: None"
                );
            }
            if !*self.wanted.borrow() {
                return;
            }
            sleep(PAUSE).await;
        }
        tracing::warn!("no Event was created in {} attempts: {}", RETRIES + 1, event.message);
    }
}

async fn attempted(
    pod: &EventPod,
    event: &PodEvent,
    at: Timestamp,
    connect: impl AsyncFn() -> Result<Client, ConnectError>,
) -> Result<(), String> {
    let client = connect().await.map_err(|error| error.to_string())?;
    match timeout(TIMEOUT, create_event(&client, pod, event, at)).await {
        // An attempt without an answer has created it.
        Ok(Err(error)) if error.code() == Some(409) => Ok(()),
        Ok(created) => created.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer in {} s", TIMEOUT.as_secs())),
    }
}

fn event(change: &OverrideChange) -> PodEvent {
    let reason = if change.is_end { "ModeOverrideEnded" } else { "ModeOverridden" };
    PodEvent { reason, message: change.text.clone(), is_warning: !change.is_end }
}

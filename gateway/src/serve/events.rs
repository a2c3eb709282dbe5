//! One event on each pod that stays unscheduled because of policies.

use std::{convert::Infallible, path::PathBuf, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::{
    Api, Client,
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use tokio::time::sleep;

use crate::{
    account::Subject,
    cluster::watch,
    observe::{Due, Observer, metrics::EventOutcome},
};

/// The time between two events: with more pods than that, some wait longer.
const PAUSE: Duration = Duration::from_secs(1);
/// What the event is called.
const REASON: &str = "ExtenderRejected";

/// Writes events.
pub(super) struct Events {
    pub(super) observer: Arc<Observer>,
    /// How the apiserver is reached.
    pub(super) kubeconfig: Option<PathBuf>,
    /// The name of this replica.
    pub(super) gateway: Arc<str>,
}

impl Events {
    /// Writes what is due, for ever.
    pub(super) async fn run(self) -> Infallible {
        let mut client = None;
        loop {
            sleep(PAUSE).await;
            let Some(due) = self.observer.unscheduled.due() else { continue };
            if client.is_none() {
                client = self.connect().await;
            }
            let outcome = if let Some(client) = &client {
                self.tell(client, due).await
            } else {
                self.observer.unscheduled.retry(&due.pod.uid);
                Some(EventOutcome::Failed)
            };
            if let Some(outcome) = outcome {
                self.observer.metrics.event(outcome);
            }
        }
    }

    async fn connect(&self) -> Option<Client> {
        watch::connect(self.kubeconfig.as_deref())
            .await
            .map_err(|error| tracing::warn!("events.unscheduled: {error}"))
            .ok()
    }

    /// Writes an event, if the pod is still there and waits.
    async fn tell(&self, client: &Client, due: Due) -> Option<EventOutcome> {
        let Due { pod, note } = due;
        let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
        let waits = |found: &Pod| {
            let on_node = found.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
            found.metadata.uid.as_deref() == Some(&*pod.uid) && !on_node
        };
        match pods.get_opt(&pod.name).await {
            Ok(Some(found)) if waits(&found) => {}
            Ok(_) => {
                self.observer.unscheduled.forget(&pod.uid);
                return None;
            }
            Err(error) => return Some(self.failed(&pod, &error)),
        }
        let regarding = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(pod.namespace.clone()),
            name: Some(pod.name.clone()),
            uid: Some(pod.uid.clone()),
            ..ObjectReference::default()
        };
        let reporter = Reporter {
            controller: "extender-gateway.io/gateway".to_owned(),
            instance: Some(self.gateway.to_string()),
        };
        let event = Event {
            type_: EventType::Warning,
            reason: REASON.to_owned(),
            note: Some(note),
            action: "Scheduling".to_owned(),
            secondary: None,
        };
        match Recorder::new(client.clone(), reporter).publish(&event, &regarding).await {
            Ok(()) => Some(EventOutcome::Emitted),
            Err(error) => Some(self.failed(&pod, &error)),
        }
    }

    fn failed(&self, pod: &Subject, error: &kube::Error) -> EventOutcome {
        warn(&pod.name, error);
        self.observer.unscheduled.retry(&pod.uid);
        EventOutcome::Failed
    }
}

fn warn(pod: &str, error: &kube::Error) {
    tracing::warn!(
        pod,
        "an event could not be written: {error}; the gateway's account needs get on pods, and create and patch on \
         events of events.k8s.io"
    );
}

//! Writes Events about a pod.

use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
    jiff::Timestamp,
};
use kube::{Client, Resource, api::PostParams, core::Request};

use crate::request::{RequestError, read};

/// The largest answer in bytes.
const LARGEST_ANSWER: usize = 1 << 20;
/// Who writes these Events.
const COMPONENT: &str = "extender-gateway";
/// The most characters of a message, as client-go has it.
const LONGEST: usize = 1024;

/// The pod that an Event is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPod {
    /// Its namespace, which the Event has, too.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// `kubectl describe pod` finds Events by it.
    pub uid: Option<String>,
}

/// What an Event says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodEvent {
    /// One word in CamelCase.
    pub reason: &'static str,
    /// For people.
    pub message: String,
    /// Its type is Warning, and otherwise Normal.
    pub is_warning: bool,
}

/// Creates an Event that happened at this time. Mirrors `EventRecorder.Event` of client-go.
///
/// # Errors
/// The apiserver does not confirm it.
pub async fn create_event(
    client: &Client,
    pod: &EventPod,
    event: &PodEvent,
    at: Timestamp,
) -> Result<(), RequestError> {
    let EventPod { namespace, name, uid } = pod;
    let time = || Some(Time(Timestamp::from_second(at.as_second()).unwrap_or(at)));
    let json = serde_json::to_vec(&Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{:x}", at.as_nanosecond())),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(namespace.clone()),
            name: Some(name.clone()),
            uid: uid.clone(),
            ..ObjectReference::default()
        },
        reason: Some(event.reason.to_owned()),
        message: Some(event.message.chars().take(LONGEST).collect()),
        type_: Some(if event.is_warning { "Warning" } else { "Normal" }.to_owned()),
        source: Some(EventSource { component: Some(COMPONENT.to_owned()), host: None }),
        reporting_component: Some(COMPONENT.to_owned()),
        reporting_instance: Some(name.clone()),
        count: Some(1),
        first_timestamp: time(),
        last_timestamp: time(),
        ..Event::default()
    })
    .expect("texts can be written to memory");
    let events = Request::new(Event::url_path(&(), Some(namespace)));
    read(client, events.create(&PostParams::default(), json), LARGEST_ANSWER).await.map(drop)
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn the_event_is_about_the_pod() {
        let service = tower::service_fn(async |request: Request<Body>| {
            assert_eq!(
                (request.method().as_str(), request.uri().path()),
                ("POST", "/api/v1/namespaces/gw/events")
            );
            let sent: Value =
                serde_json::from_slice(&request.into_body().collect_bytes().await.unwrap()).unwrap();
            let expected = json!({
                "apiVersion": "v1", "kind": "Event",
                "metadata": {"name": "gateway-0.1b69b4ba630f34e", "namespace": "gw"},
                "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "gw", "name": "gateway-0", "uid": "u-1"},
                "reason": "ModeOverridden", "message": "a".repeat(1024), "type": "Warning",
                "source": {"component": "extender-gateway"},
                "reportingComponent": "extender-gateway", "reportingInstance": "gateway-0",
                "count": 1, "firstTimestamp": "1973-11-29T21:33:09Z", "lastTimestamp": "1973-11-29T21:33:09Z",
            });
            assert_eq!(sent, expected);
            let response = Response::builder().status(201).body(Body::from(b"{}".to_vec()));
            Ok::<_, std::io::Error>(response.expect("a response"))
        });
        let pod = EventPod { namespace: "gw".into(), name: "gateway-0".into(), uid: Some("u-1".into()) };
        let event = PodEvent { reason: "ModeOverridden", message: "a".repeat(2_000), is_warning: true };
        let at = Timestamp::new(123_456_789, 12_345_678).unwrap();
        create_event(&Client::new(service, "default"), &pod, &event, at).await.unwrap();
    }
}

//! Writes conditions into the status of pods.

use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use kube::{
    Client, Resource,
    api::{Patch, PatchParams},
    core::Request,
};
use serde_json::json;

use crate::request::{RequestError, read};

/// The largest pod in an answer, in bytes: more than etcd stores.
const LARGEST_POD: usize = 16 << 20;

/// A condition with the status True. Mirrors `corev1.PodCondition`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCondition<'a> {
    /// Its type, a qualified name.
    pub kind: &'a str,
    /// One word in CamelCase.
    pub reason: &'a str,
    /// For people.
    pub message: &'a str,
}

/// Sets a condition of the pod with this namespace, name and UID, as if it had changed now, so that the pod is updated in
/// any case. Other conditions stay as they are.
///
/// # Errors
/// The apiserver does not confirm it: 404 if there is no such pod, 409 if it has another UID.
pub async fn set_condition(
    client: &Client,
    namespace: &str,
    name: &str,
    uid: &str,
    condition: PodCondition<'_>,
) -> Result<(), RequestError> {
    let PodCondition { kind, reason, message } = condition;
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    // Conditions are merged by their type.
    let patch = json!({
        "metadata": {"uid": uid},
        "status": {"conditions": [{
            "type": kind, "status": "True", "reason": reason, "message": message, "lastTransitionTime": now,
        }]},
    });
    let pods = Request::new(Pod::url_path(&(), Some(namespace)));
    let request = pods.patch_subresource("status", name, &PatchParams::default(), &Patch::Strategic(patch));
    read(client, request, LARGEST_POD).await.map(drop)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use http_body_util::BodyExt;
    use kube::client::Body;
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn the_patch_names_the_pod_by_its_uid_and_has_one_condition() {
        let seen = Arc::new(Mutex::new(None));
        let sent = Arc::clone(&seen);
        let service = tower::service_fn(move |request: Request<Body>| {
            let sent = Arc::clone(&sent);
            async move {
                let (head, body) = request.into_parts();
                let body: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
                *sent.lock().unwrap() = Some((head, body));
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Response::new(Body::from(b"{}".to_vec())))
            }
        });
        let client = Client::new(service, "default");
        let condition =
            PodCondition { kind: "example.com/Requeued", reason: "Changed", message: "racks has changed" };
        set_condition(&client, "shop", "web-0", "u-1", condition).await.unwrap();
        let (head, body) = seen.lock().unwrap().take().unwrap();
        assert_eq!(
            (head.method.as_str(), head.uri.path()),
            ("PATCH", "/api/v1/namespaces/shop/pods/web-0/status")
        );
        assert_eq!(head.headers["content-type"], "application/strategic-merge-patch+json");
        assert_eq!(body["metadata"]["uid"], "u-1");
        let written = &body["status"]["conditions"][0];
        assert_eq!((&written["type"], &written["status"]), (&"example.com/Requeued".into(), &"True".into()));
        assert_eq!(
            (&written["reason"], &written["message"]),
            (&"Changed".into(), &"racks has changed".into())
        );
        let time: Timestamp = written["lastTransitionTime"].as_str().unwrap().parse().unwrap();
        assert!(Timestamp::now().duration_since(time).as_secs() < 60);
    }
}

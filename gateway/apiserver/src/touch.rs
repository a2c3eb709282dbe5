//! Changes a node so that kube-scheduler tries all rejected pods again.

use k8s_openapi::{api::core::v1::Node, jiff::Timestamp};
use kube::{
    Client, Resource,
    api::{ListParams, Patch, PatchParams},
    core::Request,
};
use serde::Deserialize;
use serde_json::json;

use crate::request::{RequestError, read};

/// The annotation, whose value is the time. kube-scheduler's plugin knows its key (`retryAnnotation`).
pub const RETRY: &str = "extender-gateway.io/retry";
/// The most nodes that are listed to find one.
const MOST: u32 = 50;
/// The largest answer in bytes.
const LARGEST_ANSWER: usize = 64 << 20;

#[derive(Deserialize)]
struct NodeList {
    items: Vec<ListedNode>,
}

/// The fields of a node that are read.
#[derive(Deserialize)]
struct ListedNode {
    metadata: ListedMeta,
    #[serde(default)]
    spec: ListedSpec,
}

#[derive(Deserialize)]
struct ListedMeta {
    name: String,
}

#[derive(Default, Deserialize)]
struct ListedSpec {
    #[serde(default)]
    unschedulable: bool,
    #[serde(default)]
    taints: Vec<serde::de::IgnoredAny>,
}

/// Sets an annotation of a node: an update of any node is an event for which kube-scheduler tries rejected pods again.
/// kube-scheduler leaves out pods that certainly do not fit the node, so one that takes most pods is chosen. Returns its name;
/// `None` if there is no node.
///
/// # Errors
/// The apiserver does not confirm it. The account needs `list` and `patch` for `nodes`.
pub async fn touch_node(client: &Client) -> Result<Option<String>, RequestError> {
    let nodes = || Request::new(Node::url_path(&(), None));
    let list = nodes().list(&ListParams { limit: Some(MOST), ..ListParams::default() });
    let NodeList { items } = serde_json::from_slice(&read(client, list, LARGEST_ANSWER).await?)
        .map_err(|error| RequestError::Failed(format!("the list of nodes cannot be read: {error}")))?;
    let hindrances = |node: &&ListedNode| (node.spec.unschedulable, node.spec.taints.len());
    let Some(node) = items.iter().min_by_key(hindrances) else { return Ok(None) };
    let name = &node.metadata.name;
    let patch = json!({"metadata": {"annotations": {RETRY: Timestamp::now().to_string()}}});
    let request = nodes().patch(name, &PatchParams::default(), &Patch::Merge(patch));
    read(client, request, LARGEST_ANSWER).await?;
    Ok(Some(name.clone()))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::Value;

    use super::*;

    /// An apiserver with these nodes, and the path and body of the change that it gets.
    async fn touched(nodes: Value) -> (Option<String>, Option<(String, Value)>) {
        let seen = Arc::new(Mutex::new(None));
        let (sent, list) = (Arc::clone(&seen), json!({"items": nodes}).to_string().into_bytes());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (sent, list) = (Arc::clone(&sent), list.clone());
            async move {
                if request.method() == "PATCH" {
                    let path = request.uri().path().to_owned();
                    let body = request.into_body().collect_bytes().await.unwrap();
                    *sent.lock().unwrap() = Some((path, serde_json::from_slice(&body).unwrap()));
                }
                Ok::<_, std::io::Error>(Response::new(Body::from(list)))
            }
        });
        let name = touch_node(&Client::new(service, "default")).await.unwrap();
        let change = seen.lock().unwrap().take();
        (name, change)
    }

    #[tokio::test]
    async fn the_node_that_takes_most_pods_gets_the_annotation() {
        let (name, change) = touched(json!([
            {"metadata": {"name": "cordoned"}, "spec": {"unschedulable": true}},
            {"metadata": {"name": "tainted"}, "spec": {"taints": [{"key": "gpu"}]}},
            {"metadata": {"name": "free"}},
        ]))
        .await;
        assert_eq!(name.as_deref(), Some("free"));
        let (path, body) = change.unwrap();
        assert_eq!(path, "/api/v1/nodes/free");
        assert!(body["metadata"]["annotations"][RETRY].is_string(), "{body}");
        assert_eq!(body.as_object().map(serde_json::Map::len), Some(1), "nothing else changes");
    }

    #[tokio::test]
    async fn without_nodes_nothing_is_changed() {
        assert_eq!(touched(json!([])).await, (None, None));
    }
}

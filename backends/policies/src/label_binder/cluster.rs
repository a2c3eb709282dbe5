//! The requests of this policy to the apiserver. Errors are sentences for operators.

use std::fmt;

use extender_apiserver::RequestError;
use extender_policy_sdk::BindAsk;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client, api::ObjectMeta};

use super::Pairs;

/// The apiserver behind a client.
#[derive(Clone)]
pub(super) struct Cluster {
    client: Client,
}

impl Cluster {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// The labels of a node.
    pub(super) async fn labels(&self, node: &str) -> Result<Pairs, String> {
        let found = Api::<Node>::all(self.client.clone()).get_metadata(node).await;
        let found = found.map_err(|error| failed(&format!("cannot read node {node}"), error))?;
        Ok(found.metadata.labels.unwrap_or_default())
    }

    /// Creates the Binding, for the pod of this UID alone.
    pub(super) async fn bind(&self, ask: BindAsk<'_>, annotations: Pairs) -> Result<(), RequestError> {
        let metadata = ObjectMeta {
            namespace: Some(ask.namespace().to_owned()),
            name: Some(ask.name().to_owned()),
            uid: Some(ask.uid().to_owned()),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        };
        extender_apiserver::bind(&self.client, metadata, ask.node()).await
    }

    /// Whether the pod of this UID is bound to this node.
    pub(super) async fn is_bound(&self, ask: BindAsk<'_>) -> Result<bool, String> {
        let pod = self.pods(ask).get_opt(ask.name()).await;
        let pod = pod.map_err(|error| failed("cannot read the pod", error))?;
        Ok(pod.is_some_and(|pod| {
            let node = pod.spec.and_then(|spec| spec.node_name);
            pod.metadata.uid.as_deref() == Some(ask.uid()) && node.as_deref() == Some(ask.node())
        }))
    }

    fn pods(&self, ask: BindAsk<'_>) -> Api<Pod> {
        Api::namespaced(self.client.clone(), ask.namespace())
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

fn failed(what: &str, error: kube::Error) -> String {
    format!("{what}: {}", RequestError::from(error))
}

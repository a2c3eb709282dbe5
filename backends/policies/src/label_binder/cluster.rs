//! The requests of this policy to the apiserver. Errors are sentences for operators.

use std::fmt;

use extender_apiserver::RequestError;
use extender_policy_sdk::BindAsk;
use kube::{
    Client,
    api::{GetParams, ObjectMeta},
    core::Request,
};
use serde::{Deserialize, de::DeserializeOwned};

use super::Pairs;

/// The largest object in bytes: more than etcd stores.
const LARGEST: usize = 16 << 20;

/// The fields of a node or a pod that are read. Others may have any JSON that Go reads.
#[derive(Default, Deserialize)]
#[serde(default, rename = "Object")]
struct NodeOrPod {
    metadata: MetadataRead,
    spec: SpecRead,
}

#[derive(Default, Deserialize)]
#[serde(default, rename = "Metadata")]
struct MetadataRead {
    uid: String,
    labels: Option<Pairs>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", rename = "Spec")]
struct SpecRead {
    node_name: Option<String>,
}

/// The apiserver behind a client.
#[derive(Clone)]
pub(super) struct NodesAndPods {
    client: Client,
}

impl NodesAndPods {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// The labels of a node.
    pub(super) async fn labels(&self, node: &str) -> Result<Pairs, String> {
        let request = Request::new("/api/v1/nodes").get_metadata(node, &GetParams::default());
        let found: Result<NodeOrPod, _> = self.read(request).await;
        let found = found.map_err(|error| format!("cannot read node {node}: {error}"))?;
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
        let pods = Request::new(format!("/api/v1/namespaces/{}/pods", ask.namespace()));
        match self.read::<NodeOrPod>(pods.get(ask.name(), &GetParams::default())).await {
            Ok(NodeOrPod { metadata, spec }) => {
                Ok(metadata.uid == ask.uid() && spec.node_name.as_deref() == Some(ask.node()))
            }
            Err(error) if error.code() == Some(404) => Ok(false),
            Err(error) => Err(format!("cannot read the pod: {error}")),
        }
    }

    async fn read<O: DeserializeOwned>(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<O, RequestError> {
        let json = extender_apiserver::read(&self.client, request, LARGEST).await?;
        serde_json::from_slice(&json)
            .map_err(|error| RequestError::Failed(format!("the answer cannot be read: {error}")))
    }
}

impl fmt::Debug for NodesAndPods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodesAndPods").finish_non_exhaustive()
    }
}

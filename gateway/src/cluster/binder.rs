//! The built-in binder, and the truth about bindings.
//!
//! A pod is bound when the apiserver says so, and by nothing else: whoever bound it, and whatever became of
//! the answer, is found out here. A Binding names the UID of its pod, so that another pod that took over the
//! name is never bound, and the apiserver binds no pod twice, so that binding may be tried again.

mod error;

use std::{fmt, path::Path};

use bytes::Bytes;
use extender_apiserver::{ConnectError, RequestError};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, Resource,
    api::{GetParams, ObjectMeta},
    core::Request,
};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

pub use self::error::ApiserverError;
use extender_gateway_core::Assignment;

/// The most bytes of a pod that are read: more than etcd stores, and than is read of a pod in a call.
const LARGEST_POD: usize = 16 << 20;

/// What is true of an [`Assignment`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindingState {
    /// The pod is bound to the node.
    Bound,
    /// The pod is not bound.
    Free,
    /// The pod is bound to this other node.
    Elsewhere(String),
    /// There is no pod of that name.
    Gone,
    /// The pod of that name is another one, with this UID.
    OtherUid(String),
    /// The apiserver could not be asked.
    Unknown(ApiserverError),
}

/// A pod as far as its binding goes. Mirrors `corev1.Pod`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct BoundPod {
    metadata: PodIdentity,
    spec: PodPlacement,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodIdentity {
    uid: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodPlacement {
    node_name: Option<String>,
}

impl BindingState {
    /// What the pod's JSON says.
    pub fn read(json: &[u8], assignment: &Assignment) -> Self {
        let BoundPod { metadata, spec } = match serde_json::from_slice(json) {
            Ok(standing) => standing,
            Err(error) => return Self::Unknown(ApiserverError::malformed(error)),
        };
        if metadata.uid.is_empty() {
            return Self::Unknown(ApiserverError::malformed("it has no UID"));
        }
        if metadata.uid != assignment.uid {
            return Self::OtherUid(metadata.uid);
        }
        match spec.node_name.filter(|node| !node.is_empty()) {
            None => Self::Free,
            Some(node) if node == assignment.node => Self::Bound,
            Some(node) => Self::Elsewhere(node),
        }
    }
}

impl fmt::Display for BindingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bound => f.write_str("the pod is bound to this node"),
            Self::Free => f.write_str("the pod is not bound"),
            Self::Elsewhere(node) => write!(f, "the pod is bound to node {node}"),
            Self::Gone => f.write_str("the pod no longer exists"),
            Self::OtherUid(uid) => {
                write!(f, "the pod no longer exists; another pod with UID {uid} has its name")
            }
            Self::Unknown(error) => write!(f, "{error}"),
        }
    }
}

/// The apiserver as far as binding goes. Clones share their connections.
#[derive(Clone)]
pub struct Apiserver {
    client: Client,
}

impl fmt::Debug for Apiserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Apiserver").finish_non_exhaustive()
    }
}

impl Apiserver {
    /// The apiserver that [`extender_apiserver::connect`] finds. Does not connect yet; what runs later runs on the
    /// runtime of this call.
    ///
    /// # Errors
    /// There is no usable way to it.
    pub async fn connect(kubeconfig: Option<&Path>) -> Result<Self, ConnectError> {
        extender_apiserver::connect(kubeconfig).await.map(|client| Self { client })
    }

    /// The pod's JSON; `None` when there is no pod of that name. Asks until `by`.
    ///
    /// # Errors
    /// The apiserver refuses, or cannot be reached in time.
    pub async fn pod(
        &self,
        namespace: &str,
        name: &str,
        by: Instant,
    ) -> Result<Option<Bytes>, ApiserverError> {
        let pods = Request::new(Pod::url_path(&(), Some(namespace)));
        let request = pods.get(name, &GetParams::default());
        match until(by, extender_apiserver::read(&self.client, request, LARGEST_POD)).await {
            Ok(json) => Ok(Some(json)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates the Binding, within the time until `by`. Mirrors `DefaultBinder.Bind` of kube-scheduler.
    ///
    /// # Errors
    /// The apiserver does not confirm it. The pod may be bound all the same: see [`Self::binding_state`].
    pub async fn bind(&self, assignment: &Assignment, by: Instant) -> Result<(), ApiserverError> {
        let Assignment { namespace, name, uid, node } = assignment.clone();
        let metadata = ObjectMeta {
            namespace: Some(namespace),
            name: Some(name),
            uid: Some(uid),
            ..ObjectMeta::default()
        };
        until(by, extender_apiserver::bind(&self.client, metadata, &node)).await
    }

    /// What is true now. Asks until `by`.
    pub async fn binding_state(&self, assignment: &Assignment, by: Instant) -> BindingState {
        match self.pod(&assignment.namespace, &assignment.name, by).await {
            Ok(Some(json)) => BindingState::read(&json, assignment),
            Ok(None) => BindingState::Gone,
            Err(error) => BindingState::Unknown(error),
        }
    }
}

async fn until<T>(
    by: Instant,
    answer: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, ApiserverError> {
    timeout_at(by, answer).await.map_err(|_| ApiserverError::Late)?.map_err(ApiserverError::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignment() -> Assignment {
        Assignment { namespace: "shop".into(), name: "web-0".into(), uid: "u-1".into(), node: "a".into() }
    }

    #[test]
    fn the_pod_says_what_is_true() {
        for (json, truth) in [
            (r#"{"metadata":{"uid":"u-1"},"spec":{"nodeName":"a"}}"#, BindingState::Bound),
            (r#"{"metadata":{"uid":"u-1"},"spec":{"nodeName":"b"}}"#, BindingState::Elsewhere("b".into())),
            (r#"{"metadata":{"uid":"u-1"},"spec":{"nodeName":""}}"#, BindingState::Free),
            (r#"{"metadata":{"uid":"u-1"},"spec":{"nodeName":null}}"#, BindingState::Free),
            (r#"{"metadata":{"uid":"u-1"},"spec":{}}"#, BindingState::Free),
            (r#"{"metadata":{"uid":"u-2"},"spec":{"nodeName":"a"}}"#, BindingState::OtherUid("u-2".into())),
        ] {
            assert_eq!(BindingState::read(json.as_bytes(), &assignment()), truth, "{json}");
        }
        for json in ["[]x", "[]", "{}", r#"{"spec":{"nodeName":"a"}}"#, r#"{"metadata":{"uid":""}}"#] {
            let state = BindingState::read(json.as_bytes(), &assignment());
            assert!(matches!(state, BindingState::Unknown(_)), "{json}: {state:?}");
        }
    }

    #[tokio::test]
    async fn a_pod_is_gone_only_if_the_apiserver_says_so() {
        for (body, gone) in [(r#"{"kind":"Status","code":404}"#, true), ("<html>", false), ("{}", false)] {
            let service = tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
                let body = kube::client::Body::from(body.as_bytes().to_vec());
                http::Response::builder().status(404).body(body)
            });
            let apiserver = Apiserver { client: Client::new(service, "default") };
            let by = Instant::now() + std::time::Duration::from_mins(2);
            let state = apiserver.binding_state(&assignment(), by).await;
            assert_eq!(state == BindingState::Gone, gone, "{body}: {state:?}");
            assert!(gone || matches!(state, BindingState::Unknown(_)), "{body}: {state:?}");
        }
    }
}

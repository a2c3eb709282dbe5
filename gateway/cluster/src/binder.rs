//! The built-in binder, and the state of bindings in the apiserver.
//!
//! Only the apiserver decides whether a pod is bound, no matter who bound it and whether the answer was lost. A Binding
//! contains the UID of its pod, so that a new pod with the same name is never bound, and the apiserver binds no pod
//! twice, so that a Binding can be retried.

use std::{
    fmt::{self, Display},
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use extender_apiserver::{ConnectError, RequestError, bounded};
use extender_gateway_core::Assignment;
use extender_gateway_object::ObjectError;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Client, Resource,
    api::{GetParams, ObjectMeta},
    core::Request,
};
use serde::Deserialize;
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout_at},
};

use super::gangs::GroupKey;

/// The largest pod in bytes: more than etcd stores, and than the gateway reads of a pod in a call.
const LARGEST_POD: usize = 16 << 20;
/// The most concurrent requests for bindings; the others wait within their deadlines. With HTTP/1.1 each has a connection
/// of its own, with a TLS handshake, and when a hundred pods are bound at the same time, that is most of the work.
const MOST_REQUESTS: usize = 32;

/// The versions of the API of pod groups: of Kubernetes 1.37 and of 1.36.
const GROUP_VERSIONS: [&str; 2] = ["v1beta1", "v1alpha2"];

/// Why a request to the apiserver has no result. Contains the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiserverError {
    /// It did not respond before the deadline.
    #[error("the apiserver did not respond in time")]
    Late,
    /// The apiserver rejected the request.
    #[error("the apiserver rejected the request: {}{}", .0, remedy(.0.code()))]
    Refused(RequestError),
    /// The request has no answer of the apiserver, or none that can be used.
    #[error("the request to the apiserver failed: {0}")]
    Failed(RequestError),
}

fn remedy(code: Option<u16>) -> &'static str {
    match code {
        Some(401) => "; check the token or client certificate of the kubeconfig or the service account",
        Some(403) => {
            "; bind the gateway's service account to a ClusterRole with the rules {apiGroups: [\"\"], \
             resources: [pods], verbs: [get]}, {apiGroups: [\"\"], resources: [pods/binding], verbs: [create]} and \
             {apiGroups: [scheduling.k8s.io], resources: [podgroups], verbs: [get]}"
        }
        _ => "",
    }
}

impl ApiserverError {
    /// Of an answer that cannot be used.
    pub fn unusable(error: &str) -> Self {
        Self::Failed(RequestError::Failed(bounded(error)))
    }

    /// Of a pod that cannot be parsed.
    pub fn malformed(error: impl Display) -> Self {
        Self::unusable(&format!("cannot parse the pod from the apiserver ({error})"))
    }

    fn request(&self) -> Option<&RequestError> {
        match self {
            Self::Refused(error) | Self::Failed(error) => Some(error),
            Self::Late => None,
        }
    }

    /// The HTTP status of an answer that is an error.
    fn code(&self) -> Option<u16> {
        self.request().and_then(RequestError::code)
    }

    /// Whether the apiserver, or its etcd, is away and may come back without anybody's change.
    pub fn is_away(&self) -> bool {
        let is_unreachable = matches!(self, Self::Failed(RequestError::Unreachable(_)));
        is_unreachable || self.code().is_some_and(|code| code == 429 || code >= 500)
    }

    /// Whether the request for a Binding certainly had no effect, and will have none.
    pub fn excludes_an_effect(&self) -> bool {
        self.request().is_some_and(RequestError::excludes_an_effect)
    }
}

impl From<RequestError> for ApiserverError {
    fn from(error: RequestError) -> Self {
        if matches!(error, RequestError::Refused { .. }) { Self::Refused(error) } else { Self::Failed(error) }
    }
}

impl From<ObjectError> for ApiserverError {
    fn from(error: ObjectError) -> Self {
        Self::malformed(error)
    }
}

/// Mirrors `PodGroup` of `scheduling.k8s.io`, the field that is read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodGroup {
    spec: PodGroupSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodGroupSpec {
    scheduling_policy: PodGroupSchedulingPolicy,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodGroupSchedulingPolicy {
    gang: Option<GangSchedulingPolicy>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GangSchedulingPolicy {
    min_count: usize,
}

impl PodGroup {
    fn min_count(json: &[u8]) -> Result<Option<usize>, ApiserverError> {
        let group: Self = serde_json::from_slice(json).map_err(|error| {
            ApiserverError::unusable(&format!("cannot parse the PodGroup from the apiserver ({error})"))
        })?;
        Ok(group.spec.scheduling_policy.gang.map(|gang| gang.min_count))
    }
}

/// The state of an [`Assignment`].
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
    /// The request for the pod failed.
    Unknown(ApiserverError),
}

impl From<ObjectError> for BindingState {
    fn from(error: ObjectError) -> Self {
        Self::Unknown(error.into())
    }
}

/// The fields of a pod that concern its binding. Mirrors `corev1.Pod`.
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
    /// Whether it is not known because the apiserver is away.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Unknown(error) if error.is_away())
    }

    /// The state according to the pod's JSON.
    pub fn read(json: &[u8], assignment: &Assignment) -> Self {
        let BoundPod { metadata, spec } = match serde_json::from_slice(json) {
            Ok(pod) => pod,
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

impl Display for BindingState {
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

/// The apiserver's part in binding. Clones share their connections.
#[derive(Clone)]
pub struct Apiserver {
    client: Client,
    /// One permit for each concurrent request.
    requests: Arc<Semaphore>,
}

impl fmt::Debug for Apiserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Apiserver").finish_non_exhaustive()
    }
}

impl Apiserver {
    /// The apiserver that [`extender_apiserver::connect`] finds. Does not connect yet; background tasks run on the
    /// runtime of this call.
    ///
    /// # Errors
    /// There is no usable access.
    pub async fn connect(kubeconfig: Option<&Path>) -> Result<Self, ConnectError> {
        extender_apiserver::connect(kubeconfig).await.map(Self::new)
    }

    fn new(client: Client) -> Self {
        Self { client, requests: Arc::new(Semaphore::new(MOST_REQUESTS)) }
    }

    /// The pod's JSON; `None` if there is no pod of that name.
    ///
    /// # Errors
    /// The apiserver rejects the request, or there is no answer before the deadline.
    pub async fn pod(
        &self,
        namespace: &str,
        name: &str,
        deadline: Instant,
    ) -> Result<Option<Bytes>, ApiserverError> {
        let pods = Request::new(Pod::url_path(&(), Some(namespace)));
        let request = pods.get(name, &GetParams::default());
        let _permit = self.permit(deadline).await?;
        match until(deadline, extender_apiserver::read(&self.client, request, LARGEST_POD)).await {
            Err(ApiserverError::Refused(error)) if error.code() == Some(404) => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// The `minCount` of a `PodGroup`; `None` if there is no such group, or it is no gang.
    ///
    /// # Errors
    /// The apiserver rejects the request, or there is no answer before the deadline.
    pub async fn min_count(
        &self,
        GroupKey { namespace, name }: &GroupKey,
        deadline: Instant,
    ) -> Result<Option<usize>, ApiserverError> {
        for version in GROUP_VERSIONS {
            let groups = format!("/apis/scheduling.k8s.io/{version}/namespaces/{namespace}/podgroups");
            let request = Request::new(groups).get(name, &GetParams::default());
            let _permit = self.permit(deadline).await?;
            match until(deadline, extender_apiserver::read(&self.client, request, LARGEST_POD)).await {
                // The version is not served, or the group is gone.
                Err(error) if error.code() == Some(404) => {}
                answer => return PodGroup::min_count(&answer?),
            }
        }
        Ok(None)
    }

    /// Creates the Binding. Mirrors `DefaultBinder.Bind` of kube-scheduler.
    ///
    /// # Errors
    /// The apiserver does not confirm it before the deadline. The pod may be bound nevertheless: see
    /// [`Self::binding_state`].
    pub async fn bind(&self, assignment: &Assignment, deadline: Instant) -> Result<(), ApiserverError> {
        let Assignment { namespace, name, uid, node } = assignment.clone();
        let metadata = ObjectMeta {
            namespace: Some(namespace),
            name: Some(name),
            uid: Some(uid),
            ..ObjectMeta::default()
        };
        let _permit = self.permit(deadline).await?;
        until(deadline, extender_apiserver::bind(&self.client, metadata, &node)).await
    }

    /// The current state.
    pub async fn binding_state(&self, assignment: &Assignment, deadline: Instant) -> BindingState {
        match self.pod(&assignment.namespace, &assignment.name, deadline).await {
            Ok(Some(json)) => BindingState::read(&json, assignment),
            Ok(None) => BindingState::Gone,
            Err(error) => BindingState::Unknown(error),
        }
    }

    /// Waits until fewer than [`MOST_REQUESTS`] are in progress.
    async fn permit(&self, deadline: Instant) -> Result<SemaphorePermit<'_>, ApiserverError> {
        let permit = timeout_at(deadline, self.requests.acquire()).await.map_err(|_| ApiserverError::Late)?;
        Ok(permit.expect("it is never closed"))
    }
}

async fn until<T>(
    deadline: Instant,
    answer: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, ApiserverError> {
    timeout_at(deadline, answer).await.map_err(|_| ApiserverError::Late)?.map_err(ApiserverError::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignment() -> Assignment {
        Assignment { namespace: "shop".into(), name: "web-0".into(), uid: "u-1".into(), node: "a".into() }
    }

    #[test]
    fn the_state_is_read_from_the_pod() {
        for (json, state) in [
            (r#"{"metadata":{"uid":"u-1"},"spec":{"nodeName":"a"}}"#, BindingState::Bound),
            (r#"{"metadata":{"uid":"u-1"},"spec":{"nodeName":"b"}}"#, BindingState::Elsewhere("b".into())),
            (r#"{"metadata":{"uid":"u-1"},"spec":{"nodeName":""}}"#, BindingState::Free),
            (r#"{"metadata":{"uid":"u-1"},"spec":{"nodeName":null}}"#, BindingState::Free),
            (r#"{"metadata":{"uid":"u-1"},"spec":{}}"#, BindingState::Free),
            (r#"{"metadata":{"uid":"u-2"},"spec":{"nodeName":"a"}}"#, BindingState::OtherUid("u-2".into())),
        ] {
            assert_eq!(BindingState::read(json.as_bytes(), &assignment()), state, "{json}");
        }
        for json in ["[]x", "[]", "{}", r#"{"spec":{"nodeName":"a"}}"#, r#"{"metadata":{"uid":""}}"#] {
            let state = BindingState::read(json.as_bytes(), &assignment());
            assert!(matches!(state, BindingState::Unknown(_)), "{json}: {state:?}");
        }
    }

    #[tokio::test]
    async fn a_pod_is_gone_only_after_a_status_404() {
        for (body, gone) in [(r#"{"kind":"Status","code":404}"#, true), ("<html>", false), ("{}", false)] {
            let service = tower::service_fn(move |_: http::Request<kube::client::Body>| async move {
                let body = kube::client::Body::from(body.as_bytes().to_vec());
                http::Response::builder().status(404).body(body)
            });
            let apiserver = Apiserver::new(Client::new(service, "default"));
            let deadline = Instant::now() + std::time::Duration::from_mins(2);
            let state = apiserver.binding_state(&assignment(), deadline).await;
            assert_eq!(state == BindingState::Gone, gone, "{body}: {state:?}");
            assert!(gone || matches!(state, BindingState::Unknown(_)), "{body}: {state:?}");
        }
    }

    #[tokio::test]
    async fn a_group_is_read_in_the_version_that_the_apiserver_serves() {
        let gang = r#"{"spec":{"schedulingPolicy":{"gang":{"minCount":3}}}}"#;
        let basic = r#"{"spec":{"schedulingPolicy":{"basic":{}}}}"#;
        for (served, group, expected) in [
            ("v1beta1", gang, Some(3)),
            ("v1alpha2", gang, Some(3)),
            ("v1alpha2", basic, None),
            ("none", gang, None),
        ] {
            let path = format!("/apis/scheduling.k8s.io/{served}/namespaces/shop/podgroups/train");
            let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
                let is_served = request.uri().path() == path;
                let (code, body) = if is_served { (200, group) } else { (404, "404 page not found\n") };
                let body = kube::client::Body::from(body.as_bytes().to_vec());
                std::future::ready(http::Response::builder().status(code).body(body))
            });
            let apiserver = Apiserver::new(Client::new(service, "default"));
            let key = GroupKey { namespace: "shop".into(), name: "train".into() };
            let deadline = Instant::now() + std::time::Duration::from_mins(2);
            assert_eq!(apiserver.min_count(&key, deadline).await, Ok(expected), "{served} {group}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_binds_has_few_requests_at_a_time_and_waits_within_the_deadline() {
        let (seen, release) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let (told, gate) = (Arc::clone(&seen), Arc::clone(&release));
        let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
            told.add_permits(1);
            let gate = Arc::clone(&gate);
            async move {
                gate.acquire().await.unwrap().forget();
                let body = kube::client::Body::from(br#"{"kind":"Status","status":"Success"}"#.to_vec());
                http::Response::builder().status(201).body(body)
            }
        });
        let apiserver = Apiserver::new(Client::new(service, "default"));
        let deadline = Instant::now() + std::time::Duration::from_secs(10);
        let bind = || {
            let apiserver = apiserver.clone();
            tokio::spawn(async move { apiserver.bind(&assignment(), deadline).await })
        };
        let (binds, late): (Vec<_>, Vec<_>) =
            ((0..100).map(|_| bind()).collect(), (0..3).map(|_| bind()).collect());
        // The clock stands still while there is work.
        tokio::time::sleep(std::time::Duration::from_secs(9)).await;
        assert_eq!(seen.available_permits(), MOST_REQUESTS);
        release.add_permits(100);
        for bind in binds {
            assert_eq!(bind.await.unwrap(), Ok(()));
        }
        for bind in late {
            assert_eq!(bind.await.unwrap(), Err(ApiserverError::Late));
        }
    }
}

//! The requests of this policy to the apiserver.

use std::{collections::BTreeMap, fmt, ops::Deref};

use extender_apiserver::{RequestError, read, whole_text};
use extender_policy_sdk::BindAsk;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Client, Resource as _,
    api::{DeleteParams, GetParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions},
    core::Request,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    object::{self, Reservation, Status},
    owners::Asking,
    placeholder,
    recorded::Recorded,
};

/// The annotation of nodes that says when reserved room became free there.
const FREED: &str = "scheduling.extender-gateway.io/room-freed-at";

/// The annotation of nodes on which room is reserved: whoever leads next knows where to look.
pub(super) const RESERVED: &str = "scheduling.extender-gateway.io/room-reserved";

/// What the annotations of a node tell from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Note {
    /// Some reserved room has become free, and some is reserved.
    Freed(Timestamp),
    /// Some has become free, and no room is reserved on it any more.
    Emptied(Timestamp),
}

/// The largest answer in bytes: more than etcd stores of an object, and than a hundred small ones.
const LARGEST: usize = 16 << 20;

/// The apiserver behind a client. Clones share it.
#[derive(Clone)]
pub(super) struct Cluster {
    client: Client,
}

/// The names of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodRef {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// Where a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The pod of this UID does not exist.
    Gone,
    Unbound,
    On(String),
}

/// Whether the object was changed or replaced meanwhile.
pub(super) fn is_conflict(error: &RequestError) -> bool {
    error.code() == Some(409)
}

/// Whether there is no such object. An answer without a `Status`, perhaps from a proxy, is no proof.
pub(super) fn is_missing(error: &RequestError) -> bool {
    matches!(error, RequestError::Refused { code: 404, .. })
}

impl Cluster {
    pub(super) fn new(client: Client) -> Self {
        Self { client }
    }

    /// The latest version; `None` if it does not exist, or is being deleted.
    pub(super) async fn reservation(&self, name: &str) -> Result<Option<Reservation>, RequestError> {
        match read(&self.client, reservations().get(name, &GetParams::default()), LARGEST).await {
            Ok(json) => parsed_reservation(&json),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The template of the placeholder pod, as the user wrote it.
    pub(super) async fn template(&self, name: &str) -> Result<Value, RequestError> {
        let json = read(&self.client, reservations().get(name, &GetParams::default()), LARGEST).await?;
        let mut object: Value = parsed(&json)?;
        Ok(object.pointer_mut("/spec/template").map(Value::take).unwrap_or_default())
    }

    /// Writes a status, unless the Reservation has changed since this version. Returns the version that it wrote; `None` if
    /// that one is being deleted.
    pub(super) async fn write_status(
        &self,
        reservation: &Reservation,
        status: &Status,
    ) -> Result<Option<Reservation>, RequestError> {
        let json = bytes(&reservation.with_status(status));
        let request =
            reservations().replace_subresource("status", &reservation.name, &PostParams::default(), json);
        parsed_reservation(&read(&self.client, request, LARGEST).await?)
    }

    /// Creates the Binding, for the pod of this UID alone.
    pub(super) async fn bind(&self, ask: BindAsk<'_>) -> Result<(), RequestError> {
        let metadata = ObjectMeta {
            namespace: Some(ask.namespace().to_owned()),
            name: Some(ask.name().to_owned()),
            uid: Some(ask.uid().to_owned()),
            ..ObjectMeta::default()
        };
        extender_apiserver::bind(&self.client, metadata, ask.node()).await
    }

    /// Where the pod of this UID is.
    pub(super) async fn place(&self, pod: &PodRef) -> Result<Place, RequestError> {
        let Some(json) = self.pod(pod).await? else { return Ok(Place::Gone) };
        let PlacedPod { spec } = parsed(&json)?;
        Ok(spec.node_name.filter(|node| !node.is_empty()).map_or(Place::Unbound, Place::On))
    }

    /// What decides whether the pod of this UID is an owner; `None` if it does not exist.
    pub(super) async fn identity(&self, pod: &PodRef) -> Result<Option<Identity>, RequestError> {
        let Some(json) = self.pod(pod).await? else { return Ok(None) };
        let IdentifiedPod { metadata } = parsed(&json)?;
        Ok(Some(metadata))
    }

    /// The JSON of the pod of this UID; `None` if it does not exist.
    async fn pod(&self, pod: &PodRef) -> Result<Option<impl Deref<Target = [u8]>>, RequestError> {
        let request = pods(&pod.namespace).get(&pod.name, &GetParams::default());
        match read(&self.client, request, LARGEST).await {
            Ok(json) => {
                let ListedPod { metadata } = parsed(&json)?;
                Ok((metadata.uid == pod.uid).then_some(json))
            }
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes the pod of this UID at once. One that does not exist is deleted.
    pub(super) async fn delete_pod(&self, pod: &PodRef) -> Result<(), RequestError> {
        let preconditions = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        match read(&self.client, pods(&pod.namespace).delete(&pod.name, &params), LARGEST).await {
            Err(error) if !is_missing(&error) && !is_conflict(&error) => Err(error),
            // A conflict: the pod of this name has another UID.
            _ => Ok(()),
        }
    }

    /// Creates a placeholder pod; returns its JSON. Fields that the apiserver does not know are an error: they would be dropped.
    pub(super) async fn create_pod(&self, namespace: &str, pod: &Value) -> Result<Vec<u8>, RequestError> {
        let request = pods(namespace).create(&PostParams::default(), bytes(pod)).map(strictly);
        Ok(read(&self.client, request, LARGEST).await?.to_vec())
    }

    /// What the placeholder pod of this UID requests now; `None` if it does not exist.
    pub(super) async fn recorded(&self, pod: &PodRef) -> Result<Option<Recorded>, RequestError> {
        let Some(json) = self.pod(pod).await? else { return Ok(None) };
        Recorded::of(&json).map(Some).map_err(RequestError::Failed)
    }

    /// Deletes a Reservation, unless it has changed since this version.
    pub(super) async fn delete_reservation(&self, reservation: &Reservation) -> Result<(), RequestError> {
        let Reservation { name, uid, version, .. } = reservation;
        let preconditions =
            Preconditions { uid: Some(uid.clone()), resource_version: Some(version.to_string()) };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        match read(&self.client, reservations().delete(name, &params), LARGEST).await {
            Err(error) if !is_missing(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// The UIDs of the placeholder pods of this Reservation.
    pub(super) async fn placeholders(
        &self,
        reservation: &Reservation,
        namespace: &str,
    ) -> Result<Vec<String>, RequestError> {
        let params = ListParams::default().labels(&format!("{}={}", placeholder::LABEL, reservation.uid));
        let PodList { items } = parsed(&read(&self.client, pods(namespace).list(&params), LARGEST).await?)?;
        Ok(items.into_iter().map(|pod| pod.metadata.uid).collect())
    }

    /// Lets kube-scheduler schedule a placeholder pod, unless others hold it back with gates of their own; returns its JSON.
    pub(super) async fn open_gate(&self, pod: &PodRef) -> Result<Vec<u8>, RequestError> {
        let gates = json!([{"$patch": "delete", "name": placeholder::GATE}]);
        let patch =
            Patch::Strategic(json!({"metadata": {"uid": pod.uid}, "spec": {"schedulingGates": gates}}));
        let request = pods(&pod.namespace).patch(&pod.name, &PatchParams::default(), &patch);
        Ok(read(&self.client, request, LARGEST).await?.to_vec())
    }

    /// Whether there is a node of this name.
    pub(super) async fn has_node(&self, name: &str) -> Result<bool, RequestError> {
        let request = Request::new(Node::url_path(&(), None)).get_metadata(name, &GetParams::default());
        match read(&self.client, request, LARGEST).await {
            Ok(_) => Ok(true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Changes the annotations of a node.
    pub(super) async fn annotate_node(&self, name: &str, note: Note) -> Result<(), RequestError> {
        let annotations = match note {
            Note::Freed(now) => json!({FREED: now.to_string(), RESERVED: "true"}),
            Note::Emptied(now) => json!({FREED: now.to_string(), RESERVED: null}),
        };
        let patch = json!({"metadata": {"annotations": annotations}});
        let nodes = Request::new(Node::url_path(&(), None));
        let request = nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch));
        read(&self.client, request, LARGEST).await.map(drop)
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct PodList {
    items: Vec<ListedPod>,
}

#[derive(Deserialize)]
struct ListedPod {
    metadata: Uid,
}

#[derive(Deserialize)]
struct IdentifiedPod {
    metadata: Identity,
}

/// Who a pod is.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Identity {
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    owner_references: Vec<OwnerEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", rename = "Owner")]
struct OwnerEntry {
    kind: String,
    name: String,
    uid: String,
    #[serde(default)]
    controller: bool,
}

impl Identity {
    /// Whether these are the facts of this pod.
    pub(super) fn is_of(&self, pod: &Asking<'_>) -> bool {
        let own = self.owner_references.iter().find(|owner| owner.controller);
        let own = own.map(|OwnerEntry { kind, name, uid, .. }| (kind, name, uid));
        let told = pod.controller.map(|owner| (&owner.kind, &owner.name, &owner.uid));
        let labels = self.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        own == told && labels.eq(pod.labels.iter().map(|(key, value)| (*key, *value)))
    }
}

#[derive(Deserialize)]
struct PlacedPod {
    #[serde(default)]
    spec: PlacedSpec,
}

#[derive(Deserialize)]
struct Uid {
    uid: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlacedSpec {
    node_name: Option<String>,
}

fn reservations() -> Request {
    Request::new(object::PATH)
}

fn pods(namespace: &str) -> Request {
    Request::new(Pod::url_path(&(), Some(namespace)))
}

/// The same request, in which unknown fields are an error.
fn strictly(request: http::Request<Vec<u8>>) -> http::Request<Vec<u8>> {
    let (mut head, body) = request.into_parts();
    let separator = if head.uri.query().is_some() { "&" } else { "?" };
    let uri = format!("{}{separator}fieldValidation=Strict", head.uri).replace("?&", "?");
    // What is added is valid in a URI.
    if let Ok(uri) = uri.parse() {
        head.uri = uri;
    }
    http::Request::from_parts(head, body)
}

fn bytes(json: &Value) -> Vec<u8> {
    json.to_string().into_bytes()
}

fn parsed<'j, T: Deserialize<'j>>(json: &'j [u8]) -> Result<T, RequestError> {
    serde_json::from_slice(json)
        .map_err(|error| RequestError::Failed(format!("the answer cannot be read: {}", whole_text(&error))))
}

fn parsed_reservation(json: &[u8]) -> Result<Option<Reservation>, RequestError> {
    object::parse(json).map_err(RequestError::Failed)
}

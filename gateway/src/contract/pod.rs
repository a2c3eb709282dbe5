//! A pod in a backend's view.

use bytes::Bytes;
use extender_policy_api::v1alpha1::Pod;
use prost::Message;

use super::protobuf::field_len;
use crate::object::{annotations::AnnotationPrefixes, pod::ObjectPod};

/// The field of `Pod` in requests.
const POD: u32 = 2;

/// A backend's view of pods. Equal views share their encoding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodView {
    /// The annotations in the facts.
    pub annotations: AnnotationPrefixes,
    /// Whether it contains the object's JSON.
    pub raw: bool,
    /// Whether it lacks the fields that distinguish the pod from its siblings, as for pure verbs.
    pub without_identity: bool,
}

/// A pod as a field of a request. `json` is what `pod` was parsed from.
pub fn pod_field(pod: &ObjectPod<'_>, view: &PodView, json: &Bytes) -> Bytes {
    let pod = pod_message(pod, view, json);
    let mut field = Vec::with_capacity(field_len(pod.encoded_len()));
    prost::encoding::message::encode(POD, &pod, &mut field);
    field.into()
}

/// A pod as a message. `json` is what `pod` was parsed from.
pub fn pod_message(pod: &ObjectPod<'_>, view: &PodView, json: &Bytes) -> Pod {
    Pod {
        identity: (!view.without_identity).then(|| pod.identity()),
        facts: Some(pod.facts(&view.annotations)),
        raw_json: if view.raw { json.clone() } else { Bytes::new() },
    }
}

//! A pod in a backend's view.

use std::sync::Arc;

use bytes::Bytes;
use extender_gateway_object::{counted::TopologyCountView, pod::ObjectPod, view::PodFactsView};
use extender_policy_api::v1beta1::{Pod, PodChange, TopologyCounts};
use prost::Message;

use super::{
    api::ApiVersion,
    change::change_pod,
    protobuf::field_len,
    v1alpha1::{self, older},
};

/// The field of `Pod` in requests.
const POD: u32 = 2;

/// A backend's view of pods. Equal views share their encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodView {
    /// The facts.
    pub facts: Arc<PodFactsView>,
    /// Whether it contains the fields that distinguish the pod from its siblings.
    pub identity: bool,
    /// Whether it contains the object's JSON.
    pub raw: bool,
    /// The package in which it is sent.
    pub api: ApiVersion,
    /// How the pods that are like it are counted. Only for the pod to be placed.
    pub topology: Arc<[TopologyCountView]>,
}

impl PodView {
    /// What the view contains in words.
    pub fn words(&self) -> String {
        let apart = [(self.identity, "identity"), (self.raw, "JSON")];
        let apart = apart.into_iter().filter(|(is_read, _)| *is_read).map(|(_, part)| part.to_owned());
        self.facts.words(self.topology.iter().map(TopologyCountView::words).chain(apart))
    }
}

/// A pod as a field of a request. `json` is what `pod` was parsed from, `topology_counts` are those of the view, `changes`
/// are those of hooks.
pub fn pod_field(
    pod: &ObjectPod<'_>,
    json: &Bytes,
    view: &PodView,
    topology_counts: Vec<TopologyCounts>,
    changes: &[Arc<PodChange>],
) -> Bytes {
    let mut pod = Pod { topology_counts, ..pod_message(pod, view, json) };
    for change in changes {
        pod.facts.iter_mut().for_each(|facts| change_pod(facts, &view.facts, change));
    }
    let mut field = Vec::with_capacity(field_len(pod.encoded_len()));
    prost::encoding::message::encode(POD, &pod, &mut field);
    match view.api {
        ApiVersion::V1Beta1 => field.into(),
        ApiVersion::V1Alpha1 => older(&field, v1alpha1::POD_FIELD).into(),
    }
}

/// A pod as a message, without topology counts. `json` is what `pod` was parsed from.
pub fn pod_message(pod: &ObjectPod<'_>, view: &PodView, json: &Bytes) -> Pod {
    Pod {
        identity: view.identity.then(|| pod.identity()),
        facts: Some(pod.facts(&view.facts)),
        raw_json: if view.raw { json.clone() } else { Bytes::new() },
        topology_counts: Vec::new(),
    }
}

#[cfg(test)]
impl Default for PodView {
    fn default() -> Self {
        Self {
            facts: Arc::default(),
            identity: true,
            raw: false,
            api: ApiVersion::NEWEST,
            topology: Arc::default(),
        }
    }
}

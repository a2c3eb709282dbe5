//! What a verb declares that it reads, and how it reads it.

use extender_gateway_contract::api::sha256;
use extender_policy_api::v1beta1::{
    MapReads, NodeFacts, NodePart, NodeReads, PodFacts, PodPart, PodReads, Reads,
};
use prost::Message;

use super::{counts, objects};
use crate::case::{self, Class, Manner, Purity, View};

/// The declaration of a verb.
pub(super) fn declaration(manner: Manner) -> Reads {
    let all_labels = MapReads { prefixes: vec![String::new()], ..MapReads::default() };
    let (parts, labels) = match manner.reads {
        case::Reads::Everything | case::Reads::Nothing => (Vec::new(), None),
        case::Reads::Class => (vec![PodPart::Namespace.into()], Some(all_labels)),
        case::Reads::Namespace => (vec![PodPart::Namespace.into()], None),
    };
    let identity = (manner.purity != Purity::Pure).then_some(PodPart::Identity.into());
    let pod = PodReads {
        parts: parts.into_iter().chain(identity).collect(),
        labels,
        topology_counts: counts::over_topologies(&manner.counts),
        everything: manner.reads == case::Reads::Everything,
        ..PodReads::default()
    };
    Reads { pod: Some(pod), node: Some(of_nodes(manner)) }
}

fn of_nodes(manner: Manner) -> NodeReads {
    let everything = manner.reads == case::Reads::Everything && manner.view != View::Name;
    let name = (reads_names(manner) && !everything).then_some(NodePart::Name.into());
    let json = (manner.view == View::Raw).then_some(NodePart::RawJson.into());
    NodeReads {
        parts: name.into_iter().chain(json).collect(),
        labels: (manner.view != View::Name && !everything).then(|| labels_of_nodes(manner.reads)),
        pod_counts: counts::on_nodes(&manner.counts),
        everything,
        ..NodeReads::default()
    }
}

/// Whether the rows of a verb have names.
pub(super) fn reads_names(manner: Manner) -> bool {
    manner.view == View::Name || matches!(manner.reads, case::Reads::Everything | case::Reads::Class)
}

/// How calls name the declaration.
pub(super) fn digest(manner: Manner) -> [u8; 32] {
    sha256(&declaration(manner).encode_to_vec())
}

fn labels_of_nodes(reads: case::Reads) -> MapReads {
    let owned = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
    match reads {
        case::Reads::Namespace => MapReads { prefixes: owned(&["example.com/"]), ..MapReads::default() },
        case::Reads::Nothing => MapReads { keys: owned(&[objects::LABEL]), ..MapReads::default() },
        _ => MapReads { keys: owned(&[objects::LABEL, objects::STATE]), ..MapReads::default() },
    }
}

/// The class of a pod, if the request has exactly what is declared.
pub(super) fn class(facts: PodFacts, manner: Manner) -> Result<Class, String> {
    let labels = facts.labels.clone().unwrap_or_default().entries;
    let declared =
        PodFacts { namespace: facts.namespace.clone(), labels: facts.labels.clone(), ..PodFacts::default() };
    if manner.reads != case::Reads::Everything && facts != declared {
        return Err(format!("{:?} declared, and the request has {facts:?}", manner.reads));
    }
    Ok((facts.namespace, labels))
}

/// The values of the labels with a node's number and state; the state is 0 if it is not read.
pub(super) fn node(facts: &NodeFacts, manner: Manner) -> Option<(usize, usize)> {
    let labels = facts.labels.as_ref()?;
    let label = |key| labels.entries.get(key)?.parse().ok();
    let value = |at: usize| labels.values.get(at)?.parse().ok();
    let has_more = facts.allocatable.is_some();
    match (manner.reads, labels.values.len()) {
        (case::Reads::Everything, 0) if has_more => Some((label(objects::LABEL)?, label(objects::STATE)?)),
        (case::Reads::Namespace, 0) if !has_more => Some((label(objects::LABEL)?, label(objects::STATE)?)),
        (case::Reads::Class, 2) if !has_more => Some((value(0)?, value(1)?)),
        (case::Reads::Nothing, 1) if !has_more => Some((value(0)?, 0)),
        _ => None,
    }
}

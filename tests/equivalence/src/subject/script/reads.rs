//! What a verb declares that it reads, and how it reads it.

use std::collections::BTreeMap;

use extender_gateway_contract::api::sha256;
use extender_policy_api::v1beta1::{
    MapReads, NodeFacts, NodePart, NodeReads, PodFacts, PodPart, PodReads, Reads,
};
use prost::Message;

use super::{counts, objects};
use crate::case::{self, Class, Manner, Purity, View};

/// The declaration of a verb.
pub(super) fn declaration(manner: Manner) -> Option<Reads> {
    let everything = MapReads { prefixes: vec![String::new()], ..MapReads::default() };
    let (parts, labels) = match manner.reads {
        case::Reads::Undeclared => return None,
        case::Reads::Class => (vec![PodPart::Namespace.into()], Some(everything)),
        case::Reads::Namespace => (vec![PodPart::Namespace.into()], None),
        case::Reads::Nothing => (Vec::new(), None),
    };
    let identity = (manner.purity != Purity::Pure).then_some(PodPart::Identity.into());
    let parts = parts.into_iter().chain(identity).collect();
    let name = reads_names(manner).then_some(NodePart::Name.into());
    let node = (manner.view != View::Name).then(|| NodeReads {
        parts: name.into_iter().collect(),
        labels: Some(labels_of_nodes(manner.reads)),
        pod_counts: counts::on_nodes(&manner.counts),
        ..NodeReads::default()
    });
    let topology_counts = counts::over_topologies(&manner.counts);
    let pod = Some(PodReads { parts, labels, topology_counts, ..PodReads::default() });
    Some(Reads { pod, node })
}

/// Whether the rows of a verb have names.
pub(super) fn reads_names(manner: Manner) -> bool {
    let declared = matches!(manner.reads, case::Reads::Undeclared | case::Reads::Class);
    manner.view == View::Name || declared
}

/// How calls name the declaration: empty without one.
pub(super) fn digest(manner: Manner) -> Vec<u8> {
    declaration(manner).map_or_else(Vec::new, |reads| sha256(&reads.encode_to_vec()).into())
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
    let labels: BTreeMap<_, _> = facts.labels.clone().into_iter().collect();
    let declared =
        PodFacts { namespace: facts.namespace.clone(), labels: facts.labels.clone(), ..PodFacts::default() };
    if manner.reads != case::Reads::Undeclared && facts != declared {
        return Err(format!("{:?} declared, and the request has {facts:?}", manner.reads));
    }
    Ok((facts.namespace, labels))
}

/// The values of the labels with a node's number and state; the state is 0 if it is not read.
pub(super) fn node(facts: &NodeFacts, manner: Manner) -> Option<(usize, usize)> {
    let label = |key| facts.labels.get(key)?.parse().ok();
    let value = |at: usize| facts.label_values.get(at)?.parse().ok();
    let has_more = facts.allocatable.is_some();
    match (manner.reads, facts.label_values.len()) {
        (case::Reads::Undeclared, 0) if has_more => Some((label(objects::LABEL)?, label(objects::STATE)?)),
        (case::Reads::Namespace, 0) if !has_more => Some((label(objects::LABEL)?, label(objects::STATE)?)),
        (case::Reads::Class, 2) if !has_more => Some((value(0)?, value(1)?)),
        (case::Reads::Nothing, 1) if !has_more => Some((value(0)?, 0)),
        _ => None,
    }
}

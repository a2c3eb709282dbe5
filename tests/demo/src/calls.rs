//! The calls of the demo: those of a real kube-scheduler, and a generated pair with more nodes.

use std::borrow::Cow;

use extender_harness::{
    node::{Images, Node, nodes},
    pod::ReplicaSet,
    request::{Verb, names_part, pod_part},
};

use crate::{
    Failure,
    question::{KnownNodes, Question},
};

/// A call of kube-scheduler.
#[derive(Debug)]
pub(crate) struct Call {
    /// Its origin.
    pub(crate) origin: &'static str,
    /// The verb.
    pub(crate) verb: Verb,
    /// The body.
    pub(crate) body: Cow<'static, [u8]>,
}

/// Bodies of `tests/captures`.
const FILTER_NAMES: &[u8] = include_bytes!("../../captures/filter-names.json");
const PRIORITIZE_NAMES: &[u8] = include_bytes!("../../captures/prioritize-names.json");
const FILTER_NODES: &[u8] = include_bytes!("../../captures/filter-nodes.json");
const PRIORITIZE_NODES: &[u8] = include_bytes!("../../captures/prioritize-nodes.json");

/// Calls of a real kube-scheduler, in both forms. Its extender had kept all three nodes.
pub(crate) fn captured() -> [Call; 4] {
    let captured = |verb, body: &'static [u8]| Call { origin: "captured", verb, body: body.into() };
    [
        captured(Verb::Filter, FILTER_NAMES),
        captured(Verb::Prioritize, PRIORITIZE_NAMES),
        captured(Verb::Filter, FILTER_NODES),
        captured(Verb::Prioritize, PRIORITIZE_NODES),
    ]
}

/// A call about a generated pod of the shop and these nodes.
pub(crate) fn generated(verb: Verb, nodes: &[Node]) -> Call {
    let mut shop = ReplicaSet::new("shop", "checkout", &[("acme.io/tenant", "tenant-0")], 7);
    let body = [pod_part(&shop.pod()), names_part(nodes)].concat();
    Call { origin: "generated", verb, body: body.into() }
}

/// The pod of the generated calls, as namespace/name.
pub(crate) fn generated_pod() -> Result<String, Failure> {
    Ok(Question::read(&generated(Verb::Filter, &[]).body, &KnownNodes::new())?.pod_name)
}

/// Twelve nodes: two in each rack, three of each tenant, four in each zone. Their numbers are far from those of the
/// captured ones.
pub(crate) fn twelve_nodes() -> Vec<Node> {
    nodes(300..312, Images::Few)
}

/// The nodes that the gateway knows: those of the captured calls, and the twelve.
pub(crate) fn known_nodes() -> Result<KnownNodes, Failure> {
    let captured = Question::read(FILTER_NODES, &KnownNodes::new())?;
    let captured = captured.nodes.into_iter().map(|node| (node.name, node.json));
    Ok(captured.chain(twelve_nodes().into_iter().map(|node| (node.name, node.json))).collect())
}

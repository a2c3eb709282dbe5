//! The pod and the nodes of a question as a policy is sent them: what its verb declares that it reads.

use extender_gateway_contract::facts;
use extender_gateway_object::{
    pod,
    view::{NodeFactsView, PodFactsView},
};
use extender_policy_api::v1beta1::{
    Effects, NodeFacts, NodeReads, NodeRow, NodeRows, Nodes, Pod, PodPart, PodReads, VerbInfo, nodes,
};
use prost::Message as _;

use crate::{
    Failure,
    question::{OfferedNode, Question},
};

/// The question's pod.
pub(crate) fn pod_of(question: &Question, verb: &VerbInfo) -> Result<Pod, Failure> {
    let view = verb.reads.as_ref().map_or_else(PodFactsView::default, |reads| {
        reads.pod.as_ref().unwrap_or(&PodReads::default()).into()
    });
    let object = pod::parse(question.pod.as_bytes())?;
    let identity =
        (verb.effects() != Effects::Pure && view.has(PodPart::Identity)).then(|| object.identity());
    Ok(Pod { identity, facts: Some(object.facts(&view)), ..Pod::default() })
}

/// The question's nodes.
pub(crate) fn nodes_of(question: &Question, verb: &VerbInfo) -> Result<Nodes, Failure> {
    let view = verb.reads.as_ref().map_or_else(NodeFactsView::default, |reads| {
        reads.node.as_ref().unwrap_or(&NodeReads::default()).into()
    });
    let row = |node: &OfferedNode| {
        let facts = NodeFacts::decode(facts::in_view(&node.facts.encode_to_vec(), &view).as_slice())?;
        Ok(NodeRow { name: node.name.clone(), facts: Some(facts), ..NodeRow::default() })
    };
    let rows = question.nodes.iter().map(row).collect::<Result<_, Failure>>()?;
    let count = u32::try_from(question.nodes.len())?;
    Ok(Nodes { count, form: Some(nodes::Form::Rows(NodeRows { rows })) })
}

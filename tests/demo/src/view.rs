//! The pod and the nodes of a question as a policy is sent them: what its verb declares that it reads.

use extender_gateway_contract::{api::ApiVersion, facts, row::RowView};
use extender_gateway_object::pod;
use extender_policy_api::v1beta1::{
    NodeFacts, NodeRow, NodeRows, Nodes, Pod, PodPart, Reads, VerbInfo, nodes,
};
use prost::Message as _;

use crate::{
    Failure,
    question::{OfferedNode, Question},
};

/// The question's pod.
pub(crate) fn pod_of(question: &Question, verb: &VerbInfo) -> Result<Pod, Failure> {
    let reads = reads(verb).pod.unwrap_or_default();
    let object = pod::parse(question.pod.as_bytes())?;
    let identity = reads.parts.contains(&PodPart::Identity.into()).then(|| object.identity());
    Ok(Pod { identity, facts: Some(object.facts(&(&reads).into())), ..Pod::default() })
}

/// The question's nodes.
pub(crate) fn nodes_of(question: &Question, verb: &VerbInfo) -> Result<Nodes, Failure> {
    let view = RowView::new(&reads(verb).node.unwrap_or_default(), ApiVersion::NEWEST);
    let row = |node: &OfferedNode| {
        let all = node.facts.encode_to_vec();
        let facts = view.facts().map(|view| NodeFacts::decode(facts::in_view(&all, view, &[]).as_slice()));
        let name = if view.has_name() { node.name.clone() } else { String::new() };
        Ok(NodeRow { name, facts: facts.transpose()?, ..NodeRow::default() })
    };
    let rows = question.nodes.iter().map(row).collect::<Result<_, Failure>>()?;
    let count = u32::try_from(question.nodes.len())?;
    Ok(Nodes { count, form: Some(nodes::Form::Rows(NodeRows { rows })) })
}

fn reads(verb: &VerbInfo) -> Reads {
    verb.reads.clone().unwrap_or_default()
}

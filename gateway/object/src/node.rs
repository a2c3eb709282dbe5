//! Parses a node's JSON into the contract's facts.

use extender_policy_api::v1beta1::{NodeFacts, Resources, Taint};
use serde::Deserialize;

use super::{
    ObjectError,
    amounts::{Amounts, ResourceList},
    json::{List, Text, nullable, object},
    limits::{self, Origin},
    meta::{Meta, owned},
    read,
};

/// The fields of a node that the facts need, borrowed from its JSON. Images, addresses and managed fields, most of
/// a node's bytes, are skipped. Mirrors `corev1.Node`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ObjectNode<'a> {
    #[serde(borrow, deserialize_with = "object")]
    metadata: Meta<'a>,
    #[serde(deserialize_with = "object")]
    spec: NodeSpec<'a>,
    #[serde(deserialize_with = "object")]
    status: NodeStatus<'a>,
}

/// Mirrors `corev1.NodeSpec`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeSpec<'a> {
    /// In order: policies may use the first match.
    #[serde(borrow)]
    taints: List<Tainted<'a>>,
    #[serde(deserialize_with = "nullable")]
    unschedulable: bool,
}

/// Mirrors `corev1.Taint` without the time it was added.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Tainted<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    value: Text<'a>,
    effect: Text<'a>,
}

/// Mirrors `corev1.NodeStatus`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus<'a> {
    #[serde(borrow)]
    capacity: ResourceList<'a>,
    allocatable: ResourceList<'a>,
    /// One of each type.
    conditions: List<NodeCondition<'a>>,
}

/// Mirrors `corev1.NodeCondition` without its times and texts, which change while the node is idle.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeCondition<'a> {
    #[serde(borrow)]
    r#type: Text<'a>,
    status: Text<'a>,
}

/// Parses a node. It must have a name; existing fields must have their type.
pub fn parse(json: &[u8]) -> Result<ObjectNode<'_>, ObjectError> {
    read_from(Origin::Cluster, json)
}

fn read_from(origin: Origin, json: &[u8]) -> Result<ObjectNode<'_>, ObjectError> {
    let node: ObjectNode<'_> = read("Node", json, origin)?;
    if node.name().is_empty() {
        return Err(ObjectError::new("Node", "metadata.name", "a node needs a name"));
    }
    Ok(node)
}

/// Parses a node of a call, like [`parse`].
///
/// # Errors
/// Also if the node is larger than any in a cluster ([`limits`]).
pub fn offered(json: &[u8]) -> Result<ObjectNode<'_>, ObjectError> {
    limits::check_bytes("Node", json)?;
    let node = read_from(Origin::Call, json)?;
    node.metadata.check_names("Node").map(|()| node)
}

impl ObjectNode<'_> {
    /// `metadata.name`, never empty.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The facts about the node, with all annotations.
    pub fn facts(&self) -> NodeFacts {
        let Self { metadata, spec, status } = self;
        NodeFacts {
            labels: owned(&metadata.labels),
            annotations: metadata.annotations(),
            taints: spec.taints.iter().map(taint).collect(),
            unschedulable: spec.unschedulable,
            conditions: status.conditions.iter().map(condition).collect(),
            capacity: reported(&status.capacity),
            allocatable: reported(&status.allocatable),
            ..NodeFacts::default()
        }
    }
}

fn condition(NodeCondition { r#type, status }: &NodeCondition<'_>) -> (String, String) {
    (r#type.into(), status.into())
}

fn taint(Tainted { key, value, effect }: &Tainted<'_>) -> Taint {
    Taint { key: key.into(), value: value.into(), effect: effect.into() }
}

/// `None` if the kubelet has not reported yet, which is not the same as a node without resources.
fn reported(list: &ResourceList<'_>) -> Option<Resources> {
    let amounts = Amounts::of(list);
    (!amounts.by_name.is_empty()).then(|| amounts.resources())
}

#[cfg(test)]
mod tests;

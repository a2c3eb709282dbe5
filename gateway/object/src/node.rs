//! Parses a node's JSON into the contract's facts.

use extender_policy_api::v1beta1::{self as api, NodeFacts, Resources, Taint};
use serde::Deserialize;

use super::{
    ObjectError,
    amounts::{Amounts, ResourceList},
    json::{List, Text, nullable, object, texts},
    limits::{self, Origin},
    meta::Meta,
    read,
    view::MapView,
};

/// The fields of a node that the facts need, borrowed from its JSON. Images and managed fields, most of
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
    #[serde(rename = "providerID")]
    provider_id: Text<'a>,
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
#[serde(default, rename_all = "camelCase")]
struct NodeStatus<'a> {
    #[serde(borrow)]
    capacity: ResourceList<'a>,
    allocatable: ResourceList<'a>,
    /// One of each type.
    conditions: List<NodeCondition<'a>>,
    node_info: Option<SystemInfo<'a>>,
    addresses: List<Address<'a>>,
}

/// Mirrors `corev1.NodeSystemInfo`, without what changes at a reboot.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SystemInfo<'a> {
    #[serde(borrow)]
    architecture: Text<'a>,
    operating_system: Text<'a>,
    os_image: Text<'a>,
    kernel_version: Text<'a>,
    kubelet_version: Text<'a>,
    container_runtime_version: Text<'a>,
}

/// Mirrors `corev1.NodeAddress`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Address<'a> {
    #[serde(borrow)]
    r#type: Text<'a>,
    address: Text<'a>,
}

/// The images of a node, which are most of its bytes: they are parsed for verbs that read them alone.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeImages<'a> {
    #[serde(borrow, deserialize_with = "object")]
    status: ImagesStatus<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ImagesStatus<'a> {
    #[serde(borrow)]
    images: List<Image<'a>>,
}

/// Mirrors `corev1.ContainerImage`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Image<'a> {
    #[serde(borrow, deserialize_with = "texts")]
    names: Vec<Text<'a>>,
    #[serde(deserialize_with = "nullable")]
    size_bytes: i64,
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

/// `status.images` of a node that could be parsed; none if that of the images cannot be.
pub fn images(json: &[u8]) -> Vec<api::NodeImage> {
    let images: Result<NodeImages<'_>, _> = read("Node", json, Origin::Cluster);
    let image = |image: &Image<'_>| api::NodeImage {
        names: image.names.iter().map(Into::into).collect(),
        bytes: image.size_bytes,
    };
    images.map(|node| node.status.images.iter().map(image).collect()).unwrap_or_default()
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

    /// The facts about the node, with all annotations, without images.
    pub fn facts(&self) -> NodeFacts {
        let Self { metadata, spec, status } = self;
        NodeFacts {
            labels: metadata.select_labels(&MapView::all()),
            annotations: metadata.select_annotations(&MapView::all()),
            taints: spec.taints.iter().map(taint).collect(),
            unschedulable: Some(spec.unschedulable),
            conditions: status.conditions.iter().map(condition).collect(),
            capacity: reported(&status.capacity),
            allocatable: reported(&status.allocatable),
            images: Vec::new(),
            system_info: status.node_info.as_ref().map(system_info),
            addresses: status.addresses.iter().map(address).collect(),
            provider_id: (&spec.provider_id).into(),
        }
    }
}

fn system_info(info: &SystemInfo<'_>) -> api::SystemInfo {
    api::SystemInfo {
        architecture: (&info.architecture).into(),
        operating_system: (&info.operating_system).into(),
        os_image: (&info.os_image).into(),
        kernel_version: (&info.kernel_version).into(),
        kubelet_version: (&info.kubelet_version).into(),
        container_runtime_version: (&info.container_runtime_version).into(),
    }
}

fn address(Address { r#type, address }: &Address<'_>) -> api::NodeAddress {
    api::NodeAddress { r#type: r#type.into(), address: address.into() }
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

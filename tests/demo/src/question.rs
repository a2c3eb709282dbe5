//! The content of a body: its pod and its nodes, each with its JSON.

use std::collections::BTreeMap;

use extender_gateway_object::{node, pod};
use extender_policy_api::v1beta1::NodeFacts;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Failure;

/// Node objects by name.
pub(crate) type KnownNodes = BTreeMap<String, String>;

/// A parsed body.
#[derive(Debug)]
pub(crate) struct Question {
    /// The pod as namespace/name.
    pub(crate) pod_name: String,
    /// The pod, byte for byte as in the body.
    pub(crate) pod: String,
    /// The nodes, in the body's order.
    pub(crate) nodes: Vec<OfferedNode>,
    /// Their form.
    pub(crate) form: Form,
}

/// The form of the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Names; the gateway knows the nodes from elsewhere.
    Names,
    /// Whole objects.
    Objects,
}

/// A node of the body.
#[derive(Debug)]
pub(crate) struct OfferedNode {
    /// metadata.name.
    pub(crate) name: String,
    /// The object, byte for byte as in the body or the file.
    pub(crate) json: String,
    /// All facts about the node.
    pub(crate) facts: NodeFacts,
}

/// Mirrors `ExtenderArgs`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Body<'a> {
    #[serde(borrow)]
    pod: &'a RawValue,
    #[serde(borrow)]
    nodes: Option<NodeList<'a>>,
    node_names: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct NodeList<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

impl Question {
    /// Reads a body; names are looked up among the known nodes.
    pub(crate) fn read(body: &[u8], known: &KnownNodes) -> Result<Self, Failure> {
        let body: Body<'_> = serde_json::from_slice(body)?;
        let (form, objects) = match (&body.nodes, &body.node_names) {
            (Some(list), None) => (Form::Objects, list.items.iter().map(|item| item.get()).collect()),
            (None, Some(names)) => (Form::Names, looked_up(names, known)?),
            _ => return Err("a body of the demo has neither names nor nodes, or both".into()),
        };
        let nodes = objects.into_iter().map(OfferedNode::read).collect::<Result<_, _>>()?;
        let object = pod::parse(body.pod.get().as_bytes())?;
        let pod_name = format!("{}/{}", object.namespace(), object.name());
        Ok(Self { pod_name, pod: body.pod.get().to_owned(), nodes, form })
    }
}

fn looked_up<'a>(names: &[String], known: &'a KnownNodes) -> Result<Vec<&'a str>, Failure> {
    let look_up = |name: &String| {
        let node = known.get(name).map(String::as_str);
        node.ok_or_else(|| format!("{name} is not in the demo's file of nodes").into())
    };
    names.iter().map(look_up).collect()
}

impl OfferedNode {
    fn read(json: &str) -> Result<Self, Failure> {
        let object = node::parse(json.as_bytes())?;
        let facts = object.facts();
        Ok(Self { name: object.name().to_owned(), json: json.to_owned(), facts })
    }

    /// The host part of the name, which distinguishes the demo's nodes.
    pub(crate) fn short_name(&self) -> &str {
        self.name.split('.').next().unwrap_or(&self.name)
    }

    /// The value of a label; empty when the node has none.
    pub(crate) fn label(&self, key: &str) -> &str {
        self.facts.labels.as_ref().and_then(|labels| labels.entries.get(key)).map_or("", String::as_str)
    }
}

//! A node for kube's watcher that keeps the object's JSON as it came.

use std::borrow::Cow;

use k8s_openapi::{ClusterResourceScope, api::core::v1::Node};
use kube::{Resource, core::ObjectMeta};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::value::RawValue;

/// Name and version for the watcher, the JSON for the table.
///
/// Works because the watcher's list and event types hand the object to `serde_json` itself: the apiserver
/// writes an event's `type` before its `object`, so serde does not have to buffer it.
#[derive(Debug, Clone)]
pub(super) struct RawNode {
    metadata: ObjectMeta,
    json: Box<RawValue>,
}

impl RawNode {
    pub(super) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn json(&self) -> &[u8] {
        self.json.get().as_bytes()
    }
}

/// What is read before the table reads the rest.
#[derive(Deserialize)]
struct Head {
    metadata: HeadMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMeta {
    name: String,
    resource_version: Option<String>,
}

impl<'de> Deserialize<'de> for RawNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let Head { metadata } = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        let HeadMeta { name, resource_version } = metadata;
        Ok(Self {
            metadata: ObjectMeta { name: Some(name), resource_version, ..ObjectMeta::default() },
            json,
        })
    }
}

impl Resource for RawNode {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Node::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Node::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Node::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Node::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

//! What a watch writes to: one interface for every table.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Resource;
use serde::Deserialize;

use crate::{
    cluster::{
        pods::{self, PodTable},
        source_health::SourceHealth,
        table::{self, NodeTable},
    },
    object::ObjectError,
};

/// The identity of an object.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct HeadMeta {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: String,
}

/// A table that a watch keeps.
pub(super) trait Sink {
    /// What it holds, in the plural, as the apiserver and the log call it.
    const OBJECTS: &'static str;
    /// The field selector of what is listed and watched.
    const FIELDS: Option<&'static str>;
    /// The typed object, which says where the apiserver has them, and is never built.
    type Kind: Resource<DynamicType = ()>;
    /// A list that is being collected.
    type List;

    /// Begins a list.
    fn begin(&self) -> Self::List;
    fn add(list: &mut Self::List, json: &[u8]) -> Result<(), ObjectError>;
    /// Takes exactly what the list holds.
    fn replace(&self, list: Self::List);
    fn apply(&self, json: &[u8]) -> Result<(), ObjectError>;
    fn remove(&self, object: &HeadMeta);
    /// How many objects are known.
    fn count(&self) -> usize;
    /// Where it says how its source is.
    fn source_health(&self) -> &SourceHealth;
}

impl Sink for NodeTable {
    const OBJECTS: &'static str = "nodes";
    const FIELDS: Option<&'static str> = None;
    type Kind = Node;
    type List = table::NodeRelist;

    fn begin(&self) -> Self::List {
        self.relist()
    }

    fn add(list: &mut Self::List, json: &[u8]) -> Result<(), ObjectError> {
        list.add(json).map(drop)
    }

    fn replace(&self, list: Self::List) {
        self.replace(list);
    }

    fn apply(&self, json: &[u8]) -> Result<(), ObjectError> {
        self.apply(json).map(drop)
    }

    fn remove(&self, object: &HeadMeta) {
        self.remove(&object.name);
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn source_health(&self) -> &SourceHealth {
        &self.source_health
    }
}

impl Sink for PodTable {
    const OBJECTS: &'static str = "pods";
    /// Pods that have ended hold no room and are not evicted. Mirrors `newPodInformer` of kube-scheduler.
    const FIELDS: Option<&'static str> = Some("status.phase!=Succeeded,status.phase!=Failed");
    type Kind = Pod;
    type List = pods::PodRelist;

    fn begin(&self) -> Self::List {
        pods::PodRelist::new()
    }

    fn add(list: &mut Self::List, json: &[u8]) -> Result<(), ObjectError> {
        list.add(json)
    }

    fn replace(&self, list: Self::List) {
        self.replace(list);
    }

    fn apply(&self, json: &[u8]) -> Result<(), ObjectError> {
        self.apply(json)
    }

    fn remove(&self, object: &HeadMeta) {
        self.remove(&object.uid);
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn source_health(&self) -> &SourceHealth {
        &self.source_health
    }
}

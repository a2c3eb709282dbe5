//! The part of an object's metadata that facts need.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    annotations::AnnotationPrefixes,
    json::{List, Map, Text, nullable},
};

/// Mirrors `metav1.ObjectMeta`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Meta<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) namespace: Text<'a>,
    #[serde(borrow)]
    pub(super) uid: Text<'a>,
    #[serde(borrow)]
    pub(super) labels: Map<'a, Text<'a>>,
    /// Private, because annotations may only be read on request.
    #[serde(borrow)]
    annotations: Map<'a, Text<'a>>,
    #[serde(borrow)]
    owner_references: List<Owner<'a>>,
}

/// Mirrors `metav1.OwnerReference`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Owner<'a> {
    #[serde(borrow)]
    pub(super) api_version: Text<'a>,
    #[serde(borrow)]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) uid: Text<'a>,
    /// At most one owner has it, which the apiserver enforces.
    #[serde(deserialize_with = "nullable")]
    controller: bool,
}

impl<'a> Meta<'a> {
    /// The selected annotations.
    pub(super) fn annotations(&self, wanted: &AnnotationPrefixes) -> BTreeMap<String, String> {
        let wanted = self.annotations.iter().filter(|(key, _)| wanted.want(key));
        wanted.map(|(key, value)| (key.to_owned(), value.into())).collect()
    }

    /// The annotation with this key.
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.iter().find(|(known, _)| *known == key).map(|(_, value)| &**value)
    }

    /// The lengths of names by their paths, in bytes.
    pub(super) fn names(&self) -> [(&'static str, usize); 3] {
        [
            ("metadata.name", self.name.len()),
            ("metadata.namespace", self.namespace.len()),
            ("metadata.uid", self.uid.len()),
        ]
    }

    /// The owner that controls the object. Mirrors `metav1.GetControllerOf`.
    pub(super) fn controller(&self) -> Option<&Owner<'a>> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
}

/// A map of strings in the contract's type.
pub(super) fn owned(map: &Map<'_, Text<'_>>) -> BTreeMap<String, String> {
    map.iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}

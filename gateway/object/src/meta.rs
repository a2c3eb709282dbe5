//! The part of an object's metadata that facts need.

use std::collections::BTreeMap;

use extender_policy_api::v1beta1::MapValues;
use serde::Deserialize;

use super::{
    ObjectError,
    json::{List, Map, Text, nullable},
    limits::LONGEST_NAME,
    view::MapView,
};

/// Mirrors `metav1.ObjectMeta`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Meta<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    pub(super) namespace: Text<'a>,
    pub(super) uid: Text<'a>,
    pub(super) deletion_timestamp: Text<'a>,
    pub(super) creation_timestamp: Text<'a>,
    pub(super) labels: Map<'a, Text<'a>>,
    /// Private, because annotations may only be read on request.
    annotations: Map<'a, Text<'a>>,
    owner_references: List<Owner<'a>>,
}

/// Mirrors `metav1.OwnerReference`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Owner<'a> {
    #[serde(borrow)]
    pub(super) api_version: Text<'a>,
    pub(super) kind: Text<'a>,
    pub(super) name: Text<'a>,
    pub(super) uid: Text<'a>,
    /// At most one owner has it, which the apiserver enforces.
    #[serde(deserialize_with = "nullable")]
    controller: bool,
}

impl<'a> Meta<'a> {
    pub(super) fn select_labels(&self, view: &MapView) -> Option<MapValues> {
        view.select(self.labels.iter().map(|(key, value)| (key, &**value)))
    }

    pub(super) fn select_annotations(&self, view: &MapView) -> Option<MapValues> {
        view.select(self.annotations.iter().map(|(key, value)| (key, &**value)))
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.iter().find(|(known, _)| *known == key).map(|(_, value)| &**value)
    }

    /// # Errors
    /// A name is longer than any in Kubernetes.
    pub(super) fn check_names(&self, kind: &'static str) -> Result<(), ObjectError> {
        let Self { name, namespace, uid, .. } = self;
        let names = [("metadata.name", name), ("metadata.namespace", namespace), ("metadata.uid", uid)];
        match names.into_iter().find(|(_, name)| name.len() > LONGEST_NAME) {
            None => Ok(()),
            Some((path, name)) => {
                let problem = format!("{} bytes, and the gateway accepts at most {LONGEST_NAME}", name.len());
                Err(ObjectError::new(kind, path, problem))
            }
        }
    }

    /// The owner that controls the object. Mirrors `metav1.GetControllerOf`.
    pub(super) fn controller(&self) -> Option<&Owner<'a>> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
}

pub(super) fn owned(map: &Map<'_, Text<'_>>) -> BTreeMap<String, String> {
    map.iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}

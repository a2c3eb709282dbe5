//! An object for kube's watcher that keeps its JSON as it came.

use std::{borrow::Cow, marker::PhantomData};

use kube::{Resource, core::ObjectMeta};
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::value::RawValue;

/// Name, UID and version for the watcher, the JSON for a table. `K` is the typed object that it stands for,
/// such as `Node`: it says where the apiserver has such objects, and is never built.
///
/// Works because the watcher's list and event types hand the object to `serde_json` itself: the apiserver
/// writes an event's `type` before its `object`, so serde does not have to buffer it.
#[derive(Debug, Clone)]
pub(super) struct RawObject<K> {
    metadata: ObjectMeta,
    json: Box<RawValue>,
    kind: PhantomData<fn() -> K>,
}

impl<K> RawObject<K> {
    pub(super) fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    pub(super) fn json(&self) -> &[u8] {
        self.json.get().as_bytes()
    }
}

/// What is read before a table reads the rest.
#[derive(Deserialize)]
struct ObjectHead {
    metadata: HeadMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMeta {
    name: String,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl<'de, K> Deserialize<'de> for RawObject<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let ObjectHead { metadata } = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        let HeadMeta { name, namespace, uid, resource_version } = metadata;
        let metadata =
            ObjectMeta { name: Some(name), namespace, uid, resource_version, ..ObjectMeta::default() };
        Ok(Self { metadata, json, kind: PhantomData })
    }
}

impl<K: Resource<DynamicType = ()>> Resource for RawObject<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

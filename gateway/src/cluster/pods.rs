//! The pods that the gateway knows, for calls that name a pod without its object, and their usage of nodes.
//!
//! A call takes a read lock for one look-up and gets a shared pod. A source adds the pods of a list to a [`PodRelist`]
//! and passes it to [`PodTable::replace`]; later changes go to [`PodTable::apply`] and [`PodTable::remove`].

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use foldhash::HashMap;
use parking_lot::{Mutex, RwLock};
use serde_json::value::RawValue;
use tokio::sync::{Notify, SetOnce};

use super::{
    SourceHealth,
    usage::{Usage, UsageChange},
};
use crate::object::{
    ObjectError,
    pod::{self, ObjectPod},
    view::CountedBy,
};

/// A pod in its latest known state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPod {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `spec.nodeName`; empty while it is not scheduled.
    pub node: String,
    /// `spec.priority`; 0 when it has none.
    pub priority: i32,
    /// The object without `status` and `metadata.managedFields`: most of its bytes, and irrelevant to policies.
    pub json: Bytes,
}

impl KnownPod {
    fn new(pod: &ObjectPod<'_>, json: &[u8]) -> Self {
        Self {
            uid: pod.uid().to_owned(),
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            node: pod.node_name().to_owned(),
            priority: pod.priority(),
            json: slim(json).unwrap_or_else(|| Bytes::copy_from_slice(json)),
        }
    }
}

/// The fields of an object as texts.
type RawFields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// The object without `status` and `metadata.managedFields`; `None` if it or its metadata is not an object.
fn slim(json: &[u8]) -> Option<Bytes> {
    let mut pod: RawFields<'_> = serde_json::from_slice(json).ok()?;
    pod.remove("status");
    let metadata;
    if let Some(before) = pod.get("metadata").copied() {
        let mut fields: RawFields<'_> = serde_json::from_str(before.get()).ok()?;
        fields.remove("managedFields");
        metadata = serde_json::value::to_raw_value(&fields).ok()?;
        pod.insert("metadata".into(), &metadata);
    }
    // Without spare capacity: it is kept for as long as the pod exists.
    serde_json::to_vec(&pod).ok().map(|json| json.into_boxed_slice().into())
}

/// The pod table, shared between the calls and one source.
#[derive(Debug, Default)]
pub struct PodTable {
    pods: RwLock<PodIndex>,
    /// The usage of the same pods, with a lock of its own so that reading it blocks no call.
    usage: Mutex<Usage>,
    usage_touched: Notify,
    synced: SetOnce<()>,
    /// The health of the source.
    pub source_health: SourceHealth,
}

impl PodTable {
    /// An empty table, not synced.
    pub fn new() -> Self {
        Self::default()
    }

    /// The pod with this UID.
    pub fn get(&self, uid: &str) -> Option<Arc<KnownPod>> {
        self.pods.read().by_uid.get(uid).cloned()
    }

    /// Sets a pod.
    pub fn apply(&self, json: &[u8]) -> Result<(), ObjectError> {
        let pod = pod::parse(json)?;
        let displaced = self.pods.write().put(KnownPod::new(&pod, json));
        self.change_usage(|usage| replace_usage(usage, displaced.as_deref(), &pod));
        Ok(())
    }

    /// Removes the pod with this UID.
    pub fn remove(&self, uid: &str) {
        self.pods.write().remove(uid);
        self.change_usage(|usage| usage.remove(uid));
    }

    /// Replaces all pods by those of the list, in one step for calls. The table is synced afterwards.
    pub fn replace(&self, relist: PodRelist) {
        // Dropped without the lock: it may be 150,000 pods.
        let previous = std::mem::replace(&mut *self.pods.write(), relist.pods);
        drop(previous);
        self.change_usage(|usage| {
            usage.replace(relist.usage);
            self.count_again(usage);
        });
        // Already set after an earlier list.
        let _ = self.synced.set(());
    }

    /// Counts the pods by these attributes from now on. Parses all pods if they differ from the previous ones.
    pub fn count_by(&self, attributes: BTreeSet<CountedBy>) {
        let mut usage = self.usage.lock();
        if !usage.counted_by().iter().eq(&attributes) {
            usage.count_by(attributes.into_iter().collect(), |uid| Some(self.get(uid)?.json.clone()));
        }
    }

    fn count_again(&self, usage: &mut Usage) {
        let by = Arc::clone(usage.counted_by());
        if !by.is_empty() {
            usage.count_by(by, |uid| Some(self.get(uid)?.json.clone()));
        }
    }

    /// A view that counts pods was registered: the next [`PodTable::usage_changed`] returns.
    pub fn views_changed(&self) {
        self.usage_touched.notify_one();
    }

    /// The nodes whose pods have changed since the previous call, perhaps none. `reported` returns the extended
    /// resources that a node reports.
    pub fn changed_usage_so_far(&self, reported: impl Fn(&str) -> Vec<String>) -> UsageChange {
        self.usage.lock().take_changed(reported)
    }

    /// Waits until pods or views may have changed since the previous call. For one caller. Cancel safe, and works on
    /// any runtime.
    pub async fn usage_changed(&self) {
        self.usage_touched.notified().await;
    }

    /// The number of pods.
    pub fn len(&self) -> usize {
        self.pods.read().by_uid.len()
    }

    /// Whether there are no pods.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a source has provided a complete list.
    pub fn is_synced(&self) -> bool {
        self.synced.initialized()
    }

    /// Waits until a source has provided a complete list. Works on any runtime.
    pub async fn synced(&self) {
        self.synced.wait().await;
    }

    fn change_usage(&self, change: impl FnOnce(&mut Usage)) {
        let mut usage = self.usage.lock();
        change(&mut usage);
        let is_touched = usage.is_touched();
        drop(usage);
        if is_touched {
            self.usage_touched.notify_one();
        }
    }
}

/// The pods of a list.
#[derive(Debug, Default)]
pub struct PodRelist {
    pods: PodIndex,
    usage: Usage,
}

impl PodRelist {
    /// Adds a pod.
    pub fn add(&mut self, json: &[u8]) -> Result<(), ObjectError> {
        let pod = pod::parse(json)?;
        let displaced = self.pods.put(KnownPod::new(&pod, json));
        replace_usage(&mut self.usage, displaced.as_deref(), &pod);
        Ok(())
    }
}

fn replace_usage(usage: &mut Usage, displaced: Option<&KnownPod>, pod: &ObjectPod<'_>) {
    if let Some(displaced) = displaced {
        usage.remove(&displaced.uid);
    }
    usage.apply(pod);
}

/// The same pods by UID and by name.
#[derive(Debug, Default)]
struct PodIndex {
    by_uid: HashMap<String, Arc<KnownPod>>,
    /// By namespace, then by name.
    by_name: HashMap<String, HashMap<String, Arc<KnownPod>>>,
}

impl PodIndex {
    /// Sets a pod. Removes and returns a pod with the same name and another UID, because it no longer exists.
    fn put(&mut self, pod: KnownPod) -> Option<Arc<KnownPod>> {
        let pod = Arc::new(pod);
        let names = self.by_name.entry(pod.namespace.clone()).or_default();
        let before = names.insert(pod.name.clone(), Arc::clone(&pod));
        let displaced = before.filter(|before| before.uid != pod.uid);
        if let Some(displaced) = &displaced {
            self.by_uid.remove(&displaced.uid);
        }
        let renamed = self.by_uid.insert(pod.uid.clone(), Arc::clone(&pod));
        // An apiserver renames no pod, but a stale name would never be removed.
        if let Some(renamed) =
            renamed.filter(|before| (&before.namespace, &before.name) != (&pod.namespace, &pod.name))
        {
            self.remove_name(&renamed);
        }
        displaced
    }

    fn remove(&mut self, uid: &str) {
        if let Some(pod) = self.by_uid.remove(uid) {
            self.remove_name(&pod);
        }
    }

    fn remove_name(&mut self, pod: &KnownPod) {
        let Some(names) = self.by_name.get_mut(&pod.namespace) else { return };
        names.remove(&pod.name);
        if names.is_empty() {
            self.by_name.remove(&pod.namespace);
        }
    }
}

#[cfg(test)]
mod tests;

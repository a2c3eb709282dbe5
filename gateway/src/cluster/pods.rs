//! The pods that the gateway knows, for calls that name a pod without bringing it, and what they have requested
//! of their nodes.
//!
//! A call takes a read lock for the time of a look-up and gets a pod that is shared, never copied. A source
//! keeps the table as it keeps the node table: what it lists goes into a [`PodRelist`] and from there, all at once,
//! into [`PodTable::replace`]; what changes after that into [`PodTable::apply`] and [`PodTable::remove`].

mod slim;

use std::sync::Arc;

use bytes::Bytes;
use extender_policy_api::v1alpha1::NodeUsage;
use foldhash::HashMap;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};

use super::{source_health::SourceHealth, usage::Usage};
use crate::object::{
    ObjectError,
    pod::{self, ObjectPod},
};

/// A pod as the watch last saw it.
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
    /// The object without `status` and `metadata.managedFields`, which say nothing about what the pod wants
    /// and are most of its bytes.
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
            json: slim::slim(json),
        }
    }
}

/// The pod table, shared between the calls and one source.
#[derive(Debug, Default)]
pub struct PodTable {
    pods: RwLock<PodsByUid>,
    /// A copy for the same pods: reading it blocks no call.
    usage: Mutex<Usage>,
    usage_touched: Notify,
    synced: watch::Sender<bool>,
    /// What is known of the source.
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

    /// The pod that has this name now.
    pub fn by_name(&self, namespace: &str, name: &str) -> Option<Arc<KnownPod>> {
        self.pods.read().by_name.get(namespace)?.get(name).cloned()
    }

    /// Takes a pod as it is now.
    pub fn apply(&self, json: &[u8]) -> Result<(), ObjectError> {
        let pod = pod::parse(json)?;
        let displaced = self.pods.write().put(KnownPod::new(&pod, json));
        self.change_usage(|usage| count(usage, &pod, displaced));
        Ok(())
    }

    /// Forgets the pod with this UID.
    pub fn remove(&self, uid: &str) {
        self.pods.write().remove(uid);
        self.change_usage(|usage| usage.remove(uid));
    }

    /// Takes exactly the pods of this list: whatever is not in it goes, all in one step for the calls. From now
    /// on the table is synced.
    pub fn replace(&self, relist: PodRelist) {
        // Freed after the lock.
        drop(std::mem::replace(&mut *self.pods.write(), relist.pods));
        self.change_usage(|usage| usage.replace(relist.usage));
        self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
    }

    /// What the pods on a node have requested, the default when there are none; `None` before the table is
    /// synced.
    pub fn usage_of(&self, node: &str) -> Option<NodeUsage> {
        self.is_synced().then(|| self.usage.lock().of(node, |_| Vec::new()))
    }

    /// The same as [`PodTable::changed_usage`] tells, perhaps of no node, without waiting.
    pub fn changed_usage_so_far(&self, reported: impl Fn(&str) -> Vec<String>) -> Vec<(Arc<str>, NodeUsage)> {
        self.usage.lock().take_changed(reported)
    }

    /// Waits until the usage of some nodes is not what this last told of them, and tells it, as
    /// [`Usage::take_changed`] does. For one reader. Safe to drop and to call again, on any runtime.
    pub async fn changed_usage(&self, reported: impl Fn(&str) -> Vec<String>) -> Vec<(Arc<str>, NodeUsage)> {
        loop {
            let changed = self.changed_usage_so_far(&reported);
            if !changed.is_empty() {
                return changed;
            }
            // A change since then has left its notice.
            self.usage_touched.notified().await;
        }
    }

    /// How many pods are known.
    pub fn len(&self) -> usize {
        self.pods.read().by_uid.len()
    }

    /// Whether no pod is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a source has brought a complete list at least once.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until a source has brought a complete list. Any runtime may wait.
    pub async fn synced(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        drop(self.synced.subscribe().wait_for(|synced| *synced).await);
    }

    fn change_usage(&self, change: impl FnOnce(&mut Usage)) {
        let mut usage = self.usage.lock();
        change(&mut usage);
        let touched = usage.is_touched();
        drop(usage);
        if touched {
            self.usage_touched.notify_one();
        }
    }
}

/// A pod as it is now; the one that it displaced is gone.
fn count(usage: &mut Usage, pod: &ObjectPod<'_>, displaced: Option<Arc<KnownPod>>) {
    if let Some(displaced) = displaced {
        usage.remove(&displaced.uid);
    }
    usage.apply(pod);
}

/// The pods of a new list.
#[derive(Debug, Default)]
pub struct PodRelist {
    pods: PodsByUid,
    usage: Usage,
}

impl PodRelist {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a pod of the list.
    pub fn add(&mut self, json: &[u8]) -> Result<(), ObjectError> {
        let pod = pod::parse(json)?;
        let displaced = self.pods.put(KnownPod::new(&pod, json));
        count(&mut self.usage, &pod, displaced);
        Ok(())
    }
}

/// Both ways to a pod, always to the same ones.
#[derive(Debug, Default)]
struct PodsByUid {
    by_uid: HashMap<String, Arc<KnownPod>>,
    /// By namespace, then by name.
    by_name: HashMap<String, HashMap<String, Arc<KnownPod>>>,
}

impl PodsByUid {
    /// A pod of that name with another UID is gone, since names are taken one at a time: it is returned.
    fn put(&mut self, pod: KnownPod) -> Option<Arc<KnownPod>> {
        let pod = Arc::new(pod);
        let names = self.by_name.entry(pod.namespace.clone()).or_default();
        let before = names.insert(pod.name.clone(), Arc::clone(&pod));
        let displaced = before.filter(|before| before.uid != pod.uid);
        if let Some(displaced) = &displaced {
            self.by_uid.remove(&displaced.uid);
        }
        let renamed = self.by_uid.insert(pod.uid.clone(), Arc::clone(&pod));
        // No apiserver renames a pod; an entry that stayed behind would stay for ever.
        if let Some(renamed) =
            renamed.filter(|before| (&before.namespace, &before.name) != (&pod.namespace, &pod.name))
        {
            self.forget_name(&renamed);
        }
        displaced
    }

    fn remove(&mut self, uid: &str) {
        if let Some(pod) = self.by_uid.remove(uid) {
            self.forget_name(&pod);
        }
    }

    fn forget_name(&mut self, pod: &KnownPod) {
        let Some(names) = self.by_name.get_mut(&pod.namespace) else { return };
        names.remove(&pod.name);
        if names.is_empty() {
            self.by_name.remove(&pod.namespace);
        }
    }
}

#[cfg(test)]
mod tests;

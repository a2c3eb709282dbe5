//! The pods that the gateway knows, for calls that name a pod without bringing it.
//!
//! A call takes a read lock for the time of a look-up and gets a pod that is shared, never copied. A source
//! keeps the table as it keeps the node table: what it lists goes into a [`Relist`] and from there, all at once,
//! into [`PodTable::replace`]; what changes after that into [`PodTable::apply`] and [`PodTable::remove`].

mod slim;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use foldhash::HashMap;
use tokio::sync::watch;

use crate::object::{ObjectError, pod};

/// A pod as the watch last saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPod {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `spec.nodeName`; empty while it is on no node.
    pub node: String,
    /// `spec.priority`; 0 when it has none.
    pub priority: i32,
    /// The object without `status` and `metadata.managedFields`, which say nothing about what the pod wants
    /// and are most of its bytes.
    pub json: Bytes,
}

impl KnownPod {
    fn read(json: &[u8]) -> Result<Self, ObjectError> {
        let pod = pod::parse(json)?;
        Ok(Self {
            uid: pod.uid().to_owned(),
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            node: pod.node_name().to_owned(),
            priority: pod.priority(),
            json: slim::slim(json),
        })
    }
}

/// The pod table, shared between the calls and one source.
#[derive(Debug, Default)]
pub struct PodTable {
    pods: RwLock<Pods>,
    synced: watch::Sender<bool>,
}

impl PodTable {
    /// An empty table, not synced.
    pub fn new() -> Self {
        Self::default()
    }

    /// The pod with this UID.
    pub fn get(&self, uid: &str) -> Option<Arc<KnownPod>> {
        self.read().by_uid.get(uid).cloned()
    }

    /// The pod that has this name now.
    pub fn by_name(&self, namespace: &str, name: &str) -> Option<Arc<KnownPod>> {
        self.read().by_name.get(namespace)?.get(name).cloned()
    }

    /// Takes a pod as it is now.
    pub fn apply(&self, json: &[u8]) -> Result<(), ObjectError> {
        let pod = Arc::new(KnownPod::read(json)?);
        self.write().put(pod);
        Ok(())
    }

    /// Forgets the pod with this UID.
    pub fn remove(&self, uid: &str) {
        self.write().remove(uid);
    }

    /// Takes exactly the pods of this list: whatever is not in it goes, all in one step for the calls. From now
    /// on the table is synced.
    pub fn replace(&self, relist: Relist) {
        // Freed after the lock.
        drop(std::mem::replace(&mut *self.write(), relist.0));
        self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
    }

    /// How many pods are known.
    pub fn len(&self) -> usize {
        self.read().by_uid.len()
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

    fn read(&self) -> RwLockReadGuard<'_, Pods> {
        self.pods.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Pods> {
        self.pods.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pods of a new list.
#[derive(Debug, Default)]
pub struct Relist(Pods);

impl Relist {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a pod of the list.
    pub fn add(&mut self, json: &[u8]) -> Result<(), ObjectError> {
        self.0.put(Arc::new(KnownPod::read(json)?));
        Ok(())
    }
}

/// Both ways to a pod, always to the same ones.
#[derive(Debug, Default)]
struct Pods {
    by_uid: HashMap<String, Arc<KnownPod>>,
    /// By namespace, then by name.
    by_name: HashMap<String, HashMap<String, Arc<KnownPod>>>,
}

impl Pods {
    /// A pod of that name with another UID is gone: names are taken one at a time.
    fn put(&mut self, pod: Arc<KnownPod>) {
        let names = self.by_name.entry(pod.namespace.clone()).or_default();
        let before = names.insert(pod.name.clone(), Arc::clone(&pod));
        if let Some(before) = before.filter(|before| before.uid != pod.uid) {
            self.by_uid.remove(&before.uid);
        }
        self.by_uid.insert(pod.uid.clone(), pod);
    }

    fn remove(&mut self, uid: &str) {
        let Some(pod) = self.by_uid.remove(uid) else { return };
        let Some(names) = self.by_name.get_mut(&pod.namespace) else { return };
        names.remove(&pod.name);
        if names.is_empty() {
            self.by_name.remove(&pod.namespace);
        }
    }
}

#[cfg(test)]
mod tests;

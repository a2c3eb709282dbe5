//! The pods by UID and by name, with a bound for the JSON of each namespace.

use std::sync::Arc;

use foldhash::HashMap;

use super::{
    super::gangs::{GroupKey, GroupPods},
    KnownPod,
};

/// Pods up to this many bytes of JSON are kept whole.
pub(super) const SMALL_POD: usize = 16 << 10;
/// The most JSON of the larger pods of a namespace together, in bytes. Beyond it they are reduced.
pub(super) const MOST_OF_A_NAMESPACE: usize = 16 << 20;

/// The same pods by UID and by name.
#[derive(Debug, Default)]
pub(super) struct PodIndex {
    pub(super) by_uid: HashMap<String, Arc<KnownPod>>,
    by_namespace: HashMap<String, NamespacePods>,
    /// The pods of groups.
    pub(super) groups: HashMap<GroupKey, GroupPods>,
}

/// The pods of a namespace by name.
#[derive(Debug, Default)]
struct NamespacePods {
    by_name: HashMap<String, Arc<KnownPod>>,
    /// The bytes of the large pods that are kept whole.
    large: usize,
    /// The number of pods that are reduced.
    reduced: usize,
}

impl PodIndex {
    /// Sets a pod. Removes and returns a pod with the same name and another UID, because it no longer exists.
    pub(super) fn put(&mut self, pod: KnownPod) -> Option<Arc<KnownPod>> {
        let (namespace, name, uid) = (pod.namespace.clone(), pod.name.clone(), pod.uid.clone());
        let (pod, before) = self.by_namespace.entry(namespace).or_default().put(pod);
        let displaced = before.filter(|before| before.uid != uid);
        if let Some(displaced) = &displaced {
            self.by_uid.remove(&displaced.uid);
            self.leave_group(displaced);
        }
        let renamed = self.by_uid.insert(uid, Arc::clone(&pod));
        if let Some(before) = &renamed {
            self.leave_group(before);
        }
        self.enter_group(&pod);
        // An apiserver renames no pod, but a stale name would never be removed.
        if let Some(renamed) =
            renamed.filter(|before| (&before.namespace, &before.name) != (&pod.namespace, &name))
        {
            self.remove_name(&renamed);
        }
        displaced
    }

    /// Removes and returns the pod with this UID.
    pub(super) fn remove(&mut self, uid: &str) -> Option<Arc<KnownPod>> {
        let pod = self.by_uid.remove(uid)?;
        self.remove_name(&pod);
        self.leave_group(&pod);
        Some(pod)
    }

    /// Ended pods count in no group, as in kube-scheduler, which does not watch them.
    fn enter_group(&mut self, pod: &KnownPod) {
        let Some(group) = pod.group.as_deref().filter(|_| !pod.has_ended) else { return };
        let group = self.groups.entry(group.clone()).or_default();
        let pods = if pod.node.is_empty() { &mut group.pending } else { &mut group.on_nodes };
        pods.insert(pod.uid.clone());
    }

    fn leave_group(&mut self, pod: &KnownPod) {
        let Some(key) = pod.group.as_deref() else { return };
        let Some(group) = self.groups.get_mut(key) else { return };
        group.pending.remove(&pod.uid);
        group.on_nodes.remove(&pod.uid);
        if group.pending.is_empty() && group.on_nodes.is_empty() {
            self.groups.remove(key);
        }
    }

    /// The pod with this name.
    #[cfg(test)]
    pub(super) fn by_name(&self, namespace: &str, name: &str) -> Option<Arc<KnownPod>> {
        self.by_namespace.get(namespace)?.by_name.get(name).cloned()
    }

    /// The namespaces with reduced pods, and their number.
    pub(super) fn crowded(&self) -> impl Iterator<Item = (&str, usize)> {
        let reduced = self.by_namespace.iter().map(|(namespace, pods)| (&**namespace, pods.reduced));
        reduced.filter(|(_, reduced)| *reduced > 0)
    }

    fn remove_name(&mut self, pod: &KnownPod) {
        let Some(pods) = self.by_namespace.get_mut(&pod.namespace) else { return };
        pods.remove(&pod.name);
        if pods.by_name.is_empty() {
            self.by_namespace.remove(&pod.namespace);
        }
    }
}

impl NamespacePods {
    /// Sets a pod, reduced if there is no room for all of it. Returns it, and the one of its name before.
    fn put(&mut self, mut pod: KnownPod) -> (Arc<KnownPod>, Option<Arc<KnownPod>>) {
        let before = self.remove(&pod.name);
        let large = large_bytes(&pod);
        if large > 0 && self.large + large > MOST_OF_A_NAMESPACE {
            pod.reduce();
        }
        // One of an earlier list is reduced already.
        if pod.is_reduced {
            self.reduced += 1;
        } else {
            self.large += large;
        }
        let pod = Arc::new(pod);
        self.by_name.insert(pod.name.clone(), Arc::clone(&pod));
        (pod, before)
    }

    fn remove(&mut self, name: &str) -> Option<Arc<KnownPod>> {
        let pod = self.by_name.remove(name)?;
        if pod.is_reduced {
            self.reduced -= 1;
        } else {
            self.large -= large_bytes(&pod);
        }
        Some(pod)
    }
}

/// The bytes of a pod that is not small.
fn large_bytes(pod: &KnownPod) -> usize {
    Some(pod.json.len()).filter(|bytes| *bytes > SMALL_POD).unwrap_or(0)
}

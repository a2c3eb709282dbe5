//! The pods that the gateway knows, for calls that name a pod without its object, and their usage of nodes.
//!
//! A call takes a read lock for one look-up and gets a shared pod. A source adds the pods of a list to a [`PodRelist`]
//! and passes it to [`PodTable::replace`]; later changes go to [`PodTable::apply`] and [`PodTable::remove`].

mod followers;
mod index;
mod slim;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use extender_gateway_core::interest::Interest;
use extender_policy_api::v1beta1::{Resources, TopologyCounts};
use foldhash::HashMap;
use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Notify, SetOnce, watch},
    time::{Instant, sleep},
};

pub use self::followers::PodFollower;
use self::{followers::Followers, index::PodIndex};
pub use super::usage::AssumptionId;
use extender_gateway_object::{
    ObjectError,
    counted::{CountedBy, TopologyCountView},
    pod::{self, ObjectPod},
};

use super::{
    SourceHealth,
    gangs::{Gangs, GroupKey, GroupPods},
    table::NodeTable,
    unreadable::Unreadable,
    untried::{UntriedList, UntriedPods},
    usage::{Attributes, Usage, UsageChange},
    wanted::Wanted,
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
    /// The `PodGroup` that it counts in.
    group: Option<Box<GroupKey>>,
    may_preempt: bool,
    /// Whether it takes no resources any more, which its JSON does not say.
    pub(super) has_ended: bool,
    /// The object without `status` and `metadata.managedFields`.
    json: Bytes,
    /// Whether `json` has little more than by what the pod is counted.
    is_reduced: bool,
}

impl KnownPod {
    fn new(pod: &ObjectPod<'_>, json: &[u8]) -> Self {
        Self {
            uid: pod.uid().to_owned(),
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            node: pod.node_name().to_owned(),
            priority: pod.priority(),
            group: group_of(pod).map(Box::new),
            may_preempt: pod.may_preempt(),
            has_ended: pod.has_ended(),
            json: slim::slim(json).unwrap_or_else(|| Bytes::copy_from_slice(json)),
            is_reduced: false,
        }
    }

    /// A pod for tests.
    #[cfg(test)]
    pub(super) fn parsed(json: &str) -> Arc<Self> {
        let pod = pod::parse(json.as_bytes()).expect("it is a pod");
        Arc::new(Self::new(&pod, json.as_bytes()))
    }

    /// The object without `status` and `metadata.managedFields`; `None` if it is not kept because the large pods of its
    /// namespace have too much JSON.
    pub fn whole(&self) -> Option<Bytes> {
        (!self.is_reduced).then(|| self.json.clone())
    }

    /// By what the pod is counted, of these attributes.
    pub(super) fn attributes(&self, by: &[CountedBy]) -> Option<Box<Attributes>> {
        // Without attributes, nothing needs to be parsed.
        if by.is_empty() { None } else { Attributes::of(&pod::parse(&self.json).ok()?, by) }
    }

    /// Whether it waits for a node and may preempt others for one.
    pub fn is_preemptor(&self) -> bool {
        self.node.is_empty() && self.may_preempt
    }

    /// Whether these conditions cover it, as far as its JSON is kept. Parses it only if they are about more than namespaces.
    fn is_covered(&self, interest: &Interest) -> bool {
        let is_parsed = !interest.selector.is_empty() || !interest.resources.is_empty();
        interest.namespaces.contain(&self.namespace)
            && (!is_parsed || pod::parse(&self.json).is_ok_and(|pod| interest.covers(&pod)))
    }

    fn reduce(&mut self) {
        self.json = slim::reduced(&self.json).unwrap_or_default();
        self.is_reduced = true;
    }
}

/// The pod table, shared between the calls and one source.
#[derive(Debug, Default)]
pub struct PodTable {
    pods: RwLock<PodIndex>,
    /// The usage of the same pods, with a lock of its own so that most calls do not need it.
    usage: Mutex<Usage>,
    usage_touched: Notify,
    /// A pod that is on a node was set.
    placed: Notify,
    /// An assumed pod has left its node.
    freed: Notify,
    /// The number of pods that are asked about although they count, or more: after an attempt to bind them that had an uncertain
    /// end, and during one.
    uncertain: AtomicUsize,
    /// Held while what has changed is passed to node tables, so that an earlier state never follows a later one.
    passing_on: Mutex<()>,
    /// The views of pods with topology counts, while they are in use.
    topologies: Mutex<Vec<Weak<[TopologyCountView]>>>,
    /// The attributes that are counted by.
    wanted: Mutex<Wanted>,
    is_counting: AtomicBool,
    /// Reports that pods may be counted by other attributes.
    counted: watch::Sender<()>,
    /// Held by the bind call that decides whether its pod still fits, until the pod counts on its node.
    pub reserving: tokio::sync::Mutex<()>,
    /// The gangs of which pods are being bound.
    pub gangs: Gangs,
    followers: Followers,
    synced: SetOnce<()>,
    /// The pods that no scheduler has tried.
    pub untried: UntriedPods,
    /// The health of the source.
    pub source_health: SourceHealth,
    /// The pods that cannot be read.
    pub unreadable: Unreadable,
}

/// One of [`PodTable::uncertain`].
struct Uncertain<'p>(&'p AtomicUsize);

impl Drop for Uncertain<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
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

    /// Waits until the pod with this UID is known on a node. Cancel safe, and works on any runtime.
    pub async fn on_a_node(&self, uid: &str) -> Arc<KnownPod> {
        loop {
            // Exists before the look, so that it misses nothing that comes after.
            let placed = self.placed.notified();
            if let Some(pod) = self.get(uid).filter(|pod| !pod.node.is_empty()) {
                return pod;
            }
            placed.await;
        }
    }

    /// Sets a pod.
    pub fn apply(&self, json: &[u8]) -> Result<(), ObjectError> {
        let pod = pod::parse(json)?;
        self.unreadable.remove("Pod", pod.namespace(), pod.name());
        let displaced = self.pods.write().put(KnownPod::new(&pod, json));
        if let Some(displaced) = &displaced {
            self.untried.remove(&displaced.uid);
            self.group_changed(displaced.group.as_deref(), Some(&displaced.uid));
            self.followers.tell(|follower| follower.gone(&displaced.uid));
        }
        self.group_changed(group_of(&pod).as_ref(), pod.has_ended().then_some(pod.uid()));
        self.untried.apply(&pod);
        self.change_usage(|usage| replace_usage(usage, displaced.as_deref(), &pod));
        if !pod.node_name().is_empty() {
            self.placed.notify_waiters();
        }
        self.followers.tell(|follower| match (pod.has_ended(), pod.node_name()) {
            (true, _) => follower.gone(pod.uid()),
            (false, "") => {}
            (false, node) => follower.on_node(pod.uid(), node),
        });
        Ok(())
    }

    /// Removes the pod with this UID.
    pub fn remove(&self, uid: &str) {
        let removed = self.pods.write().remove(uid);
        self.untried.remove(uid);
        self.group_changed(removed.as_ref().and_then(|pod| pod.group.as_deref()), Some(uid));
        self.change_usage(|usage| usage.remove(uid));
        self.followers.tell(|follower| follower.gone(uid));
    }

    /// Tells this follower what becomes of pods from now on, as long as it exists.
    pub fn follow(&self, follower: Weak<dyn PodFollower>) {
        self.followers.add(follower);
    }

    /// An empty list for [`PodTable::replace`].
    pub fn relist(&self) -> PodRelist {
        PodRelist {
            pods: PodIndex::default(),
            untried: UntriedList::default(),
            usage: self.usage.lock().relist(),
            kept: Vec::new(),
        }
    }

    /// Replaces all pods by those of the list, in one step for calls. The table is synced afterwards.
    pub fn replace(&self, mut relist: PodRelist) {
        for uid in &relist.kept {
            if let Some(known) = self.get(uid) {
                relist.pods.put(KnownPod::clone(&known));
            }
        }
        // Dropped without the lock: it may be 150,000 pods.
        let previous = std::mem::replace(&mut *self.pods.write(), relist.pods);
        self.followers.tell(|follower| self.tell_of_list(follower, &previous));
        drop(previous);
        self.untried.replace(relist.untried);
        self.change_usage(|usage| {
            usage.keep(&mut relist.usage, &relist.kept);
            usage.replace(relist.usage, |uid| self.get(uid));
        });
        self.placed.notify_waiters();
        self.gangs.relisted(self);
        // Already set after an earlier list.
        let _ = self.synced.set(());
    }

    /// What has become of pods since the previous list and the watch after it. A pod that neither has is newer than the list, or
    /// was never seen.
    fn tell_of_list(&self, follower: &dyn PodFollower, previous: &PodIndex) {
        for uid in follower.followed() {
            match self.get(&uid) {
                Some(pod) if pod.has_ended => follower.gone(&uid),
                Some(pod) if !pod.node.is_empty() => follower.on_node(&uid, &pod.node),
                None if previous.by_uid.contains_key(&*uid) => follower.gone(&uid),
                Some(_) | None => {}
            }
        }
    }

    fn group_changed(&self, group: Option<&GroupKey>, gone: Option<&str>) {
        if let Some(group) = group {
            self.gangs.changed(self, group, gone);
        }
    }

    /// Looks at the pods of a group.
    pub(super) fn with_group<T>(&self, key: &GroupKey, look: impl FnOnce(Option<&GroupPods>) -> T) -> T {
        look(self.pods.read().groups.get(key))
    }

    /// Of the groups with a pod which has not ended, is wanted, and is covered by these conditions, the first one.
    pub fn first_group(
        &self,
        interest: &Interest,
        is_wanted: impl Fn(&KnownPod) -> bool,
    ) -> Option<GroupKey> {
        let index = self.pods.read();
        let uids = index.groups.values().flat_map(|group| group.pending.iter().chain(&group.on_nodes));
        let pods = uids.filter_map(|uid| index.by_uid.get(uid)).filter(|pod| is_wanted(pod));
        let mut pods: Vec<_> = pods.cloned().collect();
        // Without the lock: it may parse many pods.
        drop(index);
        pods.sort_unstable_by(|a, b| a.group.cmp(&b.group));
        let covered = pods.iter().find(|pod| pod.is_covered(interest))?;
        covered.group.as_deref().cloned()
    }

    /// A view that counts the pods on nodes was registered with a node table: the next [`PodTable::usage_changed`]
    /// returns.
    pub fn views_changed(&self) {
        self.usage_touched.notify_one();
    }

    /// Counts pods for these topology counts while they exist.
    pub fn register(&self, views: &Arc<[TopologyCountView]>) {
        if !views.is_empty() {
            let mut topologies = self.topologies.lock();
            topologies.retain(|view| view.strong_count() > 0);
            topologies.push(Arc::downgrade(views));
            drop(topologies);
            self.views_changed();
        }
    }

    fn topologies(&self) -> Vec<Arc<[TopologyCountView]>> {
        self.topologies.lock().iter().filter_map(Weak::upgrade).collect()
    }

    /// Has pods counted as the registered views of these tables and of pods want it. Parses all pods if an attribute is
    /// new, or one has not been wanted for five minutes. Call [`PodTable::pass_on`] afterwards.
    pub fn follow_views<'t>(&self, tables: impl Iterator<Item = &'t NodeTable>) {
        let topologies = self.topologies();
        let over_topologies = topologies.iter().flat_map(|views| views.iter());
        let keys = over_topologies.clone().map(|view| view.topology_key.as_ref());
        let keys: BTreeSet<_> = keys.filter(|key| !key.is_empty()).collect();
        let mut in_rows = BTreeSet::new();
        for table in tables {
            table.follow_labels(&keys);
            in_rows.extend(table.counted_by());
        }
        let wanted = over_topologies.map(|view| view.by.clone()).chain(in_rows.iter().cloned());
        let by = self.wanted.lock().add(&wanted.collect(), Instant::now());
        let in_rows = in_rows.into_iter().filter(|attribute| by.contains(attribute)).collect();
        let is_new = self.usage.lock().counted_by() != &by;
        if is_new {
            self.count_by(&by);
        }
        self.change_usage(|usage| usage.put_in_rows(in_rows));
        self.is_counting.store(!by.is_empty(), Ordering::Relaxed);
        self.counted.send_replace(());
    }

    /// Waits until pods are counted in these views. `table` has the labels of nodes. Works on any runtime.
    pub async fn counted(&self, views: &[TopologyCountView], table: &NodeTable) {
        let mut changes = self.counted.subscribe();
        self.synced().await;
        table.synced().await;
        let is_counted = || {
            let usage = self.usage.lock();
            let labels = table.node_labels();
            let is_followed = |key: &str| key.is_empty() || labels.of(key).is_some();
            views.iter().all(|view| usage.counts_by(&view.by) && is_followed(&view.topology_key))
        };
        // The sender is in `self`, so waiting cannot fail.
        while !is_counted() && changes.changed().await.is_ok() {}
    }

    /// The pods are parsed without the lock: there may be 150,000.
    fn count_by(&self, by: &Arc<[CountedBy]>) {
        let pods: Vec<_> = self.pods.read().by_uid.values().cloned().collect();
        let mut parsed: HashMap<_, _> =
            pods.iter().map(|pod| (pod.uid.as_str(), (pod, pod.attributes(by)))).collect();
        self.change_usage(|usage| {
            usage.count_by(Arc::clone(by), |uid| {
                let known = self.get(uid)?;
                match parsed.remove(uid) {
                    Some((pod, attributes)) if Arc::ptr_eq(pod, &known) => attributes,
                    _ => known.attributes(by),
                }
            });
        });
    }

    /// Passes what has changed about the pods on nodes to these tables, which must be the same in every call.
    pub fn pass_on<'t>(&self, tables: impl Iterator<Item = &'t NodeTable> + Clone) {
        let _one_at_a_time = self.passing_on.lock();
        let change = self.usage.lock().take_changed(reported_by(tables.clone()));
        for table in tables {
            table.apply_usage(&change);
        }
    }

    /// Whether any verb has pods counted, or had so a short time ago.
    pub fn is_counting(&self) -> bool {
        self.is_counting.load(Ordering::Relaxed)
    }

    /// Counts a pod on the node to which it is about to be bound, until [`PodTable::forget`] or until the source has it
    /// on a node. `None` if the source already has it on a node.
    pub fn assume(&self, pod: &ObjectPod<'_>, node: &str) -> Option<AssumptionId> {
        self.change_usage(|usage| usage.assume(pod, node))
    }

    /// Undoes [`PodTable::assume`], unless the source has the pod on a node. If an earlier attempt may still bind it, it counts
    /// on that node.
    pub fn forget(&self, uid: &str, id: AssumptionId) {
        self.change_usage(|usage| usage.forget(uid, id));
    }

    /// Does the same after this time. Until then, [`PodTable::without`] looks for such pods. Call it on a runtime.
    pub async fn forget_later(&self, uid: &str, id: AssumptionId, after: Duration) {
        let _uncertain = self.looking_for_assumed();
        sleep(after).await;
        // As long as it counts, its own calls look for it.
        self.forget(uid, id);
    }

    /// While the value lives, [`PodTable::without`] looks for pods.
    pub fn looking_for_assumed(&self) -> impl Drop + '_ {
        self.uncertain.fetch_add(1, Ordering::Relaxed);
        Uncertain(&self.uncertain)
    }

    /// The node on which this pod counts because of an attempt to bind it whose end is uncertain, as if the pod were not there:
    /// no pod takes room from itself. `None` if there is none. `tables` are those of [`PodTable::pass_on`].
    pub fn without<'t>(
        &self,
        uid: &str,
        tables: impl Iterator<Item = &'t NodeTable> + Clone,
    ) -> Option<UsageChange> {
        // Nearly always: calls take no lock.
        if self.uncertain.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.usage.lock().without(uid, reported_by(tables))
    }

    /// Waits until pods that were assumed have left their nodes. Returns since when others may have been rejected because of
    /// them. For one caller. Cancel safe, and works on any runtime.
    pub async fn freed(&self) -> Instant {
        loop {
            let freed = self.usage.lock().take_freed();
            if let Some(since) = freed {
                return since;
            }
            self.freed.notified().await;
        }
    }

    /// What a pod requests on a node, in rows as of the change with this number: of the node's name and the pod's UID. Blocks
    /// changes of pods: do not hold it for long, and never across an await.
    pub fn requests(&self, number: u64) -> impl Fn(&str, &str) -> Option<Resources> {
        let usage = self.usage.lock();
        move |node, uid| usage.requests_on(node, uid, number)
    }

    /// The pods that are like this one, in each view; `None` until they are counted. `table` has the labels of nodes.
    pub fn topology_counts(
        &self,
        pod: &ObjectPod<'_>,
        views: &[TopologyCountView],
        table: &NodeTable,
    ) -> Option<Vec<TopologyCounts>> {
        if !self.is_synced() || !table.is_synced() {
            return None;
        }
        let usage = self.usage.lock();
        let labels = table.node_labels();
        let counts = views.iter().map(|view| match &*view.topology_key {
            "" => usage.topology_counts(pod, view, |_| Some("")),
            key => {
                let values = labels.of(key)?;
                usage.topology_counts(pod, view, |node| values.get(node).map(|value| &**value))
            }
        });
        counts.collect()
    }

    /// Waits until pods or views may have changed since the previous call. For one caller. Cancel safe, and works on
    /// any runtime.
    pub async fn usage_changed(&self) {
        self.usage_touched.notified().await;
    }

    /// The namespaces whose large pods have more JSON than is kept, and the number of their reduced pods; the ones with
    /// the most first.
    pub fn crowded(&self) -> Vec<(String, usize)> {
        let pods = self.pods.read();
        let mut crowded: Vec<_> =
            pods.crowded().map(|(namespace, pods)| (namespace.to_owned(), pods)).collect();
        crowded.sort_unstable_by(|(one, pods), (other, others)| (others, one).cmp(&(pods, other)));
        crowded
    }

    /// The number of reduced pods.
    pub fn reduced(&self) -> usize {
        self.pods.read().crowded().map(|(_, pods)| pods).sum()
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

    fn change_usage<T>(&self, change: impl FnOnce(&mut Usage) -> T) -> T {
        let mut usage = self.usage.lock();
        let result = change(&mut usage);
        let (is_touched, is_freed) = (usage.is_touched(), usage.is_freed());
        drop(usage);
        if is_touched {
            self.usage_touched.notify_one();
        }
        if is_freed {
            self.freed.notify_one();
        }
        result
    }
}

/// The `PodGroup` of a pod.
pub fn group_of(pod: &ObjectPod<'_>) -> Option<GroupKey> {
    let name = Some(pod.pod_group_name()).filter(|name| !name.is_empty())?;
    Some(GroupKey { namespace: pod.namespace().to_owned(), name: name.to_owned() })
}

/// The extended resources that a node reports, by the first of these tables that knows it.
fn reported_by<'t>(tables: impl Iterator<Item = &'t NodeTable> + Clone) -> impl Fn(&str) -> Vec<String> {
    move |node| tables.clone().find_map(|table| table.reported_resources(node)).unwrap_or_default()
}

/// The pods of a list.
#[derive(Debug)]
pub struct PodRelist {
    pods: PodIndex,
    untried: UntriedList,
    usage: Usage,
    /// The UIDs of pods in the list that cannot be read.
    kept: Vec<String>,
}

impl PodRelist {
    /// The pod with this UID is in the list and cannot be read: what is known of it stays.
    pub fn keep(&mut self, uid: String) {
        self.kept.push(uid);
    }

    /// Adds a pod.
    pub fn add(&mut self, json: &[u8]) -> Result<(), ObjectError> {
        let pod = pod::parse(json)?;
        let displaced = self.pods.put(KnownPod::new(&pod, json));
        self.untried.add(&pod);
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

#[cfg(test)]
mod tests;

//! The resources that the pods on each node have requested, and how many pods there are of each kind that a verb
//! declares ([`counts`]); and what those request that are nominated to it ([`nominated`]).
//!
//! Sums per node change with each pod event, and are exact: they always equal new sums over all pods. Only the node and
//! the requests of a pod are kept, about 150 bytes, and for counts what it has of the attributes that are counted by.
//!
//! A pod that is created with `spec.nodeName` bypasses schedulers and may request any number of resources that no node
//! has. All are summed, but rows contain few of them ([`MOST_OTHERS`]), and the cost of an event depends on the
//! resources of its pod, not on those of the node.

mod counts;
mod nominated;
mod topology;

use std::{collections::BTreeMap, sync::Arc};

use extender_policy_api::v1beta1::{NodeUsage, NonZero, PodCounts, Resources};
use foldhash::{HashMap, HashSet};
use tokio::time::Instant;

pub use self::counts::Attributes;
use extender_gateway_object::{
    Share,
    counted::CountedBy,
    pod::{self, ObjectPod},
};

use self::{
    counts::{CountedAs, Counts},
    nominated::Nominated,
};
use super::pods::KnownPod;

/// The most extended resources in a node's usage that the node does not report: more than any cluster has. A row with
/// this many of the longest names stays below 32 KiB.
const MOST_OTHERS: usize = 64;

/// The usage of all nodes. Mirrors what kube-scheduler's cache counts in `NodeInfo`. Of the pods that kube-scheduler
/// has assumed and not yet seen bound, those are included that the gateway binds.
#[derive(Debug, Default)]
pub(super) struct Usage {
    /// The counted pods by UID.
    pods: HashMap<Box<str>, CountedPod>,
    /// Nodes with at least one pod.
    nodes: HashMap<Arc<str>, Sums>,
    /// The sums at the last [`Usage::take_changed`], for nodes that have had an event since then.
    earlier: HashMap<Arc<str>, EarlierSums>,
    /// Nodes whose latest usage omits resources.
    crowded: HashSet<Arc<str>>,
    /// The pods by what verbs declare.
    counts: Counts,
    /// The nominated pods, which count only while they are not in `pods`.
    nominated: Nominated,
    /// The attempts to bind a pod, by its UID, until the source has it on a node: it counts on the node of the latest one.
    /// Mirrors the assumed pods of kube-scheduler's cache.
    assumed: HashMap<Box<str>, Vec<Assumption>>,
    latest_assumption: AssumptionId,
    /// The earliest time at which a pod was assumed that has left its node since the previous [`Usage::take_freed`].
    freed: Option<Instant>,
    /// How often changes were taken.
    taken: u64,
}

/// Identifies an assumption; later ones are larger.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AssumptionId(u64);

/// An attempt to bind a pod to a node.
#[derive(Debug, Clone)]
struct Assumption {
    node: Arc<str>,
    id: AssumptionId,
    since: Instant,
}

/// What rows contain about the pods on a node; the default without pods.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodePods {
    /// The sums of their requests.
    pub usage: NodeUsage,
    /// Their counts by each attribute of [`UsageChange::counted_by`]; empty if no pod has any of them.
    pub counts: Vec<PodCounts>,
}

/// A change of the pods on nodes.
#[derive(Debug, Default)]
pub struct UsageChange {
    /// Its number: the first is 1.
    pub number: u64,
    /// By what the pods in rows are counted. If this differs from the previous change, `nodes` are all nodes with pods.
    pub counted_by: Arc<[CountedBy]>,
    /// The nodes, unordered.
    pub nodes: Vec<(Arc<str>, NodePods)>,
    /// The nodes to which other pods are nominated, unordered, with the sums of their requests; the default without pods.
    pub nominated: Vec<(Arc<str>, NodeUsage)>,
}

/// A pod on a node.
#[derive(Clone, Debug)]
struct CountedPod {
    node: Arc<str>,
    requests: PodRequests,
    /// The number of the first change that has it on this node with these requests.
    since: u64,
    /// By what it is counted; `None` if it has nothing of that.
    attributes: Option<Box<Attributes>>,
}

impl CountedPod {
    /// Whether it adds the same to the usage of the same node.
    fn uses_like(&self, other: &Self) -> bool {
        self.node == other.node && self.requests == other.requests
    }

    fn counted(&self) -> Option<CountedAs<'_>> {
        Some(CountedAs { attributes: self.attributes.as_deref()?, requests: &self.requests })
    }
}

/// Milli-CPU, memory and ephemeral storage, then milli-CPU and memory with kube-scheduler's defaults for containers
/// that request none.
type Amounts<T> = [T; 5];

/// The requests of one pod. Compact: there may be hundreds of thousands.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PodRequests {
    amounts: Amounts<i64>,
    /// Sorted by name, without zeros. Most pods have none.
    others: Box<[(Box<str>, i64)]>,
}

impl PodRequests {
    fn new(share: Share) -> Self {
        let Resources { milli_cpu, memory, ephemeral_storage, pods: _, others } = share.requested;
        let others = others.into_iter().filter(|(_, amount)| *amount != 0);
        Self {
            amounts: [milli_cpu, memory, ephemeral_storage, share.nonzero.milli_cpu, share.nonzero.memory],
            others: others.map(|(name, amount)| (name.into_boxed_str(), amount)).collect(),
        }
    }

    /// The names of other resources.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.others.iter().map(|(name, _)| &**name)
    }

    /// In the contract's form.
    fn resources(&self) -> Resources {
        let [milli_cpu, memory, ephemeral_storage, ..] = self.amounts;
        let others = self.others.iter().map(|(name, amount)| (name.to_string(), *amount)).collect();
        Resources { milli_cpu, memory, ephemeral_storage, pods: 1, others }
    }
}

/// The requests of all pods on one node. Sums are wider than amounts, so that they never saturate.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sums {
    fixed: FixedSums,
    others: BTreeMap<Box<str>, OtherSum>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct FixedSums {
    pods: i64,
    amounts: Amounts<i128>,
}

/// The sum of another resource, while a pod requests it.
#[derive(Debug, Default, PartialEq, Eq)]
struct OtherSum {
    pods: i64,
    amount: i128,
}

impl Sums {
    /// Adds a pod with sign 1, or subtracts it with -1.
    fn change(&mut self, requests: &PodRequests, sign: i64) {
        self.fixed.pods += sign;
        for (sum, amount) in self.fixed.amounts.iter_mut().zip(requests.amounts) {
            *sum += i128::from(sign) * i128::from(amount);
        }
        for (name, amount) in &requests.others {
            let other = self.others.entry(name.clone()).or_default();
            other.pods += sign;
            other.amount += i128::from(sign) * i128::from(*amount);
            if other.pods == 0 {
                self.others.remove(name);
            }
        }
    }

    /// The names of other resources.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.others.keys().map(|name| &**name)
    }

    /// The sum of another resource.
    fn other(&self, name: &str) -> i128 {
        self.others.get(name).map_or(0, |other| other.amount)
    }

    /// The sums in the contract's form. Of more than [`MOST_OTHERS`] extended resources, those that the node reports and at
    /// most that many others.
    fn shown(&self, reported: impl FnOnce() -> Vec<String>) -> NodeUsage {
        if self.others.len() <= MOST_OTHERS {
            return self.usage(self.names());
        }
        let reported = reported();
        let others = self.names().filter(|name| !reported.iter().any(|reported| reported == name));
        self.usage(reported.iter().map(String::as_str).chain(others.take(MOST_OTHERS)))
    }

    /// The sums in the contract's form, saturated; of other resources only the named ones.
    fn usage<'n>(&self, names: impl Iterator<Item = &'n str>) -> NodeUsage {
        let FixedSums { pods, amounts } = self.fixed;
        let [milli_cpu, memory, ephemeral_storage, nonzero_milli_cpu, nonzero_memory] = amounts.map(saturate);
        let known = names.filter_map(|name| Some((name.to_owned(), saturate(self.others.get(name)?.amount))));
        let requested = Resources { milli_cpu, memory, ephemeral_storage, pods, others: known.collect() };
        let nonzero = NonZero { milli_cpu: nonzero_milli_cpu, memory: nonzero_memory };
        NodeUsage { requested: Some(requested), nonzero: Some(nonzero) }
    }
}

fn saturate(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX })
}

/// The earlier sums of a node, as far as they may have changed since: the size depends on the changes, not on the
/// node's resources.
#[derive(Debug)]
struct EarlierSums {
    fixed: FixedSums,
    others: BTreeMap<Box<str>, i128>,
}

impl EarlierSums {
    fn equal(&self, sums: &Sums) -> bool {
        self.fixed == sums.fixed && self.others.iter().all(|(name, amount)| sums.other(name) == *amount)
    }
}

impl Usage {
    /// Sets a pod. As in kube-scheduler, it counts if it is on a node, has not ended, and has a UID. While the source
    /// has not seen the Binding of an assumed pod, the pod is on the assumed node.
    pub(super) fn apply(&mut self, pod: &ObjectPod<'_>) {
        self.nominated.set(pod);
        if self.pods.contains_key(pod.uid()) {
            self.nominated.place(pod.uid());
        }
        self.place(pod);
    }

    /// Counts a pod on its node, or on the one on which it is assumed, if any.
    fn place(&mut self, pod: &ObjectPod<'_>) {
        if pod.uid().is_empty() || pod.has_ended() {
            return self.remove(pod.uid());
        }
        if !pod.node_name().is_empty() {
            self.end_assumption(pod.uid(), Some(pod.node_name()));
            self.put(pod, &self.name_of(pod.node_name()));
        } else if let Some(Assumption { node, .. }) = self.assumed.get(pod.uid()).and_then(|all| all.last()) {
            self.put(pod, &Arc::clone(node));
        } else {
            self.take_out(pod.uid());
        }
    }

    /// Counts a pod on the node to which it is about to be bound; `None` if the source already has it on a node.
    pub(super) fn assume(&mut self, pod: &ObjectPod<'_>, node: &str) -> Option<AssumptionId> {
        if self.pods.contains_key(pod.uid()) && !self.assumed.contains_key(pod.uid()) {
            return None;
        }
        self.latest_assumption.0 += 1;
        let (id, node) = (self.latest_assumption, self.name_of(node));
        let assumption = Assumption { node, id, since: Instant::now() };
        self.assumed.entry(pod.uid().into()).or_default().push(assumption);
        // Not its nomination, which the object of a call may lack.
        self.place(pod);
        Some(id)
    }

    /// Undoes [`Usage::assume`], unless the source has the pod on a node: it counts where an earlier attempt may still bind it,
    /// or nowhere.
    pub(super) fn forget(&mut self, uid: &str, id: AssumptionId) {
        let Some(all) = self.assumed.get_mut(uid) else { return };
        let Some(at) = all.iter().position(|assumption| assumption.id == id) else { return };
        let ended = all.remove(at);
        match all.last().map(|latest| Arc::clone(&latest.node)) {
            Some(node) if self.pods.get(uid).is_some_and(|pod| pod.node == node) => {}
            Some(node) => {
                self.free(ended.since);
                if let Some(pod) = self.take_out(uid) {
                    self.add(uid.into(), CountedPod { node, ..pod });
                }
            }
            None => {
                self.free(ended.since);
                self.assumed.remove(uid);
                self.take_out(uid);
            }
        }
    }

    /// The pod is now on this node, or on none.
    fn end_assumption(&mut self, uid: &str, node: Option<&str>) {
        let Some(all) = self.assumed.remove(uid) else { return };
        if let (Some(first), Some(latest)) = (all.first(), all.last())
            && node != Some(&*latest.node)
        {
            self.free(first.since);
        }
    }

    fn free(&mut self, since: Instant) {
        self.freed = Some(self.freed.map_or(since, |freed| freed.min(since)));
    }

    /// Since when pods may have been rejected because of a pod that has left the node on which it was assumed; `None` if there
    /// was none since the previous call.
    pub(super) fn take_freed(&mut self) -> Option<Instant> {
        self.freed.take()
    }

    /// Whether [`Usage::take_freed`] returns a time.
    pub(super) fn is_freed(&self) -> bool {
        self.freed.is_some()
    }

    /// The node of an assumed pod, as if the pod were not there; `None` if it is not assumed.
    pub(super) fn without(
        &mut self,
        uid: &str,
        reported: impl Fn(&str) -> Vec<String>,
    ) -> Option<UsageChange> {
        if !self.assumed.contains_key(uid) {
            return None;
        }
        let pod = self.take_out(uid)?;
        let node = Arc::clone(&pod.node);
        let change = UsageChange {
            number: self.taken,
            counted_by: Arc::clone(self.counts.in_rows()),
            nodes: vec![(Arc::clone(&node), self.pods_of(&node, &reported))],
            nominated: vec![(Arc::clone(&node), self.nominated.of(&node, &reported))],
        };
        self.add(uid.into(), pod);
        Some(change)
    }

    fn name_of(&self, node: &str) -> Arc<str> {
        self.nodes.get_key_value(node).map_or_else(|| node.into(), |(name, _)| Arc::clone(name))
    }

    fn put(&mut self, pod: &ObjectPod<'_>, node: &Arc<str>) {
        let mut counted = CountedPod {
            node: Arc::clone(node),
            requests: PodRequests::new(pod.share()),
            since: self.taken + 1,
            attributes: Attributes::of(pod, self.counts.by()),
        };
        if let Some(before) = self.pods.get(pod.uid()).filter(|before| before.uses_like(&counted)) {
            // Most events change nothing.
            if before.attributes == counted.attributes {
                return;
            }
            counted.since = before.since;
        }
        self.take_out(pod.uid());
        self.add(pod.uid().into(), counted);
    }

    fn add(&mut self, uid: Box<str>, pod: CountedPod) {
        let CountedPod { node, requests, .. } = &pod;
        let sums = self.nodes.entry(Arc::clone(node)).or_default();
        keep_earlier(&mut self.earlier, node, sums, requests.names());
        sums.change(requests, 1);
        if let Some(counted) = pod.counted() {
            self.counts.change(node, counted, 1);
        }
        self.nominated.place(&uid);
        self.pods.insert(uid, pod);
    }

    /// Removes the pod with this UID.
    pub(super) fn remove(&mut self, uid: &str) {
        self.end_assumption(uid, None);
        self.take_out(uid);
        self.nominated.remove(uid);
    }

    fn take_out(&mut self, uid: &str) -> Option<CountedPod> {
        let pod = self.pods.remove(uid)?;
        self.nominated.displace(uid);
        let CountedPod { node, requests, .. } = &pod;
        if let Some(counted) = pod.counted() {
            self.counts.change(node, counted, -1);
        }
        if let Some(sums) = self.nodes.get_mut(node) {
            keep_earlier(&mut self.earlier, node, sums, requests.names());
            sums.change(requests, -1);
            if sums.fixed.pods == 0 {
                self.nodes.remove(node);
            }
        }
        Some(pod)
    }

    /// What this pod requests, if it is in the usage of this node as of the change with this number, and still is. A pod
    /// that has come or changed since is not: what it uses is not in rows of that change.
    pub(super) fn requests_on(&self, node: &str, uid: &str, number: u64) -> Option<Resources> {
        let pod = self.pods.get(uid).filter(|pod| *pod.node == *node && pod.since <= number)?;
        Some(pod.requests.resources())
    }

    /// Whether pods are counted by this.
    pub(super) fn counts_by(&self, by: &CountedBy) -> bool {
        self.counted_by().binary_search(by).is_ok()
    }

    /// Has rows contain the counts by these attributes.
    pub(super) fn put_in_rows(&mut self, by: Arc<[CountedBy]>) {
        self.counts.put_in_rows(by, self.nodes.keys());
    }

    /// By what pods are counted.
    pub(super) fn counted_by(&self) -> &Arc<[CountedBy]> {
        self.counts.by()
    }

    /// Counts all pods again by these attributes, in ascending order. `attributes` returns what a pod has of them.
    pub(super) fn count_by(
        &mut self,
        by: Arc<[CountedBy]>,
        mut attributes: impl FnMut(&str) -> Option<Box<Attributes>>,
    ) {
        // Those that lose their last pod with an attribute are touched, too.
        let in_rows = Arc::clone(self.counts.in_rows());
        self.counts = Counts::new(by, self.nodes.keys().chain(self.earlier.keys()).cloned());
        self.counts.put_in_rows(in_rows, std::iter::empty());
        for (uid, counted) in &mut self.pods {
            counted.attributes = attributes(uid);
            if let Some(as_counted) = counted.counted() {
                self.counts.change(&counted.node, as_counted, 1);
            }
        }
    }

    /// An empty one that counts by the same attributes.
    pub(super) fn relist(&self) -> Self {
        let counts = Counts::new(Arc::clone(self.counts.by()), std::iter::empty());
        Self { counts, latest_assumption: self.latest_assumption, taken: self.taken, ..Self::default() }
    }

    /// Adds the pods with these UIDs as they are counted to a list. Those that are only assumed are not on a node in a list.
    pub(super) fn keep(&self, list: &mut Self, uids: &[String]) {
        for uid in uids {
            self.nominated.keep(&mut list.nominated, uid);
            if let Some(pod) =
                self.pods.get(uid.as_str()).filter(|_| !self.assumed.contains_key(uid.as_str()))
            {
                list.add(uid.as_str().into(), pod.clone());
            }
        }
    }

    /// Replaces all pods by those of the list. Assumed pods that are on no node in the list remain assumed, also those
    /// that are not in it if they were assumed since it was begun. `listed` returns a pod in the list.
    pub(super) fn replace(&mut self, list: Self, listed: impl Fn(&str) -> Option<Arc<KnownPod>>) {
        let none = Sums::default();
        for node in self.nodes.keys().chain(list.nodes.keys()) {
            let before = self.nodes.get(node).unwrap_or(&none);
            let now = list.nodes.get(node).unwrap_or(&none);
            if before != now {
                keep_earlier(&mut self.earlier, node, before, before.names().chain(now.names()));
            }
        }
        let mut before = std::mem::replace(&mut self.pods, list.pods);
        for (uid, pod) in &mut self.pods {
            let same = before.get(uid).filter(|before| before.uses_like(pod));
            pod.since = same.map_or(self.taken + 1, |before| before.since);
        }
        self.nodes = list.nodes;
        self.nominated.replace(list.nominated);
        if list.counts.by() == self.counts.by() {
            self.counts.replace(list.counts);
        } else {
            let by = Arc::clone(self.counts.by());
            let parsed = |known: Arc<KnownPod>| known.attributes(&by);
            self.count_by(Arc::clone(&by), |uid| listed(uid).and_then(parsed));
        }
        for (uid, all) in std::mem::take(&mut self.assumed) {
            let is_later = all.last().is_some_and(|latest| latest.id > list.latest_assumption);
            let now = self.pods.get(&uid).map(|pod| Arc::clone(&pod.node));
            self.assumed.insert(uid.clone(), all);
            let known = listed(&uid).filter(|known| !known.has_ended);
            let whole = known.as_ref().and_then(|known| known.whole());
            match (now, whole, before.remove(&uid)) {
                (Some(bound_to), ..) => self.end_assumption(&uid, Some(&bound_to)),
                (None, Some(json), _) => {
                    // It was parsed before, with its status.
                    if let Ok(pod) = pod::parse(&json) {
                        self.place(&pod);
                    }
                }
                // One of a list that is not kept whole, or a later one.
                (None, None, Some(pod)) if is_later || known.is_some() => self.add(uid, pod),
                (None, None, _) => self.end_assumption(&uid, None),
            }
        }
    }

    /// Whether [`Usage::take_changed`] may return nodes.
    pub(super) fn is_touched(&self) -> bool {
        !self.earlier.is_empty() || self.counts.is_touched() || self.nominated.is_touched()
    }

    /// The nodes whose sums differ from those at the previous call, and those whose counts or nominated pods may. `reported` returns the
    /// extended resources that a node reports.
    pub(super) fn take_changed(&mut self, reported: impl Fn(&str) -> Vec<String>) -> UsageChange {
        self.taken += 1;
        let none = Sums::default();
        let mut changed: HashSet<_> = self.counts.take_touched().collect();
        for (node, earlier) in std::mem::take(&mut self.earlier) {
            let sums = self.nodes.get(&node).unwrap_or(&none);
            if !earlier.equal(sums) {
                changed.insert(node);
            }
        }
        let mut nodes = Vec::with_capacity(changed.len());
        for node in changed {
            let pods = self.pods_of(&node, &reported);
            let shown = pods.usage.requested.as_ref().map_or(0, |requested| requested.others.len());
            let all = self.nodes.get(&node).map_or(0, |sums| sums.others.len());
            log_crowded(&mut self.crowded, &node, all - shown);
            nodes.push((node, pods));
        }
        let nominated = self.nominated.take_changed(&reported);
        UsageChange { number: self.taken, counted_by: Arc::clone(self.counts.in_rows()), nodes, nominated }
    }

    fn pods_of(&self, node: &str, reported: impl Fn(&str) -> Vec<String>) -> NodePods {
        let usage =
            self.nodes.get(node).map_or_else(NodeUsage::default, |sums| sums.shown(|| reported(node)));
        NodePods { usage, counts: self.counts.of(node, &reported) }
    }
}

/// Stores the sums of a node before those of the named resources change.
fn keep_earlier<'n>(
    earlier: &mut HashMap<Arc<str>, EarlierSums>,
    node: &Arc<str>,
    sums: &Sums,
    names: impl Iterator<Item = &'n str>,
) {
    let new = || EarlierSums { fixed: sums.fixed, others: BTreeMap::new() };
    let earlier = earlier.entry(Arc::clone(node)).or_insert_with(new);
    for name in names {
        if !earlier.others.contains_key(name) {
            earlier.others.insert(name.into(), sums.other(name));
        }
    }
}

/// Logs that a node's usage begins to omit resources.
fn log_crowded(crowded: &mut HashSet<Arc<str>>, node: &Arc<str>, left_out: usize) {
    if left_out == 0 {
        crowded.remove(node);
    } else if crowded.insert(Arc::clone(node)) {
        tracing::warn!(
            node = &**node,
            left_out,
            "the pods on a node request more than {MOST_OTHERS} extended resources that the node does not report; backends get the usage of {MOST_OTHERS} of them. Look for pods that were created with spec.nodeName"
        );
    }
}

#[cfg(test)]
mod tests;

//! The pods that a backend was asked about, and what it is told about them.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use extender_policy_api::v1beta1::{Outcome, OutcomeKind};
use foldhash::{HashMap, HashSet};

use super::{AskedPod, pending::Pending};

/// The most pods. Beyond it, the one is forgotten that the backend was not asked about for longest.
const MOST_PODS: usize = 100_000;
/// The most pods that are remembered as gone: kube-scheduler may ask about one that it does not know to be gone yet.
const MOST_GONE: usize = 1_000;

/// The pods, and what is to be told.
#[derive(Debug, Default)]
pub(super) struct TrackedPods {
    pods: HashMap<Arc<str>, Tracked>,
    /// The UIDs by the number of the latest request.
    by_request: BTreeMap<u64, Arc<str>>,
    requests: u64,
    gone: Gone,
    pub(super) pending: Pending,
}

/// A pod.
#[derive(Debug)]
struct Tracked {
    namespace: Box<str>,
    name: Box<str>,
    /// `Call.id` of the latest request.
    call: Box<str>,
    /// The number of that request.
    request: u64,
    /// How the attempt ended of which that request was a part, as the backend is told; `None` while it is not known.
    end: Option<OutcomeKind>,
    /// The requests whose answers are not known.
    in_progress: u32,
    /// What has become of the pod during these.
    node: Option<Box<str>>,
    is_gone: bool,
}

/// The latest pods that are gone.
#[derive(Debug, Default)]
struct Gone {
    order: VecDeque<Arc<str>>,
    uids: HashSet<Arc<str>>,
}

impl Gone {
    fn add(&mut self, uid: &str) {
        let uid = Arc::<str>::from(uid);
        if !self.uids.insert(Arc::clone(&uid)) {
            return;
        }
        self.order.push_back(uid);
        if self.order.len() > MOST_GONE
            && let Some(oldest) = self.order.pop_front()
        {
            self.uids.remove(&oldest);
        }
    }
}

impl Tracked {
    fn outcome(&self, uid: &str, kind: OutcomeKind, node: &str) -> Outcome {
        Outcome {
            call: self.call.to_string(),
            namespace: self.namespace.to_string(),
            name: self.name.to_string(),
            uid: uid.to_owned(),
            kind: kind.into(),
            node: node.to_owned(),
        }
    }
}

impl TrackedPods {
    /// A request is sent.
    pub(super) fn begin(&mut self, asked: AskedPod<'_>) {
        let AskedPod { call, namespace, name, uid } = asked;
        self.requests += 1;
        let request = self.requests;
        let known = self.pods.get(uid).and_then(|pod| self.by_request.remove(&pod.request));
        let key = known.unwrap_or_else(|| {
            self.make_room();
            uid.into()
        });
        self.by_request.insert(request, Arc::clone(&key));
        let pod = self.pods.entry(key).or_insert_with(|| Tracked {
            namespace: namespace.into(),
            name: name.into(),
            call: call.into(),
            request,
            end: None,
            in_progress: 0,
            node: None,
            is_gone: false,
        });
        pod.request = request;
        pod.in_progress += 1;
        pod.is_gone |= self.gone.uids.contains(uid);
        if *pod.call != *call {
            pod.call = call.into();
            pod.end = None;
        }
    }

    fn make_room(&mut self) {
        if self.pods.len() >= MOST_PODS
            && let Some((_, oldest)) = self.by_request.pop_first()
        {
            self.pods.remove(&oldest);
        }
    }

    /// The answer to a request is known, or nobody waits for it any more.
    pub(super) fn end_request(&mut self, uid: &str) {
        // It may have been forgotten to make room.
        let Some(pod) = self.pods.get_mut(uid) else { return };
        pod.in_progress = pod.in_progress.saturating_sub(1);
        if pod.in_progress > 0 {
            return;
        }
        let (node, is_gone) = (pod.node.take(), pod.is_gone);
        if let Some(node) = node {
            self.on_node(uid, &node);
        }
        if is_gone {
            self.gone(uid);
        }
    }

    /// Another attempt begins.
    pub(super) fn superseded(&mut self, uid: &str) {
        self.end(uid, OutcomeKind::Superseded, None);
    }

    /// The attempt has ended without a Binding.
    pub(super) fn not_bound(&mut self, uid: &str, call: Option<&str>) {
        self.end(uid, OutcomeKind::NotBound, call);
    }

    /// Tells how the attempt ended, unless that was told.
    fn end(&mut self, uid: &str, end: OutcomeKind, call: Option<&str>) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if pod.end.is_none() && call.is_none_or(|call| *pod.call == *call) {
            pod.end = Some(end);
            self.pending.push(pod.outcome(uid, end, ""));
        }
    }

    /// The pod is on this node, whoever has bound it.
    pub(super) fn on_node(&mut self, uid: &str, node: &str) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if pod.in_progress > 0 {
            pod.node = Some(node.into());
        } else if pod.end != Some(OutcomeKind::Bound) {
            pod.end = Some(OutcomeKind::Bound);
            self.pending.push(pod.outcome(uid, OutcomeKind::Bound, node));
        }
    }

    /// The pod has ended, or does not exist any more.
    pub(super) fn gone(&mut self, uid: &str) {
        self.gone.add(uid);
        let Some(pod) = self.pods.get_mut(uid) else { return };
        if pod.in_progress > 0 {
            pod.is_gone = true;
            return;
        }
        self.pending.push(pod.outcome(uid, OutcomeKind::Deleted, ""));
        self.by_request.remove(&pod.request);
        self.pods.remove(uid);
    }

    /// The UIDs of the pods.
    pub(super) fn uids(&self) -> Vec<Arc<str>> {
        self.pods.keys().cloned().collect()
    }
}

#[cfg(test)]
mod tests;

//! Pods that kube-scheduler has placed and not bound yet, as its plugin tells.

use std::collections::HashMap;

use extender_gateway_cluster::head::ObjectHead;
use extender_gateway_decide::{AssumedPod, BindEnd, Decider};
use extender_gateway_object::limits::LONGEST_NAME;
use extender_gateway_observe::Observer;
use extender_gateway_record::PodRef;
use parking_lot::Mutex;

use super::v1alpha1::{Assumed, Change, Kept, change::Change as Kind};

/// The most changes of a call, and the most pods whose end was not told. kube-scheduler binds some hundred at a time.
pub(super) const MOST_CHANGES: usize = 10_000;

/// The pods whose end was not told, by their UIDs.
#[derive(Debug, Default)]
pub(crate) struct AssumedPods(Mutex<HashMap<String, (String, AssumedPod)>>);

impl AssumedPods {
    /// Applies what a caller tells, before its call is decided. Each may be told again. A pod that cannot be read does not count;
    /// status names it.
    pub(super) fn apply(&self, changes: Vec<Change>, decider: &Decider, observer: &Observer) {
        for Change { change } in changes {
            match change {
                Some(Kind::Assumed(Assumed { pod: json, node })) => {
                    let is_name = (1..=LONGEST_NAME).contains(&node.len());
                    if is_name && let Ok(pod) = decider.pod(&json) {
                        self.assume(pod.uid(), node, |node| decider.assume(&json, &pod, node));
                    }
                }
                Some(Kind::Forgotten(uid)) => self.end(&uid, BindEnd::NotBound),
                Some(Kind::Bound(uid)) => self.end(&uid, BindEnd::Bound),
                Some(Kind::Kept(Kept { call, asked, namespace, name, uid })) => {
                    let pod = PodRef { namespace, name, uid, ..PodRef::default() };
                    // As with a call of its own: it has no node, and fits somewhere.
                    self.end(&pod.uid, BindEnd::NotBound);
                    decider.accepted(&pod.uid);
                    observer.record_kept(&call, &asked, &pod);
                }
                // Of a newer plugin.
                None => {}
            }
        }
    }

    /// A pod that is to be placed has no node: kube-scheduler may have been restarted, and not told its end.
    pub(super) fn to_be_placed(&self, json: &[u8]) {
        if !self.0.lock().is_empty() {
            self.end(&ObjectHead::of(json).uid, BindEnd::NotBound);
        }
    }

    fn assume(&self, uid: &str, node: String, assume: impl FnOnce(&str) -> Option<AssumedPod>) {
        let mut pods = self.0.lock();
        if pods.get(uid).is_some_and(|(known, _)| *known == node) {
            return;
        }
        let Some(assumed) = assume(&node) else { return };
        if pods.len() >= MOST_CHANGES {
            // Their ends count as uncertain: they count for a while.
            pods.clear();
        }
        if let Some((_, before)) = pods.insert(uid.to_owned(), (node, assumed)) {
            before.end(BindEnd::NotBound);
        }
    }

    fn end(&self, uid: &str, end: BindEnd) {
        let ended = self.0.lock().remove(uid);
        if let Some((_, assumed)) = ended {
            assumed.end(end);
        }
    }
}

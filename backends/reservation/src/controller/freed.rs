//! Notices where reserved room becomes free, so that kube-scheduler tries waiting pods again.
//!
//! kube-scheduler puts a pod aside that fits nowhere, until an event of the cluster could help it. That a reservation has
//! expired is none, so the controller changes an annotation of the node. Another one says that room is reserved there:
//! whoever leads next does not know what was freed before, and changes all of these nodes once.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use extender_policy_sdk::Resources;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::{
    amounts::{fits, plus},
    cluster::Note,
    object::Reservation,
    room::held,
    store::Known,
};

/// The least time between two changes of a node.
const AT_MOST_EVERY: Duration = Duration::from_secs(2);

/// After this time a node is changed once more: until then the gateway counts pods on it whose bind has failed in an
/// uncertain way, so that waiting pods may have been rejected for that.
const ONCE_MORE_AFTER: Duration = Duration::from_secs(95);

/// At the begin of a term, Reservations that were over for less than this count: their nodes may not have been changed.
const RECENT: Duration = Duration::from_mins(10);

/// What is kept free on a node.
#[derive(Clone, Debug, Default, PartialEq)]
struct KeptFree {
    /// From pods that own nothing.
    held: Resources,
    /// For owners.
    left: Resources,
}

/// A time by the clock of the cluster, and by that of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Timestamp,
    pub(super) instant: Instant,
}

/// The nodes with reserved room, as they were in the round before.
#[derive(Debug, Default)]
pub(super) struct Freed {
    kept: BTreeMap<String, KeptFree>,
    /// Whether the nodes were looked at in this term.
    has_begun: bool,
    /// Nodes on which room has become free.
    waiting: BTreeSet<String>,
    /// When a node was changed.
    changed: HashMap<String, Instant>,
    /// When a node is to be changed once more.
    once_more: BTreeMap<String, Instant>,
}

impl KeptFree {
    fn on(known: &Known, node: &str, now: Timestamp) -> Self {
        let open = known.on(node).filter(|reservation| reservation.is_open(now));
        let left = open.fold(Resources::default(), |sum, reservation| plus(&sum, reservation.room.left()));
        Self { held: held(known.on(node), None, now).resources, left }
    }

    /// Whether a pod could fit now that did not fit before.
    fn is_freer_than(&self, before: &Self) -> bool {
        !fits(&before.held, &self.held) || !fits(&self.left, &before.left)
    }
}

impl Freed {
    /// Compares the nodes with what they were; a term begins with `first`. Returns those whose annotations are to be changed
    /// now.
    pub(super) fn on(
        &mut self,
        known: &Known,
        first: &BTreeSet<String>,
        moment: Moment,
    ) -> Vec<(String, Note)> {
        let Moment { now, instant } = moment;
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if is_first {
            self.waiting.extend(first.iter().cloned());
            let perhaps_freed = known.all().filter(|reservation| is_recent(reservation, now));
            self.waiting.extend(perhaps_freed.map(node_of).filter(|node| !node.is_empty()));
        }
        let nodes: BTreeSet<_> = known.all().map(node_of).chain(self.kept.keys().cloned()).collect();
        for node in nodes.into_iter().filter(|node| !node.is_empty()) {
            let kept = KeptFree::on(known, &node, now);
            let before = self.kept.remove(&node).unwrap_or_default();
            if kept.is_freer_than(&before) {
                self.waiting.insert(node.clone());
            }
            if kept != KeptFree::default() {
                self.kept.insert(node, kept);
            }
        }
        self.changed.retain(|_, at| instant.duration_since(*at) < AT_MOST_EVERY);
        let due: Vec<_> =
            self.waiting.iter().filter(|node| !self.changed.contains_key(*node)).cloned().collect();
        for node in &due {
            self.waiting.remove(node);
            // What ended while nobody led is removed in the next rounds, and owners wait for that.
            if !is_first {
                self.changed.insert(node.clone(), instant);
            }
            self.once_more.insert(node.clone(), instant + ONCE_MORE_AFTER);
        }
        let again = self.once_more.extract_if(.., |_, at| *at <= instant).map(|(node, _)| node);
        let note =
            |node: &String| if self.kept.contains_key(node) { Note::Freed(now) } else { Note::Emptied(now) };
        due.into_iter().chain(again).map(|node| (node.clone(), note(&node))).collect()
    }

    /// A node could not be changed: it is tried again.
    pub(super) fn again(&mut self, node: String) {
        self.waiting.insert(node);
    }
}

fn is_recent(reservation: &Reservation, now: Timestamp) -> bool {
    let status = &reservation.status;
    let at = status.changed_at().filter(|_| status.phase.is_over());
    at.is_none_or(|at| now.duration_since(at).unsigned_abs() < RECENT)
}

fn node_of(reservation: &Reservation) -> String {
    reservation.status.node_name.clone()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        apiserver::Apiserver,
        store::Store,
        tests::{Seconds, available, replica},
    };

    fn names(freed: &mut Freed, store: &Store, seconds: &Seconds, instant: Instant) -> Vec<String> {
        let moment = Moment { now: seconds.now(), instant };
        freed.on(&store.read(), &BTreeSet::new(), moment).into_iter().map(|(node, _)| node).collect()
    }

    /// Within a runtime. Nodes that are freer after this change of the only Reservation, 10 s after its creation.
    fn freed(spec: &Value, change: impl FnOnce(&Apiserver, &Seconds)) -> Vec<String> {
        let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
        let mut status = available(500);
        status["owners"] = json!([{
            "namespace": "shop", "name": "u", "uid": "u", "requests": {"cpu": "200m"},
            "allocatedAt": "2026-01-01T00:00:00Z", "bound": false,
        }]);
        apiserver.create_reservation("one", spec, &status);
        let (mut freed, start) = (Freed::default(), Instant::now());
        let store = replica(&apiserver, &seconds).1.store;
        names(&mut freed, &store, &seconds, start);
        seconds.set(10);
        change(&apiserver, &seconds);
        let store = replica(&apiserver, &seconds).1.store;
        let later = start + AT_MOST_EVERY;
        let nodes = names(&mut freed, &store, &seconds, later);
        assert_eq!(names(&mut freed, &store, &seconds, later + AT_MOST_EVERY), [""; 0], "once");
        nodes
    }

    fn edited(edit: impl FnOnce(&mut Value)) -> impl FnOnce(&Apiserver, &Seconds) {
        move |apiserver, _| apiserver.edit_reservation("one", |one| edit(&mut one["status"]))
    }

    #[tokio::test]
    async fn a_node_is_freer_when_less_is_held_or_more_is_left() {
        let shared = json!({"allocateOnce": false, "ttl": "1m"});
        assert_eq!(freed(&shared, |apiserver, _| apiserver.delete_reservation("one")), ["a"]);
        assert_eq!(freed(&shared, |_, seconds| seconds.set(60)), ["a"]);
        assert_eq!(freed(&shared, edited(|status| status["owners"] = json!([]))), ["a"]);
        assert_eq!(freed(&shared, edited(|status| status["owners"][0]["bound"] = true.into())), ["a"]);
        assert_eq!(freed(&shared, edited(|status| status["allocatable"]["cpu"] = "600m".into())), ["a"]);
        assert_eq!(
            freed(&shared, edited(|status| status["owners"][0]["requests"]["cpu"] = "300m".into())),
            [""; 0]
        );
        assert_eq!(freed(&shared, |_, _| {}), [""; 0]);
    }

    #[tokio::test]
    async fn a_node_is_changed_once_more_later() {
        let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
        apiserver.create_reservation("one", &json!({}), &available(500));
        let (mut freed, start) = (Freed::default(), Instant::now());
        let store = replica(&apiserver, &seconds).1.store;
        let changed = [0, 94, 95, 96, 500]
            .map(|at| names(&mut freed, &store, &seconds, start + Duration::from_secs(at)).len());
        assert_eq!(changed, [1, 0, 1, 0, 0]);
    }

    #[tokio::test]
    async fn a_term_begins_with_all_nodes_where_room_may_have_become_free() {
        let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
        let over = |at: &str| {
            let condition =
                json!({"type": "Ready", "status": "False", "reason": "Expired", "lastTransitionTime": at});
            json!({"phase": "Failed", "nodeName": at, "conditions": [condition]})
        };
        let (late, early) = ("2026-01-01T00:50:01Z", "2026-01-01T00:49:59Z");
        for (name, status) in [("late", over(late)), ("early", over(early)), ("lives", available(500))] {
            apiserver.create_reservation(name, &json!({}), &status);
        }
        seconds.set(3_600);
        let store = replica(&apiserver, &seconds).1.store;
        let reserved = ["deleted".to_owned()].into();
        let (mut freed, now, instant) = (Freed::default(), seconds.now(), Instant::now());
        let mut notes = freed.on(&store.read(), &reserved, Moment { now, instant });
        notes.sort_by(|one, next| one.0.cmp(&next.0));
        let emptied = |node: &str| (node.to_owned(), Note::Emptied(now));
        assert_eq!(notes, [emptied(late), ("a".to_owned(), Note::Freed(now)), emptied("deleted")]);
        let later = Moment { now, instant: instant + AT_MOST_EVERY };
        assert_eq!(freed.on(&store.read(), &reserved, later), []);
        freed.again("a".to_owned());
        assert_eq!(freed.on(&store.read(), &reserved, later).len(), 1);
    }

    #[tokio::test]
    async fn a_node_is_not_changed_too_often() {
        let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
        let (mut freed, start) = (Freed::default(), Instant::now());
        let mut changed = Vec::new();
        for (at, cpus) in (0..).zip([500, 400, 300, 300, 300, 200]) {
            apiserver.create_reservation("one", &json!({}), &available(cpus));
            let store = replica(&apiserver, &seconds).1.store;
            let nodes = names(&mut freed, &store, &seconds, start + AT_MOST_EVERY / 4 * at);
            changed.push(nodes.len());
        }
        assert_eq!(changed, [1, 1, 0, 0, 0, 1], "the first round of a term does not count");
    }
}

//! The Reservations that this replica knows: what its watch has told, and what it has written itself.
//!
//! A version that is older than the one that is stored never replaces it, whichever of the two comes first.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use extender_policy_sdk::Resources;
use jiff::Timestamp;
use tokio::sync::watch;

use super::{
    affinity::Rank,
    object::{Reservation, parse},
    owners::Asking,
    promises::Promises,
    room::{chosen, perhaps_later},
    watch::{Watched, WatchedObject},
};

/// The most Reservations that are read for a bind.
const MAX_READ: usize = 4;

/// The Reservations of the cluster.
#[derive(Debug, Default)]
pub(super) struct Store {
    known: RwLock<Known>,
    /// Counts the changes.
    changes: watch::Sender<u64>,
    /// What the hook of this replica has promised.
    pub(super) promises: Promises,
}

/// A Reservation as the watch tells it.
#[derive(Debug)]
pub(super) struct Told {
    name: String,
    version: u64,
    /// `None` if it is being deleted; or why it cannot be used.
    object: Result<Option<Reservation>, String>,
}

impl From<WatchedObject> for Told {
    fn from(WatchedObject { name, version, json }: WatchedObject) -> Self {
        Self { name, version, object: parse(&json) }
    }
}

/// What is known at a moment.
#[derive(Debug, Default)]
pub(super) struct Known {
    by_name: BTreeMap<String, Reservation>,
    /// In the order in which they are considered, without those that are over and have no owners. Those without a node are at
    /// the empty name.
    by_node: HashMap<String, BTreeSet<Rank>>,
    /// The version up to which the watch has told everything.
    seen: u64,
    listed: bool,
    /// Objects that cannot be used, and why: each is logged once.
    unusable: BTreeMap<String, String>,
}

/// A Reservation that serves a pod, whose claim is about to be written. As long as this exists, other pods are not offered the
/// same room.
#[derive(Debug)]
pub(super) struct Chosen<'s> {
    store: &'s Store,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) node: String,
    /// What the pod has or gets of it, and whether no other can give it more: it has a claim, or gets all that it requests of what
    /// the reservation lists.
    pub(super) part: Resources,
    pub(super) is_all: bool,
    /// UID of the pod.
    pod: String,
}

/// Which reservation of a node serves a pod.
#[derive(Debug)]
pub(super) enum Choice<'s> {
    Serves(Chosen<'s>),
    /// The one with this name would, but other pods are about to get its room.
    Taken(String),
    None,
}

impl Drop for Chosen<'_> {
    fn drop(&mut self) {
        let Self { store, name, uid, pod, .. } = self;
        store.write().change_pending(name, uid, |pending| drop(pending.remove(pod)));
    }
}

impl Store {
    /// Short: calls wait for it.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Known> {
        // A panic leaves at worst a reservation out of one index.
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells when something has changed.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// A version that this replica has written or read.
    pub(super) fn learn(&self, reservation: Reservation) {
        self.write().learn(reservation);
        self.changed();
    }

    /// The reservation of the node that serves the pod, if any.
    pub(super) fn choose(&self, node: &str, pod: &Asking<'_>, now: Timestamp) -> Choice<'_> {
        let mut known = self.write();
        let Some(found) = chosen(known.on(node), pod, now) else {
            let taken = perhaps_later(known.on(node), pod, now);
            return taken.map_or(Choice::None, |taken| Choice::Taken(taken.name.clone()));
        };
        let (name, uid) = (found.name.clone(), found.uid.clone());
        // One that has a claim counts already.
        let is_claimed = found.room.claim(pod.uid).is_some();
        let part = found.part_for(pod, now).unwrap_or_default();
        let is_all = is_claimed || found.gives_all(&part, pod);
        if !is_claimed {
            let part = part.clone();
            known.change_pending(&name, &uid, |pending| drop(pending.insert(pod.uid.to_owned(), part)));
        }
        let (node, pod) = (node.to_owned(), pod.uid.to_owned());
        Choice::Serves(Chosen { store: self, name, uid, node, part, is_all, pod })
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
    }
}

impl Known {
    /// Whether all Reservations were listed.
    pub(super) fn is_listed(&self) -> bool {
        self.listed
    }

    pub(super) fn get(&self, name: &str) -> Option<&Reservation> {
        self.by_name.get(name)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Reservation> {
        self.by_name.values()
    }

    /// Those of a node that hold something, or are used, in the order in which they are considered for a pod.
    pub(super) fn on(&self, node: &str) -> impl Iterator<Item = &Reservation> + Clone {
        self.by_node.get(node).into_iter().flatten().filter_map(|rank| self.by_name.get(&rank.name))
    }

    /// The first of those that may serve the pod on this node in versions that this replica does not know.
    pub(super) fn that_may_serve_later(&self, node: &str, pod: &Asking<'_>, now: Timestamp) -> Vec<String> {
        let may_serve = |reservation: &&Reservation| reservation.may_serve_later(pod, now);
        let found = self.on(node).chain(self.on("")).filter(may_serve);
        found.take(MAX_READ).map(|reservation| reservation.name.clone()).collect()
    }

    fn learn(&mut self, reservation: Reservation) {
        // The watch has told of everything up to there: it is deleted.
        if !self.by_name.contains_key(&reservation.name) && reservation.version <= self.seen {
            return;
        }
        self.put(reservation);
    }

    fn put(&mut self, mut reservation: Reservation) {
        if self.by_name.get(&reservation.name).is_some_and(|stored| stored.version > reservation.version) {
            return;
        }
        let old = self.by_name.remove(&reservation.name);
        reservation.pending = BTreeMap::new();
        if let Some(old) = old {
            self.unindex(&old);
            let is_pending = |pod: &str| old.uid == reservation.uid && reservation.room.claim(pod).is_none();
            reservation.pending = old.pending.into_iter().filter(|(pod, _)| is_pending(pod)).collect();
        }
        self.index(&reservation);
        self.by_name.insert(reservation.name.clone(), reservation);
    }

    fn remove(&mut self, name: &str) {
        if let Some(old) = self.by_name.remove(name) {
            self.unindex(&old);
        }
    }

    fn change_pending(
        &mut self,
        name: &str,
        uid: &str,
        change: impl FnOnce(&mut BTreeMap<String, Resources>),
    ) {
        if let Some(stored) = self.by_name.get_mut(name).filter(|stored| stored.uid == uid) {
            change(&mut stored.pending);
        }
    }

    fn index(&mut self, reservation: &Reservation) {
        let rank = reservation.rank();
        let is_used = !rank.is_over || !reservation.room.claims().is_empty();
        let node = &reservation.status.node_name;
        if is_used {
            self.by_node.entry(node.clone()).or_default().insert(rank);
        }
    }

    fn unindex(&mut self, reservation: &Reservation) {
        let node = &reservation.status.node_name;
        let Some(ranks) = self.by_node.get_mut(node) else { return };
        ranks.remove(&reservation.rank());
        if ranks.is_empty() {
            self.by_node.remove(node);
        }
    }

    /// An object as the watch tells it.
    fn told(&mut self, Told { name, version, object }: Told) {
        match object {
            Ok(Some(reservation)) => {
                self.unusable.remove(&name);
                self.put(reservation);
            }
            Ok(None) => self.remove_up_to(&name, version),
            Err(wrong) => {
                // Its room is unknown. The last that was known may be wrong by now.
                self.remove_up_to(&name, version);
                if self.unusable.get(&name) != Some(&wrong) {
                    tracing::warn!(reservation = name.as_str(), "Reservation {name} is ignored: {wrong}");
                    self.unusable.insert(name, wrong);
                }
            }
        }
    }

    /// Removes a Reservation, unless one of that name was created after this version.
    fn remove_up_to(&mut self, name: &str, version: u64) {
        if self.by_name.get(name).is_some_and(|stored| stored.version <= version) {
            self.remove(name);
        }
    }
}

impl Watched for Store {
    type Kept = Told;

    fn listed(&self, objects: Vec<Told>, version: u64) {
        let mut known = self.write();
        let names: BTreeSet<_> = objects.iter().map(|object| object.name.clone()).collect();
        // One that is newer than the list was written after it.
        let gone = known.by_name.values().filter(|old| !names.contains(&old.name) && old.version <= version);
        let gone: Vec<_> = gone.map(|old| old.name.clone()).collect();
        for name in &gone {
            known.remove(name);
        }
        known.unusable.retain(|name, _| names.contains(name));
        for object in objects {
            known.told(object);
        }
        known.seen = known.seen.max(version);
        known.listed = true;
        drop(known);
        self.changed();
    }

    fn told(&self, object: WatchedObject) {
        let object = Told::from(object);
        let mut known = self.write();
        known.seen = known.seen.max(object.version);
        known.told(object);
        drop(known);
        self.changed();
    }

    fn deleted(&self, object: WatchedObject) {
        let mut known = self.write();
        known.unusable.remove(&object.name);
        known.remove_up_to(&object.name, object.version);
        known.seen = known.seen.max(object.version);
        drop(known);
        self.changed();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, version: u64, node: &str) -> WatchedObject {
        let json = json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": version.to_string()},
            "spec": {"owners": [{"labelSelector": {}, "namespaces": ["shop"]}]},
            "status": {"phase": "Available", "nodeName": node},
        });
        WatchedObject { name: name.to_owned(), version, json: json.to_string().into_bytes() }
    }

    fn list(store: &Store, objects: Vec<WatchedObject>, version: u64) {
        store.listed(objects.into_iter().map(Told::from).collect(), version);
    }

    fn reservation(name: &str, version: u64, node: &str) -> Reservation {
        parse(&object(name, version, node).json).unwrap().unwrap()
    }

    /// Name and version of all on a node.
    fn on(store: &Store, node: &str) -> Vec<String> {
        store
            .read()
            .on(node)
            .map(|reservation| format!("{} {}", reservation.name, reservation.version))
            .collect()
    }

    #[test]
    fn nodes_have_their_reservations_in_order() {
        let store = Store::default();
        assert!(!store.read().is_listed());
        list(
            &store,
            vec![object("b", 2, "n"), object("a", 1, "n"), object("c", 3, "m"), object("d", 3, "")],
            3,
        );
        assert!(store.read().is_listed());
        assert_eq!(
            (on(&store, "n"), on(&store, "m")),
            (vec!["a 1".into(), "b 2".into()], vec!["c 3".into()])
        );
        store.told(object("c", 4, "n"));
        assert_eq!((on(&store, "n").len(), on(&store, "m").len(), on(&store, "").len()), (3, 0, 1));
        store.deleted(object("b", 5, "n"));
        assert_eq!(on(&store, "n"), ["a 1", "c 4"]);
    }

    #[test]
    fn those_that_are_over_hide_none_that_live() {
        let store = Store::default();
        let mut objects = vec![object("zzz", 1, "n")];
        for number in 0..600 {
            let mut over = object(&format!("aaa-{number}"), 1, "n");
            over.json = String::from_utf8(over.json).unwrap().replace("Available", "Failed").into_bytes();
            objects.push(over);
        }
        let mut used: serde_json::Value = serde_json::from_slice(&object("aab", 1, "n").json).unwrap();
        used["status"]["phase"] = "Succeeded".into();
        used["status"]["owners"] =
            json!([{"namespace": "shop", "name": "p", "uid": "p", "allocatedAt": "2026-01-01T00:00:00Z"}]);
        objects.push(WatchedObject { json: used.to_string().into_bytes(), ..object("aab", 1, "n") });
        list(&store, objects, 1);
        assert_eq!(on(&store, "n"), ["zzz 1", "aab 1"]);
        assert_eq!(store.read().all().count(), 602);
        store.told(object("aaa-7", 2, "n"));
        assert_eq!(on(&store, "n"), ["aaa-7 2", "zzz 1", "aab 1"]);
    }

    #[test]
    fn an_older_version_never_replaces_a_newer_one() {
        let store = Store::default();
        list(&store, vec![object("a", 1, "n")], 1);
        store.learn(reservation("a", 5, "m"));
        store.told(object("a", 3, "n"));
        store.learn(reservation("a", 4, "n"));
        list(&store, vec![object("a", 2, "n")], 2);
        list(&store, vec![], 4);
        assert_eq!((on(&store, "m"), on(&store, "n")), (vec!["a 5".into()], vec![]));
        list(&store, vec![], 5);
        assert_eq!(store.read().all().count(), 0);
    }

    #[test]
    fn what_is_deleted_does_not_come_back() {
        let store = Store::default();
        list(&store, vec![object("a", 1, "n")], 1);
        store.deleted(object("a", 4, "n"));
        store.learn(reservation("a", 3, "n"));
        assert_eq!(store.read().all().count(), 0);
        // It was read before the watch has told of it.
        store.learn(reservation("a", 7, "n"));
        store.deleted(object("a", 6, "n"));
        assert_eq!(on(&store, "n"), ["a 7"]);
    }

    #[test]
    fn an_unusable_object_affects_itself_alone() {
        let store = Store::default();
        let broken =
            |version| WatchedObject { json: b"{\"metadata\":7}".to_vec(), ..object("a", version, "n") };
        list(&store, vec![broken(1), object("b", 1, "n")], 1);
        assert_eq!(on(&store, "n"), ["b 1"]);
        store.told(object("a", 2, "n"));
        assert_eq!(on(&store, "n"), ["a 2", "b 1"]);
        store.told(broken(3));
        assert_eq!(on(&store, "n"), ["b 1"]);
    }
}

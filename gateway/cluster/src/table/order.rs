//! The slots of the nodes that a call names. kube-scheduler names them in the order of its own list, and begins where
//! the previous call ended, so most names are found by comparing them with the ones that followed last time. Looking
//! up a name in a map takes several accesses to cold memory.

use std::ops::Range;

use super::NodeNames;

/// The slot of a name without a node.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// How many names further on a name is searched before it is looked up: calls leave out nodes that others rejected.
const AHEAD: usize = 8;

/// The order is learned again after as many look-ups as it has names, divided by this.
const LEARNED_AFTER: usize = 4;
/// And at least this many.
const LEAST: usize = 64;

/// The order in which calls name nodes, as far as it is known. It is a circle: the first name follows the last one.
#[derive(Debug, Default)]
pub(super) struct NameOrder {
    names: JoinedNames,
    /// The slots of these names, [`UNKNOWN`] where the node was removed.
    slots: Vec<u32>,
    /// The places in the order by slot; only those are valid that lead back to the slot.
    places: Vec<u32>,
    /// The names that were looked up since the order was learned.
    looked_up: usize,
}

/// Names in one text.
#[derive(Debug, Default)]
struct JoinedNames {
    text: Vec<u8>,
    ends: Vec<u32>,
}

impl JoinedNames {
    fn push(&mut self, name: &[u8]) {
        self.text.extend_from_slice(name);
        self.ends.push(u32::try_from(self.text.len()).expect("the names of all nodes take less than 4 GiB"));
    }

    fn at(&self, place: usize) -> &[u8] {
        &self.text[self.range(place)]
    }

    fn range(&self, place: usize) -> Range<usize> {
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        start as usize..self.ends[place] as usize
    }
}

impl NameOrder {
    /// The slots of these different names, [`UNKNOWN`] for those without a node.
    pub(super) fn slots_of<'n>(
        &mut self,
        names: impl ExactSizeIterator<Item = &'n str> + Clone,
        known: &NodeNames<u32>,
    ) -> Vec<u32> {
        let mut slots = Vec::with_capacity(names.len());
        let mut next = 0;
        for name in names.clone() {
            let slot = if let Some(place) = self.ahead(next, name.as_bytes()) {
                next = place + 1;
                self.slots[place]
            } else {
                self.looked_up += 1;
                let slot = known.get(name).copied().unwrap_or(UNKNOWN);
                next = self.place_of(slot).map_or(next, |place| place + 1);
                slot
            };
            slots.push(slot);
        }
        if self.looked_up >= LEAST.max(known.len() / LEARNED_AFTER) {
            if self.is_in_order(&slots) {
                self.looked_up = 0;
            } else {
                self.learn(names, &slots);
            }
        }
        slots
    }

    /// Whether these are some of the names in the known order, at most once from its end to its beginning. They teach
    /// nothing: kube-scheduler's own filters, or other backends, left out those between them.
    fn is_in_order(&self, slots: &[u32]) -> bool {
        let known = slots.iter().filter(|slot| **slot != UNKNOWN);
        let places: Option<Vec<_>> = known.map(|slot| self.place_of(*slot)).collect();
        places.is_some_and(|places| places.windows(2).filter(|pair| pair[1] < pair[0]).count() <= 1)
    }

    /// The place of a name, if it is one of the next.
    fn ahead(&self, next: usize, name: &[u8]) -> Option<usize> {
        let count = self.slots.len();
        let mut place = next;
        for _ in 0..AHEAD.min(count) {
            place = if place < count { place } else { 0 };
            if self.names.at(place) == name && self.slots[place] != UNKNOWN {
                return Some(place);
            }
            place += 1;
        }
        None
    }

    fn place_of(&self, slot: u32) -> Option<usize> {
        let place = *self.places.get(slot as usize)? as usize;
        (self.slots.get(place) == Some(&slot)).then_some(place)
    }

    /// Begins with these names. The others follow, from the one that followed their last name.
    fn learn<'n>(&mut self, names: impl Iterator<Item = &'n str>, slots: &[u32]) {
        let mut order = Self::default();
        for (name, slot) in names.zip(slots).filter(|(_, slot)| **slot != UNKNOWN) {
            order.push(name.as_bytes(), *slot);
        }
        let last = slots.iter().rev().find_map(|slot| self.place_of(*slot)).map_or(0, |place| place + 1);
        for place in (last..self.slots.len()).chain(0..last) {
            let slot = self.slots[place];
            if slot != UNKNOWN && order.place_of(slot).is_none() {
                order.push(self.names.at(place), slot);
            }
        }
        *self = order;
    }

    fn push(&mut self, name: &[u8], slot: u32) {
        let index = slot as usize;
        if self.places.len() <= index {
            self.places.resize(index + 1, 0);
        }
        self.places[index] = u32::try_from(self.slots.len()).expect("a table has fewer nodes");
        self.slots.push(slot);
        self.names.push(name);
    }

    /// Another node may get this slot.
    pub(super) fn forget(&mut self, slot: u32) {
        if let Some(place) = self.place_of(slot) {
            self.slots[place] = UNKNOWN;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn known(nodes: u32) -> NodeNames<u32> {
        (0..nodes).map(|slot| (Arc::from(format!("node-{slot}")), slot)).collect()
    }

    fn slots(order: &mut NameOrder, nodes: &[u32], known: &NodeNames<u32>) -> Vec<u32> {
        let names: Vec<String> = nodes.iter().map(|node| format!("node-{node}")).collect();
        order.slots_of(names.iter().map(String::as_str), known)
    }

    #[test]
    fn names_in_the_order_of_kube_scheduler_are_looked_up_once() {
        // Its order is not that of the slots.
        let (nodes, offered) = (1000, 420);
        let known = known(nodes);
        let list: Vec<u32> = (0..nodes).map(|at| at * 7 % nodes).collect();
        let window =
            |start: usize| -> Vec<u32> { (start..start + offered).map(|at| list[at % list.len()]).collect() };
        let mut order = NameOrder::default();
        for call in 0..6 {
            let asked = window(call * offered);
            assert_eq!(slots(&mut order, &asked, &known), asked);
        }
        order.looked_up = 0;
        for call in 6..20 {
            let offered = window(call * offered);
            // Every fifth node is rejected before prioritize.
            let left: Vec<u32> = offered.iter().copied().filter(|node| node % 5 > 0).collect();
            for asked in [offered, left] {
                assert_eq!(slots(&mut order, &asked, &known), asked);
            }
        }
        assert_eq!(order.looked_up, 2 * 14, "the first name of each call");
    }

    #[test]
    fn calls_that_leave_out_most_nodes_do_not_change_the_order() {
        let known = known(1000);
        let mut order = NameOrder::default();
        let all: Vec<u32> = (0..1000).collect();
        let some: Vec<u32> = (0..1000).step_by(20).collect();
        assert_eq!(slots(&mut order, &all, &known), all);
        let learned = order.slots.clone();
        for _ in 0..20 {
            assert_eq!(slots(&mut order, &some, &known), some);
        }
        assert_eq!(order.slots, learned);
        let reversed: Vec<u32> = all.into_iter().rev().collect();
        assert_eq!(slots(&mut order, &reversed, &known), reversed);
        assert_eq!(order.slots, reversed, "another order is learned");
    }

    #[test]
    fn a_slot_that_another_node_has_is_not_found_by_the_old_name() {
        let mut known = known(100);
        let mut order = NameOrder::default();
        let all: Vec<u32> = (0..100).collect();
        assert_eq!(slots(&mut order, &all, &known), all);
        assert_eq!(order.slots.len(), 100, "it is learned");
        known.remove("node-7");
        order.forget(7);
        known.insert(Arc::from("node-100"), 7);
        let mut expected = all.clone();
        expected[7] = UNKNOWN;
        assert_eq!(slots(&mut order, &all, &known), expected);
        assert_eq!(slots(&mut order, &[6, 100, 8], &known), [6, 7, 8]);
    }

    proptest! {
        #[test]
        fn slots_are_those_of_the_map(
            calls in prop::collection::vec(
                prop::sample::subsequence((0..150_u32).collect::<Vec<_>>(), 0..150).prop_shuffle(),
                1..5,
            ),
            sorted in any::<bool>(),
            removed in prop::collection::vec(0..100_u32, 0..5),
        ) {
            let mut known = known(100);
            let mut order = NameOrder::default();
            for (at, mut nodes) in calls.into_iter().enumerate() {
                if sorted {
                    nodes.sort_unstable();
                }
                if let Some(slot) = removed.get(at) {
                    order.forget(*slot);
                    known.remove(format!("node-{slot}").as_str());
                }
                let expected: Vec<u32> =
                    nodes.iter().map(|node| known.get(format!("node-{node}").as_str()).copied().unwrap_or(UNKNOWN)).collect();
                prop_assert_eq!(slots(&mut order, &nodes, &known), expected);
            }
        }
    }
}

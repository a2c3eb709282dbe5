//! The attributes by which pods are counted: those that verbs want, and for a while those that they wanted before,
//! because a backend that connects again wants the same, and to count by a new attribute means to parse all pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use extender_gateway_object::counted::CountedBy;
use tokio::time::Instant;

/// How long an attribute is counted by that no verb wants.
const KEPT_UNUSED: Duration = Duration::from_mins(5);

/// The most attributes: each costs memory for each pod. Four policies with as many as a verb may have.
const MOST_ATTRIBUTES: usize = 32;

/// The attributes, with the time until which each is counted by.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    until: BTreeMap<CountedBy, Instant>,
    /// The wanted attributes that are not counted by, as logged.
    left_out: BTreeSet<CountedBy>,
}

impl Wanted {
    /// Adds what is wanted now. Returns what is counted by, in ascending order.
    pub(super) fn add(&mut self, wanted: &BTreeSet<CountedBy>, now: Instant) -> Arc<[CountedBy]> {
        self.until.retain(|attribute, until| *until > now || wanted.contains(attribute));
        let mut left_out = BTreeSet::new();
        for attribute in wanted {
            if self.until.contains_key(attribute) || self.make_room(wanted) {
                self.until.insert(attribute.clone(), now + KEPT_UNUSED);
            } else {
                left_out.insert(attribute.clone());
            }
        }
        if !left_out.is_subset(&self.left_out) {
            tracing::warn!(
                ?left_out,
                "policies want pods counted by more than {MOST_ATTRIBUTES} attributes; those that are left out get no \
                 counts, and their failure policies apply. Let policies count by the same labels"
            );
        }
        self.left_out = left_out;
        self.until.keys().cloned().collect()
    }

    /// Ends the count by the attribute that has been unused for longest if there are too many; false if all are wanted.
    fn make_room(&mut self, wanted: &BTreeSet<CountedBy>) -> bool {
        if self.until.len() < MOST_ATTRIBUTES {
            return true;
        }
        let unused = self.until.iter().filter(|(attribute, _)| !wanted.contains(*attribute));
        let oldest = unused.min_by_key(|(_, until)| **until).map(|(attribute, _)| attribute.clone());
        oldest.is_some_and(|attribute| self.until.remove(&attribute).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(keys: &[&str]) -> BTreeSet<CountedBy> {
        keys.iter().map(|key| CountedBy::Label((*key).into())).collect()
    }

    #[test]
    fn an_attribute_is_kept_for_a_while_after_its_last_use() {
        let (mut wanted, start) = (Wanted::default(), Instant::now());
        let mut counted = |keys: &[&str], after: u64| {
            wanted
                .add(&labels(keys), start + Duration::from_secs(after))
                .iter()
                .cloned()
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(counted(&["a", "b"], 0), labels(&["a", "b"]));
        assert_eq!(counted(&["b"], 299), labels(&["a", "b"]));
        assert_eq!(counted(&["b"], 300), labels(&["b"]));
        assert_eq!(counted(&[], 500), labels(&["b"]));
        assert_eq!(counted(&[], 600), labels(&[]));
    }

    #[test]
    fn attributes_are_bounded_and_unused_ones_make_room() {
        let names: Vec<_> = (0..40).map(|number| format!("{number:02}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let (mut wanted, start) = (Wanted::default(), Instant::now());
        let counted = wanted.add(&labels(&names), start);
        assert_eq!(counted.iter().cloned().collect::<BTreeSet<_>>(), labels(&names[..32]));
        // The first ones are no longer wanted, and others take their places.
        let counted = wanted.add(&labels(&names[10..]), start);
        assert_eq!(counted.len(), 32);
        assert!(labels(&names[10..]).iter().all(|attribute| counted.contains(attribute)));
    }
}

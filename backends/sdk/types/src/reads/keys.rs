//! The keys and prefixes of one map, as they are declared and as they are sent: the contract wants keys in ascending
//! order and none that a prefix covers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use extender_policy_api::v1beta1 as api;

use super::key::{Key, Map, Prefix};

/// As declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys {
    /// Each with its place in the order of declarations.
    keys: BTreeMap<Arc<str>, usize>,
    prefixes: BTreeSet<Arc<str>>,
}

/// Where a request holds the value of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At this position among the values.
    Value(usize),
    /// In the map.
    Entry,
}

/// As sent.
#[derive(Debug)]
pub(crate) struct Places {
    /// Every declared key, in the order of declarations.
    declared: Box<[(Arc<str>, Place)]>,
    /// The keys of the values.
    keys: Box<[Arc<str>]>,
    /// Ascending; none begins with another one.
    prefixes: Box<[Arc<str>]>,
}

impl Keys {
    pub(super) fn key(&mut self, map: Map, text: Arc<str>) -> Key {
        if let Some((text, order)) = self.keys.get_key_value(&text) {
            return Key { map, text: Arc::clone(text), order: *order };
        }
        let order = self.keys.len();
        self.keys.insert(Arc::clone(&text), order);
        Key { map, text, order }
    }

    pub(super) fn prefix(&mut self, map: Map, text: Arc<str>) -> Prefix {
        self.prefixes.insert(Arc::clone(&text));
        Prefix { map, text }
    }

    pub(super) fn places(&self) -> Places {
        let mut prefixes: Vec<Arc<str>> = Vec::new();
        for prefix in &self.prefixes {
            if covering(&prefixes, prefix).is_none() {
                prefixes.push(Arc::clone(prefix));
            }
        }
        let sent = self.keys.keys().filter(|key| covering(&prefixes, key).is_none());
        let mut places =
            Places { declared: Box::default(), keys: sent.cloned().collect(), prefixes: prefixes.into() };
        let mut declared: Vec<_> = self.keys.iter().collect();
        declared.sort_unstable_by_key(|(_, order)| **order);
        // Each declared key is sent as a value or in the map.
        let place = |(key, _): (&Arc<str>, &usize)| Some((Arc::clone(key), places.find(key)?));
        places.declared = declared.into_iter().filter_map(place).collect();
        places
    }
}

impl Places {
    /// `None` if the key is not declared.
    pub(super) fn of(&self, key: &Key) -> Option<Place> {
        match self.declared.get(key.order) {
            Some((text, place)) if Arc::ptr_eq(text, &key.text) => Some(*place),
            _ => self.find(&key.text),
        }
    }

    /// `None` if the key is not declared.
    pub(super) fn find(&self, key: &str) -> Option<Place> {
        let value = self.keys.binary_search_by(|declared| (**declared).cmp(key));
        value.map(Place::Value).ok().or_else(|| self.covers(key).then_some(Place::Entry))
    }

    /// Whether all keys with this beginning are sent with their values.
    pub(super) fn covers(&self, prefix: &str) -> bool {
        covering(&self.prefixes, prefix).is_some()
    }

    /// The number of values.
    pub(super) fn values(&self) -> usize {
        self.keys.len()
    }

    /// The keys of the values.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|key| &**key)
    }

    pub(super) fn message(&self) -> Option<api::MapReads> {
        let texts = |texts: &[Arc<str>]| texts.iter().map(|text| text.as_ref().to_owned()).collect();
        let message = api::MapReads { keys: texts(&self.keys), prefixes: texts(&self.prefixes) };
        Some(message).filter(|message| *message != api::MapReads::default())
    }
}

/// The prefix with which the text begins. None of the prefixes begins with another one, so it can only be the last
/// one that is not after the text.
fn covering<'p>(prefixes: &'p [Arc<str>], text: &str) -> Option<&'p Arc<str>> {
    let after = prefixes.partition_point(|prefix| **prefix <= *text);
    prefixes[..after].last().filter(|prefix| text.starts_with(&***prefix))
}

//! The parts of pods and nodes in a backend's view.

use std::{collections::BTreeMap, iter, marker::PhantomData};

use extender_policy_api::v1beta1::{MapReads, MapValues, NodePart, NodeReads, PodPart, PodReads};

/// Prefixes of the keys of labels or annotations in a canonical form: lists that select the same keys, but differ in
/// order, repetitions or redundant prefixes, are equal and share their encodings. The default selects none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct KeyPrefixes(Vec<String>);

impl KeyPrefixes {
    /// Selects the keys that begin with one of these; an empty prefix selects all.
    pub fn new(prefixes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut sorted: Vec<String> = prefixes.into_iter().map(Into::into).collect();
        sorted.sort_unstable();
        // In sorted order a prefix directly precedes everything that it covers.
        sorted.dedup_by(|next, kept| next.starts_with(kept.as_str()));
        Self(sorted)
    }

    /// Selects every key.
    pub fn all() -> Self {
        Self::new([""])
    }

    /// The prefixes, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether this key is selected. A binary search: backends choose the number of prefixes, and every label and
    /// annotation of every node is looked up.
    pub fn want(&self, key: &str) -> bool {
        // No prefix covers another, so only the last one that is not greater than the key can cover it.
        let nearest = self.last_at_most(|prefix| prefix.as_str() <= key);
        nearest.is_some_and(|prefix| key.starts_with(prefix.as_str()))
    }

    /// The last prefix for which `at_most` holds.
    fn last_at_most(&self, at_most: impl FnMut(&String) -> bool) -> Option<&String> {
        self.0.partition_point(at_most).checked_sub(1).map(|last| &self.0[last])
    }
}

/// The labels or annotations in a view. The default selects none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct MapView {
    /// The keys whose values are sent by position, ascending, without duplicates.
    keys: Vec<String>,
    /// Those that are sent with their keys. None of them selects one of `keys`.
    pub prefixes: KeyPrefixes,
}

/// How a view selects an entry of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Selected {
    /// With its key.
    Entry,
    /// Its value, at the position of its key among the view's keys.
    Value(usize),
}

impl MapView {
    fn declared(reads: &MapReads) -> Self {
        Self { keys: reads.keys.clone(), prefixes: KeyPrefixes::new(reads.prefixes.iter()) }
    }

    /// Selects everything.
    pub fn all() -> Self {
        KeyPrefixes::all().into()
    }

    /// The keys that are named, ascending.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The number of keys whose values are sent by position.
    pub fn values(&self) -> usize {
        self.keys.len()
    }

    /// Whether and how the entry with this key is selected.
    pub fn find(&self, key: &str) -> Option<Selected> {
        if self.prefixes.want(key) {
            return Some(Selected::Entry);
        }
        self.keys.binary_search_by(|known| known.as_str().cmp(key)).ok().map(Selected::Value)
    }

    /// Selects from pairs, of which the last one with a key counts, as in Go. `None` if nothing is selected by its key, and no
    /// entry by a prefix.
    pub fn select<'m>(&self, pairs: impl Iterator<Item = (&'m str, &'m str)>) -> Option<MapValues> {
        let mut entries = BTreeMap::new();
        let mut values = vec![None; self.keys.len()];
        for (key, value) in pairs {
            match self.find(key) {
                Some(Selected::Entry) => drop(entries.insert(key.to_owned(), value.to_owned())),
                Some(Selected::Value(place)) => values[place] = Some(value),
                None => {}
            }
        }
        let value = |value: Option<&str>| value.unwrap_or_default().to_owned();
        let selected =
            MapValues { entries, absent: absent(&values), values: values.into_iter().map(value).collect() };
        (selected != MapValues::default()).then_some(selected)
    }

    /// The entries in words; `one` and `many` name an entry.
    fn words<'v>(&'v self, one: &'v str, many: &'v str) -> impl Iterator<Item = String> + 'v {
        let keys = self.keys.iter().map(move |key| format!("{one} {key}"));
        keys.chain(self.prefixes.iter().map(move |prefix| format!("{many} {prefix}*")))
    }

    /// The declaration of this view; `None` if it selects nothing.
    fn reads(&self) -> Option<MapReads> {
        let prefixes = self.prefixes.iter().map(str::to_owned).collect();
        let reads = MapReads { keys: self.keys.clone(), prefixes };
        Some(reads).filter(|reads| *reads != MapReads::default())
    }
}

impl From<KeyPrefixes> for MapView {
    fn from(prefixes: KeyPrefixes) -> Self {
        Self { keys: Vec::new(), prefixes }
    }
}

/// The positions without a value.
pub fn absent(values: &[Option<&str>]) -> Vec<u32> {
    (0..).zip(values).filter(|(_, value)| value.is_none()).map(|(place, _)| place).collect()
}

/// Above the number of every part.
const LARGEST_PART: i32 = 31;

/// The parts of facts besides labels and annotations, which a view selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Parts(u32);

impl Parts {
    /// Every part: that of `everything`. A declaration that lists every part is another view.
    const ALL: Self = Self(u32::MAX);

    /// The parts with these numbers, all of which the contract defines; numbers in `apart` are no facts.
    fn declared(numbers: &[i32], apart: &[i32]) -> Self {
        let facts = numbers.iter().filter(|number| !apart.contains(number));
        Self(facts.fold(0, |parts, number| parts | 1 << number))
    }

    fn has(self, number: i32) -> bool {
        self.0 & 1 << number != 0
    }
}

/// The facts about pods or nodes in a view; `P` numbers their parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FactsView<P> {
    parts: Parts,
    /// The labels.
    pub labels: MapView,
    /// The annotations.
    pub annotations: MapView,
    numbered: PhantomData<P>,
}

/// The facts about pods in a view.
pub type PodFactsView = FactsView<PodPart>;

/// The facts about nodes in a view.
pub type NodeFactsView = FactsView<NodePart>;

/// The parts of pods or of nodes.
pub trait Part: Into<i32> {
    /// The name of the part with this number in words; `None` if there is none.
    fn words(number: i32) -> Option<String>;
}

/// The parts of a node that are no facts: `everything` does not include them.
pub const NODE_PARTS_APART: [NodePart; 4] =
    [NodePart::Usage, NodePart::Nominated, NodePart::RawJson, NodePart::Images];

impl Part for PodPart {
    fn words(number: i32) -> Option<String> {
        Self::try_from(number).ok().map(|part| in_words(part.as_str_name(), "POD_PART_"))
    }
}

impl Part for NodePart {
    fn words(number: i32) -> Option<String> {
        Self::try_from(number).ok().map(|part| in_words(part.as_str_name(), "NODE_PART_"))
    }
}

fn in_words(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_ascii_lowercase().replace('_', " ")
}

impl<P: Part> FactsView<P> {
    /// What the view and these further things contain in words, such as `requests, label team`; `everything`, with the
    /// annotations, if that is declared.
    pub fn words(&self, further: impl Iterator<Item = String>) -> String {
        let annotations = self.annotations.words("annotation", "annotations");
        if self.parts == Parts::ALL {
            let mut annotations = annotations.peekable();
            let all = if annotations.peek().is_none() { "everything but annotations" } else { "everything" };
            let all: Vec<_> = iter::once(all.to_owned()).chain(annotations).chain(further).collect();
            return all.join(", ");
        }
        let parts = (0..LARGEST_PART).filter(|number| self.parts.has(*number)).filter_map(P::words);
        let facts = parts.chain(self.labels.words("label", "labels")).chain(annotations);
        let all: Vec<_> = facts.chain(further).collect();
        if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
    }

    fn declared(parts: Parts, labels: Option<&MapReads>, annotations: Option<&MapReads>) -> Self {
        let map = |reads: Option<&MapReads>| reads.map(MapView::declared).unwrap_or_default();
        let labels = if parts == Parts::ALL { MapView::all() } else { map(labels) };
        Self { parts, labels, annotations: map(annotations), numbered: PhantomData }
    }

    /// Every fact.
    pub fn complete() -> Self {
        KeyPrefixes::all().into()
    }

    /// Whether it has this part.
    pub fn has(&self, part: P) -> bool {
        self.parts.has(part.into())
    }

    /// This part if the view has it, and otherwise the default.
    pub fn part<T: Default>(&self, part: P, value: impl FnOnce() -> T) -> T {
        if self.has(part) { value() } else { T::default() }
    }
}

/// Everything but annotations.
impl<P> Default for FactsView<P> {
    fn default() -> Self {
        KeyPrefixes::default().into()
    }
}

/// Everything, with these annotations.
impl<P> From<KeyPrefixes> for FactsView<P> {
    fn from(annotations: KeyPrefixes) -> Self {
        let (labels, annotations) = (MapView::all(), annotations.into());
        Self { parts: Parts::ALL, labels, annotations, numbered: PhantomData }
    }
}

/// What a verb declares, which the handshake's reader has checked.
impl From<&PodReads> for PodFactsView {
    fn from(PodReads { parts, labels, annotations, topology_counts: _, everything }: &PodReads) -> Self {
        let apart = [PodPart::Identity, PodPart::RawJson].map(Into::into);
        let parts = if *everything { Parts::ALL } else { Parts::declared(parts, &apart) };
        Self::declared(parts, labels.as_ref(), annotations.as_ref())
    }
}

/// What a verb declares, which the handshake's reader has checked.
impl From<&NodeReads> for NodeFactsView {
    fn from(NodeReads { parts, labels, annotations, pod_counts: _, everything }: &NodeReads) -> Self {
        let apart = NODE_PARTS_APART.map(Into::into);
        let parts = if *everything { Parts::ALL } else { Parts::declared(parts, &apart) };
        Self::declared(parts, labels.as_ref(), annotations.as_ref())
    }
}

impl PodFactsView {
    /// Whether it has nothing but the namespace and values of labels that it names.
    pub fn names_all_that_it_has(&self) -> bool {
        let Self { parts, labels, annotations, numbered: _ } = self;
        let namespace = Parts::declared(&[PodPart::Namespace.into()], &[]);
        parts.0 & !namespace.0 == 0
            && labels.prefixes == KeyPrefixes::default()
            && *annotations == MapView::default()
    }
}

impl NodeFactsView {
    /// The declaration of this view in its canonical form: of facts alone.
    pub fn reads(&self) -> NodeReads {
        let annotations = self.annotations.reads();
        if self.parts == Parts::ALL {
            return NodeReads { everything: true, annotations, ..NodeReads::default() };
        }
        let parts = (0..LARGEST_PART).filter(|number| self.parts.has(*number)).collect();
        NodeReads { parts, labels: self.labels.reads(), annotations, ..NodeReads::default() }
    }

    /// Whether it has nothing but the name, or not even that.
    pub fn is_bare(&self) -> bool {
        let Self { parts, labels, annotations, numbered: _ } = self;
        let name = Parts::declared(&[NodePart::Name.into()], &[]);
        let empty = MapView::default();
        parts.0 & !name.0 == 0 && *labels == empty && *annotations == empty
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    fn prefixes(of: &[&str]) -> KeyPrefixes {
        KeyPrefixes::new(of.iter().copied())
    }

    #[test]
    fn lists_that_want_the_same_are_equal() {
        let cases: [(&[&str], &[&str]); 5] = [
            (&["b", "a"], &["a", "b"]),
            (&["a", "a"], &["a"]),
            (&["a.io/x", "a.io/", "b"], &["a.io/", "b"]),
            (&["", "a"], &[""]),
            (&["a", "ab", "abc", "b"], &["b", "a"]),
        ];
        for (left, right) in cases {
            assert_eq!(prefixes(left), prefixes(right), "{left:?} {right:?}");
        }
        assert_ne!(prefixes(&["a"]), prefixes(&["a", "b"]));
    }

    proptest! {
        #[test]
        fn a_key_is_wanted_if_it_begins_with_one_of_the_prefixes(
            prefixes in prop::collection::vec("[ab/é]{0,3}", 0..12),
            key in "[ab/é]{0,6}",
        ) {
            let wanted = prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()));
            prop_assert_eq!(KeyPrefixes::new(prefixes).want(&key), wanted);
        }
    }

    #[test]
    fn a_view_is_described_in_words() {
        let map = |keys: &[&str], prefixes: &[&str]| {
            let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            Some(MapReads { keys: owned(keys), prefixes: owned(prefixes) })
        };
        let parts =
            vec![PodPart::Requests.into(), PodPart::PriorityClassName.into(), PodPart::Identity.into()];
        let reads = PodReads {
            parts,
            labels: map(&["app", "team"], &[]),
            annotations: map(&[], &["acme.io/"]),
            ..PodReads::default()
        };
        let words = "priority class name, requests, label app, label team, annotations acme.io/*";
        assert_eq!(PodFactsView::from(&reads).words(iter::empty()), words);
        assert_eq!(NodeFactsView::from(&NodeReads::default()).words(iter::empty()), "nothing");
        assert_eq!(NodeFactsView::default().words(iter::empty()), "everything but annotations");
        assert_eq!(
            NodeFactsView::from(prefixes(&["b/", "a/"])).words(iter::empty()),
            "everything, annotations a/*, annotations b/*"
        );
    }

    #[test]
    fn a_view_of_the_namespace_and_named_labels_names_all_that_it_has() {
        let map = |keys: &[&str], prefixes: &[&str]| {
            let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            Some(MapReads { keys: owned(keys), prefixes: owned(prefixes) })
        };
        let parts = |parts: &[PodPart]| parts.iter().map(|part| (*part).into()).collect();
        let nothing = PodReads::default;
        for (reads, expected) in [
            (nothing(), true),
            (PodReads { parts: parts(&[PodPart::Namespace]), ..nothing() }, true),
            (PodReads { labels: map(&["app", "team"], &[]), ..nothing() }, true),
            (PodReads { annotations: map(&[], &[]), ..nothing() }, true),
            (PodReads { parts: parts(&[PodPart::Requests]), ..nothing() }, false),
            (PodReads { parts: parts(&[PodPart::Namespace, PodPart::Owner]), ..nothing() }, false),
            (PodReads { labels: map(&["app"], &["acme.io/"]), ..nothing() }, false),
            (PodReads { annotations: map(&["acme.io/tier"], &[]), ..nothing() }, false),
            (PodReads { annotations: map(&[], &["acme.io/"]), ..nothing() }, false),
            (PodReads { everything: true, ..nothing() }, false),
        ] {
            assert_eq!(PodFactsView::from(&reads).names_all_that_it_has(), expected, "{reads:?}");
        }
    }

    #[test]
    fn of_equal_keys_the_last_counts_and_an_empty_value_is_not_an_absent_one() {
        let reads = MapReads { keys: vec!["a".into(), "b".into(), "c".into()], prefixes: vec!["x/".into()] };
        let pairs = [("b", "1"), ("a", ""), ("x/y", "2"), ("b", "3"), ("d", "4"), ("x/y", "5")];
        let MapValues { entries, values, absent } =
            MapView::declared(&reads).select(pairs.into_iter()).unwrap();
        assert_eq!((values, absent), (vec![String::new(), "3".to_owned(), String::new()], vec![2]));
        assert_eq!(entries, BTreeMap::from([("x/y".to_owned(), "5".to_owned())]));
    }

    #[test]
    fn a_key_is_compared_with_few_of_many_prefixes() {
        let many = KeyPrefixes::new((0..100_000).map(|number| format!("p{number:06}/")));
        let compared = Cell::new(0);
        let below = |prefix: &String| {
            compared.set(compared.get() + 1);
            prefix.as_str() <= "p054321/x"
        };
        assert_eq!(many.last_at_most(below).map(String::as_str), Some("p054321/"));
        assert!(compared.get() <= 18, "{} comparisons", compared.get());
    }

    #[test]
    fn wants_what_begins_with_a_prefix() {
        assert!(prefixes(&["acme.io/"]).want("acme.io/rack"));
        assert!(!prefixes(&["acme.io/"]).want("acme.iox"));
        assert!(!KeyPrefixes::default().want("acme.io/rack"));
        assert!(KeyPrefixes::all().want("acme.io/rack"));
    }
}

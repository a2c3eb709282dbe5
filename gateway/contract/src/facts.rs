//! A node's facts in a backend's view, made from the encoded facts with all annotations that the node table keeps: no
//! entry is decoded, and what is selected is copied.

use extender_gateway_object::view::{MapView, NodeFactsView, Selected, absent};
use extender_policy_api::v1beta1::NodePart;

use super::protobuf::{fields, put_bytes, put_number};

/// Fields of `NodeFacts`.
const LABELS: u32 = 1;
const ANNOTATIONS: u32 = 2;
const PARTS: [(u32, NodePart); 5] = [
    (3, NodePart::Taints),
    (4, NodePart::Unschedulable),
    (5, NodePart::Conditions),
    (6, NodePart::Capacity),
    (7, NodePart::Allocatable),
];
const LABEL_VALUES: u32 = 8;
const ANNOTATION_VALUES: u32 = 9;
const ABSENT_LABELS: u32 = 10;
const ABSENT_ANNOTATIONS: u32 = 11;

/// Fields of an entry of a map.
const KEY: u32 = 1;
const VALUE: u32 = 2;

/// The encoded facts in a view: the same bytes as if only these facts had been encoded. `facts` are the encoded facts
/// with all annotations.
///
/// # Panics
/// `facts` are not the gateway's own encoding.
pub fn in_view(facts: &[u8], view: &NodeFactsView) -> Vec<u8> {
    let mut out = Vec::new();
    let mut labels = MapInView::new(LABELS, &view.labels);
    let mut annotations = MapInView::new(ANNOTATIONS, &view.annotations);
    for field in fields(facts) {
        match field.expect(OWN) {
            (LABELS, Some(entry)) => labels.add(entry, &mut out),
            (ANNOTATIONS, Some(entry)) => annotations.add(entry, &mut out),
            (number, content) => {
                let part = PARTS.iter().find(|(field, part)| *field == number && view.has(*part));
                match (part, content) {
                    (Some(_), Some(content)) => put_bytes(number, content, &mut out),
                    // `unschedulable`, which is encoded only if it is true.
                    (Some(_), None) => put_number(number, 1, &mut out),
                    (None, _) => {}
                }
            }
        }
    }
    labels.put_values(LABEL_VALUES, &mut out);
    annotations.put_values(ANNOTATION_VALUES, &mut out);
    labels.put_absent(ABSENT_LABELS, &mut out);
    annotations.put_absent(ABSENT_ANNOTATIONS, &mut out);
    out
}

/// The value of a label in encoded facts; `None` if the node does not have it.
///
/// # Panics
/// `facts` are not the gateway's own encoding.
pub fn label<'f>(facts: &'f [u8], key: &str) -> Option<&'f str> {
    let labels = fields(facts).map(|field| field.expect(OWN)).filter(|(number, _)| *number == LABELS);
    labels
        .filter_map(|(_, entry)| entry)
        .find(|entry| text(entry, KEY) == key)
        .map(|entry| text(entry, VALUE))
}

/// A field of an entry of a map.
fn text(entry: &[u8], wanted: u32) -> &str {
    let field = fields(entry).map(|field| field.expect(OWN)).find(|(number, _)| *number == wanted);
    str::from_utf8(field.and_then(|(_, content)| content).unwrap_or_default()).expect(OWN)
}

/// Why decoding cannot fail.
const OWN: &str = "the gateway encoded these facts itself";

/// A map in a view, while its entries are read.
struct MapInView<'f> {
    field: u32,
    view: &'f MapView,
    /// The values of the view's keys.
    values: Vec<Option<&'f str>>,
}

impl<'f> MapInView<'f> {
    fn new(field: u32, view: &'f MapView) -> Self {
        Self { field, view, values: vec![None; view.values()] }
    }

    /// Takes an entry, which is written at once if it is sent with its key.
    fn add(&mut self, entry: &'f [u8], out: &mut Vec<u8>) {
        match self.view.find(text(entry, KEY)) {
            Some(Selected::Entry) => put_bytes(self.field, entry, out),
            Some(Selected::Value(place)) => self.values[place] = Some(text(entry, VALUE)),
            None => {}
        }
    }

    fn put_values(&self, field: u32, out: &mut Vec<u8>) {
        for value in &self.values {
            put_bytes(field, value.unwrap_or_default().as_bytes(), out);
        }
    }

    fn put_absent(&self, field: u32, out: &mut Vec<u8>) {
        prost::encoding::uint32::encode_packed(field, &absent(&self.values), out);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use extender_gateway_object::view::KeyPrefixes;
    use extender_policy_api::v1beta1::{MapReads, NodeFacts, NodeReads, Resources, Taint};
    use proptest::{prelude::*, sample::subsequence};
    use prost::Message;

    use super::*;

    const KEYS: [&str; 6] = ["", "a", "a.io/x", "a.io/y", "b", "é"];
    const PARTS: [NodePart; 5] = [
        NodePart::Taints,
        NodePart::Unschedulable,
        NodePart::Conditions,
        NodePart::Capacity,
        NodePart::Allocatable,
    ];

    fn map() -> impl Strategy<Value = BTreeMap<String, String>> {
        prop::collection::btree_map(
            prop::sample::select(&KEYS[..]).prop_map(str::to_owned),
            "[a-c]{0,2}",
            0..5,
        )
    }

    prop_compose! {
        fn complete()(
            labels in map(),
            annotations in map(),
            conditions in map(),
            taints in prop::collection::vec("[a-c]{0,2}", 0..3),
            unschedulable: bool,
            capacity in prop::option::of(0_i64..3),
            allocatable in prop::option::of(0_i64..3),
        ) -> NodeFacts {
            let resources = |milli_cpu| Resources { milli_cpu, ..Resources::default() };
            NodeFacts {
                labels,
                annotations,
                conditions,
                taints: taints.into_iter().map(|key| Taint { key, ..Taint::default() }).collect(),
                unschedulable,
                capacity: capacity.map(resources),
                allocatable: allocatable.map(resources),
                ..NodeFacts::default()
            }
        }
    }

    prop_compose! {
        /// Prefixes that cover none of the keys.
        fn declared_map()(
            keys in subsequence(&KEYS[1..], 0..5),
            prefixes in subsequence(vec!["", "a", "a.io/", "b", "q"], 0..3),
        ) -> MapReads {
            let keys = keys.into_iter().filter(|key| !prefixes.iter().any(|prefix| key.starts_with(prefix)));
            let keys = keys.map(str::to_owned).collect();
            MapReads { keys, prefixes: prefixes.iter().map(|prefix| (*prefix).to_owned()).collect() }
        }
    }

    /// The values of the keys, and the positions of those that are absent.
    fn by_position(map: &BTreeMap<String, String>, reads: &MapReads) -> (Vec<String>, Vec<u32>) {
        let values = reads.keys.iter().map(|key| map.get(key).cloned().unwrap_or_default()).collect();
        let absent = (0..).zip(&reads.keys).filter(|(_, key)| !map.contains_key(*key));
        (values, absent.map(|(place, _)| place).collect())
    }

    fn by_prefix(map: &BTreeMap<String, String>, reads: &MapReads) -> BTreeMap<String, String> {
        let covered = |key: &String| reads.prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()));
        map.iter().filter(|(key, _)| covered(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    proptest! {
        #[test]
        fn a_declaration_selects_exactly_what_it_names(
            facts in complete(),
            parts in subsequence(&PARTS[..], 0..=5),
            labels in declared_map(),
            annotations in declared_map(),
        ) {
            let has = |part| parts.contains(&part);
            let (label_values, absent_labels) = by_position(&facts.labels, &labels);
            let (annotation_values, absent_annotations) = by_position(&facts.annotations, &annotations);
            let expected = NodeFacts {
                labels: by_prefix(&facts.labels, &labels),
                annotations: by_prefix(&facts.annotations, &annotations),
                taints: if has(NodePart::Taints) { facts.taints.clone() } else { Vec::new() },
                unschedulable: has(NodePart::Unschedulable) && facts.unschedulable,
                conditions: if has(NodePart::Conditions) { facts.conditions.clone() } else { BTreeMap::new() },
                capacity: facts.capacity.clone().filter(|_| has(NodePart::Capacity)),
                allocatable: facts.allocatable.clone().filter(|_| has(NodePart::Allocatable)),
                label_values,
                annotation_values,
                absent_labels,
                absent_annotations,
            };
            let reads = NodeReads {
                parts: parts.iter().map(|part| (*part).into()).collect(),
                labels: Some(labels),
                annotations: Some(annotations),
                ..NodeReads::default()
            };
            let encoded = in_view(&facts.encode_to_vec(), &(&reads).into());
            prop_assert_eq!(NodeFacts::decode(&*encoded).unwrap(), expected.clone());
            prop_assert_eq!(encoded, expected.encode_to_vec());
        }

        #[test]
        fn without_a_declaration_only_annotations_are_selected(
            facts in complete(),
            prefixes in subsequence(vec!["", "a", "a.io/", "q"], 0..3),
        ) {
            let mut expected = facts.clone();
            expected.annotations.retain(|key, _| prefixes.iter().any(|prefix| key.starts_with(prefix)));
            let encoded = in_view(&facts.encode_to_vec(), &KeyPrefixes::new(prefixes).into());
            prop_assert_eq!(encoded, expected.encode_to_vec());
        }
    }
}

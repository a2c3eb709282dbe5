//! A node's facts in a backend's view, made from the encoded facts with all annotations that the node table keeps: no
//! entry is decoded, and what is selected is copied.

use extender_gateway_object::view::{MapView, NodeFactsView, Selected, absent};
use extender_policy_api::v1beta1::{NodeImage, NodePart};
use prost::encoding::message;

use super::protobuf::{fields, next_field, put_bytes};

/// Fields of `NodeFacts`.
const LABELS: u32 = 12;
const ANNOTATIONS: u32 = 13;
const IMAGES: u32 = 14;
const PARTS: [(u32, NodePart); 8] = [
    (3, NodePart::Taints),
    (4, NodePart::Unschedulable),
    (5, NodePart::Conditions),
    (6, NodePart::Capacity),
    (7, NodePart::Allocatable),
    (15, NodePart::SystemInfo),
    (16, NodePart::Addresses),
    (17, NodePart::ProviderId),
];

/// Fields of `MapValues`.
const VALUES: u32 = 1;
const ABSENT: u32 = 2;
const ENTRIES: u32 = 3;

/// Fields of an entry of a map.
const KEY: u32 = 1;
const VALUE: u32 = 2;

/// The encoded facts in a view: the same bytes as if only these facts had been encoded. `facts` are the encoded facts
/// with all annotations and without images, which are added.
///
/// # Panics
/// `facts` are not the gateway's own encoding.
pub fn in_view(mut facts: &[u8], view: &NodeFactsView, images: &[NodeImage]) -> Vec<u8> {
    // Fields are in the order of their numbers.
    let (mut out, mut behind_maps) = (Vec::new(), Vec::new());
    let mut labels = MapInView::new(&view.labels);
    let mut annotations = MapInView::new(&view.annotations);
    while !facts.is_empty() {
        let before = facts;
        match next_field(&mut facts).expect(OWN) {
            (LABELS, Some(map)) => labels.add(map),
            (ANNOTATIONS, Some(map)) => annotations.add(map),
            (number, _) if PARTS.iter().any(|(field, part)| *field == number && view.has(*part)) => {
                let out = if number < LABELS { &mut out } else { &mut behind_maps };
                out.extend_from_slice(&before[..before.len() - facts.len()]);
            }
            _ => {}
        }
    }
    labels.put(LABELS, &mut out);
    annotations.put(ANNOTATIONS, &mut out);
    message::encode_repeated(IMAGES, images, &mut out);
    out.extend_from_slice(&behind_maps);
    out
}

/// The value of a label in encoded facts; `None` if the node does not have it.
///
/// # Panics
/// `facts` are not the gateway's own encoding.
pub fn label<'f>(facts: &'f [u8], key: &str) -> Option<&'f str> {
    let labels = inside(facts, LABELS).flat_map(|labels| inside(labels, ENTRIES));
    labels.filter(|entry| text(entry, KEY) == key).map(|entry| text(entry, VALUE)).next()
}

/// The contents of this field of a message.
fn inside(message: &[u8], wanted: u32) -> impl Iterator<Item = &[u8]> {
    let fields = fields(message).map(|field| field.expect(OWN));
    fields.filter(move |(number, _)| *number == wanted).filter_map(|(_, content)| content)
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
    view: &'f MapView,
    /// The values of the view's keys.
    values: Vec<Option<&'f str>>,
    /// The entries that are sent with their keys, encoded.
    entries: Vec<u8>,
}

impl<'f> MapInView<'f> {
    fn new(view: &'f MapView) -> Self {
        Self { view, values: vec![None; view.values()], entries: Vec::new() }
    }

    /// Takes the entries of the complete map.
    fn add(&mut self, map: &'f [u8]) {
        for entry in inside(map, ENTRIES) {
            match self.view.find(text(entry, KEY)) {
                Some(Selected::Entry) => put_bytes(ENTRIES, entry, &mut self.entries),
                Some(Selected::Value(place)) => self.values[place] = Some(text(entry, VALUE)),
                None => {}
            }
        }
    }

    /// Writes it as this field; nothing if it is empty.
    fn put(&self, field: u32, out: &mut Vec<u8>) {
        let mut map = Vec::new();
        for value in &self.values {
            put_bytes(VALUES, value.unwrap_or_default().as_bytes(), &mut map);
        }
        prost::encoding::uint32::encode_packed(ABSENT, &absent(&self.values), &mut map);
        map.extend_from_slice(&self.entries);
        if !map.is_empty() {
            put_bytes(field, &map, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use extender_gateway_object::view::KeyPrefixes;
    use extender_policy_api::v1beta1::{
        MapReads, MapValues, NodeAddress, NodeFacts, NodeReads, Resources, SystemInfo, Taint,
    };
    use proptest::{prelude::*, sample::subsequence};
    use prost::Message;

    use super::*;

    const KEYS: [&str; 6] = ["", "a", "a.io/x", "a.io/y", "b", "é"];
    const PARTS: [NodePart; 8] = [
        NodePart::Taints,
        NodePart::Unschedulable,
        NodePart::Conditions,
        NodePart::Capacity,
        NodePart::Allocatable,
        NodePart::SystemInfo,
        NodePart::Addresses,
        NodePart::ProviderId,
    ];

    fn map() -> impl Strategy<Value = BTreeMap<String, String>> {
        prop::collection::btree_map(
            prop::sample::select(&KEYS[..]).prop_map(str::to_owned),
            "[a-c]{0,2}",
            0..5,
        )
    }

    fn entries(entries: BTreeMap<String, String>) -> Option<MapValues> {
        (!entries.is_empty()).then(|| MapValues { entries, ..MapValues::default() })
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
            kernels in prop::collection::vec("[a-c]{0,2}", 0..2),
            addresses in prop::collection::vec("[a-c]{0,2}", 0..3),
            provider_id in "[a-c]{0,2}",
        ) -> NodeFacts {
            let resources = |milli_cpu| Resources { milli_cpu, ..Resources::default() };
            NodeFacts {
                labels: entries(labels),
                annotations: entries(annotations),
                conditions,
                taints: taints.into_iter().map(|key| Taint { key, ..Taint::default() }).collect(),
                unschedulable: Some(unschedulable),
                capacity: capacity.map(resources),
                allocatable: allocatable.map(resources),
                system_info: kernels.into_iter().next().map(|kernel_version| SystemInfo {
                    kernel_version,
                    ..SystemInfo::default()
                }),
                addresses: addresses
                    .into_iter()
                    .map(|address| NodeAddress { address, ..NodeAddress::default() })
                    .collect(),
                provider_id,
                images: Vec::new(),
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

    /// What a declaration selects of a map.
    fn selected(map: Option<&MapValues>, reads: &MapReads) -> Option<MapValues> {
        let map = map.map(|map| map.entries.clone()).unwrap_or_default();
        let values = reads.keys.iter().map(|key| map.get(key).cloned().unwrap_or_default()).collect();
        let absent = (0..).zip(&reads.keys).filter(|(_, key)| !map.contains_key(*key));
        let absent = absent.map(|(place, _)| place).collect();
        let covered = |key: &String| reads.prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()));
        let entries = map.into_iter().filter(|(key, _)| covered(key)).collect();
        Some(MapValues { values, absent, entries }).filter(|selected| *selected != MapValues::default())
    }

    proptest! {
        #[test]
        fn a_declaration_selects_exactly_what_it_names(
            facts in complete(),
            parts in subsequence(&PARTS[..], 0..=8),
            labels in declared_map(),
            annotations in declared_map(),
            images in prop::collection::vec("[a-c]{0,2}", 0..2),
        ) {
            let image = |name: String| NodeImage { names: vec![name], bytes: 7 };
            let images: Vec<_> = images.into_iter().map(image).collect();
            let has = |part| parts.contains(&part);
            let expected = NodeFacts {
                labels: selected(facts.labels.as_ref(), &labels),
                annotations: selected(facts.annotations.as_ref(), &annotations),
                taints: if has(NodePart::Taints) { facts.taints.clone() } else { Vec::new() },
                unschedulable: facts.unschedulable.filter(|_| has(NodePart::Unschedulable)),
                conditions: if has(NodePart::Conditions) { facts.conditions.clone() } else { BTreeMap::new() },
                capacity: facts.capacity.clone().filter(|_| has(NodePart::Capacity)),
                allocatable: facts.allocatable.clone().filter(|_| has(NodePart::Allocatable)),
                system_info: facts.system_info.clone().filter(|_| has(NodePart::SystemInfo)),
                addresses: if has(NodePart::Addresses) { facts.addresses.clone() } else { Vec::new() },
                provider_id: if has(NodePart::ProviderId) { facts.provider_id.clone() } else { String::new() },
                images: images.clone(),
            };
            let reads = NodeReads {
                parts: parts.iter().map(|part| (*part).into()).collect(),
                labels: Some(labels),
                annotations: Some(annotations),
                ..NodeReads::default()
            };
            let encoded = in_view(&facts.encode_to_vec(), &(&reads).into(), &images);
            prop_assert_eq!(NodeFacts::decode(&*encoded).unwrap(), expected.clone());
            prop_assert_eq!(encoded, expected.encode_to_vec());
        }

        #[test]
        fn without_a_declaration_only_annotations_are_selected(
            facts in complete(),
            prefixes in subsequence(vec!["", "a", "a.io/", "q"], 0..3),
        ) {
            let mut expected = facts.clone();
            let keys = prefixes.iter().map(|prefix| (*prefix).to_owned()).collect();
            let reads = MapReads { keys: Vec::new(), prefixes: keys };
            expected.annotations = selected(facts.annotations.as_ref(), &reads);
            let encoded = in_view(&facts.encode_to_vec(), &KeyPrefixes::new(prefixes).into(), &[]);
            prop_assert_eq!(encoded, expected.encode_to_vec());
        }
    }
}

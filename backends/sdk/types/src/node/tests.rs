//! A view and the generated type agree, whatever the bytes are.

use std::collections::BTreeMap;

use extender_policy_api::v1beta1::{MapValues, NodeFacts, NodeRow, NonZero, PodCount as Count, PodCounts};
use proptest::{prelude::*, sample::Index};
use prost::Message;

use super::{content::Content, row::Row, *};
use crate::{
    PodsBy,
    reads::{
        layout,
        pods::{Attribute, SentCount, Sums},
        values::{Counts, RowMismatch},
    },
};

fn access() -> Access<'static> {
    Access::to(&layout::everything().node)
}

/// Few different ones, so that keys repeat; some empty, some not ASCII.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]{0,2}", "[a-z.]{1,9}/[a-z]{0,60}", "\\PC{0,5}"]
}

fn map() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map(text(), text(), 0..6)
}

fn taint() -> impl Strategy<Value = Taint> {
    (text(), text(), text()).prop_map(|(key, value, effect)| Taint { key, value, effect })
}

fn resources() -> impl Strategy<Value = Resources> {
    let others = prop::collection::btree_map(text(), any::<i64>(), 0..4);
    let amounts = (any::<i64>(), any::<i64>(), any::<i64>(), 0..200_i64, others);
    amounts.prop_map(|(milli_cpu, memory, ephemeral_storage, pods, others)| Resources {
        milli_cpu,
        memory,
        ephemeral_storage,
        pods,
        others,
    })
}

fn facts() -> impl Strategy<Value = NodeFacts> {
    let taints = prop::collection::vec(taint(), 0..4);
    let amounts = || prop::option::of(resources());
    let values = || prop::option::of(map_values());
    let unschedulable = prop::option::of(any::<bool>());
    let facts = (values(), values(), taints, unschedulable, map(), amounts(), amounts(), machine());
    facts.prop_map(
        |(labels, annotations, taints, unschedulable, conditions, capacity, allocatable, machine)| {
            NodeFacts {
                taints,
                unschedulable,
                conditions,
                capacity,
                allocatable,
                labels,
                annotations,
                ..machine
            }
        },
    )
}

/// What the kubelet and the cloud report.
fn machine() -> impl Strategy<Value = NodeFacts> {
    let image = (prop::collection::vec(text(), 0..3), any::<i64>());
    let image = image.prop_map(|(names, bytes)| NodeImage { names, bytes });
    let info = (text(), text()).prop_map(|(architecture, container_runtime_version)| SystemInfo {
        architecture,
        container_runtime_version,
        ..SystemInfo::default()
    });
    let address = (text(), text()).prop_map(|(r#type, address)| NodeAddress { r#type, address });
    let lists = (prop::collection::vec(image, 0..3), prop::collection::vec(address, 0..3));
    (lists, prop::option::of(info), text()).prop_map(|((images, addresses), system_info, provider_id)| {
        NodeFacts { images, system_info, addresses, provider_id, ..NodeFacts::default() }
    })
}

fn map_values() -> impl Strategy<Value = MapValues> {
    let values = prop::collection::vec((text(), any::<bool>()), 0..20);
    (values, map()).prop_map(|(values, entries)| {
        let (values, absent) = some_absent(values);
        MapValues { values, absent, entries }
    })
}

/// The values, and the positions of those that stand for a missing key.
fn some_absent(values: Vec<(String, bool)>) -> (Vec<String>, Vec<u32>) {
    let absent =
        (0..).zip(&values).filter(|(_, (_, absent))| *absent).map(|(position, _)| position).collect();
    let value = |(value, absent)| if absent { String::new() } else { value };
    (values.into_iter().map(value).collect(), absent)
}

fn usage() -> impl Strategy<Value = NodeUsage> {
    let nonzero = (any::<i64>(), 0..200_i64).prop_map(|(milli_cpu, memory)| NonZero { milli_cpu, memory });
    let usage = (prop::option::of(resources()), prop::option::of(nonzero));
    usage.prop_map(|(requested, nonzero)| NodeUsage { requested, nonzero })
}

fn row() -> impl Strategy<Value = NodeRow> {
    let raw_json = prop::collection::vec(any::<u8>(), 0..20);
    let pod_counts = prop::collection::vec(pod_counts(), 0..4);
    let usages = (prop::option::of(usage()), prop::option::of(usage()));
    let row = (text(), prop::option::of(facts()), raw_json, usages, pod_counts);
    row.prop_map(|(name, facts, raw_json, (usage, nominated), pod_counts)| {
        let raw_json = raw_json.into();
        NodeRow { name, facts, raw_json, usage, nominated, pod_counts }
    })
}

fn pod_count() -> impl Strategy<Value = Count> {
    let count = (text(), text(), any::<u32>(), 0..3_u32, prop::option::of(resources()));
    count.prop_map(|(namespace, value, pods, terminating, requested)| Count {
        namespace,
        value,
        pods,
        terminating,
        requested,
    })
}

/// In the order of the contract.
fn pod_counts() -> impl Strategy<Value = PodCounts> {
    let counts = (prop::collection::vec(pod_count(), 0..6), 0..300_u32);
    counts.prop_map(|(mut counts, omitted_pods)| {
        counts.sort_by(|a, b| key(a).cmp(&key(b)));
        counts.dedup_by(|a, b| key(a) == key(b));
        PodCounts { counts, omitted_pods }
    })
}

fn key(count: &Count) -> (&str, &str) {
    (&count.namespace, &count.value)
}

fn are_ascending(row: &NodeRow) -> bool {
    row.pod_counts.iter().all(|counts| counts.counts.is_sorted_by(|count, next| key(count) < key(next)))
}

/// Changes to an encoded message in transit.
#[derive(Clone, Debug)]
enum Damage {
    Cut(Index),
    Overwrite(Index, u8),
    Insert(Index, u8),
    Remove(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    // Significant bytes: keys of the contract's fields, small lengths, unknown fields, groups.
    let byte = || prop_oneof![any::<u8>(), 0..0x50_u8];
    prop_oneof![
        any::<Index>().prop_map(Damage::Cut),
        (any::<Index>(), byte()).prop_map(|(at, byte)| Damage::Overwrite(at, byte)),
        (any::<Index>(), byte()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        any::<Index>().prop_map(Damage::Remove),
    ]
}

fn damaged(mut encoded: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for damage in damages {
        let len = encoded.len();
        match damage {
            Damage::Insert(at, byte) => encoded.insert(at.index(len + 1), *byte),
            _ if len == 0 => {}
            Damage::Cut(at) => encoded.truncate(at.index(len)),
            Damage::Overwrite(at, byte) => encoded[at.index(len)] = *byte,
            Damage::Remove(at) => drop(encoded.remove(at.index(len))),
        }
    }
    encoded
}

/// The length-delimited field `tag`.
fn field(tag: u32, content: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    prost::encoding::encode_key(tag, prost::encoding::WireType::LengthDelimited, &mut field);
    prost::encode_length_delimiter(content.len(), &mut field).unwrap();
    [field, content.to_vec()].concat()
}

/// The generated type and the view agree on whether the bytes are a row, and on its content. Only the view refuses
/// counts of pods that are not in order.
fn agree(encoded: &[u8]) -> Result<(), TestCaseError> {
    match (NodeRow::decode(encoded), Row::read(encoded)) {
        (Ok(expected), Ok(row)) if are_ascending(&expected) => {
            same(&expected, Node { row: row.as_ref(), access: access() })?;
            // As it is kept in a table.
            let (name, content) = row.into_parts();
            let (name, content) = (&name, &content.into_owned());
            same(&expected, Node { row: RowRef { name, content }, access: access() })
        }
        (Err(_), Err(_)) => Ok(()),
        (Ok(expected), Err(_)) if !are_ascending(&expected) => Ok(()),
        (expected, row) => {
            Err(TestCaseError::fail(format!("{expected:?}, but the view: {:?}", row.map(drop))))
        }
    }
}

fn same(expected: &NodeRow, node: Node<'_>) -> Result<(), TestCaseError> {
    let facts = expected.facts.clone().unwrap_or_default();
    prop_assert_eq!(node.name(), &expected.name);
    prop_assert_eq!(node.row.content.facts().is_none(), expected.facts.is_none());
    let (labels, annotations) =
        (facts.labels.clone().unwrap_or_default(), facts.annotations.clone().unwrap_or_default());
    let entries: Vec<_> = labels.entries.iter().map(|(key, value)| (&**key, &**value)).collect();
    prop_assert_eq!(node.labels().collect::<Vec<_>>(), entries);
    let maps = [&labels.entries, &annotations.entries, &facts.conditions];
    for key in maps.into_iter().flat_map(BTreeMap::keys).map(String::as_str).chain(["", "a", "absent"]) {
        prop_assert_eq!(node.label(key), labels.entries.get(key).map(String::as_str));
        prop_assert_eq!(node.annotation(key), annotations.entries.get(key).map(String::as_str));
        prop_assert_eq!(node.condition(key), facts.conditions.get(key).map(String::as_str));
    }
    // Others never reach a policy.
    let ascending = |values: &MapValues| values.absent.is_sorted_by(|position, next| position < next);
    let maps = [(Map::Labels, &labels), (Map::Annotations, &annotations)];
    for (map, MapValues { values, absent, .. }) in maps.into_iter().filter(|(_, values)| ascending(values)) {
        for (position, value) in values.iter().enumerate() {
            let is_absent = value.is_empty() && absent.iter().any(|absent| *absent as usize == position);
            let expected = Some(value.as_str()).filter(|_| !is_absent);
            prop_assert_eq!(node.row.content.value(map, position), expected, "{:?} {}", map, position);
        }
    }
    prop_assert_eq!(node.taints(), &*facts.taints);
    prop_assert_eq!(node.is_unschedulable(), facts.unschedulable == Some(true));
    prop_assert_eq!(node.capacity(), facts.capacity.as_ref());
    prop_assert_eq!(node.allocatable(), facts.allocatable.as_ref());
    prop_assert_eq!((node.images(), node.addresses()), (&*facts.images, &*facts.addresses));
    prop_assert_eq!(node.system_info(), facts.system_info.as_ref());
    prop_assert_eq!(node.provider_id().unwrap_or_default(), facts.provider_id);
    prop_assert_eq!(node.usage(), expected.usage.as_ref());
    prop_assert_eq!(node.nominated(), expected.nominated.as_ref());
    prop_assert_eq!(node.raw_json().unwrap_or_default(), &*expected.raw_json);
    same_counts(&expected.pod_counts, node.row.content)
}

fn same_counts(expected: &[PodCounts], row: &Content<'_>) -> Result<(), TestCaseError> {
    let mismatch = |pods| row.check(Counts { pods, ..Counts::default() });
    let miscounted = |pods| matches!(mismatch(pods), Err(RowMismatch::PodCounts { .. }));
    // Values are checked first.
    prop_assert!(!miscounted(expected.len()) && (mismatch(0).is_err() || expected.is_empty()));
    let sent = SentCount { by: PodsBy::label("app"), sums: Sums::Requests, position: 0 };
    for (position, expected) in expected.iter().enumerate() {
        let list = row.pod_counts(position);
        let omitted = list.omitted_pods();
        prop_assert_eq!(omitted, expected.omitted_pods);
        let counts: Vec<_> = list.counts(&sent).map(generated).collect();
        prop_assert_eq!(&counts, &expected.counts.iter().map(with_sums).collect::<Vec<_>>());
        for count in &counts {
            let like = list.like(&sent, Attribute { namespace: &count.namespace, value: &count.value });
            prop_assert_eq!(like.counted().map(generated), Some(count.clone()));
            prop_assert_eq!((like.at_least(), like.at_most()), (count.pods, count.pods));
        }
        for (namespace, value) in [("", ""), ("a", "b"), ("b", ""), ("~", "~")] {
            let is_there = counts.iter().any(|count| key(count) == (namespace, value));
            let like = list.like(&sent, Attribute { namespace, value });
            prop_assert!(is_there || (like.at_least(), like.at_most()) == (0, omitted));
            prop_assert!(is_there || like.counted().is_some() == (omitted == 0));
        }
    }
    Ok(())
}

fn generated(count: PodCount<'_>) -> Count {
    Count {
        namespace: count.namespace().unwrap().into(),
        value: count.value().into(),
        pods: count.pods(),
        terminating: count.terminating(),
        requested: Some(count.requested()),
    }
}

/// No sums are sums of nothing.
fn with_sums(count: &Count) -> Count {
    Count { requested: Some(count.requested.clone().unwrap_or_default()), ..count.clone() }
}

proptest! {
    #[test]
    fn a_row_reads_as_its_generated_type(row in row()) {
        let encoded = row.encode_to_vec();
        // A row that the gateway writes never takes the slow path.
        prop_assert!(shape::is_usual(&encoded));
        agree(&encoded)?;
    }

    #[test]
    fn fields_of_a_later_version_are_passed_over(row in row(), content in prop::collection::vec(any::<u8>(), 0..9)) {
        let facts = row.facts.clone().unwrap_or_default().encode_to_vec();
        let facts = field(2, &[facts, field(18, &content)].concat());
        let usage = row.usage.clone().unwrap_or_default().encode_to_vec();
        let usage = field(4, &[usage, field(3, &content)].concat());
        let name = NodeRow { name: row.name, ..NodeRow::default() }.encode_to_vec();
        let count = row.pod_counts.first().and_then(|counts| counts.counts.first()).cloned();
        let count = [count.unwrap_or_default().encode_to_vec(), field(6, &content)].concat();
        let counts = field(5, &[field(1, &count), field(3, &content)].concat());
        let nominated = field(6, &field(3, &content));
        let later = [nominated, field(7, &content), b"\x40\x01\x40\x01".to_vec()].concat();
        let encoded = [name, facts, usage, counts, later].concat();
        prop_assert!(shape::is_usual(&encoded));
        agree(&encoded)?;
    }

    #[test]
    fn repeated_and_disordered_fields_are_merged(rows in prop::collection::vec(row(), 0..4)) {
        agree(&rows.iter().flat_map(Message::encode_to_vec).collect::<Vec<_>>())?;
    }

    #[test]
    fn map_entries_in_any_order_read_alike(
        entries in prop::collection::vec((text(), text()), 0..6),
    ) {
        let value_first = |entry, (key, value): &(String, String)| {
            field(entry, &[field(2, value.as_bytes()), field(1, key.as_bytes())].concat())
        };
        let key_first = |entry, (key, value): &(String, String)| {
            field(entry, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat())
        };
        let all = |of: &dyn Fn(&(String, String)) -> Vec<u8>| entries.iter().flat_map(of).collect::<Vec<_>>();
        for (values, conditions) in [
            (all(&|entry| value_first(3, entry)), all(&|entry| value_first(5, entry))),
            (all(&|entry| key_first(3, entry)), all(&|entry| key_first(5, entry))),
        ] {
            agree(&field(2, &field(12, &values)))?;
            agree(&field(2, &field(13, &values)))?;
            agree(&field(2, &conditions))?;
        }
    }

    #[test]
    fn counts_in_any_order_are_refused_or_read_alike(
        counts in prop::collection::vec(prop::collection::vec(pod_count(), 0..4), 0..3),
        name in text(),
    ) {
        let pod_counts = counts.into_iter().map(|counts| PodCounts { counts, omitted_pods: 1 }).collect();
        let row = NodeRow { name, pod_counts, ..NodeRow::default() };
        let encoded = row.encode_to_vec();
        prop_assert_eq!(shape::is_usual(&encoded), are_ascending(&row));
        prop_assert_eq!(Row::read(&encoded).is_ok(), are_ascending(&row));
        agree(&encoded)?;
        // So that it is rewritten.
        agree(&[field(5, b""), encoded].concat())?;
    }

    #[test]
    fn damaged_rows_are_refused_or_read_alike(
        row in row(),
        damages in prop::collection::vec(damage(), 1..4),
    ) {
        agree(&damaged(row.encode_to_vec(), &damages))?;
    }

    #[test]
    fn arbitrary_bytes_break_nothing(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        agree(&bytes)?;
        agree(&field(2, &bytes))?;
        agree(&field(2, &field(12, &bytes)))?;
        agree(&field(4, &bytes))?;
        agree(&field(5, &bytes))?;
        agree(&field(5, &field(1, &bytes)))?;
    }
}

#[test]
fn what_protobuf_allows_and_the_gateway_does_not_write_takes_the_long_way() {
    let labelled = |labels: &[(&str, &str)]| {
        let entry = |(key, value): &(&str, &str)| {
            field(3, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat())
        };
        field(2, &field(12, &labels.iter().flat_map(entry).collect::<Vec<_>>()))
    };
    let cases = [
        ("the last of two entries counts", labelled(&[("a", "0"), ("a", "1")])),
        ("entries in another order", labelled(&[("b", "0"), ("a", "1")])),
        ("facts in two parts", [labelled(&[("a", "0"), ("b", "0")]), labelled(&[("a", "1")])].concat()),
        ("facts before the name", [labelled(&[("a", "1")]), field(1, b"n")].concat()),
        ("a key longer than it needs to be", field(2, &field(12, &field(3, b"\x8a\x00\x01a\x12\x011")))),
        ("entries before the absent positions", {
            let entry = field(3, &[field(1, b"a"), field(2, b"1")].concat());
            field(2, &field(12, &[entry, field(2, b"\x00")].concat()))
        }),
        ("usage in two parts", [labelled(&[("a", "1")]), field(4, b""), field(4, b"")].concat()),
        ("nominated in two parts", [labelled(&[("a", "1")]), field(6, b""), field(6, b"")].concat()),
        ("usage with its parts in another order", {
            [labelled(&[("a", "1")]), field(4, &[field(2, b""), field(1, b"")].concat())].concat()
        }),
        ("counts before the facts", [field(5, b""), labelled(&[("a", "1")])].concat()),
        ("a number of more than 32 bits", {
            let count = field(1, b"\x18\xff\xff\xff\xff\xff\x01");
            [labelled(&[("a", "1")]), field(5, &count)].concat()
        }),
        ("omitted pods before the counts", {
            let counts = [b"\x10\x01".to_vec(), field(1, &field(2, b"v"))].concat();
            [labelled(&[("a", "1")]), field(5, &counts)].concat()
        }),
        ("a group of a later version", [labelled(&[("a", "1")]), b"\x4b\x08\x01\x4c".to_vec()].concat()),
    ];
    for (what, encoded) in cases {
        let usual = shape::is_usual(&encoded);
        let row = Row::read(&encoded).unwrap();
        assert_eq!(
            (usual, Node { row: row.as_ref(), access: access() }.label("a")),
            (false, Some("1")),
            "{what}"
        );
    }
}

#[test]
fn debug_names_the_node() {
    let encoded = field(1, b"worker-1");
    let row = Row::read(&encoded).unwrap();
    assert_eq!(format!("{:?}", Nodes::new(&[row.as_ref()], access())), r#"[Node { name: "worker-1", .. }]"#);
}

#[test]
fn counts_that_are_not_in_order_are_named() {
    let count = |value: &str| Count { value: value.into(), pods: 1, ..Count::default() };
    for values in [["b", "a"], ["a", "a"]] {
        let counts = PodCounts { counts: values.map(count).into(), omitted_pods: 0 };
        let row = NodeRow { pod_counts: vec![PodCounts::default(), counts], ..NodeRow::default() };
        let error = Row::read(&row.encode_to_vec()).err().unwrap().to_string();
        let expected = "pod_counts[1].counts is not in ascending order of namespace and value, each once";
        assert_eq!(error, expected, "{values:?}");
    }
}

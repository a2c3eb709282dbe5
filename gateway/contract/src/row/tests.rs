//! Rows, decoded with the generated types.

use extender_gateway_object::{node, view::KeyPrefixes};
use extender_policy_api::v1beta1::{MapReads, NodePart, NodeReads, NodeRow, NodeRows};
use proptest::prelude::*;
use prost::Message;

use crate::{
    api::ApiVersion,
    facts::in_view,
    row::{RowMessage, RowView},
};

const JSON: &[u8] = br#"{"metadata":{"name":"n1","labels":{"zone":"a"},"annotations":{"a":"1","b":"2"}},
    "status":{"capacity":{"cpu":"2"}}}"#;

fn decode(body: &[u8]) -> Vec<NodeRow> {
    NodeRows::decode(body).unwrap().rows
}

/// The node's entry in a view.
fn entry(view: &RowView) -> Vec<u8> {
    let node = node::parse(JSON).unwrap();
    let facts = view.facts().map(|view| in_view(&node.facts().encode_to_vec(), view, &[]));
    let raw = view.wants_raw().then_some(JSON);
    let mut body = Vec::new();
    RowMessage { name: node.name(), facts: facts.as_deref(), raw, ..RowMessage::default() }.encode(&mut body);
    body
}

#[test]
fn a_row_holds_what_its_view_says() {
    let (some, all) = (KeyPrefixes::new(["a"]), KeyPrefixes::all());
    let cases = [
        (RowView::Name, None, &b""[..]),
        (RowView::Facts(some.clone().into()), Some(&some), b""),
        (RowView::Facts(all.clone().into()), Some(&all), b""),
        (RowView::FactsAndRaw(some.clone().into()), Some(&some), JSON),
    ];
    for (view, annotations, raw) in cases {
        let facts = annotations.map(|annotations| {
            let mut facts = node::parse(JSON).unwrap().facts();
            let kept = |key: &String, _: &mut String| annotations.want(key);
            facts.annotations.as_mut().unwrap().entries.retain(kept);
            facts
        });
        let expected = NodeRow { name: "n1".into(), facts, raw_json: raw.into(), ..NodeRow::default() };
        assert_eq!(decode(&entry(&view)), [expected], "{view:?}");
    }
}

#[test]
fn a_table_says_what_its_rows_hold() {
    let map = |keys: &[&str], prefixes: &[&str]| {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Some(MapReads { keys: owned(keys), prefixes: owned(prefixes) })
    };
    let parts = |parts: &[NodePart]| parts.iter().map(|part| i32::from(*part)).collect();
    let canonical = |reads: &NodeReads| RowView::new(reads, ApiVersion::NEWEST).reads();
    let everything = NodeReads {
        everything: true,
        parts: parts(&[NodePart::Usage, NodePart::RawJson, NodePart::Nominated]),
        annotations: map(&[], &["a"]),
        ..NodeReads::default()
    };
    assert_eq!(canonical(&everything), everything);
    let reads = NodeReads {
        parts: parts(&[NodePart::Taints, NodePart::Allocatable, NodePart::Usage, NodePart::Nominated]),
        labels: map(&["a", "b"], &[]),
        annotations: map(&[], &["x/"]),
        ..NodeReads::default()
    };
    assert_eq!(canonical(&reads), reads);
    let unordered = NodeReads {
        parts: parts(&[NodePart::RawJson, NodePart::Capacity, NodePart::Taints]),
        labels: map(&["a"], &["x/y", "x/", "b/", "x/"]),
        annotations: Some(MapReads::default()),
        ..NodeReads::default()
    };
    let ordered = NodeReads {
        parts: parts(&[NodePart::Taints, NodePart::Capacity, NodePart::RawJson]),
        labels: map(&["a"], &["b/", "x/"]),
        ..NodeReads::default()
    };
    assert_eq!(canonical(&unordered), ordered);
}

#[test]
fn what_reads_at_most_the_name_has_a_row_for_each_node() {
    let view = |parts: &[NodePart]| {
        let parts = parts.iter().map(|part| i32::from(*part)).collect();
        RowView::new(&NodeReads { parts, ..NodeReads::default() }, ApiVersion::NEWEST)
    };
    assert_eq!((view(&[]), view(&[NodePart::Name])), (RowView::Nothing, RowView::Name));
    let row = |view: &RowView| decode(&view.bare_row("n1")).remove(0).name;
    assert_eq!((row(&RowView::Nothing), row(&RowView::Name)), (String::new(), "n1".to_owned()));
    for parts in [
        &[NodePart::Name, NodePart::Usage][..],
        &[NodePart::Nominated],
        &[NodePart::RawJson],
        &[NodePart::Taints],
    ] {
        assert!(!view(parts).is_bare(), "{parts:?}");
    }
}

proptest! {
    #[test]
    fn entries_concatenate_to_a_message(names in proptest::collection::vec("\\PC{0,200}", 0..20), raw in "\\PC{0,300}") {
        let facts = node::parse(JSON).unwrap().facts();
        let encoded = facts.encode_to_vec();
        let mut body = Vec::new();
        let mut length = 0;
        for name in &names {
            body.extend_from_slice(&RowView::Name.bare_row(name));
            let row = RowMessage { name, facts: Some(&encoded), raw: Some(raw.as_bytes()), ..RowMessage::default() };
            length += row.encoded_len();
            row.encode(&mut body);
        }
        let rows = decode(&body);
        prop_assert_eq!(rows.len(), 2 * names.len());
        for (name, pair) in names.iter().zip(rows.chunks(2)) {
            prop_assert_eq!(&pair[0], &NodeRow { name: name.clone(), ..NodeRow::default() });
            let full = NodeRow { name: name.clone(), facts: Some(facts.clone()), raw_json: raw.clone().into(), ..NodeRow::default() };
            prop_assert_eq!(&pair[1], &full);
            length += RowMessage { name, ..RowMessage::default() }.encoded_len();
        }
        prop_assert_eq!(body.len(), length);
    }
}

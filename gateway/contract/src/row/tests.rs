//! Rows, decoded with the generated types.

use extender_gateway_object::{
    node,
    view::{KeyPrefixes, NodeFactsView},
};
use extender_policy_api::v1beta1::{MapReads, NodePart, NodeReads, NodeRow, NodeRows, NodeView};
use proptest::prelude::*;
use prost::Message;

use crate::{
    facts::in_view,
    row::{RowMessage, RowView, name_alone},
};

const JSON: &[u8] = br#"{"metadata":{"name":"n1","labels":{"zone":"a"},"annotations":{"a":"1","b":"2"}},
    "status":{"capacity":{"cpu":"2"}}}"#;

fn decode(body: &[u8]) -> Vec<NodeRow> {
    NodeRows::decode(body).unwrap().rows
}

/// The node's entry in a view.
fn entry(view: &RowView) -> Vec<u8> {
    let node = node::parse(JSON).unwrap();
    let facts = view.facts().map(|view| in_view(&node.facts().encode_to_vec(), view));
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
            facts.annotations.retain(|key, _| annotations.want(key));
            facts
        });
        let expected = NodeRow { name: "n1".into(), facts, raw_json: raw.into(), ..NodeRow::default() };
        assert_eq!(decode(&entry(&view)), [expected], "{view:?}");
    }
}

#[test]
fn a_table_says_what_its_rows_hold() {
    let prefixes = RowView::Facts(KeyPrefixes::new(["a"]).into()).described();
    assert_eq!((prefixes.annotation_prefixes, prefixes.reads), (vec!["a".to_owned()], None));
    let map = |keys: &[&str], prefixes: &[&str]| {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        MapReads { keys: owned(keys), prefixes: owned(prefixes) }
    };
    let parts = vec![NodePart::Taints.into(), NodePart::Allocatable.into()];
    let (labels, annotations) = (Some(map(&["a", "b"], &[])), Some(map(&[], &["x/"])));
    let reads = NodeReads { parts, labels, annotations, ..NodeReads::default() };
    let described = |reads: &NodeReads| RowView::Facts(NodeFactsView::from(reads).into()).described();
    let view = described(&reads);
    assert_eq!((view.annotation_prefixes, view.reads), (Vec::new(), Some(reads)));
    let unordered = NodeReads {
        parts: vec![NodePart::Capacity.into(), NodePart::Taints.into()],
        labels: Some(map(&["a"], &["x/y", "x/", "b/", "x/"])),
        annotations: Some(MapReads::default()),
        ..NodeReads::default()
    };
    let canonical = NodeReads {
        parts: vec![NodePart::Taints.into(), NodePart::Capacity.into()],
        labels: Some(map(&["a"], &["b/", "x/"])),
        ..NodeReads::default()
    };
    assert_eq!(described(&unordered).reads, Some(canonical));
    assert_eq!(described(&NodeReads::default()).reads, Some(NodeReads::default()), "not everything");
}

#[test]
fn equal_views_of_the_handshake_are_one_view() {
    let view = |prefixes: [&str; 2]| RowView::new(NodeView::Facts, KeyPrefixes::new(prefixes).into());
    assert_eq!(view(["b", "a"]), view(["a", "b"]));
    assert_eq!(RowView::new(NodeView::Name, KeyPrefixes::all().into()), Some(RowView::Name));
    assert_eq!(RowView::new(NodeView::Unspecified, KeyPrefixes::all().into()), None);
}

proptest! {
    #[test]
    fn entries_concatenate_to_a_message(names in proptest::collection::vec("\\PC{0,200}", 0..20), raw in "\\PC{0,300}") {
        let facts = node::parse(JSON).unwrap().facts();
        let encoded = facts.encode_to_vec();
        let mut body = Vec::new();
        let mut length = 0;
        for name in &names {
            body.extend_from_slice(&name_alone(name));
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

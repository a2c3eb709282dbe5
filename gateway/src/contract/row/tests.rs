//! Rows, decoded with the generated types.

use extender_policy_api::v1alpha1::{NodeRow, NodeRows, NodeView};
use proptest::prelude::*;
use prost::Message;

use crate::{
    contract::row::{RowMessage, RowView, encode_object, name_alone},
    object::{annotations::AnnotationPrefixes, node},
};

const JSON: &[u8] = br#"{"metadata":{"name":"n1","labels":{"zone":"a"},"annotations":{"a":"1","b":"2"}},
    "status":{"capacity":{"cpu":"2"}}}"#;

fn decode(body: &[u8]) -> Vec<NodeRow> {
    NodeRows::decode(body).unwrap().rows
}

#[test]
fn a_row_holds_what_its_view_says() {
    let node = node::parse(JSON).unwrap();
    let (some, all) = (AnnotationPrefixes::new(["a"]), AnnotationPrefixes::all());
    let cases = [
        (RowView::Name, None, &b""[..]),
        (RowView::Facts(some.clone().into()), Some(&some), b""),
        (RowView::Facts(all.clone().into()), Some(&all), b""),
        (RowView::FactsAndRaw(some.clone().into()), Some(&some), JSON),
    ];
    for (view, annotations, raw) in cases {
        let mut body = Vec::new();
        encode_object(&view, &node, JSON, &mut body);
        let facts = annotations.map(|annotations| node.facts(annotations));
        let expected = NodeRow { name: "n1".into(), facts, raw_json: raw.into(), usage: None };
        assert_eq!(decode(&body), [expected], "{view:?}");
    }
}

#[test]
fn equal_views_of_the_handshake_are_one_view() {
    let view = |prefixes: [&str; 2]| RowView::new(NodeView::Facts, AnnotationPrefixes::new(prefixes).into());
    assert_eq!(view(["b", "a"]), view(["a", "b"]));
    assert_eq!(RowView::new(NodeView::Name, AnnotationPrefixes::all().into()), Some(RowView::Name));
    assert_eq!(RowView::new(NodeView::Unspecified, AnnotationPrefixes::all().into()), None);
}

proptest! {
    #[test]
    fn entries_concatenate_to_a_message(names in proptest::collection::vec("\\PC{0,200}", 0..20), raw in "\\PC{0,300}") {
        let facts = node::parse(JSON).unwrap().facts(&AnnotationPrefixes::all());
        let mut body = Vec::new();
        let mut length = 0;
        for name in &names {
            body.extend_from_slice(&name_alone(name));
            let row = RowMessage { name, facts: Some(&facts), raw: Some(raw.as_bytes()), usage: None };
            length += row.encoded_len();
            row.encode(&mut body);
        }
        let rows = decode(&body);
        prop_assert_eq!(rows.len(), 2 * names.len());
        for (name, pair) in names.iter().zip(rows.chunks(2)) {
            prop_assert_eq!(&pair[0], &NodeRow { name: name.clone(), ..NodeRow::default() });
            let full = NodeRow { name: name.clone(), facts: Some(facts.clone()), raw_json: raw.clone().into(), usage: None };
            prop_assert_eq!(&pair[1], &full);
            length += RowMessage { name, ..RowMessage::default() }.encoded_len();
        }
        prop_assert_eq!(body.len(), length);
    }
}

//! Generated bodies compared with the captured ones: the same fields in the same order, the same escapes.

use std::{collections::BTreeMap, fmt, fs};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::*;
use crate::{node, pod::ReplicaSet};

/// The keys of a JSON text with their paths, in the order of the text. Go writes struct fields in the
/// order of their declaration, which a map of keys would lose.
#[derive(Debug, Default)]
struct Shape(Vec<String>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ShapeVisitor)
    }
}

struct ShapeVisitor;

impl<'de> Visitor<'de> for ShapeVisitor {
    type Value = Shape;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Shape, A::Error> {
        let mut paths = Vec::new();
        while let Some((key, Shape(below))) = map.next_entry::<String, Shape>()? {
            paths.push(key.clone());
            paths.extend(below.into_iter().map(|path| format!("{key}/{path}")));
        }
        Ok(Shape(paths))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Shape, A::Error> {
        let mut paths = Vec::new();
        while let Some(Shape(below)) = items.next_element()? {
            paths.extend(below);
        }
        Ok(Shape(paths))
    }

    fn visit_str<E>(self, _: &str) -> Result<Shape, E> {
        Ok(Shape::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Shape, E> {
        Ok(Shape::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Shape, E> {
        Ok(Shape::default())
    }

    fn visit_unit<E>(self) -> Result<Shape, E> {
        Ok(Shape::default())
    }
}

/// Where each path occurs first.
fn first_places(body: &[u8]) -> BTreeMap<String, usize> {
    let Shape(paths) = serde_json::from_slice(body).unwrap();
    let mut places = BTreeMap::new();
    for path in paths {
        let place = places.len();
        places.entry(path).or_insert(place);
    }
    places
}

/// The paths of both bodies, in the order of the first places in `places`.
fn in_order<'a>(places: &'a BTreeMap<String, usize>, other: &BTreeMap<String, usize>) -> Vec<&'a str> {
    let mut shared: Vec<_> = places.iter().filter(|(path, _)| other.contains_key(*path)).collect();
    shared.sort_by_key(|(_, place)| **place);
    shared.into_iter().map(|(path, _)| path.as_str()).collect()
}

fn captured(file: &str) -> Vec<u8> {
    fs::read(format!("{}/../captures/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// A generated body of three nodes, as the captured ones have.
fn generated(nodes_part: impl Fn(&[Node]) -> Vec<u8>) -> Vec<u8> {
    let pod = ReplicaSet::new("shop", "checkout", &[], 1).pod();
    [pod_part(&pod), nodes_part(&node::nodes(0..3, node::Images::Few))].concat()
}

#[test]
fn fields_come_in_the_order_of_the_captured_bodies() {
    let names = generated(|nodes| names_part(nodes));
    let objects = generated(|nodes| objects_part(nodes));
    for (file, ours, least) in [("filter-names.json", names, 40), ("filter-nodes.json", objects, 100)] {
        let (real, ours) = (first_places(&captured(file)), first_places(&ours));
        let shared = in_order(&ours, &real);
        assert!(shared.len() > least, "{file}: only {} fields are shared", shared.len());
        assert_eq!(shared, in_order(&real, &ours), "{file}");
    }
}

#[test]
fn what_go_escapes_is_escaped() {
    let objects = generated(|nodes| objects_part(nodes));
    assert!(!objects.iter().any(|byte| b"<>&".contains(byte)));
    let boot_report = br#""node.acme.io/boot-report":"kernel-\u003e6.1 \u0026 cgroup v2 \u003cok\u003e""#;
    for body in [objects, captured("filter-nodes.json")] {
        assert!(body.windows(boot_report.len()).any(|window| window == boot_report));
    }
}

#[test]
fn no_white_space_is_between_tokens() {
    let body = generated(|nodes| objects_part(nodes));
    let value: serde_json::Value = serde_json::from_slice(&body).unwrap();
    // Our own writer escapes less than Go's, so the escapes of one annotation may differ.
    let escapes = 3 * 4 * "u003c".len();
    assert_eq!(body.len(), serde_json::to_vec(&value).unwrap().len() + escapes);
}

#[test]
fn a_file_of_nodes_is_a_node_list() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nodes.json");
    let nodes = node::nodes(0..3, node::Images::Few);
    write_node_list(&path, nodes.iter().map(|node| node.json.as_str())).unwrap();
    let list: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_eq!(list["kind"], "NodeList");
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
}

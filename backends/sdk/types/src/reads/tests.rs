//! What a declaration becomes on the wire, and what it refuses.

use extender_policy_api::v1beta1 as api;
use proptest::prelude::*;
use prost::Message as _;

use super::{access::Access, keys::Place, layout::Layout, *};
use crate::{View, digest::sha256};

fn message(declare: impl FnOnce(&mut Reads)) -> api::Reads {
    let mut reads = Reads::new();
    declare(&mut reads);
    Layout::new(&reads, View::Facts).message
}

fn map(keys: &[&str], prefixes: &[&str]) -> api::MapReads {
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    api::MapReads { keys: texts(keys), prefixes: texts(prefixes) }
}

#[test]
fn keys_and_parts_are_sent_in_ascending_order_and_once() {
    let api::Reads { pod, node } = message(|reads| {
        for key in ["b", "é", "a", "b", "B"] {
            reads.node_label(key);
        }
        reads.node(NodePart::Allocatable).node(NodePart::Taints).node(NodePart::Taints);
        reads.pod_annotation("x");
        reads.pod(PodPart::SchedulerName).pod(PodPart::Namespace);
    });
    let node = node.unwrap();
    assert_eq!(node.labels, Some(map(&["B", "a", "b", "é"], &[])));
    assert_eq!((node.parts, node.annotations), (vec![1, 5], None));
    let pod = pod.unwrap();
    assert_eq!((pod.parts, pod.annotations, pod.labels), (vec![2, 12], Some(map(&["x"], &[])), None));
}

/// The gateway rejects what a view of names does not have, so it must see that it is read.
#[test]
fn a_view_of_names_keeps_what_else_is_read_of_nodes() {
    let sent = |declare: fn(&mut Reads)| {
        let mut reads = Reads::new();
        declare(&mut reads);
        Layout::new(&reads, View::Name).message
    };
    let names = sent(|reads| _ = reads.node(NodePart::Name));
    assert_eq!(names, message(|_| {}));
    let zone = |reads: &mut Reads| _ = reads.node_label("zone");
    assert_eq!(sent(zone), message(zone));
    let owners = |reads: &mut Reads| _ = reads.pods_by(PodsBy::Owner);
    assert_eq!(sent(owners), message(owners));
}

#[test]
fn nothing_is_an_empty_message() {
    assert_eq!(message(|_| {}), api::Reads { pod: None, node: None });
}

#[test]
fn what_a_prefix_covers_is_sent_in_the_map() {
    let node = message(|reads| {
        for key in ["acme.io/rack", "acme.io", "zone", "acme.iox"] {
            reads.node_label(key);
        }
        for prefix in ["acme.io/", "acme.io/ra", "zo", "zz"] {
            reads.node_labels(prefix);
        }
        reads.node_annotation("acme.io/rack");
    });
    let node = node.node.unwrap();
    assert_eq!(node.labels, Some(map(&["acme.io", "acme.iox"], &["acme.io/", "zo", "zz"])));
    assert_eq!(node.annotations, Some(map(&["acme.io/rack"], &[])));
    let all = message(|reads| {
        reads.pod_label("a");
        reads.pod_labels("b");
        reads.pod_labels("");
    });
    assert_eq!(all.pod.unwrap().labels, Some(map(&[], &[""])));
}

#[test]
fn the_digest_is_that_of_the_bytes_in_the_handshake() {
    let layout = |keys: &[&str]| {
        let mut reads = Reads::new();
        for key in keys {
            reads.node_label(*key);
        }
        reads.pod(PodPart::Namespace);
        Layout::new(&reads, View::Facts)
    };
    let Layout { message, digest, .. } = layout(&["a", "b"]);
    let verb = api::VerbInfo { reads: Some(message.clone()), ..api::VerbInfo::default() }.encode_to_vec();
    let encoded = message.encode_to_vec();
    assert!(verb.ends_with(&encoded));
    assert_eq!(digest, sha256(&encoded));
    assert_eq!(layout(&["b", "a", "b"]).digest, digest);
    assert_ne!(layout(&["a"]).digest, digest);
}

#[test]
fn a_key_that_is_declared_twice_is_one_key() {
    let mut reads = Reads::new();
    let first = reads.node_label("a");
    reads.node_label("b");
    assert_eq!(reads.node_label("a"), first);
    assert_ne!(reads.node_annotation("a"), first);
}

#[test]
fn a_key_of_another_declaration_is_found_by_its_text() {
    let mut other = Reads::new();
    let (a, c) = (other.node_label("a"), other.node_label("c"));
    let mut reads = Reads::new();
    reads.node_label("b");
    reads.node_label("a");
    let layout = Layout::new(&reads, View::Facts);
    let access = Access::to(Some(&layout.node));
    assert_eq!(access.key(&a.0), Place::Value(0));
    assert_eq!(Access::EVERYTHING.key(&c.0), Place::Entry);
    let undeclared = std::panic::catch_unwind(|| access.key(&c.0)).unwrap_err();
    let expected = "label \"c\" of the node is read and not declared; declare it with Reads::node_label";
    assert_eq!(undeclared.downcast_ref::<access::Undeclared>().unwrap().0, expected);
}

#[test]
fn counts_of_pods_are_sent_in_ascending_order_and_once() {
    let api::Reads { pod, node } = message(|reads| {
        reads.pods_by(PodsBy::PriorityClass);
        reads.pods_by(PodsBy::label("b"));
        reads.pods_and_requests_by(PodsBy::label("B"));
        reads.pods_by(PodsBy::label("b"));
        reads.pods_and_requests_by(PodsBy::Owner);
        reads.pods_by(PodsBy::Owner);
        reads.pods_by(PodsBy::Namespace);
        reads.pods_and_requests_by(PodsBy::PriorityClass);
    });
    let by = |by: api::PodCountBy, label: &str, requests| api::PodCountReads {
        by: by.into(),
        label: label.to_owned(),
        requests,
    };
    let expected = [
        by(api::PodCountBy::Owner, "", true),
        by(api::PodCountBy::Namespace, "", false),
        by(api::PodCountBy::Label, "B", true),
        by(api::PodCountBy::Label, "b", false),
        by(api::PodCountBy::PriorityClassName, "", true),
    ];
    let pod_counts = expected.into();
    assert_eq!(node, Some(api::NodeReads { pod_counts, ..api::NodeReads::default() }));
    let pod = pod.unwrap();
    assert_eq!((pod.parts, pod.labels), (vec![2, 3, 5], Some(map(&["B", "b"], &[]))));
}

#[test]
fn each_count_declares_what_it_needs_of_the_pod_and_no_more() {
    for (by, parts, keys) in [
        (PodsBy::Owner, vec![PodPart::Owner as i32], vec![]),
        (PodsBy::Namespace, vec![PodPart::Namespace as i32], vec![]),
        (PodsBy::label("app"), vec![PodPart::Namespace as i32], vec!["app"]),
        (PodsBy::PriorityClass, vec![PodPart::PriorityClass as i32], vec![]),
    ] {
        let labels = Some(map(&keys, &[])).filter(|_| !keys.is_empty());
        let pod = message(|reads| drop(reads.pods_by(by))).pod.unwrap();
        assert_eq!(pod, api::PodReads { parts, labels, ..api::PodReads::default() });
    }
}

/// Keys are handed out before the last declaration, which may move all counts.
#[test]
fn a_count_is_found_where_it_is_sent() {
    let all =
        [PodsBy::PriorityClass, PodsBy::label("b"), PodsBy::Owner, PodsBy::label("a"), PodsBy::Namespace];
    let mut reads = Reads::new();
    let keys = all.map(|by| reads.pods_by(by));
    let layout = Layout::new(&reads, View::Facts);
    let access = Access::to(Some(&layout.node));
    let found = keys.map(|PodsKey(by)| access.pods(&by).position);
    assert_eq!(found, [4, 3, 0, 2, 1]);
    assert_eq!(layout.node.counts().pods, layout.rows.pod_counts.len());
}

#[test]
fn a_count_that_is_not_declared_panics_with_the_right_declaration() {
    let mut other = Reads::new();
    let PodsKey(owner) = other.pods_by(PodsBy::Owner);
    let PodsKey(app) = other.pods_by(PodsBy::label("app"));
    let mut reads = Reads::new();
    reads.pods_by(PodsBy::label("tier"));
    let layout = Layout::new(&reads, View::Facts);
    let text = |access: Access<'_>, by: &PodsBy| {
        let undeclared = std::panic::catch_unwind(|| access.pods(by).position).unwrap_err();
        undeclared.downcast_ref::<access::Undeclared>().unwrap().0.clone()
    };
    let access = Access::to(Some(&layout.node));
    let expected = "a count of pods is read and not declared; declare it with Reads::pods_by";
    assert_eq!(text(access, &owner), format!("{expected}(PodsBy::Owner)"));
    assert_eq!(text(access, &app), format!("{expected}(PodsBy::label(\"app\"))"));
    assert_eq!(text(Access::EVERYTHING, &owner), format!("{expected}(PodsBy::Owner) and Verb::reads"));
}

#[test]
fn counts_by_topology_are_sent_in_ascending_order_and_once() {
    let api::Reads { pod, node } = message(|reads| {
        reads.pods_by_topology(PodsBy::PriorityClass, "");
        reads.pods_by_topology(PodsBy::label("b"), "rack");
        reads.pods_by_topology(PodsBy::label("a"), "zone");
        reads.pods_and_requests_by_topology(PodsBy::label("a"), "Zone");
        reads.pods_by_topology(PodsBy::label("a"), "");
        reads.pods_and_requests_by_topology(PodsBy::Owner, "zone");
        reads.pods_by_topology(PodsBy::Owner, "zone");
    });
    let by = |by: api::PodCountBy, label: &str, topology_key: &str, requests| api::TopologyCountReads {
        by: by.into(),
        label: label.to_owned(),
        topology_key: topology_key.to_owned(),
        requests,
    };
    let expected = [
        by(api::PodCountBy::Owner, "", "zone", true),
        by(api::PodCountBy::Label, "a", "", false),
        by(api::PodCountBy::Label, "a", "Zone", true),
        by(api::PodCountBy::Label, "a", "zone", false),
        by(api::PodCountBy::Label, "b", "rack", false),
        by(api::PodCountBy::PriorityClassName, "", "", false),
    ];
    let pod = pod.unwrap();
    assert_eq!(pod.topology_counts, expected);
    assert_eq!((pod.parts, pod.labels), (vec![2, 3, 5], Some(map(&["a", "b"], &[]))));
    let labels = Some(map(&["Zone", "rack", "zone"], &[]));
    assert_eq!(node, Some(api::NodeReads { labels, ..api::NodeReads::default() }));
}

#[test]
fn the_cluster_as_a_whole_needs_nothing_of_nodes() {
    let declared = message(|reads| drop(reads.pods_by_topology(PodsBy::Namespace, "")));
    assert_eq!(declared.node, None);
    assert_eq!(declared.pod.unwrap().parts, [PodPart::Namespace as i32]);
}

#[test]
fn a_topology_that_is_not_declared_panics_with_the_right_declaration() {
    let mut other = Reads::new();
    let TopologyKey(zones) = other.pods_by_topology(PodsBy::label("app"), "zone");
    let mut reads = Reads::new();
    reads.pods_by_topology(PodsBy::label("app"), "rack");
    let layout = Layout::new(&reads, View::Facts);
    let text = |access: Access<'_>| {
        let undeclared = std::panic::catch_unwind(|| access.topology(&zones).position).unwrap_err();
        undeclared.downcast_ref::<access::Undeclared>().unwrap().0.clone()
    };
    let expected = "a count of pods by topology is read and not declared; declare it with \
                    Reads::pods_by_topology(PodsBy::label(\"app\"), \"zone\")";
    assert_eq!(text(Access::to(Some(&layout.pod))), expected);
    assert_eq!(text(Access::EVERYTHING), format!("{expected} and Verb::reads"));
}

#[test]
fn everything_has_all_that_can_be_declared_but_the_identity() {
    let mut reads = Reads::new();
    reads.pods_and_requests_by(PodsBy::Owner);
    reads.pods_by_topology(PodsBy::Owner, "zone");
    let api::Reads { pod, node } = Layout::new(&reads.everything(), View::Facts).message;
    let all = Some(map(&[], &[""]));
    let (pod, node) = (pod.unwrap(), node.unwrap());
    assert_eq!((pod.parts, &pod.labels, &pod.annotations), ((2..=12).collect(), &all, &all));
    assert_eq!((node.parts, &node.labels, &node.annotations), ((1..=6).collect(), &all, &all));
    assert_eq!(pod.topology_counts, Layout::new(&reads, View::Facts).message.pod.unwrap().topology_counts);
    assert_eq!(
        node.pod_counts,
        message(|reads| drop(reads.pods_and_requests_by(PodsBy::Owner))).node.unwrap().pod_counts
    );
}

fn text() -> impl Strategy<Value = String> {
    "[ab/]{0,3}"
}

proptest! {
    #[test]
    fn each_declared_key_is_sent_and_no_other(
        keys in prop::collection::vec("[ab/]{1,3}", 0..8),
        prefixes in prop::collection::vec(text(), 0..3),
        others in prop::collection::vec(text(), 0..20),
    ) {
        let mut reads = Reads::new();
        let declared: Vec<_> = keys.iter().map(|key| reads.pod_label(key.as_str())).collect();
        for prefix in &prefixes {
            reads.pod_labels(prefix.as_str());
        }
        let layout = Layout::new(&reads, View::Facts);
        let places = layout.pod.places(Map::Labels);
        let sent = layout.message.pod.unwrap_or_default().labels.unwrap_or_default();
        prop_assert!(sent.keys.is_sorted_by(|key, next| key < next));
        prop_assert!(sent.keys.iter().all(|key| !sent.prefixes.iter().any(|prefix| key.starts_with(prefix))));
        let covered = |text: &str| prefixes.iter().any(|prefix| text.starts_with(prefix));
        for text in keys.iter().chain(&others) {
            prop_assert_eq!(places.covers(text), covered(text));
            let expected = match sent.keys.iter().position(|key| key == text) {
                _ if covered(text) => Some(Place::Entry),
                Some(position) => Some(Place::Value(position)),
                None => None,
            };
            prop_assert_eq!(expected.is_some(), covered(text) || keys.contains(text));
            prop_assert_eq!(places.find(text), expected);
        }
        for key in &declared {
            prop_assert_eq!(places.of(&key.0), places.find(&key.0.text));
        }
    }
}

//! What a declaration becomes on the wire, and what it refuses.

mod parts;

use extender_policy_api::v1beta1 as api;
use proptest::prelude::*;
use prost::Message as _;

use super::{access::Access, keys::Place, layout::Layout, values::Counts, *};
use crate::digest::sha256;

fn message(declare: impl FnOnce(&mut Reads)) -> api::Reads {
    let mut reads = Reads::new();
    declare(&mut reads);
    Layout::new(&reads).message
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
        Layout::new(&reads)
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
    let layout = Layout::new(&reads);
    let access = Access::to(&layout.node);
    assert_eq!(access.key(&a.0), Place::Value(0));
    assert_eq!(Access::to(&layout::everything().node).key(&c.0), Place::Entry);
    let undeclared = std::panic::catch_unwind(|| access.key(&c.0)).unwrap_err();
    let expected = "label \"c\" of the node is read and not declared; declare it with Reads::node_label";
    assert_eq!(undeclared.downcast_ref::<String>().unwrap(), expected);
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
    let layout = Layout::new(&reads);
    let access = Access::to(&layout.node);
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
    let layout = Layout::new(&reads);
    let text = |access: Access<'_>, by: &PodsBy| {
        let undeclared = std::panic::catch_unwind(|| access.pods(by).position).unwrap_err();
        undeclared.downcast_ref::<String>().unwrap().clone()
    };
    let access = Access::to(&layout.node);
    let expected = "a count of pods is read and not declared; declare it with Reads::pods_by";
    assert_eq!(text(access, &owner), format!("{expected}(PodsBy::Owner)"));
    assert_eq!(text(access, &app), format!("{expected}(PodsBy::label(\"app\"))"));
    assert_eq!(text(Access::to(&layout::everything().node), &owner), format!("{expected}(PodsBy::Owner)"));
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
    let layout = Layout::new(&reads);
    let undeclared = || Access::to(&layout.pod).topology(&zones).position;
    let undeclared = std::panic::catch_unwind(undeclared).unwrap_err();
    let expected = "a count of pods by topology is read and not declared; declare it with \
                    Reads::pods_by_topology(PodsBy::label(\"app\"), \"zone\")";
    assert_eq!(undeclared.downcast_ref::<String>().unwrap(), expected);
}

#[test]
fn everything_is_one_word_on_the_wire() {
    let mut reads = Reads::everything();
    let alone = api::Reads {
        pod: Some(api::PodReads { everything: true, ..api::PodReads::default() }),
        node: Some(api::NodeReads { everything: true, ..api::NodeReads::default() }),
    };
    assert_eq!(Layout::new(&reads).message, alone);
    // What it includes may be declared, and read with what that returns.
    let (zone, app) = (reads.node_label("zone"), reads.pod_label("app"));
    reads.node_labels("a");
    reads.node(NodePart::Taints).pod(PodPart::Requests);
    let layout = Layout::new(&reads);
    assert_eq!(layout.message, alone);
    assert_eq!(Access::to(&layout.node).key(&zone.0), Place::Entry);
    assert_eq!(Access::to(&layout.pod).key(&app.0), Place::Entry);
    assert_eq!(layout.node.counts(), Counts::default());
}

#[test]
fn what_everything_does_not_include_is_declared_beside_it() {
    let mut reads = Reads::everything();
    reads.node(NodePart::RawJson).node(NodePart::Usage).node(NodePart::Images);
    reads.pod(PodPart::RawJson).pod(PodPart::Identity);
    reads.node_annotation("a");
    reads.pod_annotations("b");
    reads.pods_and_requests_by(PodsBy::Owner);
    reads.pods_by_topology(PodsBy::label("app"), "zone");
    let api::Reads { pod, node } = Layout::new(&reads).message;
    let (pod, node) = (pod.unwrap(), node.unwrap());
    assert_eq!((pod.parts, pod.labels, pod.annotations), (vec![1, 13], None, Some(map(&[], &["b"]))));
    assert_eq!((node.parts, node.labels, node.annotations), (vec![7, 8, 9], None, Some(map(&["a"], &[]))));
    assert_eq!((pod.topology_counts.len(), node.pod_counts.len()), (1, 1));
}

#[test]
fn what_everything_does_not_include_is_not_read_without_a_declaration() {
    let layout = Layout::new(&Reads::everything());
    let (pod, node) = (Access::to(&layout.pod), Access::to(&layout.node));
    let reads: [(&dyn Fn(), &str); 5] = [
        (
            &|| node.part(NodePart::Usage),
            "Usage of the node is read and not declared; declare it with Reads::node(NodePart::Usage)",
        ),
        (
            &|| node.part(NodePart::RawJson),
            "RawJson of the node is read and not declared; declare it with Reads::node(NodePart::RawJson)",
        ),
        (
            &|| pod.part(PodPart::RawJson),
            "RawJson of the pod is read and not declared; declare it with Reads::pod(PodPart::RawJson)",
        ),
        (
            &|| pod.part(PodPart::Identity),
            "Identity of the pod is read and not declared; declare it with Reads::pod(PodPart::Identity)",
        ),
        (
            &|| _ = pod.text(Map::Annotations, "a"),
            "annotation \"a\" of the pod is read and not declared; declare it with Reads::pod_annotation",
        ),
    ];
    for (read, expected) in reads {
        let undeclared = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).unwrap_err();
        assert_eq!(undeclared.downcast_ref::<String>().unwrap(), expected);
    }
}

#[test]
fn the_text_of_another_panic_is_kept_back() {
    let layout = Layout::new(&Reads::new());
    // Also of a panic of another thread.
    let undeclared = std::thread::scope(|scope| {
        scope.spawn(|| Access::to(&layout.node).part(NodePart::Usage)).join().unwrap_err()
    });
    let other = std::panic::catch_unwind(|| std::panic::panic_any("secret".to_owned())).unwrap_err();
    assert_eq!(access::misuse(&*other), None);
    assert_eq!(access::misuse(&*undeclared).as_ref(), undeclared.downcast_ref::<String>());
}

fn entries(all: &[(&str, &str)]) -> api::MapValues {
    let entries = all.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    api::MapValues { entries, ..api::MapValues::default() }
}

#[test]
fn tests_of_policies_are_sent_what_is_declared() {
    let facts = api::PodFacts {
        labels: Some(entries(&[("app", "web"), ("zone", "z1")])),
        ..api::PodFacts::default()
    };
    let identity = Some(api::PodIdentity { name: "web-0".to_owned(), ..api::PodIdentity::default() });
    let pod = api::Pod { identity, facts: Some(facts), raw_json: "{}".into(), topology_counts: vec![] };
    let facts = api::NodeFacts { annotations: Some(entries(&[("a", "1")])), ..api::NodeFacts::default() };
    let usage = Some(api::NodeUsage::default());
    let facts = Some(facts);
    let (raw_json, nominated) = ("{}".into(), usage.clone());
    let row = api::NodeRow { name: "n".to_owned(), facts, raw_json, usage, nominated, pod_counts: vec![] };
    let sent = |reads: &Reads| {
        let layout = Layout::new(reads);
        (layout.pod.pod(&pod), layout.node.row(&row))
    };

    let nothing = (
        api::Pod { facts: Some(api::PodFacts::default()), ..api::Pod::default() },
        api::NodeRow { facts: Some(api::NodeFacts::default()), ..api::NodeRow::default() },
    );
    assert_eq!(sent(&Reads::new()), nothing);

    let (of_pod, of_node) = sent(&Reads::everything());
    let all = of_pod.facts.unwrap();
    assert_eq!((all.priority, &all.labels), (Some(0), &pod.facts.as_ref().unwrap().labels));
    assert_eq!((of_pod.identity, of_pod.raw_json.len()), (None, 0));
    let all = of_node.facts.unwrap();
    assert_eq!((all.unschedulable, all.annotations), (Some(false), None));
    assert_eq!(
        (&*of_node.name, of_node.usage, of_node.nominated, of_node.raw_json.len()),
        ("n", None, None, 0)
    );

    let mut reads = Reads::new();
    reads.pod(PodPart::Identity).pod(PodPart::RawJson).node(NodePart::Usage).node(NodePart::RawJson);
    for key in ["b", "app"] {
        reads.pod_label(key);
    }
    reads.pod_labels("z");
    reads.node_annotation("b");
    let (of_pod, of_node) = sent(&reads);
    let mut labels = entries(&[("zone", "z1")]);
    (labels.values, labels.absent) = (vec!["web".to_owned(), String::new()], vec![1]);
    assert_eq!(of_pod.facts, Some(api::PodFacts { labels: Some(labels), ..api::PodFacts::default() }));
    assert_eq!((of_pod.identity, of_pod.raw_json), (pod.identity.clone(), pod.raw_json.clone()));
    let none = api::MapValues { values: vec![String::new()], absent: vec![0], ..api::MapValues::default() };
    assert_eq!(of_node.facts, Some(api::NodeFacts { annotations: Some(none), ..api::NodeFacts::default() }));
    assert_eq!(
        (&*of_node.name, of_node.usage, of_node.raw_json),
        ("", row.usage.clone(), row.raw_json.clone())
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
        let layout = Layout::new(&reads);
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

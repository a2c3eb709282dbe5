//! Errors of objects that cannot be parsed.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{node, pod, view::PodFactsView};

/// A call from a real kube-scheduler.
const CALL: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/captures/filter-nodes.json"));

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Call<'a> {
    #[serde(borrow)]
    pod: &'a RawValue,
    #[serde(borrow)]
    nodes: Nodes<'a>,
}

#[derive(Deserialize)]
struct Nodes<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[test]
fn reads_what_a_real_scheduler_sends() {
    let call: Call<'_> = serde_json::from_str(CALL).unwrap();
    let pod = pod::parse(call.pod.get().as_bytes()).unwrap();
    let facts = pod.facts(&PodFactsView::complete());
    let requests = facts.requests.unwrap();
    assert_eq!((pod.name(), pod.namespace(), pod.uid().len()), ("low-5", "cap-nodes", 36));
    assert_eq!(
        (requests.milli_cpu, requests.others["example.com/gpu"], facts.tolerations.len()),
        (900, 1, 2)
    );

    for item in call.nodes.items {
        let node = node::parse(item.get().as_bytes()).unwrap();
        let facts = node.facts();
        assert_eq!(facts.labels.unwrap().entries["kubernetes.io/hostname"], node.name());
        assert_eq!(
            facts.annotations.unwrap().entries["node.acme.io/boot-report"],
            "kernel->6.1 & cgroup v2 <ok>"
        );
        assert_eq!((facts.conditions.len(), &*facts.conditions["Ready"]), (4, "True"));
        assert_eq!(facts.allocatable.unwrap().memory, 8 << 30);
    }
}

#[test]
fn an_error_names_the_field_and_what_is_wrong() {
    let cases = [
        (r#"{"metadata":{"labels":{"a":1}}}"#, "metadata.labels.a", "expected a string"),
        (r#"{"spec":{"priority":"high"}}"#, "spec.priority", "expected i32"),
        (r#"{"spec":{"containers":{}}}"#, "spec.containers", "expected a list"),
        (
            r#"{"spec":{"containers":[{},{"resources":{"requests":{"cpu":"12x"}}}]}}"#,
            "spec.containers[1].resources.requests.cpu",
            r#"invalid quantity "12x""#,
        ),
        (r#"{"spec":{"overhead":{"memory":true}}}"#, "spec.overhead.memory", "expected a quantity"),
        (
            r#"{"spec":{"tolerations":[{"tolerationSeconds":1.5}]}}"#,
            "spec.tolerations[0].tolerationSeconds",
            "i64",
        ),
        (r#"{"spec":{"volumes":[{"#, "spec.volumes[0]", "EOF while parsing"),
        ("[]", ".", "expected an object"),
        (r#"{"spec":[]}"#, "spec", "expected an object"),
        (r#"{"spec":{"containers":[["main"]]}}"#, "spec.containers[0]", "expected an object"),
        ("", ".", "EOF"),
        ("{} {}", "?", "trailing characters"),
    ];
    for (json, path, problem) in cases {
        let error = pod::parse(json.as_bytes()).unwrap_err();
        assert!(error.path().starts_with(path), "{json}: {error}");
        assert!(error.to_string().contains(problem), "{json}: {error}");
        assert!(error.to_string().starts_with("Pod."), "{json}: {error}");
    }
}

#[test]
fn a_node_needs_a_name() {
    for json in ["{}", "null", r#"{"metadata":{"name":null}}"#, r#"{"metadata":{"name":""}}"#] {
        let Err(error) = node::parse(json.as_bytes()) else { panic!("{json} is no node") };
        assert!(error.to_string().contains("Node."), "{error}");
    }
}

#[test]
fn an_object_is_read_as_go_reads_it() {
    let (deep, digits) = (format!("{}{}", "[".repeat(9_000), "]".repeat(9_000)), "9".repeat(400));
    let json = [
        &b"{\"METADATA\":{\"Name\":\"p\xff\",\"name\xff\":1,\"na\xc5\xbfmeSpace\":1,\"name\xc5\xbfpace\":\"shop\","[..],
        b"\"labels\":{\"a\\ud800\":\"\xe2\x82\"},\"managedFields\":[{\"f:\xff\":",
        deep.as_bytes(),
        b"}]},\"x\":1e400,\"y\":",
        digits.as_bytes(),
        b",\"spec\":{\"NODENAME\":\"n1\",\"priority\":7,\"x\":\"\\ud800\",\"containers\":[{\"RESOURCES\":{\"requests\":{\"cpu\":\"1\"}}}]}}",
    ];
    let json = json.concat();
    for pod in [pod::parse(&json).unwrap(), pod::offered(&json).unwrap()] {
        assert_eq!((pod.name(), pod.namespace(), pod.node_name()), ("p\u{fffd}", "shop", "n1"));
        assert_eq!(pod.labels().collect::<Vec<_>>(), [("a\u{fffd}", "\u{fffd}\u{fffd}")]);
        assert_eq!((pod.priority(), pod.share().requested.milli_cpu), (7, 1000));
    }
    // Go merges them. Refused, it costs nobody else.
    for twice in [r#"{"metadata":{},"METADATA":{}}"#, r#"{"spec":{"priority":1,"priority":1}}"#] {
        let error = pod::parse(twice.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("duplicate field"), "{error}");
    }
}

//! A verb that declares what it reads is sent that and nothing else, and its cached answers and rows depend on nothing
//! else.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::support::{
    Gateway,
    admin::Seen,
    backend::{Act, Scripted, configured, filtered, info, rows, scored},
    by_name, eager, ended,
    function::{Function, about, labelled, pure, sibling},
    reading, steady,
};
use extender_gateway_api::Status;
use extender_gateway_observe::Query;
use extender_gateway_pace::cadences::Cadences;
use extender_policy_api::v1beta1::{
    self as api, FilterRequest, FilterResponse, GetInfoResponse, MapReads, MapValues, NodeFacts, NodePart,
    NodeReads, NodeRow, OwnerReference, Pod, PodFacts, PodPart, PodReads, Reads, Rejection, Resources,
    ScoreRequest, Taint,
};
use prost::Message;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

const BOTH: &str = "filter: {timeout: 60s}, score: {timeout: 60s}";

fn map(keys: &[&str], prefixes: &[&str]) -> MapReads {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    MapReads { keys: owned(keys), prefixes: owned(prefixes) }
}

/// Reads nothing of pods, and the labels of nodes that a [`Function`] decides by.
pub(crate) fn labels_of_nodes() -> Reads {
    let labels = Some(map(&[], &["refused", "score"]));
    Reads {
        pod: None,
        node: Some(NodeReads { parts: vec![NodePart::Name.into()], labels, ..NodeReads::default() }),
    }
}

async fn start(info: GetInfoResponse, cadences: Cadences) -> (Function, Gateway) {
    let function = Function::start(info).await;
    let backend = configured("only", &function.backend, BOTH);
    let rest = format!(
        "nodes: {{source: Watch}}\ntimeouts: {{decision: 60s}}\nreasons: {{prefix: None}}\nbackends:\n{backend}"
    );
    (function, Gateway::start_paced(&rest, cadences).await)
}

fn apply(gateway: &Gateway, node: &str, labels: &Value) {
    gateway.table.apply(labelled(node, labels).as_bytes()).unwrap();
}

async fn filter(gateway: &Gateway, pod: &Value, names: &[&str]) -> Value {
    gateway.post("/filter", about(pod, names)).await.json()["NodeNames"].take()
}

/// Some of everything that can be declared.
fn some_of_each() -> Reads {
    Reads {
        pod: Some(PodReads {
            parts: vec![PodPart::Owner.into(), PodPart::Requests.into()],
            labels: Some(map(&["absent", "app"], &[])),
            annotations: Some(map(&["kubectl/at"], &["example.com/"])),
            ..PodReads::default()
        }),
        node: Some(NodeReads {
            parts: vec![NodePart::Taints.into()],
            labels: Some(map(&["rack", "zone"], &["tier/"])),
            annotations: Some(map(&["at"], &[])),
            ..NodeReads::default()
        }),
    }
}

#[tokio::test]
async fn a_request_has_what_is_declared_and_nothing_else() {
    request_has(some_of_each(), "").await;
    let mut with_name = some_of_each();
    with_name.node.as_mut().unwrap().parts.push(NodePart::Name.into());
    request_has(with_name, "a").await;
}

/// The values of declared keys, and the positions of those that are not there.
fn by_position(values: &[&str], absent: &[u32]) -> MapValues {
    let values = values.iter().map(|text| (*text).to_owned()).collect();
    MapValues { values, absent: absent.to_vec(), ..MapValues::default() }
}

/// The requests about node a have this as its name.
async fn request_has(reads: Reads, name: &str) {
    let encoded = digest(&SHA256, &reads.encode_to_vec());
    let backend = Scripted::start(info(reads), |verb, message| match verb {
        "Filter" => Act::Message(filtered(&message, &[], "").encode_to_vec()),
        _ => Act::Message(scored(&message, |_| 1).encode_to_vec()),
    })
    .await;
    let rest = format!(
        "nodes: {{source: Request}}\ntimeouts: {{decision: 60s}}\nbackends:\n{}",
        configured("only", &backend, BOTH)
    );
    let gateway = Gateway::start(&rest).await;
    let node = json!({
        "metadata": {"name": "a", "labels": {"zone": "z1", "tier/x": "1", "other": "2"}, "annotations": {"at": "", "b": "3"}},
        "spec": {"unschedulable": true, "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}},
    });
    let body = json!({"Pod": sibling(7), "Nodes": {"items": [node]}, "NodeNames": null}).to_string();
    assert_eq!(gateway.post("/filter", &body).await.json()["Error"], "");
    gateway.post("/prioritize", &body).await;
    let owned = |text: &str| text.to_owned();
    let expected_pod = PodFacts {
        owner: Some(OwnerReference {
            api_version: owned("apps/v1"),
            kind: owned("ReplicaSet"),
            name: owned("web-5d4f8c7b9"),
            uid: owned("rs-1"),
        }),
        requests: Some(Resources { milli_cpu: 100, pods: 1, ..Resources::default() }),
        labels: Some(by_position(&["", "web"], &[0])),
        annotations: Some(MapValues {
            values: vec![owned("7")],
            absent: Vec::new(),
            entries: [(owned("example.com/tier"), owned("front"))].into(),
        }),
        ..PodFacts::default()
    };
    let expected_node = NodeFacts {
        taints: vec![Taint { key: owned("k"), effect: owned("NoSchedule"), ..Taint::default() }],
        labels: Some(MapValues {
            values: vec![owned(""), owned("z1")],
            absent: vec![0],
            entries: [(owned("tier/x"), owned("1"))].into(),
        }),
        annotations: Some(by_position(&[""], &[])),
        ..NodeFacts::default()
    };
    for verb in ["Filter", "Score"] {
        let message = backend.messages(verb).remove(0);
        let ScoreRequest { call, pod, .. } = ScoreRequest::decode(message.clone()).unwrap();
        assert_eq!(call.unwrap().reads, encoded.as_ref());
        let expected = Pod { identity: None, facts: Some(expected_pod.clone()), ..Pod::default() };
        assert_eq!(pod.unwrap(), expected, "{verb}");
        let row = rows(&message).remove(0);
        assert_eq!((row.name, row.facts), (name.to_owned(), Some(expected_node.clone())), "{verb}");
    }
}

#[tokio::test]
async fn a_policy_that_reads_nothing_of_pods_is_asked_once_for_all_pods() {
    let (function, gateway) = start(pure(labels_of_nodes()), steady()).await;
    apply(&gateway, "a", &json!({}));
    apply(&gateway, "b", &json!({"refused": "no"}));
    let other = json!({
        "metadata": {"name": "x", "namespace": "other", "uid": "u-9", "labels": {"team": "blue"}},
        "spec": {"priority": 100, "containers": [{"resources": {"requests": {"cpu": "8"}}}]},
    });
    for pod in [sibling(1), sibling(2), other] {
        assert_eq!(filter(&gateway, &pod, &["a", "b"]).await, json!(["a"]));
    }
    assert_eq!(function.filtered(), [["a", "b"]]);
    let line =
        r#"extender_gateway_backend_known_nodes_total{backend="only",verb="filter",source="remembered"} 4"#;
    gateway.until_counted("two pods", line).await;
    let (decisions, _) = gateway.observer.decisions.find(&Query::default());
    let read: Vec<_> =
        decisions.iter().map(|decision| decision.backends[0].reads_of_pods.as_deref()).collect();
    assert_eq!(
        read.iter().flatten().collect::<Vec<_>>(),
        [&"nothing"; 2],
        "of {read:?}, the first was asked"
    );
}

#[tokio::test]
async fn a_verb_without_a_declaration_is_refused_with_a_sentence() {
    let mut undeclared = info(reading::names());
    undeclared.verbs[0].reads = None;
    let backend = Scripted::start(undeclared, |_, _| panic!("nothing is asked")).await;
    let backend = configured("only", &backend, "filter: {timeout: 60s}");
    let seen = Seen::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{backend}")).await;
    let error = seen.gateway.post("/filter", by_name(&["a"])).await.error();
    let why = "does not declare what filter reads; set VerbInfo.reads, if empty";
    assert_eq!(error, format!("extender-gateway: backend only failed filter: {why}"));
    let call = seen.call(1).await;
    assert_eq!(call.backends[0].failure.as_ref().unwrap().message, why);
    let status: Status =
        serde_json::from_slice(&seen.admin.send("GET", "/debug/status", "").await.body).unwrap();
    let failure = status.backends[0].verbs[0].last_failure.as_ref().unwrap();
    assert_eq!(failure.message, why, "{status:?}");
}

#[tokio::test]
async fn a_verb_that_reads_nothing_is_asked_about_nodes_that_are_not_known() {
    let backend = Scripted::start(info(Reads::default()), |_, message| {
        let rows = rows(&message);
        assert!(rows.iter().all(|row| *row == NodeRow::default()), "{rows:?}");
        let pod = FilterRequest::decode(message).unwrap().pod.unwrap();
        assert_eq!(pod, Pod { facts: Some(PodFacts::default()), ..Pod::default() });
        let result = Some(api::Result::answered(2, ""));
        let rejection = Rejection { reason: "no".to_owned(), positions: vec![1], ..Rejection::default() };
        Act::Message(FilterResponse { result, rejections: vec![rejection], scores: None }.encode_to_vec())
    })
    .await;
    let backend = configured("only", &backend, "filter: {timeout: 60s}");
    let gateway = Gateway::start(&format!("nodes: {{source: Watch}}\nbackends:\n{backend}")).await;
    assert_eq!(filter(&gateway, &sibling(1), &["x", "y"]).await, json!(["x"]));
}

#[tokio::test]
async fn a_refusal_of_the_declaration_repeats_the_handshake() {
    let other = Reads {
        pod: Some(PodReads { parts: vec![PodPart::Owner.into()], ..PodReads::default() }),
        ..labels_of_nodes()
    };
    let reads = [labels_of_nodes(), other];
    let [first, second] = reads.clone().map(|reads| info(reads).encode_to_vec());
    let digests = reads.map(|reads| digest(&SHA256, &reads.encode_to_vec()));
    let is_new = Arc::new(AtomicBool::new(false));
    let script = {
        let is_new = Arc::clone(&is_new);
        move |verb: &str, message| {
            let is_new = is_new.load(Ordering::SeqCst);
            if verb == "GetInfo" {
                return Act::Message(if is_new { second.clone() } else { first.clone() });
            }
            let sent = FilterRequest::decode(bytes::Bytes::clone(&message)).unwrap().call.unwrap().reads;
            if sent == digests[usize::from(is_new)].as_ref() {
                return Act::Message(filtered(&message, &[], "").encode_to_vec());
            }
            Act::Status(9, "the declaration is another one")
        }
    };
    let backend = Scripted::start_bare(script, None).await;
    let rest = format!(
        "nodes: {{source: Watch}}\ntimeouts: {{decision: 60s}}\nbackends:\n{}",
        configured("only", &backend, "filter: {timeout: 60s}")
    );
    // Only the refusal can be the cause of a handshake.
    let cadences = Cadences { refresh: Duration::from_hours(1), ..eager() };
    let gateway = Gateway::start_paced(&rest, cadences).await;
    apply(&gateway, "a", &json!({}));
    assert_eq!(filter(&gateway, &sibling(1), &["a"]).await, json!(["a"]));
    is_new.store(true, Ordering::SeqCst);
    let error = gateway.post("/filter", by_name(&["a"])).await.error();
    assert!(error.contains("FAILED_PRECONDITION: the declaration is another one"), "{error}");
    let works = async {
        while gateway.post("/filter", by_name(&["a"])).await.json()["Error"] != "" {
            tokio::task::yield_now().await;
        }
    };
    ended("the backend works with its new declaration", works).await;
}

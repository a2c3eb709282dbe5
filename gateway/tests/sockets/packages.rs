//! Backends of the older package of the policy API are called as it says, and args are sent where they are not known.

use std::collections::BTreeMap;

use bytes::Bytes;
use extender_policy_api::v1beta1::{
    self as api, FilterRequest, FilterResponse, MapReads, NodeReads, PodIdentity, PodPart, PodReads,
    Rejection, Scope, SyncNodesResponse, Taint, Verb,
};
use prost::Message;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{
    Gateway, TEST_TIMEOUT,
    backend::{Act, Exactly, Scripted, configured, filtered, info},
    function::{about, sibling},
    pod, reading,
};

const OLD: &str = "extender.policy.v1alpha1";
const ARGS: &str = r#"{"rack":"r1"}"#;

/// The messages of v1alpha1 whose fields are others.
mod old {
    use super::{BTreeMap, Message, NodeReads, PodIdentity, PodReads, Taint};

    /// `NodeView`
    pub(super) const FACTS: i32 = 2;

    #[derive(Message)]
    pub(super) struct Info {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, tag = "3")]
        pub(super) revision: String,
        #[prost(string, tag = "4")]
        pub(super) api_version: String,
        #[prost(string, repeated, tag = "6")]
        pub(super) services: Vec<String>,
        #[prost(message, optional, tag = "7")]
        pub(super) verb: Option<VerbInfo>,
        #[prost(string, repeated, tag = "9")]
        pub(super) annotation_prefixes: Vec<String>,
    }

    #[derive(Message)]
    pub(super) struct VerbInfo {
        #[prost(int32, tag = "1")]
        pub(super) verb: i32,
        #[prost(int32, tag = "2")]
        pub(super) node_view: i32,
        #[prost(int32, tag = "3")]
        pub(super) scope: i32,
        #[prost(bool, tag = "5")]
        pub(super) pure: bool,
        #[prost(message, optional, tag = "11")]
        pub(super) reads: Option<Reads>,
    }

    #[derive(Message)]
    pub(super) struct Reads {
        #[prost(uint32, tag = "1")]
        pub(super) id: u32,
        #[prost(message, optional, tag = "2")]
        pub(super) pod: Option<PodReads>,
        #[prost(message, optional, tag = "3")]
        pub(super) node: Option<NodeReads>,
    }

    #[derive(Message)]
    pub(super) struct Request {
        #[prost(message, optional, tag = "1")]
        pub(super) call: Option<Call>,
        #[prost(message, optional, tag = "2")]
        pub(super) pod: Option<Pod>,
        #[prost(message, optional, tag = "3")]
        pub(super) nodes: Option<Nodes>,
    }

    #[derive(Message)]
    pub(super) struct Call {
        #[prost(bytes = "vec", tag = "5")]
        pub(super) args: Vec<u8>,
        #[prost(uint32, tag = "6")]
        pub(super) reads: u32,
        #[prost(bytes = "vec", tag = "8")]
        pub(super) args_sha256: Vec<u8>,
    }

    #[derive(Message)]
    pub(super) struct Pod {
        #[prost(message, optional, tag = "1")]
        pub(super) identity: Option<PodIdentity>,
        #[prost(message, optional, tag = "2")]
        pub(super) facts: Option<PodFacts>,
    }

    #[derive(PartialEq, Message)]
    pub(super) struct PodFacts {
        #[prost(string, tag = "1")]
        pub(super) namespace: String,
        #[prost(btree_map = "string, string", tag = "2")]
        pub(super) labels: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "3")]
        pub(super) annotations: BTreeMap<String, String>,
        #[prost(string, repeated, tag = "14")]
        pub(super) label_values: Vec<String>,
        #[prost(string, repeated, tag = "15")]
        pub(super) annotation_values: Vec<String>,
        #[prost(uint32, repeated, tag = "16")]
        pub(super) absent_labels: Vec<u32>,
        #[prost(uint32, repeated, tag = "17")]
        pub(super) absent_annotations: Vec<u32>,
    }

    #[derive(Message)]
    pub(super) struct Nodes {
        #[prost(uint32, tag = "1")]
        pub(super) count: u32,
        #[prost(message, optional, tag = "2")]
        pub(super) rows: Option<Rows>,
        #[prost(message, optional, tag = "3")]
        pub(super) table: Option<Reference>,
    }

    #[derive(Message)]
    pub(super) struct Rows {
        #[prost(message, repeated, tag = "1")]
        pub(super) rows: Vec<Row>,
    }

    #[derive(Message)]
    pub(super) struct Reference {
        #[prost(fixed64, tag = "1")]
        pub(super) table: u64,
        #[prost(uint32, repeated, tag = "3")]
        pub(super) ids: Vec<u32>,
        #[prost(message, repeated, tag = "4")]
        pub(super) rows: Vec<Row>,
    }

    #[derive(PartialEq, Message)]
    pub(super) struct Row {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(message, optional, tag = "2")]
        pub(super) facts: Option<NodeFacts>,
    }

    #[derive(PartialEq, Message)]
    pub(super) struct NodeFacts {
        #[prost(btree_map = "string, string", tag = "1")]
        pub(super) labels: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "2")]
        pub(super) annotations: BTreeMap<String, String>,
        #[prost(message, repeated, tag = "3")]
        pub(super) taints: Vec<Taint>,
        #[prost(string, repeated, tag = "8")]
        pub(super) label_values: Vec<String>,
        #[prost(string, repeated, tag = "9")]
        pub(super) annotation_values: Vec<String>,
        #[prost(uint32, repeated, tag = "10")]
        pub(super) absent_labels: Vec<u32>,
        #[prost(uint32, repeated, tag = "11")]
        pub(super) absent_annotations: Vec<u32>,
    }

    #[derive(Message)]
    pub(super) struct SyncNodes {
        #[prost(fixed64, tag = "1")]
        pub(super) table: u64,
        #[prost(uint64, tag = "2")]
        pub(super) version: u64,
        #[prost(message, optional, tag = "3")]
        pub(super) view: Option<TableView>,
        #[prost(message, repeated, tag = "4")]
        pub(super) upserts: Vec<TableEntry>,
    }

    #[derive(PartialEq, Message)]
    pub(super) struct TableView {
        #[prost(int32, tag = "1")]
        pub(super) node_view: i32,
        #[prost(string, repeated, tag = "2")]
        pub(super) annotation_prefixes: Vec<String>,
        #[prost(bool, tag = "3")]
        pub(super) usage: bool,
        #[prost(message, optional, tag = "4")]
        pub(super) reads: Option<NodeReads>,
    }

    #[derive(Message)]
    pub(super) struct TableEntry {
        #[prost(uint32, tag = "1")]
        pub(super) id: u32,
        #[prost(message, optional, tag = "2")]
        pub(super) row: Option<Row>,
    }
}

/// A backend of v1alpha1 that filters. Of three nodes it rejects two, for which its boolean `preemption_may_help` is absent, and
/// true.
async fn old_backend(info: old::Info) -> Scripted {
    let script = move |verb: &str, message: Bytes| match verb {
        "GetInfo" => Act::Message(info.encode_to_vec()),
        "SyncNodes" => {
            let applied = old::SyncNodes::decode(message).unwrap().version;
            Act::Endless(SyncNodesResponse { applied }.encode_to_vec())
        }
        _ => {
            let rejection = |kind, at| Rejection {
                reason: "no".into(),
                kind,
                positions: vec![at],
                ..Rejection::default()
            };
            let result = Some(api::Result::answered(3, "r1"));
            let rejections = vec![rejection(0, 0), rejection(1, 1)];
            Act::Message(FilterResponse { result, rejections, scores: None }.encode_to_vec())
        }
    };
    let backend = Scripted::start_bare(script, None).await;
    backend.speak(OLD);
    backend
}

/// Its handshake.
fn old_info(verb: old::VerbInfo) -> old::Info {
    old::Info {
        name: "old".into(),
        revision: "r1".into(),
        api_version: OLD.into(),
        services: vec![format!("{OLD}.NodeTableService")],
        verb: Some(old::VerbInfo {
            verb: Verb::Filter.into(),
            node_view: old::FACTS,
            scope: Scope::Node.into(),
            ..verb
        }),
        annotation_prefixes: Vec::new(),
    }
}

/// A gateway that knows the nodes a, b and c, in front of it.
async fn before(backend: &Scripted) -> Gateway {
    let filter = format!("args: {ARGS}, filter: {{timeout: 60s, preemptionMayHelp: Honored}}");
    let backends = configured("old", backend, &filter);
    let gateway = Gateway::start(&format!("nodes: {{source: Watch}}\nbackends:\n{backends}")).await;
    for name in ["a", "b", "c"] {
        let metadata = json!({"name": name, "labels": {"zone": "z1", "tier/x": "1"}, "annotations": {"example.com/at": "7"}});
        let taints = json!([{"key": "k", "effect": "NoSchedule"}]);
        let node = json!({"metadata": metadata, "spec": {"taints": taints}});
        gateway.table.apply(node.to_string().as_bytes()).unwrap();
    }
    gateway
}

async fn filter(gateway: &Gateway, pod: &Value) {
    let answer = gateway.post("/filter", about(pod, &["a", "b", "c"])).await.json();
    assert_eq!(answer["FailedAndUnresolvableNodes"].as_object().unwrap().len(), 1, "{answer}");
    assert_eq!(answer["FailedNodes"].as_object().unwrap().len(), 1, "{answer}");
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test]
async fn a_backend_of_the_older_package_is_called_as_that_says() {
    let reads =
        |keys: &[&str], prefixes: &[&str]| Some(MapReads { keys: texts(keys), prefixes: texts(prefixes) });
    let pod = PodReads {
        parts: vec![PodPart::Namespace.into()],
        labels: reads(&["absent", "app"], &[]),
        annotations: reads(&["kubectl/at"], &["example.com/"]),
        ..PodReads::default()
    };
    let node = NodeReads {
        labels: reads(&["rack", "zone"], &["tier/"]),
        annotations: reads(&["example.com/at"], &[]),
        ..NodeReads::default()
    };
    let reads = Some(old::Reads { id: 42, pod: Some(pod), node: Some(node) });
    let verb = old::VerbInfo { pure: true, reads, ..old::VerbInfo::default() };
    // Rows come with the calls.
    let backend = old_backend(old::Info { services: Vec::new(), ..old_info(verb) }).await;
    let gateway = before(&backend).await;
    for number in 0..2 {
        let mut pod = sibling(number);
        pod["metadata"]["annotations"]["kubectl/at"] = json!("0");
        filter(&gateway, &pod).await;
    }
    let [message] = &backend.messages("Filter")[..] else { panic!("its verb is pure") };
    let old::Request { call, pod, nodes } = old::Request::decode(message.clone()).unwrap();
    let call = call.unwrap();
    assert_eq!((&call.args[..], call.reads, call.args_sha256), (ARGS.as_bytes(), 42, vec![]));
    let expected = old::PodFacts {
        namespace: "shop".into(),
        annotations: map(&[("example.com/tier", "front")]),
        label_values: texts(&["", "web"]),
        annotation_values: texts(&["0"]),
        absent_labels: vec![0],
        ..old::PodFacts::default()
    };
    let pod = pod.unwrap();
    assert_eq!((pod.identity, pod.facts), (None, Some(expected)));
    let facts = old::NodeFacts {
        labels: map(&[("tier/x", "1")]),
        label_values: texts(&["", "z1"]),
        annotation_values: texts(&["7"]),
        absent_labels: vec![0],
        ..old::NodeFacts::default()
    };
    let rows = nodes.unwrap().rows.unwrap().rows;
    assert_eq!((rows.len(), &rows[2]), (3, &old::Row { name: String::new(), facts: Some(facts) }));
}

#[tokio::test]
async fn a_backend_of_the_older_package_without_a_declaration_is_told_everything_and_holds_nodes() {
    let declared = old_info(old::VerbInfo::default());
    let annotation_prefixes = texts(&["example.com/"]);
    let backend =
        old_backend(old::Info { annotation_prefixes: annotation_prefixes.clone(), ..declared }).await;
    let gateway = before(&backend).await;
    let held = async {
        loop {
            filter(&gateway, &sibling(1)).await;
            let request = old::Request::decode(backend.messages("Filter").pop().unwrap()).unwrap();
            let old::Nodes { count, table, .. } = request.nodes.unwrap();
            if let Some(old::Reference { table, ids, rows }) = table {
                assert_eq!((count, ids.len(), rows.len()), (3, 3, 0));
                return (request.pod.unwrap(), table);
            }
        }
    };
    let (pod, table) = timeout(TEST_TIMEOUT, held).await.expect("the backend holds the nodes some time");
    let facts = pod.facts.unwrap();
    assert_eq!(pod.identity.unwrap().uid, "u-1");
    assert_eq!((facts.labels["app"].as_str(), facts.label_values), ("web", vec![]));
    assert_eq!(facts.annotations, map(&[("example.com/tier", "front")]));
    let synced = old::SyncNodes::decode(backend.messages("SyncNodes").remove(0)).unwrap();
    let view = old::TableView { node_view: old::FACTS, annotation_prefixes, usage: false, reads: None };
    assert_eq!((synced.table, synced.view), (table, Some(view)));
    let facts = old::NodeFacts {
        labels: map(&[("tier/x", "1"), ("zone", "z1")]),
        annotations: map(&[("example.com/at", "7")]),
        taints: vec![Taint { key: "k".into(), effect: "NoSchedule".into(), ..Taint::default() }],
        ..old::NodeFacts::default()
    };
    let rows = synced.upserts.into_iter().map(|entry| entry.row.unwrap());
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    assert_eq!((rows.len(), &rows[2]), (3, &old::Row { name: "c".into(), facts: Some(facts) }));
}

#[tokio::test]
async fn a_backend_of_neither_package_is_down_with_a_sentence() {
    let backend = Scripted::refusing(&[], "", 0).await;
    backend.speak("extender.policy.v9");
    let gateway =
        Gateway::start(&format!("backends:\n{}", configured("new", &backend, "filter: {timeout: 60s}")))
            .await;
    let answer = gateway.post("/filter", about(&pod(), &["a"])).await.json();
    let error = answer["Error"].as_str().unwrap();
    assert!(error.contains("handshake failed: UNIMPLEMENTED"), "{error}");
}

#[tokio::test]
async fn a_backend_that_does_not_hold_the_args_is_sent_them_once() {
    let known = std::sync::Mutex::new(false);
    let script = move |verb: &str, message: Bytes| {
        let call = FilterRequest::decode(message.clone()).unwrap().call.unwrap();
        assert_eq!((verb, &call.args_sha256[..]), ("Filter", digest(&SHA256, ARGS.as_bytes()).as_ref()));
        let mut known = known.lock().unwrap();
        *known |= call.args == ARGS.as_bytes();
        if *known { Act::Message(filtered(&message, &["b"], "no").encode_to_vec()) } else { unknown() }
    };
    let backend = Scripted::start(info(reading::names()), script).await;
    let filter = format!("args: {ARGS}, filter: {{timeout: 60s}}");
    let gateway = Gateway::start(&format!("backends:\n{}", configured("racks", &backend, &filter))).await;
    for calls in [2, 3] {
        let answer = gateway.post("/filter", about(&pod(), &["a", "b"])).await.json();
        assert_eq!(answer["NodeNames"], json!(["a"]), "{answer}");
        assert_eq!(backend.messages("Filter").len(), calls, "once in full, then by name");
    }
}

#[tokio::test]
async fn a_backend_that_never_holds_the_args_fails() {
    let backend = Scripted::start(info(reading::names()), |_, _| unknown()).await;
    let filter = format!("args: {ARGS}, filter: {{timeout: 60s}}");
    let gateway = Gateway::start(&format!("backends:\n{}", configured("racks", &backend, &filter))).await;
    let answer = gateway.post("/filter", about(&pod(), &["a"])).await.json();
    let error = answer["Error"].as_str().unwrap();
    assert!(error.contains("FAILED_PRECONDITION: not held"), "{error}");
    assert_eq!(backend.messages("Filter").len(), 2);
}

#[tokio::test]
async fn a_cluster_with_a_name_is_named_in_each_call() {
    let backend = Scripted::refusing(&[], "", 0).await;
    let gateway = Gateway::start(&format!(
        "cluster: {{name: east}}\nbackends:\n{}",
        configured("racks", &backend, "filter: {timeout: 60s}")
    ))
    .await;
    gateway.post("/filter", about(&pod(), &["a"])).await.json();
    let call = FilterRequest::decode(backend.messages("Filter").remove(0)).unwrap().call.unwrap();
    assert_eq!(call.cluster, "east");
    let known = api::GetInfoRequest::decode(backend.messages("GetInfo").remove(0)).unwrap().known.unwrap();
    assert_eq!((known.verbs, known.node_parts), ((1..=7).collect(), (1..=13).collect()));
}

/// The backend does not hold the args that the call names.
fn unknown() -> Act {
    let trailers = vec![
        ("grpc-status", b"9".to_vec()),
        ("grpc-message", b"not held".to_vec()),
        ("extender-reason", b"ERROR_REASON_ARGS_UNKNOWN".to_vec()),
    ];
    let head = vec![("content-type", b"application/grpc".to_vec())];
    let head = head.into_iter().chain(trailers).collect();
    Act::Exactly(Exactly { status: 200, head, body: None, trailers: Vec::new() })
}

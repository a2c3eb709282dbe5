//! Backends of the older package of the policy API are called as it says, and args are sent where they are not known.

use extender_policy_api::v1beta1::{
    self as api, FilterRequest, FilterResponse, GetInfoResponse, NodeView, Rejection, Scope, Verb, VerbInfo,
};
use prost::Message;
use ring::digest::{SHA256, digest};
use serde_json::json;

use crate::support::{
    Gateway,
    backend::{Act, Exactly, Scripted, configured, filtered, info},
    function::{about, labelled},
    pod,
};

const OLD: &str = "extender.policy.v1alpha1";
const ARGS: &str = r#"{"rack":"r1"}"#;

/// What v1alpha1 has in other fields.
#[derive(Message)]
struct OldRequest {
    #[prost(message, optional, tag = "1")]
    call: Option<OldCall>,
}

#[derive(Message)]
struct OldCall {
    #[prost(bytes = "vec", tag = "5")]
    args: Vec<u8>,
    #[prost(uint32, tag = "6")]
    reads: u32,
    #[prost(bytes = "vec", tag = "8")]
    args_sha256: Vec<u8>,
}

fn put(field: u8, content: &[u8], out: &mut Vec<u8>) {
    out.extend([field << 3 | 2, u8::try_from(content.len()).unwrap()]);
    out.extend(content);
}

/// A handshake of v1alpha1 with one verb, which is pure and has a declaration with the id 42.
fn old_handshake(verb: Verb) -> Vec<u8> {
    let verb = VerbInfo { verb: verb.into(), scope: Scope::Node.into(), ..VerbInfo::default() };
    let mut verb = VerbInfo { node_view: NodeView::Facts.into(), ..verb }.encode_to_vec();
    verb.extend([5 << 3, 1]);
    put(11, &[1 << 3, 42], &mut verb);
    let info = GetInfoResponse {
        name: "old".into(),
        revision: "r1".into(),
        api_version: OLD.into(),
        services: vec![format!("{OLD}.HookService")],
        ..GetInfoResponse::default()
    };
    let mut info = info.encode_to_vec();
    put(7, &verb, &mut info);
    info
}

#[tokio::test]
async fn a_backend_of_the_older_package_is_called_as_that_says() {
    let script = |verb: &str, _| {
        if verb == "GetInfo" {
            return Act::Message(old_handshake(Verb::Filter));
        }
        // Its boolean `preemption_may_help`: absent, and true.
        let rejection = |kind: i32, at| Rejection {
            reason: "no".into(),
            kind,
            positions: vec![at],
            ..Rejection::default()
        };
        let rejections = vec![rejection(0, 0), rejection(1, 1)];
        let result = Some(api::Result::answered(3, "r1"));
        Act::Message(FilterResponse { result, rejections, scores: None }.encode_to_vec())
    };
    let backend = Scripted::start_bare(script, None).await;
    backend.speak(OLD);
    let filter = format!("args: {ARGS}, filter: {{timeout: 60s, preemptionMayHelp: Honored}}");
    let backends = configured("old", &backend, &filter);
    let gateway = Gateway::start(&format!("nodes: {{source: Watch}}\nbackends:\n{backends}")).await;
    for node in ["a", "b", "c"] {
        gateway.table.apply(labelled(node, &json!({})).as_bytes()).unwrap();
    }
    for _ in 0..2 {
        let answer = gateway.post("/filter", about(&pod(), &["a", "b", "c"])).await.json();
        assert_eq!(answer["FailedAndUnresolvableNodes"].as_object().unwrap().len(), 1, "{answer}");
        assert_eq!(answer["FailedNodes"].as_object().unwrap().len(), 1, "{answer}");
    }
    let [message] = &backend.messages("Filter")[..] else { panic!("its verb is pure") };
    let call = OldRequest::decode(message.clone()).unwrap().call.unwrap();
    assert_eq!((&call.args[..], call.reads, call.args_sha256), (ARGS.as_bytes(), 42, vec![]));
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
    let script = move |verb: &str, message: bytes::Bytes| {
        let call = FilterRequest::decode(message.clone()).unwrap().call.unwrap();
        assert_eq!((verb, &call.args_sha256[..]), ("Filter", digest(&SHA256, ARGS.as_bytes()).as_ref()));
        let mut known = known.lock().unwrap();
        *known |= call.args == ARGS.as_bytes();
        if *known { Act::Message(filtered(&message, &["b"], "no").encode_to_vec()) } else { unknown() }
    };
    let backend = Scripted::start(info(NodeView::Name), script).await;
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
    let backend = Scripted::start(info(NodeView::Name), |_, _| unknown()).await;
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
    assert_eq!((known.verbs, known.node_parts), ((1..=7).collect(), (1..=6).collect()));
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

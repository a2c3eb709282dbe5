//! Binds as kube-scheduler asks for them, through the real door, against scripted backends and a scripted
//! apiserver: what is answered, who is asked, and where the pod is in the end.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use extender_gateway::{config::Config, observe::Metrics, serve::assembly::Assembly};
use extender_policy_api::v1alpha1::{
    BindOutcome, BindRequest, BindResponse, GetInfoResponse, Verb, VerbInfo,
};
use prost::Message;
use serde_json::json;
use support::{
    Gateway,
    apiserver::{self, Apiserver, Turn},
    backend::{Act, Scripted},
    http::Answer,
};

const TO_A: &str = r#"{"PodName":"web-0","PodNamespace":"shop","PodUID":"u-1","Node":"a"}"#;

fn info() -> GetInfoResponse {
    let bind = VerbInfo { verb: Verb::Bind as i32, ..VerbInfo::default() };
    GetInfoResponse {
        verbs: vec![bind],
        ..support::backend::info(extender_policy_api::v1alpha1::NodeView::Name)
    }
}

fn says(outcome: BindOutcome) -> Act {
    Act::Message(BindResponse { outcome: outcome as i32, message: "so I say".into() }.encode_to_vec())
}

/// A backend that does this with every Bind.
async fn binder(act: Act) -> Scripted {
    Scripted::start(info(), move |_, _| act.clone()).await
}

/// A backend that binds to this node, whatever it is asked, and then does this.
async fn binding_to(apiserver: &Apiserver, node: &'static str, act: Act) -> Scripted {
    let apiserver = apiserver.clone();
    Scripted::start(info(), move |_, _| {
        apiserver.set("web-0", "u-1", Some(node));
        act.clone()
    })
    .await
}

fn backend(name: &str, backend: &Scripted, rest: &str) -> String {
    format!("- {{name: {name}, url: 'http://{}', {rest}}}\n", backend.address)
}

async fn built_in(apiserver: &Apiserver) -> Gateway {
    let unrelated = Scripted::refusing(&[], "", 0).await;
    let rest = apiserver.configuration("BuiltIn");
    Gateway::start(&format!("{rest}backends:\n{}", backend("unrelated", &unrelated, "filter: {}"))).await
}

/// A gateway with one backend that binds.
async fn with(apiserver: &Apiserver, bind: &Scripted, settings: &str) -> Gateway {
    let rest = apiserver.configuration("only");
    Gateway::start(&format!("{rest}backends:\n{}", backend("only", bind, &format!("bind: {settings}")))).await
}

#[track_caller]
fn bound(answer: &Answer) {
    assert_eq!((answer.status, &*answer.body), (200, &br#"{"Error":""}"#[..]), "{answer:?}");
}

#[track_caller]
fn refused(answer: &Answer, text: &str) {
    let error = answer.error();
    assert_eq!((answer.status, error.as_str()), (200, text), "{answer:?}");
    assert_eq!(answer.json().as_object().unwrap().len(), 1);
}

#[tokio::test]
async fn the_built_in_binder_binds_and_a_repeated_bind_succeeds() {
    let apiserver = Apiserver::start().await;
    let gateway = built_in(&apiserver).await;
    bound(&gateway.post("/bind", TO_A).await);
    assert_eq!(apiserver.node(), Some("a"));
    assert_eq!(apiserver.log(), ["POST web-0"]);
    let expected = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": "web-0", "namespace": "shop", "uid": "u-1"},
        "target": {"kind": "Node", "name": "a"},
    });
    assert_eq!(apiserver.bindings(), [expected]);
    bound(&gateway.post("/any/prefix/bind/", TO_A.to_lowercase()).await);
    assert_eq!(apiserver.log(), ["POST web-0", "POST web-0", "GET web-0"]);
}

#[tokio::test]
async fn the_built_in_binder_says_what_keeps_it() {
    let apiserver = Apiserver::start().await;
    let gateway = built_in(&apiserver).await;
    apiserver.set("web-0", "u-1", Some("b"));
    let elsewhere = "extender-gateway: cannot bind: the pod is bound to node b";
    refused(&gateway.post("/bind", TO_A).await, elsewhere);
    apiserver.set("web-0", "u-2", None);
    let other = "extender-gateway: cannot bind: the pod is gone, and another one with UID u-2 has its name";
    refused(&gateway.post("/bind", TO_A).await, other);
    assert_eq!(apiserver.node(), None, "the other pod was bound");
    apiserver.delete("web-0");
    refused(&gateway.post("/bind", TO_A).await, "extender-gateway: cannot bind: the pod is gone");
    apiserver.set("web-0", "u-1", None);
    for (code, text) in
        [(500, "told so"), (409, "told so"), (403, "told so; bind the gateway's service account")]
    {
        apiserver.binds(&[Turn::Status(code)]);
        let error = gateway.post("/bind", TO_A).await.error();
        let expected = format!("extender-gateway: cannot bind: the apiserver refuses: {text}");
        assert!(error.starts_with(&expected), "{error}");
    }
    let counted = r#"extender_gateway_calls_total{verb="bind",outcome="apiserver"} 3"#;
    assert!(gateway.metrics.text().contains(counted));
}

#[tokio::test]
async fn when_the_apiservers_answer_is_lost_the_truth_is_read() {
    let apiserver = Apiserver::start().await;
    let gateway = built_in(&apiserver).await;
    for turn in [Turn::DoAndDrop, Turn::DoAndHang] {
        apiserver.set("web-0", "u-1", None);
        apiserver.binds(&[turn]);
        bound(&gateway.post("/bind", TO_A).await);
    }
    for (turn, text) in [
        (Turn::Drop, "the apiserver cannot be asked: "),
        (Turn::Hang, "the apiserver did not answer in time"),
    ] {
        apiserver.set("web-0", "u-1", None);
        apiserver.binds(&[turn]);
        let error = gateway.post("/bind", TO_A).await.error();
        assert!(error.starts_with(&format!("extender-gateway: cannot bind: {text}")), "{turn:?}: {error}");
    }
    // Done, and nobody can say so.
    apiserver.binds(&[Turn::DoAndDrop]);
    apiserver.reads(&[Turn::Status(500)]);
    let error = gateway.post("/bind", TO_A).await.error();
    assert!(error.starts_with("extender-gateway: cannot bind: the apiserver cannot be asked"), "{error}");
}

#[tokio::test]
async fn an_apiserver_that_is_away_is_an_error_and_nobody_is_asked() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let kubeconfig = apiserver::kubeconfig(free);
    let lying = binder(says(BindOutcome::Bound)).await;
    let head =
        format!("nodes: {{source: Request}}\ncluster: {{kubeconfig: {}}}\n", kubeconfig.path().display());
    for (binder, rest) in [("BuiltIn", "filter: {}"), ("only", "bind: {}")] {
        let backend = backend("only", &lying, rest);
        let gateway = Gateway::start(&format!("{head}binder: {binder}\nbackends:\n{backend}")).await;
        let error = gateway.post("/bind", TO_A).await.error();
        assert!(
            error.starts_with("extender-gateway: cannot bind: the apiserver cannot be asked: "),
            "{error}"
        );
        assert!(error.contains("Connection refused"), "{error}");
    }
    assert!(lying.messages("Bind").is_empty());
}

#[tokio::test]
async fn a_backend_binds_and_is_told_everything() {
    let apiserver = Apiserver::start().await;
    let binding = binding_to(&apiserver, "a", says(BindOutcome::Bound)).await;
    let gateway = with(&apiserver, &binding, "{}").await;
    bound(&gateway.post("/bind", TO_A).await);
    assert_eq!(apiserver.log(), ["GET web-0", "GET web-0"]);
    let [message] = &binding.messages("Bind")[..] else { panic!("asked once") };
    let BindRequest { call, namespace, name, uid, node, pod } = BindRequest::decode(message.clone()).unwrap();
    assert_eq!([&*namespace, &*name, &*uid, &*node], ["shop", "web-0", "u-1", "a"]);
    let call = call.unwrap();
    assert_eq!((call.purpose, &*call.gateway, &*call.backend), (1, "test", "only"));
    let pod = pod.unwrap();
    assert_eq!(pod.identity.unwrap().uid, "u-1");
    assert_eq!(pod.facts.unwrap().labels["app"], "web");
    // Once more: it is bound already, and nobody is asked.
    bound(&gateway.post("/bind", TO_A).await);
    assert_eq!(binding.messages("Bind").len(), 1);
}

#[tokio::test]
async fn about_a_pod_that_cannot_be_bound_nobody_is_asked() {
    let apiserver = Apiserver::start().await;
    let binding = binding_to(&apiserver, "a", says(BindOutcome::Bound)).await;
    let gateway = with(&apiserver, &binding, "{failurePolicy: Next}").await;
    apiserver.set("web-0", "u-1", Some("b"));
    refused(&gateway.post("/bind", TO_A).await, "extender-gateway: cannot bind: the pod is bound to node b");
    apiserver.set("web-0", "u-2", Some("a"));
    let other = "extender-gateway: cannot bind: the pod is gone, and another one with UID u-2 has its name";
    refused(&gateway.post("/bind", TO_A).await, other);
    apiserver.delete("web-0");
    refused(&gateway.post("/bind", TO_A).await, "extender-gateway: cannot bind: the pod is gone");
    assert!(binding.messages("Bind").is_empty() && apiserver.bindings().is_empty());
}

#[tokio::test]
async fn binders_are_asked_in_order_until_one_binds() {
    let order: Arc<Mutex<Vec<&str>>> = Arc::default();
    let declining = async |name: &'static str| {
        let order = Arc::clone(&order);
        Scripted::start(info(), move |_, _| {
            order.lock().unwrap().push(name);
            says(BindOutcome::Declined)
        })
        .await
    };
    let (first, other, shadow, named) =
        tokio::join!(declining("first"), declining("other"), declining("shadow"), declining("named"));
    let apiserver = Apiserver::start().await;
    let backends = backend("first", &first, "bind: {}")
        + &backend("other", &other, "bind: {}, match: {namespaces: [else]}")
        + &backend("shadow", &shadow, "bind: {}, mode: Shadow")
        + &backend("named", &named, "bind: {}");
    for (binder, asked) in [("named", ["named", "first"]), ("BuiltIn", ["first", "named"])] {
        apiserver.set("web-0", "u-1", None);
        let gateway =
            Gateway::start(&format!("{}backends:\n{backends}", apiserver.configuration(binder))).await;
        bound(&gateway.post("/bind", TO_A).await);
        assert_eq!(std::mem::take(&mut *order.lock().unwrap()), asked, "{binder}");
        assert_eq!(apiserver.node(), Some("a"));
    }
}

#[tokio::test]
async fn about_exempt_pods_nobody_is_asked_and_the_gateway_binds() {
    let apiserver = Apiserver::start().await;
    let binding = binder(says(BindOutcome::Bound)).await;
    let exempt = format!("{}exempt: {{namespaces: [shop]}}\n", apiserver.configuration("only"));
    let gateway =
        Gateway::start(&format!("{exempt}backends:\n{}", backend("only", &binding, "bind: {}"))).await;
    bound(&gateway.post("/bind", TO_A).await);
    assert!(binding.messages("Bind").is_empty());
    assert_eq!(apiserver.log(), ["POST web-0"]);
}

/// Ways in which a backend can fail, and what the gateway says of it.
fn faults() -> [(Act, &'static str); 8] {
    [
        (Act::Hang, "no answer within 150ms"),
        (Act::Reset, "the stream was reset: "),
        (Act::Drop, "the connection was lost"),
        (Act::Status(9, "not here"), "FAILED_PRECONDITION: not here"),
        (Act::Status(12, ""), "UNIMPLEMENTED"),
        (Act::Http(502), "the answer is not gRPC: HTTP status 502"),
        (Act::Message(Vec::new()), "the answer has no outcome"),
        (Act::Message(b"\xff\xff\xff".to_vec()), "the answer cannot be decoded"),
    ]
}

#[tokio::test]
async fn a_failure_that_left_the_pod_free_is_decided_by_the_policy() {
    for (act, text) in faults() {
        let bad = binder(act.clone()).await;
        let apiserver = Apiserver::start().await;
        let gateway = with(&apiserver, &bad, "{timeout: 150ms}").await;
        let error = gateway.post("/bind", TO_A).await.error();
        let expected = format!("extender-gateway: backend only failed bind: {text}");
        assert!(error.starts_with(&expected), "{act:.60?}: {error}");
        assert_eq!((apiserver.node(), apiserver.bindings().len()), (None, 0));
        assert!(gateway.metrics.text().contains(r#"failures_total{backend="only",verb="bind""#));

        let gateway = with(&apiserver, &bad, "{timeout: 150ms, failurePolicy: Next}").await;
        bound(&gateway.post("/bind", TO_A).await);
        assert_eq!(apiserver.node(), Some("a"));
    }
}

#[tokio::test]
async fn a_backend_that_was_not_asked_needs_no_look_at_the_truth() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let filtering = Scripted::refusing(&[], "", 0).await;
    for (address, text) in [
        (free, format!("cannot connect to {free}: connection refused")),
        (filtering.address, "does not serve bind; leave bind out of its configuration".to_owned()),
    ] {
        let apiserver = Apiserver::start().await;
        let start = async |policy: &str| {
            let backend =
                format!("- {{name: only, url: 'http://{address}', bind: {{failurePolicy: {policy}}}}}");
            Gateway::start(&format!("{}backends:\n{backend}\n", apiserver.configuration("only"))).await
        };
        let error = start("Fail").await.post("/bind", TO_A).await;
        refused(&error, &format!("extender-gateway: backend only failed bind: {text}"));
        bound(&start("Next").await.post("/bind", TO_A).await);
        assert_eq!(apiserver.log(), ["GET web-0", "GET web-0", "POST web-0"]);
    }
}

#[tokio::test]
async fn after_an_unclear_failure_the_truth_decides() {
    let apiserver = Apiserver::start().await;
    for policy in ["Fail", "Next"] {
        for (act, _) in faults() {
            apiserver.set("web-0", "u-1", None);
            let lost = binding_to(&apiserver, "a", act.clone()).await;
            let settings = format!("{{timeout: 150ms, failurePolicy: {policy}}}");
            bound(&with(&apiserver, &lost, &settings).await.post("/bind", TO_A).await);

            apiserver.set("web-0", "u-1", None);
            let astray = binding_to(&apiserver, "b", act.clone()).await;
            let answer = with(&apiserver, &astray, &settings).await.post("/bind", TO_A).await;
            refused(&answer, "extender-gateway: cannot bind: the pod is bound to node b");

            apiserver.set("web-0", "u-1", None);
            apiserver.reads(&[Turn::Usual, Turn::Status(500)]);
            let bad = binder(act.clone()).await;
            let answer = with(&apiserver, &bad, &settings).await.post("/bind", TO_A).await;
            refused(&answer, "extender-gateway: cannot bind: the apiserver refuses: told so");
        }
    }
    assert!(apiserver.bindings().is_empty(), "the built-in binder must not act on what is unclear");
}

#[tokio::test]
async fn a_backends_word_is_checked() {
    let apiserver = Apiserver::start().await;
    let lying = binder(says(BindOutcome::Bound)).await;
    let settings = "{failurePolicy: Next}";
    let answer = with(&apiserver, &lying, settings).await.post("/bind", TO_A).await;
    let text = "extender-gateway: backend only failed bind: it says that it has bound the pod; the pod is";
    refused(&answer, &format!("{text} not bound"));
    assert_eq!(apiserver.node(), None);

    let astray = binding_to(&apiserver, "b", says(BindOutcome::Bound)).await;
    let answer = with(&apiserver, &astray, settings).await.post("/bind", TO_A).await;
    refused(&answer, &format!("{text} bound to node b"));
}

#[tokio::test]
async fn a_binding_that_shows_a_moment_later_is_waited_for() {
    let apiserver = Apiserver::start().await;
    let binding = binding_to(&apiserver, "a", says(BindOutcome::Bound)).await;
    apiserver.reads(&[Turn::Usual, Turn::Status(500), Turn::Drop]);
    bound(&with(&apiserver, &binding, "{}").await.post("/bind", TO_A).await);
    assert_eq!(apiserver.log(), ["GET web-0"; 4]);
}

#[tokio::test]
async fn a_bind_does_not_wait_for_another() {
    let apiserver = Apiserver::start().await;
    apiserver.set("web-1", "u-2", None);
    let gateway = Arc::new(built_in(&apiserver).await);
    apiserver.binds(&[Turn::Hang]);
    let hanging = tokio::spawn({
        let gateway = Arc::clone(&gateway);
        async move { gateway.post("/bind", TO_A).await }
    });
    apiserver.asked_to_bind().await;
    let second = r#"{"PodName":"web-1","PodNamespace":"shop","PodUID":"u-2","Node":"a"}"#;
    bound(&gateway.post("/bind", second).await);
    assert!(!hanging.is_finished());
    let error = hanging.await.unwrap().error();
    assert_eq!(error, "extender-gateway: cannot bind: the apiserver did not answer in time");
}

#[tokio::test]
async fn without_a_binder_the_answer_says_what_to_set() {
    let backend = backend("only", &Scripted::refusing(&[], "", 0).await, "filter: {}");
    let gateway = Gateway::start(&format!("nodes: {{source: Request}}\nbackends:\n{backend}")).await;
    refused(
        &gateway.post("/bind", TO_A).await,
        "extender-gateway: bind is not served here: set `binder` in the gateway's configuration to BuiltIn or a \
         backend's name, or leave bindVerb out of kube-scheduler's",
    );
    refused(&gateway.post("/bind", "{}").await, "extender-gateway: bad request: the request has no PodName");
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_fails_the_start() {
    let yaml = "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n\
                nodes: {source: Request}\ncluster: {kubeconfig: /no/such/file}\nbinder: BuiltIn\n\
                backends: [{name: only, url: 'http://127.0.0.1:1', filter: {}}]\n";
    let config = Config::parse(yaml, Path::new(".")).unwrap();
    let mut assembly = Assembly::new(&config, "test".into(), Arc::new(Metrics::new()));
    let error = assembly.serve(&config).await.unwrap_err().to_string();
    assert!(error.starts_with("the kubeconfig /no/such/file cannot be used: "), "{error}");
}

//! What is true of a bind when something goes wrong: the apiserver is asked, and nothing else is believed.

use std::time::Duration;

use crate::support::{
    ClosedPort, Gateway,
    apiserver::{self, Apiserver, Turn},
    backend::{Act, Scripted, configured as backend},
    binding::{TO_A, binder, binding_to, bound, built_in, refused, says, with},
    http::Answer,
    pass,
};
use extender_policy_api::v1beta1::BindOutcome;

#[tokio::test]
async fn the_built_in_binder_says_what_keeps_it() {
    let apiserver = Apiserver::start().await;
    let gateway = built_in(&apiserver).await;
    apiserver.set("web-0", "u-1", Some("b"));
    let elsewhere = "extender-gateway: cannot bind: the pod is bound to node b";
    refused(&gateway.post("/bind", TO_A).await, elsewhere);
    apiserver.set("web-0", "u-2", None);
    let other =
        "extender-gateway: cannot bind: the pod no longer exists; another pod with UID u-2 has its name";
    refused(&gateway.post("/bind", TO_A).await, other);
    assert_eq!(apiserver.node(), None, "the other pod was bound");
    apiserver.delete("web-0");
    refused(&gateway.post("/bind", TO_A).await, "extender-gateway: cannot bind: the pod no longer exists");
    apiserver.set("web-0", "u-1", None);
    for (code, text) in
        [(422, "told so"), (409, "told so"), (403, "told so; bind the gateway's service account")]
    {
        apiserver.binds(&[Turn::Status(code)]);
        let error = gateway.post("/bind", TO_A).await.error();
        let expected = format!("extender-gateway: cannot bind: the apiserver rejected the request: {text}");
        assert!(error.starts_with(&expected), "{error}");
    }
    let counted = r#"extender_gateway_calls_total{verb="bind",outcome="apiserver"} 3"#;
    assert!(gateway.metrics.text().contains(counted));
}

/// Binds with an apiserver that does this with the Binding. Where it hangs, the time for the Binding passes at
/// once, and the rest, a quarter of the budget, is reserved for reading.
async fn bind_with(apiserver: &Apiserver, turn: Turn) -> Answer {
    let gateway = built_in(apiserver).await;
    apiserver.binds(&[turn]);
    let time = async {
        apiserver.asked_to_bind().await;
        if matches!(turn, Turn::Hang | Turn::DoAndHang) {
            pass(Duration::from_secs(46)).await;
        }
    };
    tokio::join!(gateway.post("/bind", TO_A), time).0
}

#[tokio::test]
async fn when_the_apiservers_answer_is_lost_the_truth_is_read() {
    let apiserver = Apiserver::start().await;
    for turn in [Turn::DoAndDrop, Turn::DoAndHang] {
        apiserver.set("web-0", "u-1", None);
        bound(&bind_with(&apiserver, turn).await);
    }
    for (turn, text) in [
        (Turn::Drop, "the request to the apiserver failed: "),
        (Turn::Hang, "the apiserver did not respond in time"),
    ] {
        apiserver.set("web-0", "u-1", None);
        let error = bind_with(&apiserver, turn).await.error();
        assert!(error.starts_with(&format!("extender-gateway: cannot bind: {text}")), "{turn:?}: {error}");
    }
}

#[tokio::test]
async fn an_apiserver_that_comes_back_in_time_binds() {
    let apiserver = Apiserver::start().await;
    // Its etcd is away, and the connection is lost once. The pod was bound, or not.
    for (lost, node) in
        [(Turn::DoAndDrop, "bound by the first request"), (Turn::Drop, "bound by the last one")]
    {
        apiserver.set("web-0", "u-1", None);
        apiserver.binds(&[
            lost,
            Turn::Status(503),
            Turn::Answer(429, "Too many requests, please try again later."),
        ]);
        apiserver.reads(&[Turn::Status(503), Turn::Answer(502, "Bad Gateway"), Turn::Status(500)]);
        bound(&built_in(&apiserver).await.post("/bind", TO_A).await);
        assert_eq!(apiserver.node(), Some("a"), "{node}");
    }
    // It is back when the pod is read.
    apiserver.set("web-0", "u-1", None);
    apiserver.binds(&[Turn::Status(503)]);
    bound(&built_in(&apiserver).await.post("/bind", TO_A).await);
    // What does not change by itself is an error at once.
    apiserver.set("web-0", "u-1", None);
    apiserver.binds(&[Turn::Drop]);
    apiserver.reads(&[Turn::Status(403)]);
    let error = built_in(&apiserver).await.post("/bind", TO_A).await.error();
    assert!(
        error.starts_with("extender-gateway: cannot bind: the request to the apiserver failed"),
        "{error}"
    );
}

#[tokio::test]
async fn only_a_confirmed_binding_is_success() {
    let apiserver = Apiserver::start().await;
    let gateway = built_in(&apiserver).await;
    let failure = r#"{"kind":"Status","status":"Failure","message":"quota"}"#;
    for (code, body, text) in [
        (302, "", "the request to the apiserver failed: HTTP status 302 Found"),
        (307, "", "the request to the apiserver failed: HTTP status 307 Temporary Redirect"),
        (304, "", "the request to the apiserver failed: HTTP status 304 Not Modified"),
        (202, "", "the request to the apiserver failed: HTTP status 202 Accepted"),
        (204, "", "the request to the apiserver failed: HTTP status 204 No Content"),
        (
            200,
            "<html>sign in</html>",
            "the request to the apiserver failed: the answer to the Binding is not a Status",
        ),
        (200, failure, "the request to the apiserver failed: the Binding is not confirmed: quota"),
        (422, failure, "the apiserver rejected the request: quota"),
    ] {
        apiserver.binds(&[Turn::Answer(code, body)]);
        let error = gateway.post("/bind", TO_A).await.error();
        assert_eq!(error, format!("extender-gateway: cannot bind: {text}"), "{code} {body}");
        assert_eq!(apiserver.node(), None);
    }
    let asked = apiserver.log().len();
    assert_eq!(asked, 16, "one Binding and one read each");
}

#[tokio::test]
async fn an_apiserver_that_is_away_is_an_error_and_nobody_is_asked() {
    let closed_port = ClosedPort::new();
    let free = closed_port.address;
    let kubeconfig = apiserver::kubeconfig(free);
    let lying = binder(says(BindOutcome::Bound)).await;
    let head = format!(
        "nodes: {{source: Request}}\ntimeouts: {{bind: 500ms}}\ncluster: {{kubeconfig: {}}}\n",
        kubeconfig.path().display()
    );
    for (binder, rest) in [("BuiltIn", "filter: {}"), ("only", "bind: {}")] {
        let backend = backend("only", &lying, rest);
        let gateway = Gateway::start(&format!("{head}binder: {binder}\nbackends:\n{backend}")).await;
        let error = gateway.post("/bind", TO_A).await.error();
        let start =
            "extender-gateway: cannot bind: the request to the apiserver failed: cannot connect to http";
        assert!(error.starts_with(start) && error.ends_with(": connection refused"), "{error}");
    }
    assert!(lying.messages("Bind").is_empty());
}

#[tokio::test]
async fn about_a_pod_that_cannot_be_bound_nobody_is_asked() {
    let apiserver = Apiserver::start().await;
    let binding = binding_to(&apiserver, "a", says(BindOutcome::Bound)).await;
    let gateway = with(&apiserver, &binding, "{failurePolicy: Next}").await;
    apiserver.set("web-0", "u-1", Some("b"));
    refused(&gateway.post("/bind", TO_A).await, "extender-gateway: cannot bind: the pod is bound to node b");
    apiserver.set("web-0", "u-2", Some("a"));
    let other =
        "extender-gateway: cannot bind: the pod no longer exists; another pod with UID u-2 has its name";
    refused(&gateway.post("/bind", TO_A).await, other);
    apiserver.delete("web-0");
    refused(&gateway.post("/bind", TO_A).await, "extender-gateway: cannot bind: the pod no longer exists");
    assert!(binding.messages("Bind").is_empty() && apiserver.bindings().is_empty());
}

/// Ways in which a backend can fail, and what the gateway says of it.
fn faults() -> [(Act, &'static str); 8] {
    [
        (Act::Hang, "no answer within 150 ms"),
        (Act::Reset, "the stream was reset: "),
        (Act::Drop, "the connection was lost"),
        (Act::Status(9, "not here"), "FAILED_PRECONDITION: not here"),
        (Act::Status(12, ""), "UNIMPLEMENTED"),
        (Act::Http(502), "not a gRPC response: HTTP status 502"),
        (Act::Message(Vec::new()), "response has no outcome"),
        (Act::Message(b"\xff\xff\xff".to_vec()), "cannot decode the response"),
    ]
}

#[tokio::test]
async fn a_failure_that_left_the_pod_free_is_decided_by_the_policy() {
    for (act, text) in faults() {
        let bad = binder(act.clone()).await;
        let apiserver = Apiserver::start().await;
        let gateway = with(&apiserver, &bad, &format!("{{timeout: {}}}", act.timeout())).await;
        let error = gateway.post("/bind", TO_A).await.error();
        let expected = format!("extender-gateway: backend only failed bind: {text}");
        assert!(error.starts_with(&expected), "{act:.60?}: {error}");
        assert_eq!((apiserver.node(), apiserver.bindings().len()), (None, 0));
        assert!(gateway.metrics.text().contains(r#"failures_total{backend="only",verb="bind""#));

        let gateway =
            with(&apiserver, &bad, &format!("{{timeout: {}, failurePolicy: Next}}", act.timeout())).await;
        bound(&gateway.post("/bind", TO_A).await);
        assert_eq!(apiserver.node(), Some("a"));
    }
}

#[tokio::test]
async fn a_backend_that_was_not_asked_needs_no_look_at_the_truth() {
    let closed_port = ClosedPort::new();
    let free = closed_port.address;
    let filtering = Scripted::refusing(&[], "", 0).await;
    for (address, text) in [
        (free, format!("cannot connect to {free}: connection refused")),
        (filtering.address, "does not serve bind; remove bind from its configuration".to_owned()),
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
            let settings = format!("{{timeout: {}, failurePolicy: {policy}}}", act.timeout());
            bound(&with(&apiserver, &lost, &settings).await.post("/bind", TO_A).await);

            apiserver.set("web-0", "u-1", None);
            let astray = binding_to(&apiserver, "b", act.clone()).await;
            let answer = with(&apiserver, &astray, &settings).await.post("/bind", TO_A).await;
            refused(&answer, "extender-gateway: cannot bind: the pod is bound to node b");

            apiserver.set("web-0", "u-1", None);
            apiserver.reads(&[Turn::Usual, Turn::Status(500)]);
            let bad = binder(act.clone()).await;
            let answer = with(&apiserver, &bad, &settings).await.post("/bind", TO_A).await;
            refused(&answer, "extender-gateway: cannot bind: the apiserver rejected the request: told so");
        }
    }
    assert!(apiserver.bindings().is_empty(), "the built-in binder must not act on what is unclear");
}

#[tokio::test]
async fn a_backends_word_is_checked() {
    let apiserver = Apiserver::start().await.within("1s");
    let lying = binder(says(BindOutcome::Bound)).await;
    let settings = "{failurePolicy: Next}";
    let answer = with(&apiserver, &lying, settings).await.post("/bind", TO_A).await;
    let text = "extender-gateway: backend only failed bind: it reported the pod as bound, but the pod is";
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
async fn a_binding_that_does_not_show_is_looked_for_in_vain_for_a_second() {
    let apiserver = Apiserver::start().await.within("20s");
    let lying = binder(says(BindOutcome::Bound)).await;
    let error = with(&apiserver, &lying, "{}").await.post("/bind", TO_A).await.error();
    assert!(error.ends_with("it reported the pod as bound, but the pod is not bound"), "{error}");
    let reads = apiserver.log().len();
    assert!((3..=10).contains(&reads), "{reads} reads");
}

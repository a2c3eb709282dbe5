//! Introspection over a real socket: what a policy shows, and every way in which it shows nothing.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::{
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use extender_policy_api::v1beta1::{
    GetInfoRequest, IntrospectRequest, introspection_service_client::IntrospectionServiceClient,
    introspection_service_server::SERVICE_NAME, policy_service_client::PolicyServiceClient,
};
use extender_policy_sdk::{
    Backend, Info, IntrospectAsk, IntrospectError, NotReady, Policy, Verb, serde_json,
    serde_json::{Value, json},
};
use tonic::{Code, Status, transport::Channel};

use crate::{served, soon};

/// Shows what the path says.
struct Quotas {
    limit: u32,
    gate: Arc<Gate>,
}

/// Holds what `/slow` shows.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        drop(self.changed.wait_while(self.open.lock().unwrap(), |open| !*open).unwrap());
    }
}

impl Policy for Quotas {
    fn info(&self) -> Info {
        let paths = ["/old", "/panic", "/failed", "/slow", "/large/:bytes", "/a/b", "/a/:b"];
        let info = Info::new("quotas", "1")
            .filters(Verb::per_node())
            .shows("/quotas/:namespace", "the quota of a namespace");
        paths.into_iter().fold(info, |info, path| info.shows(path, ""))
    }

    fn introspect(&self, ask: &IntrospectAsk<'_>) -> Result<Value, IntrospectError> {
        match ask.path() {
            "/quotas/:namespace" => self.quota(ask),
            "/old" => Err(NotReady("the price list is a day old".to_owned()).into()),
            "/failed" => Err(IntrospectError::Failed("password=secret".to_owned())),
            "/slow" => {
                self.gate.wait();
                Ok(Value::Null)
            }
            // With its quotation marks.
            "/large/:bytes" => Ok("x".repeat(ask.parameter("bytes").parse::<usize>().unwrap() - 2).into()),
            path => panic!("nothing at {path}"),
        }
    }
}

impl Quotas {
    fn quota(&self, ask: &IntrospectAsk<'_>) -> Result<Value, IntrospectError> {
        match (ask.parameter("namespace"), ask.query("unit")) {
            ("shop", unit) => Ok(json!({"limit": self.limit, "unit": unit, "query": ask.queries().count()})),
            (_, Some("apples")) => {
                Err(IntrospectError::InvalidParameter("unit is apples; expected cpu".into()))
            }
            (other, _) => Err(IntrospectError::NotFound(format!("namespace {other} has no quota"))),
        }
    }
}

struct Running {
    introspection: IntrospectionServiceClient<Channel>,
    policies: PolicyServiceClient<Channel>,
}

async fn running(backend: impl Into<Backend>) -> Running {
    let channel = served(backend).await;
    let introspection = IntrospectionServiceClient::new(channel.clone()).max_decoding_message_size(8 << 20);
    Running { introspection, policies: PolicyServiceClient::new(channel) }
}

async fn quotas() -> Running {
    running(Quotas { limit: 4, gate: Arc::default() }).await
}

fn request(path: &str, parameters: &[(&str, &str)]) -> IntrospectRequest {
    let parameters = parameters.iter().map(|&(name, value)| (name.to_owned(), value.to_owned()));
    IntrospectRequest {
        path: path.to_owned(),
        parameters: parameters.collect(),
        ..IntrospectRequest::default()
    }
}

impl Running {
    async fn json(&mut self, request: IntrospectRequest) -> Result<Value, Status> {
        let answer = soon(self.introspection.introspect(request)).await?.into_inner();
        Ok(serde_json::from_slice(&answer.json).unwrap())
    }

    async fn refused(&mut self, request: IntrospectRequest, code: Code, text: &str) {
        let status = self.json(request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(text), "{status} lacks {text}");
    }
}

#[tokio::test]
async fn a_declared_path_shows_json_for_its_parameters_and_query() {
    let mut running = quotas().await;
    let mut ask = request("/quotas/:namespace", &[("namespace", "shop"), ("unknown", "ignored")]);
    let shown = running.json(ask.clone()).await.unwrap();
    assert_eq!(shown, json!({"limit": 4, "unit": null, "query": 0}));
    ask.query = [("unit".to_owned(), "cpu".to_owned()), ("verbose".to_owned(), String::new())].into();
    assert_eq!(running.json(ask).await.unwrap(), json!({"limit": 4, "unit": "cpu", "query": 2}));
}

#[tokio::test]
async fn what_cannot_be_shown_has_the_status_of_its_cause() {
    let mut running = quotas().await;
    let quota = |namespace: &str| request("/quotas/:namespace", &[("namespace", namespace)]);
    let apples =
        IntrospectRequest { query: [("unit".to_owned(), "apples".to_owned())].into(), ..quota("bank") };
    for (request, code, text) in [
        (request("/quotas", &[]), Code::NotFound, "does not show the path \"/quotas\""),
        (request("/quotas/shop", &[]), Code::NotFound, "does not show the path \"/quotas/shop\""),
        (request("/quotas/:other", &[("other", "shop")]), Code::NotFound, "does not show"),
        (request("", &[]), Code::NotFound, "does not show the path \"\""),
        (request("/quotas/:namespace", &[]), Code::InvalidArgument, "has no \"namespace\""),
        (quota(""), Code::InvalidArgument, "has no \"namespace\""),
        (quota("bank"), Code::NotFound, "namespace bank has no quota"),
        (apples, Code::InvalidArgument, "unit is apples; expected cpu"),
        (request("/old", &[]), Code::Unavailable, "a day old"),
        (request("/panic", &[]), Code::Internal, "failed to show /panic; the backend's log says why"),
    ] {
        running.refused(request, code, text).await;
    }
    let failed = running.json(request("/failed", &[])).await.unwrap_err();
    let text = "failed to show /failed; the backend's log says why";
    assert_eq!((failed.code(), failed.message()), (Code::Internal, text), "the details are not sent");
    assert!(running.json(quota("shop")).await.is_ok(), "the next one is answered");
}

#[tokio::test]
async fn more_than_four_mebibytes_are_refused() {
    let mut running = quotas().await;
    let large = |bytes: usize| request("/large/:bytes", &[("bytes", &bytes.to_string())]);
    assert_eq!(running.json(large(4 << 20)).await.unwrap().as_str().map(str::len), Some((4 << 20) - 2));
    let text = "4194305 bytes of JSON at \"/large/:bytes\"; at most 4 MiB are allowed";
    running.refused(large((4 << 20) + 1), Code::ResourceExhausted, text).await;
}

#[tokio::test]
async fn no_call_waits_for_what_is_shown() {
    let gate = Arc::new(Gate::default());
    let mut running = running(Quotas { limit: 4, gate: Arc::clone(&gate) }).await;
    let mut other = running.introspection.clone();
    let slow = tokio::spawn(async move { other.introspect(request("/slow", &[])).await });
    // This runtime has one thread, as that of `run`.
    for _ in 0..10 {
        soon(running.policies.get_info(GetInfoRequest::default())).await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!slow.is_finished());
    gate.open();
    assert!(soon(slow).await.unwrap().is_ok());
}

#[tokio::test]
async fn declared_and_not_implemented_is_told() {
    struct Silent;
    impl Policy for Silent {
        fn info(&self) -> Info {
            Info::new("silent", "1").filters(Verb::per_node()).shows("/state", "the state")
        }
    }
    let text = "does not implement Policy::introspect";
    running(Silent).await.refused(request("/state", &[]), Code::Unimplemented, text).await;
}

#[tokio::test]
async fn a_policy_that_shows_nothing_has_no_path() {
    struct Closed;
    impl Policy for Closed {
        fn info(&self) -> Info {
            Info::new("closed", "1").filters(Verb::per_node())
        }
    }
    let mut running = running(Closed).await;
    let info = running.policies.get_info(GetInfoRequest::default()).await.unwrap().into_inner();
    assert!(info.introspection.is_empty() && !info.services.iter().any(|service| service == SERVICE_NAME));
    running.refused(request("/state", &[]), Code::NotFound, "does not show").await;
}

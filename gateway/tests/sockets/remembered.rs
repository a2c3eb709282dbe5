//! Requests to backends with pure verbs, and answers from the cache.

use std::sync::Arc;

use crate::support::{
    Gateway,
    backend::{Act, configured, info},
    checking,
    function::{Function, State, about, labelled, pure, sibling},
    http::Client,
    reading, steady,
};
use extender_gateway_pace::cadences::Cadences;
use extender_policy_api::v1beta1::{FilterRequest, GetInfoResponse};
use prost::Message;
use serde_json::{Value, json};

/// A gateway that knows the nodes a, which is refused, b and c.
async fn watching(backends: &str) -> Gateway {
    paced(backends, steady()).await
}

async fn paced(backends: &str, cadences: Cadences) -> Gateway {
    let rest = format!(
        "nodes: {{source: Watch}}\nreasons: {{prefix: None}}\ntimeouts: {{decision: 60s}}\nbackends:\n{backends}"
    );
    let gateway = Gateway::start_paced(&rest, cadences).await;
    for (name, labels) in [
        ("a", json!({"refused": "draining", "score": "9"})),
        ("b", json!({"score": "3"})),
        ("c", json!({"score": "5"})),
    ] {
        gateway.table.apply(labelled(name, &labels).as_bytes()).unwrap();
    }
    gateway
}

/// One backend that filters, and the gateway before it.
async fn filtering(info: GetInfoResponse) -> (Function, Gateway) {
    let function = Function::start(info).await;
    let gateway = watching(&configured("only", &function.backend, "filter: {timeout: 60s}")).await;
    (function, gateway)
}

async fn filter(gateway: &Gateway, number: u32, names: &[&str]) -> Value {
    gateway.post("/filter", about(&sibling(number), names)).await.json()
}

/// The reply when these nodes are left and a is refused.
fn left(names: &[&str]) -> Value {
    json!({"NodeNames": names, "FailedNodes": {}, "FailedAndUnresolvableNodes": {"a": "draining"}, "Error": ""})
}

fn counted(gateway: &Gateway, metric: &str, verb: &str) -> u64 {
    let start = format!(r#"extender_gateway_backend_{metric}_total{{backend="only",verb="{verb}""#);
    let text = gateway.metrics.text();
    let counts = text.lines().filter(|line| line.starts_with(&start));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

#[tokio::test]
async fn the_second_pod_of_a_class_asks_nobody() {
    let function = Function::start(pure(reading::facts())).await;
    let backend = configured("only", &function.backend, "filter: {timeout: 60s}, score: {timeout: 60s}");
    let gateway = watching(&backend).await;
    let scores = json!([{"Host": "c", "Score": 5}, {"Host": "b", "Score": 3}]);
    for number in 1..4 {
        assert_eq!(filter(&gateway, number, &["c", "a", "b"]).await, left(&["c", "b"]), "{number}");
        let answer = gateway.post("/prioritize", about(&sibling(number), &["c", "b"])).await.json();
        assert_eq!(answer, scores, "{number}");
    }
    assert_eq!(filter(&gateway, 9, &["a"]).await, left(&[]));
    assert_eq!(function.filtered(), [["c", "a", "b"]], "asked once for all");
    assert!(function.scored().is_empty(), "the scores came with the verdicts");
    assert_eq!(counted(&gateway, "known_nodes", "filter"), 7);
    assert_eq!(counted(&gateway, "known_nodes", "score"), 6);
}

#[tokio::test]
async fn a_backend_that_rejects_everything_is_a_problem_although_it_is_not_called() {
    let (function, gateway) = filtering(pure(reading::facts())).await;
    let problem = || {
        let problem = gateway.metrics.backend("only").rejecting.series()?;
        Some((problem.decisions, problem.pods))
    };
    for number in 1..10 {
        filter(&gateway, number, &["a"]).await;
    }
    assert_eq!(problem(), None);
    filter(&gateway, 1, &["a"]).await;
    assert_eq!(problem(), Some((10, 9)));
    assert_eq!(function.filtered(), [["a"]], "called once");
    filter(&gateway, 1, &["a", "b"]).await;
    assert_eq!(problem(), None, "it left a node");
}

#[tokio::test]
async fn what_the_policy_is_told_is_the_class_of_a_pod() {
    let (function, gateway) =
        filtering(pure(reading::with_annotations(reading::facts(), "example.com/"))).await;
    let mut asked = 0;
    let mut times = async |pod: &Value, difference: &str, expected: usize| {
        gateway.post("/filter", about(pod, &["a", "b"])).await;
        let before = std::mem::replace(&mut asked, function.filtered().len());
        assert_eq!(asked - before, expected, "{difference}");
    };
    times(&sibling(1), "the first", 1).await;
    times(&sibling(2), "name, uid, times and the volume of the service account", 0).await;
    for (pointer, value) in [
        ("/metadata/generateName", json!("other-")),
        ("/metadata/annotations/kubectl~1at", json!("now")),
        ("/status/phase", json!("Unknown")),
    ] {
        let mut pod = sibling(3);
        *pod.pointer_mut(pointer).unwrap() = value;
        times(&pod, pointer, 0).await;
    }
    for (pointer, value) in [
        ("/metadata/namespace", json!("other")),
        ("/metadata/labels/app", json!("db")),
        ("/metadata/annotations/example.com~1tier", json!("back")),
        ("/metadata/ownerReferences/0/uid", json!("rs-2")),
        ("/spec/containers/0/resources/requests/cpu", json!("200m")),
        ("/spec/tolerations/0/key", json!("b")),
        ("/spec/volumes", json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])),
    ] {
        let mut pod = sibling(4);
        *pod.pointer_mut(pointer).unwrap() = value;
        times(&pod, pointer, 1).await;
        times(&pod, pointer, 0).await;
    }
}

#[tokio::test]
async fn everything_of_a_pod_is_not_who_it_is() {
    for is_pure in [true, false] {
        let info = if is_pure { pure(reading::facts()) } else { info(reading::facts()) };
        let (function, gateway) = filtering(info).await;
        filter(&gateway, 1, &["a", "b"]).await;
        let pod = FilterRequest::decode(function.backend.messages("Filter").remove(0)).unwrap().pod.unwrap();
        assert_eq!(pod.identity.is_none(), is_pure);
        assert!(pod.raw_json.is_empty() && pod.facts.unwrap().labels.unwrap().entries["app"] == "web");
    }
}

#[tokio::test]
async fn a_failure_about_the_missing_nodes_fails_the_call() {
    let function = Function::start(pure(reading::facts())).await;
    let backend = configured("only", &function.backend, "filter: {timeout: 60s}, score: {timeout: 60s}");
    let gateway = watching(&backend).await;
    assert_eq!(filter(&gateway, 1, &["a", "b"]).await, left(&["b"]));
    function.state().instead = Some(Act::Status(14, "not now"));
    let error = filter(&gateway, 2, &["a", "b", "c"]).await["Error"].to_string();
    assert!(error.contains("backend only failed filter"), "{error}");
    let body = about(&sibling(2), &["b", "c"]);
    assert_eq!(gateway.post("/prioritize", body).await.json(), json!([]), "no scores, not some");
    assert_eq!(filter(&gateway, 3, &["a", "b"]).await, left(&["b"]), "nothing is missing here");
    function.state().instead = None;
    assert_eq!(filter(&gateway, 4, &["a", "b", "c"]).await, left(&["b", "c"]));
    assert_eq!(function.filtered(), [&["a", "b"][..], &["c"], &["c"]]);
}

/// Makes a backend violate its declaration.
type Turn = fn(&mut State);

#[tokio::test]
async fn one_call_in_ten_is_a_check_here_and_a_disagreement_ends_remembering() {
    for (turn, verb, other) in [
        ((|state| state.strict = true) as Turn, "filter", "score"),
        (|state| state.bonus = 1, "score", "filter"),
    ] {
        let function = Function::start(pure(reading::facts())).await;
        let backend = configured("only", &function.backend, "filter: {timeout: 60s}, score: {timeout: 60s}");
        let gateway = paced(&backend, checking()).await;
        let mut client = Client::connect(gateway.address).await;
        let body = about(&sibling(1), &["b", "c"]);
        for round in 0..=10 {
            if round == 5 {
                turn(&mut function.state());
            }
            let filtered = client.post("/filter", body.as_bytes()).await.json();
            let is_found = verb == "filter" && round == 10;
            assert_eq!(
                filtered["NodeNames"],
                if is_found { json!([]) } else { json!(["b", "c"]) },
                "{round}"
            );
            client.post("/prioritize", body.as_bytes()).await;
        }
        assert_eq!(function.filtered().len(), 2, "{verb}");
        assert_eq!(counted(&gateway, "memory_disagreements", verb), 1);
        assert_eq!(counted(&gateway, "memory_disagreements", other), 0);
        client.post("/filter", body.as_bytes()).await;
        client.post("/filter", body.as_bytes()).await;
        assert_eq!(function.filtered().len(), 4, "{verb}: asked each time from now on");
    }
}

#[tokio::test]
async fn a_node_that_changes_during_a_check_is_no_disagreement() {
    let function = Function::start(pure(reading::facts())).await;
    let backend = configured("only", &function.backend, "filter: {timeout: 60s}");
    let gateway = paced(&backend, checking()).await;
    let mut client = Client::connect(gateway.address).await;
    let body = about(&sibling(1), &["b", "c"]);
    for _ in 0..10 {
        client.post("/filter", body.as_bytes()).await;
    }
    // As a backend that holds the nodes already answers about the later rows.
    let table = Arc::clone(&gateway.table);
    function.state().meanwhile = Some(Box::new(move || {
        for node in ["b", "c"] {
            table.apply(labelled(node, &json!({"refused": "strict"})).as_bytes()).unwrap();
        }
    }));
    function.state().strict = true;
    assert_eq!(client.post("/filter", body.as_bytes()).await.json()["NodeNames"], json!([]));
    function.state().strict = false;
    assert_eq!(function.filtered().len(), 2, "it was a check");
    assert_eq!(counted(&gateway, "memory_disagreements", "filter"), 0);
    let reason = json!({"b": "strict", "c": "strict"});
    for number in 2..4 {
        let refused = filter(&gateway, number, &["b", "c"]).await;
        assert_eq!(refused["FailedAndUnresolvableNodes"], reason);
    }
    assert_eq!(function.filtered().len(), 3, "the changed rows were asked about once");
}

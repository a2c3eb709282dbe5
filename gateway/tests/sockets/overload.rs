//! More calls than a backend takes at once.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::{sync::Semaphore, task::JoinSet};

use prost::Message as _;

use crate::support::{
    Gateway,
    backend::{Act, Scripted, configured, filtered, info},
    ended,
    http::Client,
    reading, until,
};

/// The most concurrent calls to a backend that has not answered any, and some more.
const MOST: usize = 16;
const MORE: usize = 50;

/// A request about a pod of this namespace; each pod is another one.
fn request(namespace: &str, number: usize) -> Vec<u8> {
    let pod = json!({"metadata": {"name": format!("web-{number}"), "namespace": namespace, "uid": format!("u-{number}")}});
    json!({"Pod": pod, "Nodes": null, "NodeNames": ["a", "b"]}).to_string().into_bytes()
}

#[tokio::test]
async fn calls_beyond_the_limit_of_a_backend_wait_and_hold_up_nobody_else() {
    let permits = Arc::new(Semaphore::new(0));
    let slow = Scripted::start(info(reading::names()), {
        let permits = Arc::clone(&permits);
        move |_, message| Act::After(Arc::clone(&permits), filtered(&message, &["a"], "no").encode_to_vec())
    })
    .await;
    let quick = Scripted::refusing(&["b"], "no", 0).await;
    let filter = "filter: {timeout: 60s}";
    let gateway = Gateway::start(&format!(
        "timeouts: {{decision: 60s}}\nnodes: {{source: NamesOnly}}\nbackends:\n{}{}",
        configured("slow", &slow, &format!("match: {{namespaces: [slow]}}, {filter}")),
        configured("quick", &quick, &format!("match: {{namespaces: [quick]}}, {filter}")),
    ))
    .await;
    let mut waiting = JoinSet::new();
    for number in 0..MOST + MORE {
        // One after the other, so that the queue of the listening socket does not overflow.
        let mut client = Client::connect(gateway.address).await;
        waiting.spawn(async move { client.post("/filter", &request("slow", number)).await.json() });
    }
    let calls = || slow.asked("Filter").len();
    until("the backend has as many calls as it may", || calls() == MOST).await;
    let decided = gateway.post("/filter", request("quick", 0)).await.json();
    assert_eq!((&decided["NodeNames"], &decided["Error"]), (&json!(["a"]), &json!("")));
    assert_eq!(calls(), MOST, "further calls wait");
    permits.add_permits(MOST + MORE);
    let answers: Vec<Value> = ended("calls are not answered", waiting.join_all()).await;
    for answer in answers {
        assert_eq!((&answer["NodeNames"], &answer["Error"]), (&json!(["b"]), &json!("")));
    }
    assert_eq!(calls(), MOST + MORE);
}

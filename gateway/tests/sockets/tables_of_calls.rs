//! Full objects and JSON, for backends with node tables: unchanged nodes are not sent again.

use std::{collections::BTreeSet, fs, sync::Arc, time::Duration};

use crate::support::{
    backend::{Act, Scripted, configured, filtered, info},
    function::{about, about_objects, sibling},
    http::Client,
    program::{OWN, Program},
    reading,
    relay::{Relay, Stream},
    sdk::{Running, Seen, facts, in_turn, node, raw},
    until,
};
use extender_policy_api::v1beta1::FilterRequest;
use prost::Message;
use serde_json::{Value, json};
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

/// A gateway that knows only the nodes of calls.
async fn start(backend: &Running) -> Seen {
    Seen::start("nodes: {source: Request}", Relay::to(backend.address).await).await
}

fn body(nodes: &[String]) -> String {
    about_objects(&sibling(1), nodes)
}

fn nodes() -> [String; 3] {
    [node("a", "draining"), node("b", ""), node("c", "")]
}

/// A request of the pod with this number, with one node.
fn brings(pod: u32, node: &str) -> String {
    about_objects(&sibling(pod), &[node.to_owned()])
}

/// A backend that accepts every node; its answers about pod 7 need a permit.
async fn holding_pod_7(permits: Arc<Semaphore>) -> Scripted {
    Scripted::start(info(reading::names()), move |_, message| {
        let pod = FilterRequest::decode(message.clone()).unwrap().pod.unwrap();
        let answer = filtered(&message, &[], "").encode_to_vec();
        match pod.identity.unwrap().uid.as_str() {
            "u-7" => Act::After(Arc::clone(&permits), answer),
            _ => Act::Message(answer),
        }
    })
    .await
}

#[tokio::test]
async fn a_backend_that_is_asked_later_is_told_the_node_of_its_own_call() {
    let permits = Arc::new(Semaphore::new(0));
    let first = holding_pod_7(Arc::clone(&permits)).await;
    let backend = Running::start(in_turn).await;
    let before = configured("first", &first, "filter: {timeout: 60s}");
    let relay = Relay::to(backend.address).await;
    let seen = Arc::new(Seen::start_behind(&before, "nodes: {source: Request}", relay).await);
    seen.until_held(&brings(1, &node("n1", ""))).await;

    let call = tokio::spawn({
        let seen = Arc::clone(&seen);
        async move { seen.refused(brings(7, &node("n1", "by its own call"))).await }
    });
    until("the first is not asked", || first.messages("Filter").iter().any(is_about_pod_7)).await;
    // Another scheduler sees the node differently, and the backend holds that version.
    let others = brings(1, &node("n1", "by another call"));
    assert_eq!(seen.refused(others.clone()).await, json!({"n1": "by another call"}));
    seen.until_held(&others).await;
    permits.add_permits(1);
    assert_eq!(call.await.unwrap(), json!({"n1": "by its own call"}));
}

fn is_about_pod_7(message: &bytes::Bytes) -> bool {
    let pod = FilterRequest::decode(message.clone()).unwrap().pod.unwrap();
    pod.identity.is_some_and(|identity| identity.uid == "u-7")
}

#[tokio::test]
async fn a_backend_that_reads_its_question_late_answers_about_the_node_that_was_meant() {
    let backend = Running::start(facts).await;
    let seen = Arc::new(start(&backend).await);
    seen.until_held(&brings(1, &node("n1", "by its own call"))).await;
    let asked = seen.relay.said("Filter").len();
    seen.relay.hold_calls();
    let post = |body: String| {
        let seen = Arc::clone(&seen);
        tokio::spawn(async move { seen.refused(body).await })
    };
    let call = post(brings(3, &node("n1", "by its own call")));
    until("it is not asked", || seen.relay.said("Filter").len() > asked).await;
    assert!(seen.said().rows.is_empty(), "the node is named by its id");
    let applied = seen.applied();
    let other = post(brings(2, &node("n1", "by another call")));
    seen.until_applied(applied).await;
    seen.relay.let_calls_pass();
    assert_eq!(call.await.unwrap(), json!({"n1": "by its own call"}));
    assert_eq!(other.await.unwrap(), json!({"n1": "by another call"}));
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_rejected_alone() {
    let backend = Running::start(facts).await;
    let seen = start(&backend).await;
    seen.until_held(&body(&nodes())).await;
    let [a, b, _] = nodes();
    let broken = json!({"metadata": {"name": "c", "labels": 5}}).to_string();
    for _ in 0..2 {
        let refused = seen.refused(body(&[a.clone(), broken.clone(), b.clone()])).await;
        assert_eq!(refused, json!({"a": "draining", "c": "node cannot be read by the gateway"}));
        assert!(seen.said().rows.is_empty(), "what was known of the others is not lost");
    }
    assert_eq!(seen.refused(body(&nodes())).await, json!({"a": "draining"}));
}

#[tokio::test]
async fn nodes_of_calls_do_not_enter_the_table_of_the_watch() {
    let backend = Running::start(facts).await;
    let seen = Seen::watching(Relay::to(backend.address).await, &[("a", ""), ("b", "draining")]).await;
    let brought = body(&[node("a", "by the call"), node("b", "")]);
    let named = about(&sibling(1), &["a", "b"]);
    let watched = seen.until_held(&named).await;
    let offered = seen.until_held(&brought).await;
    assert_ne!(watched.table, offered.table);
    for _ in 0..2 {
        assert_eq!(seen.refused(brought.clone()).await, json!({"a": "by the call"}));
        assert_eq!(seen.refused(named.clone()).await, json!({"b": "draining"}));
    }
}

/// Calls until all nodes are named by ids; returns the table.
async fn held(program: &Program, relay: &Relay) -> String {
    let mut client = Client::connect(program.extender).await;
    loop {
        let answer = client.post("/filter", body(&nodes()).as_bytes()).await.json();
        assert_eq!(answer["FailedAndUnresolvableNodes"], json!({"a": "draining"}), "{answer}");
        let said = relay.said("Filter").pop().unwrap();
        if !said.table.is_empty() && said.rows.is_empty() {
            return said.table;
        }
        sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_gateway_that_starts_again_has_another_table_and_leaves_none_behind() {
    let backend = Running::start(facts).await;
    let relay = Relay::to(backend.address).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    let text = format!(
        "{OWN}nodes: {{source: Request}}\n\
         timeouts: {{decision: 60s}}\nreasons: {{prefix: None, repeated: AsGiven}}\n\
         backends:\n- {{name: only, url: 'http://{}', filter: {{timeout: 60s}}}}\n",
        relay.address
    );
    fs::write(&file, text).unwrap();
    let restarted = async {
        let mut tables = BTreeSet::new();
        for round in 1..=3 {
            let program = Program::start(&file).await;
            tables.insert(held(&program, &relay).await);
            assert_eq!((relay.opened(), relay.open(), tables.len()), (round, 1, round));
            // Killed, in the middle of everything.
            drop(program);
            while relay.open() > 0 {
                sleep(Duration::from_millis(2)).await;
            }
        }
    };
    timeout(Duration::from_mins(1), restarted).await.unwrap();
}

fn with_status(name: &str, message: &str) -> String {
    json!({"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "message": message}]}})
        .to_string()
}

#[tokio::test]
async fn json_is_held_and_sent_again_when_it_changes() {
    let backend = Running::start(raw).await;
    let apply = |seen: &Seen, name: &str, message: &str| {
        seen.gateway.table.apply(with_status(name, message).as_bytes()).unwrap();
    };
    let watching = Seen::watching(Relay::to(backend.address).await, &[]).await;
    apply(&watching, "a", "unusable");
    apply(&watching, "b", "well");
    let brings = start(&backend).await;
    let named = about(&sibling(1), &["a", "b"]);
    let brought = |message: &str| body(&[with_status("a", "unusable"), with_status("b", message)]);
    let unusable: Value = json!({"a": "unusable"});
    let both = json!({"a": "unusable", "b": "unusable"});
    for (seen, before, after) in
        [(&watching, named.clone(), named.clone()), (&brings, brought("well"), brought("unusable, too"))]
    {
        let ids = seen.until_held(&before).await.ids;
        assert_eq!(seen.refused(before.clone()).await, unusable);
        seen.relay.set(Stream::Waits);
        apply(&watching, "b", "unusable, too");
        assert_eq!(seen.refused(after.clone()).await, both);
        assert_eq!((seen.said().ids, seen.said().rows), (vec![ids[0], 0], vec!["b".to_owned()]));
        seen.relay.set(Stream::Passes);
        let held = seen.until_held(&after).await.ids;
        // A watched node keeps its id, a node that a call brings in another version gets a new one.
        assert_eq!((held[0], held[1] == ids[1]), (ids[0], before == after));
        assert_eq!(seen.refused(after).await, both);
    }
}

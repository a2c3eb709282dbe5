//! Full objects and JSON, for backends that hold the nodes: what has not changed is not sent again.

use std::{collections::BTreeSet, fs, time::Duration};

use crate::support::{
    function::{about, about_objects, sibling},
    http::Client,
    program::Program,
    relay::{Relay, Stream},
    sdk::{Running, Seen, facts, node, raw},
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// A gateway that knows no nodes but those of calls.
async fn start(backend: &Running) -> Seen {
    Seen::start("nodes: {source: Request}", Relay::to(backend.address).await).await
}

fn body(nodes: &[String]) -> String {
    about_objects(&sibling(1), nodes)
}

fn nodes() -> [String; 3] {
    [node("a", "draining"), node("b", ""), node("c", "")]
}

#[tokio::test]
async fn objects_that_come_again_are_named_by_ids() {
    let backend = Running::start(facts).await;
    let seen = start(&backend).await;
    let said = seen.until_held(&body(&nodes())).await;
    assert_eq!(seen.refused(body(&nodes())).await, json!({"a": "draining"}));
    let [a, b, c] = nodes();
    assert_eq!(seen.refused(body(&[c, a])).await, json!({"a": "draining"}));
    assert_eq!(seen.said().ids, [said.ids[2], said.ids[0]], "of a part of them");
    // The same facts in other bytes are the same row.
    let spaced = b.replace(':', " : ");
    assert_eq!(seen.refused(body(&[spaced])).await, json!({}));
    assert_eq!((seen.said().ids, seen.said().rows.len()), (vec![said.ids[1]], 0));
    assert_eq!(seen.misses(), 0);
}

#[tokio::test]
async fn a_changed_object_is_read_again_and_comes_along_until_the_backend_has_it() {
    let backend = Running::start(facts).await;
    let seen = start(&backend).await;
    let ids = seen.until_held(&body(&nodes())).await.ids;
    seen.relay.set(Stream::Waits);
    let [a, _, c] = nodes();
    let changed = [a, node("b", "full"), c];
    for _ in 0..2 {
        assert_eq!(seen.refused(body(&changed)).await, json!({"a": "draining", "b": "full"}));
        assert_eq!((seen.said().ids, seen.said().rows), (vec![ids[0], 0, ids[2]], vec!["b".to_owned()]));
    }
    // Two schedulers that see the node differently get what fits their own.
    assert_eq!(seen.refused(body(&nodes())).await, json!({"a": "draining"}));
    seen.relay.set(Stream::Passes);
    assert_eq!(seen.until_held(&body(&changed)).await.ids, ids);
    assert_eq!(seen.refused(body(&changed)).await, json!({"a": "draining", "b": "full"}));
}

#[tokio::test]
async fn an_object_that_cannot_be_read_fails_its_call_alone() {
    let backend = Running::start(facts).await;
    let seen = start(&backend).await;
    seen.until_held(&body(&nodes())).await;
    let [a, b, _] = nodes();
    let broken = json!({"metadata": {"name": "c", "labels": 5}}).to_string();
    for _ in 0..2 {
        let error = seen.gateway.post("/filter", body(&[a.clone(), broken.clone(), b.clone()])).await.error();
        assert!(error.contains("node c"), "{error}");
    }
    assert_eq!(seen.refused(body(&nodes())).await, json!({"a": "draining"}), "what was known is not lost");
    assert!(seen.said().rows.is_empty());
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

/// Asks until all nodes are named by ids; returns the table.
async fn held(program: &Program, relay: &Relay) -> u64 {
    let mut client = Client::connect(program.extender).await;
    loop {
        let answer = client.post("/filter", body(&nodes()).as_bytes()).await.json();
        assert_eq!(answer["FailedAndUnresolvableNodes"], json!({"a": "draining"}), "{answer}");
        let said = relay.said("Filter").pop().unwrap();
        if said.table != 0 && said.rows.is_empty() {
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
        "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n\
         extender: {{address: 127.0.0.1:0}}\nmetrics: {{address: 127.0.0.1:0}}\nadmin: {{address: 127.0.0.1:0}}\nnodes: {{source: Request}}\n\
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
            // Killed, in the midst of everything.
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
        assert_eq!(seen.until_held(&after).await.ids, ids);
        assert_eq!(seen.refused(after).await, both);
    }
}

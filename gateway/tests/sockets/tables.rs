//! Backends with node tables, made with the Rust SDK: how calls name nodes, and that the answers are about the
//! intended nodes.

use std::time::Duration;

use crate::support::{
    TEST_TIMEOUT,
    function::{about, sibling},
    pass,
    relay::{Relay, Stream},
    sdk::{Running, Seen, annotated, annotated_inline, declared, facts, pure},
    written::Written,
};
use serde_json::json;
use tokio::time::timeout;

const NODES: &[(&str, &str)] = &[("a", "draining"), ("b", ""), ("c", "")];

fn all() -> String {
    about(&sibling(1), &["a", "b", "c"])
}

async fn holding(backend: &Running) -> Seen {
    let seen = Seen::watching(Relay::to(backend.address).await, NODES).await;
    seen.until_held(&all()).await;
    seen
}

#[tokio::test]
async fn nodes_that_are_held_are_named_by_ids() {
    let backend = Running::start(facts).await;
    let seen = Seen::watching(Relay::to(backend.address).await, NODES).await;
    let said = seen.until_held(&all()).await;
    assert_eq!(seen.filter(&["c", "a"]).await, json!({"a": "draining"}));
    assert_eq!(seen.said().ids, [said.ids[2], said.ids[0]], "of a part of them");
    assert_eq!((seen.misses(), seen.relay.opened()), (0, 1));
}

#[tokio::test]
async fn nodes_are_named_by_ids_whatever_the_order_of_a_declaration() {
    let backend = Running::start(declared).await;
    let seen = holding(&backend).await;
    for _ in 0..3 {
        assert_eq!(seen.filter(&["a", "b", "c"]).await, json!({"a": "draining"}));
        assert!(seen.said().rows.is_empty());
    }
    assert_eq!((seen.misses(), seen.relay.opened()), (0, 1));
}

#[tokio::test]
async fn a_changed_node_comes_along_until_the_backend_has_it() {
    let backend = Running::start(facts).await;
    let seen = holding(&backend).await;
    let ids = seen.said().ids;
    seen.relay.set(Stream::Waits);
    seen.apply("b", "full");
    for _ in 0..3 {
        assert_eq!(seen.filter(&["a", "b", "c"]).await, json!({"a": "draining", "b": "full"}));
        let said = seen.said();
        assert_eq!((said.ids, said.rows), (vec![ids[0], 0, ids[2]], vec!["b".to_owned()]));
    }
    seen.relay.set(Stream::Passes);
    let said = seen.until_held(&all()).await;
    assert_eq!(said.ids, ids);
    assert_eq!(seen.filter(&["a", "b", "c"]).await, json!({"a": "draining", "b": "full"}));
    assert_eq!(seen.misses(), 0);
}

#[tokio::test]
async fn a_node_is_never_taken_for_the_one_before_it() {
    let backend = Running::start(facts).await;
    let seen = holding(&backend).await;
    let before = seen.said().ids;
    seen.relay.set(Stream::Waits);
    // It gets the place of a in the table.
    seen.gateway.table.remove("a");
    seen.apply("z", "");
    let names = ["z", "b", "c"];
    assert_eq!(seen.filter(&names).await, json!({}));
    assert_eq!(seen.said().rows, ["z"]);
    seen.relay.set(Stream::Passes);
    let said = seen.until_held(&about(&sibling(1), &names)).await;
    assert_eq!(said.ids[1..], before[1..]);
    assert!(!before.contains(&said.ids[0]), "{said:?}");
    assert_eq!(seen.filter(&names).await, json!({}));
    // And back: it has another id than it had.
    seen.apply("a", "draining");
    let said = seen.until_held(&about(&sibling(1), &["a", "z"])).await;
    assert!(!before.contains(&said.ids[0]), "{said:?}");
    assert_eq!(seen.filter(&["a", "z"]).await, json!({"a": "draining"}));
}

#[tokio::test]
async fn a_backend_that_starts_again_is_told_again() {
    let backend = Running::start(facts).await;
    let seen = holding(&backend).await;
    let table = seen.said().table;
    backend.stop().await;
    // Behind another port: no other process can have taken that of the relay.
    let backend = Running::start(facts).await;
    seen.relay.turn_to(backend.address);
    // The connection is new; calls fail until it is established.
    let back = async { while seen.gateway.post("/filter", all()).await.error() != "" {} };
    timeout(TEST_TIMEOUT, back).await.unwrap();
    assert_eq!(seen.filter(&["a", "b"]).await, json!({"a": "draining"}));
    let another = async { while seen.until_held(&all()).await.table == table {} };
    timeout(TEST_TIMEOUT, another).await.unwrap();
    assert_eq!(seen.filter(&["a", "b"]).await, json!({"a": "draining"}));
}

#[tokio::test]
async fn several_gateways_share_a_backend_and_no_node() {
    let backend = Running::start(facts).await;
    let one = holding(&backend).await;
    let other =
        Seen::watching(Relay::to(backend.address).await, &[("c", "spare"), ("b", ""), ("a", "")]).await;
    other.until_held(&all()).await;
    for _ in 0..2 {
        assert_eq!(one.filter(&["a", "b", "c"]).await, json!({"a": "draining"}));
        assert_eq!(other.filter(&["a", "b", "c"]).await, json!({"c": "spare"}));
    }
    assert!(one.said().rows.is_empty() && other.said().rows.is_empty());
    assert_ne!(one.said().table, other.said().table);
}

#[tokio::test]
async fn a_replica_without_the_table_is_told_inline() {
    let (holding, asked) = (Running::start(facts).await, Running::start(facts).await);
    let seen = Seen::watching(Relay::between(holding.address, asked.address).await, NODES).await;
    let missed = async {
        while {
            seen.filter(&["a", "b", "c"]).await;
            seen.misses()
        } == 0
        {}
    };
    timeout(TEST_TIMEOUT, missed).await.unwrap();
    let (earlier, missed) = (seen.relay.said("Filter").len(), seen.misses());
    assert_eq!(seen.filter(&["a", "b"]).await, json!({"a": "draining"}), "no failure");
    let said = &seen.relay.said("Filter")[earlier..];
    assert_eq!((said.len(), said[0].rows.len()), (2, 0), "{said:?}");
    assert_eq!((&*said[1].table, &said[1].rows[..]), ("", &["a".to_owned(), "b".to_owned()][..]));
    assert_eq!(seen.misses(), missed + 1);
    assert!(!seen.gateway.metrics.text().contains("backend_failures_total{"), "a miss is none");
}

#[tokio::test]
async fn calls_that_keep_missing_bring_rows_for_half_a_minute() {
    let (written, _written_here) = Written::here();
    let (holding, asked) = (Running::start(facts).await, Running::start(facts).await);
    let seen = Seen::watching(Relay::between(holding.address, asked.address).await, NODES).await;
    let ask = async || assert_eq!(seen.filter(&["a", "b", "c"]).await, json!({"a": "draining"}));
    let until_missed = async |misses| {
        let missed = async {
            while seen.misses() < misses {
                ask().await;
            }
        };
        timeout(TEST_TIMEOUT, missed).await.unwrap();
    };
    until_missed(8).await;
    for misses in 8..12 {
        let calls = seen.relay.said("Filter").len();
        for _ in 0..20 {
            ask().await;
        }
        let said = &seen.relay.said("Filter")[calls..];
        assert!(said.len() == 20 && said.iter().all(|said| said.table.is_empty()), "{said:?}");
        assert_eq!(seen.misses(), misses);
        pass(Duration::from_secs(30)).await;
        until_missed(misses + 1).await;
    }
    let lines = written.with(&["backend often misses its node table", "backend=\"only\""]);
    assert_eq!(lines.len(), 1, "{lines:#?}");
}

/// Nodes of more bytes than a connection's window, and their names.
fn many() -> (Vec<String>, Vec<String>) {
    let label = "x".repeat(1000);
    let names: Vec<String> = (0..200).map(|number| format!("node-{number}")).collect();
    let node = |name: &String| crate::support::function::labelled(name, &json!({"padding": label}));
    (names.iter().map(node).collect(), names)
}

fn apply(seen: &Seen, nodes: &[String]) {
    for node in nodes {
        seen.gateway.table.apply(node.as_bytes()).unwrap();
    }
}

#[tokio::test]
async fn a_stream_that_nobody_reads_holds_up_no_call_and_one_message() {
    let backend = Running::start(facts).await;
    let (mut nodes, names) = many();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    for stream in [Stream::IsSwallowed, Stream::Waits] {
        let relay = Relay::to(backend.address).await;
        relay.set(stream);
        let seen = Seen::watching(relay, NODES).await;
        apply(&seen, &nodes);
        let opened = async {
            while seen.relay.opened() == 0 || (stream == Stream::IsSwallowed && seen.relay.swallowed() == 0) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(TEST_TIMEOUT, opened).await.unwrap();
        for _ in 0..5 {
            assert_eq!(seen.filter(&names).await, json!({}));
            assert_eq!(seen.said().rows.len(), names.len(), "inline, and larger than the window");
            // Changes do not queue either.
            for node in &mut nodes {
                *node = node.replacen("xx", "xy", 1);
            }
            apply(&seen, &nodes);
        }
        let swallowed = seen.relay.swallowed();
        assert!(swallowed < 20_000, "{swallowed} bytes without an acknowledgement");
    }
}

#[tokio::test]
async fn a_stream_that_is_not_read_any_more_is_given_up_and_opened_again() {
    let backend = Running::start(facts).await;
    let seen = holding(&backend).await;
    let table = seen.said().table;
    seen.relay.set(Stream::Waits);
    seen.apply("b", "full");
    let refused = json!({"a": "draining", "b": "full"});
    let canceled = async {
        while {
            pass(Duration::from_secs(10)).await;
            assert_eq!(seen.filter(&["a", "b", "c"]).await, refused);
            !seen.said().table.is_empty()
        } {}
    };
    timeout(TEST_TIMEOUT, canceled).await.unwrap();
    assert_eq!(seen.said().rows, ["a", "b", "c"]);
    seen.relay.set(Stream::Passes);
    pass(Duration::from_secs(2)).await;
    assert_ne!(seen.until_held(&all()).await.table, table);
    assert_eq!(seen.filter(&["a", "b", "c"]).await, refused);
    assert_eq!(seen.misses(), 0);
}

#[tokio::test]
async fn a_large_table_arrives_whole() {
    let backend = Running::start(facts).await;
    let seen = Seen::watching(Relay::to(backend.address).await, NODES).await;
    let (nodes, names) = many();
    apply(&seen, &nodes);
    let names: Vec<_> = names.iter().map(String::as_str).chain(["a"]).collect();
    let said = seen.until_held(&about(&sibling(1), &names)).await;
    assert_eq!(said.ids.len(), names.len());
    assert_eq!(seen.filter(&names).await, json!({"a": "draining"}));
}

#[tokio::test]
async fn a_service_that_is_announced_and_not_served_costs_one_attempt() {
    let backend = Running::start(facts).await;
    let relay = Relay::to(backend.address).await;
    relay.set(Stream::IsRefused);
    let seen = Seen::watching(relay, NODES).await;
    let opened = async {
        while {
            seen.filter(&["a", "b"]).await;
            seen.relay.opened()
        } == 0
        {}
    };
    timeout(TEST_TIMEOUT, opened).await.unwrap();
    pass(Duration::from_secs(2)).await;
    assert_eq!(seen.filter(&["a", "b"]).await, json!({"a": "draining"}));
    assert_eq!((seen.relay.opened(), seen.said().rows.len(), seen.misses()), (1, 2, 0));
}

/// Waits until this many streams were opened, of which this many are still open.
async fn streams(seen: &Seen, opened: usize, open: usize) {
    let counted = async {
        while (seen.relay.opened(), seen.relay.open()) != (opened, open) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(TEST_TIMEOUT, counted).await.unwrap();
}

#[tokio::test]
async fn a_stream_ends_with_the_handshake_that_does_not_ask_for_it() {
    let backend = Running::start(facts).await;
    let seen = holding(&backend).await;
    let first = seen.said().table;
    streams(&seen, 1, 1).await;
    // Another selection: the previous stream is useless.
    backend.declare(annotated);
    streams(&seen, 2, 1).await;
    let second = seen.until_held(&all()).await.table;
    // No tables at all.
    backend.declare(annotated_inline);
    streams(&seen, 2, 0).await;
    assert_eq!(seen.filter(&["a", "b"]).await, json!({"a": "draining"}));
    assert_eq!((seen.said().table, seen.said().rows.len()), (String::new(), 2));
    // And back.
    backend.declare(facts);
    streams(&seen, 3, 1).await;
    let third = seen.until_held(&all()).await.table;
    assert!(first != second && second != third && third != first);
    assert_eq!(seen.filter(&["a", "b"]).await, json!({"a": "draining"}));
    assert_eq!(seen.misses(), 0);
}

#[tokio::test]
async fn pure_verbs_are_asked_by_id_about_what_is_missing() {
    let backend = Running::start(pure).await;
    let seen = Seen::watching(Relay::to(backend.address).await, NODES).await;
    seen.filter(&["a", "b", "c"]).await;
    let mut number = 1;
    // Each time one node is different, and called about alone.
    let by_id = async {
        loop {
            number += 1;
            seen.apply("b", &format!("v{number}"));
            tokio::time::sleep(Duration::from_millis(20)).await;
            let refused = seen.filter(&["a", "b", "c"]).await;
            assert_eq!(refused, json!({"a": "draining", "b": format!("v{number}")}));
            let said = seen.said();
            assert_eq!(said.ids.len().max(said.rows.len()), 1, "{said:?}");
            if said.rows.is_empty() {
                return;
            }
        }
    };
    timeout(TEST_TIMEOUT, by_id).await.unwrap();
    let calls = seen.relay.said("Filter").len();
    let refused = json!({"a": "draining", "b": format!("v{number}")});
    assert_eq!(seen.filter(&["a", "b", "c"]).await, refused);
    assert_eq!(seen.relay.said("Filter").len(), calls, "what was answered by id is remembered");
}

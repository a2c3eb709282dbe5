//! The watch against a scripted apiserver on a real socket.

use std::{
    collections::VecDeque,
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use axum::{Router, body::Body, extract::State, http::Uri, response::Response};
use extender_policy_api::v1alpha1::NodeRows;
use futures_util::{StreamExt, stream};
use kube::{Client, Config};
use prost::Message;
use tokio::net::TcpListener;

use crate::{
    cluster::{
        pods::PodTable,
        table::{NodeTable, ViewId},
    },
    contract::row::RowView,
    object::annotations::AnnotationPrefixes,
};

/// What the apiserver answers to one request.
enum Answer {
    Reply(u16, String),
    /// Events, and then the connection stays open without another word.
    Events(Vec<String>),
}

/// Answers one after the other, to requests whose path and query hold these words.
struct Script {
    path: &'static str,
    answers: Mutex<VecDeque<(&'static [&'static str], Answer)>>,
}

async fn answer(State(script): State<Arc<Script>>, uri: Uri) -> Response {
    let (words, answer) = script.answers.lock().unwrap().pop_front().expect("no request more than scripted");
    assert_eq!(uri.path(), script.path);
    let query = uri.query().unwrap_or_default();
    assert!(words.iter().all(|word| query.contains(word)), "{query} should hold {words:?}");
    match answer {
        Answer::Reply(status, body) => Response::builder().status(status).body(body.into()).unwrap(),
        Answer::Events(lines) => {
            let events = stream::iter(lines).map(|line| Ok::<_, std::io::Error>(line + "\n"));
            Response::new(Body::from_stream(events.chain(stream::pending())))
        }
    }
}

/// A client of an apiserver that follows the script.
async fn apiserver(answers: Vec<(&'static [&'static str], Answer)>) -> Client {
    serving("/api/v1/nodes", answers).await
}

async fn serving(path: &'static str, answers: Vec<(&'static [&'static str], Answer)>) -> Client {
    let script = Arc::new(Script { path, answers: Mutex::new(answers.into()) });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(answer).with_state(script);
    tokio::spawn(async move { axum::serve(listener, router).await });
    client(address, Duration::from_mins(1))
}

/// A client of the apiserver at this address.
fn client(address: SocketAddr, silence: Duration) -> Client {
    super::connect::client(Config::new(format!("http://{address}").parse().unwrap()), silence).unwrap()
}

fn node(name: &str, zone: &str, version: u32) -> String {
    // With images and managed fields, which are skipped, and an escape, which must survive in the raw JSON.
    format!(
        r#"{{"metadata":{{"name":"{name}","resourceVersion":"{version}","labels":{{"zone":"{zone}"}},
            "managedFields":[{{"fieldsV1":{{"f:metadata":{{}}}}}}]}},"status":{{"images":[{{"names":["\u003ca"]}}]}}}}"#
    )
    .replace('\n', "")
}

fn list(version: u32, next: &str, nodes: &[String]) -> Answer {
    Answer::Reply(200, listed(version, next, nodes))
}

fn listed(version: u32, next: &str, nodes: &[String]) -> String {
    let items = nodes.join(",");
    format!(
        r#"{{"kind":"NodeList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":[{items}]}}"#
    )
}

fn event(kind: &str, object: &str) -> String {
    format!(r#"{{"type":"{kind}","object":{object}}}"#)
}

fn status(code: u16) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"no","reason":"No","code":{code}}}"#
    )
}

/// Name and zone of the nodes among these that the table knows.
fn zones(table: &NodeTable, view: ViewId) -> Vec<String> {
    let read = table.read();
    let rows = ["n1", "n2", "n3", "n4"].iter().filter_map(|name| read.entry(name, view));
    let rows = rows.map(|row| NodeRows::decode(row).unwrap().rows.remove(0));
    rows.map(|row| format!("{} {}", row.name, row.facts.unwrap().labels["zone"])).collect()
}

/// Waits until the table knows just these.
async fn until(table: &NodeTable, view: ViewId, expected: &[&str]) {
    let mut changes = table.changes();
    while zones(table, view) != expected {
        changes.next().await;
    }
}

#[tokio::test]
async fn lists_in_pages_watches_and_lists_again_when_it_must() {
    let client = apiserver(vec![
        (&["limit=500"], Answer::Reply(403, status(403))),
        (&["limit=500"], list(10, "more", &[node("n1", "a", 1), node("n2", "a", 2)])),
        (&["limit=500", "continue=more"], list(10, "", &[node("n3", "a", 3)])),
        (
            &["watch=true", "resourceVersion=10", "allowWatchBookmarks=true"],
            Answer::Events(vec![
                event("MODIFIED", &node("n1", "b", 11)),
                event("ADDED", &node("n4", "b", 12)),
                event("DELETED", &node("n2", "a", 13)),
                event("BOOKMARK", r#"{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"20"}}"#),
                event("ERROR", &status(410)),
            ]),
        ),
        (&["limit=500"], list(30, "", &[node("n1", "c", 21)])),
        (&["watch=true", "resourceVersion=30"], Answer::Events(Vec::new())),
        // A backend wants JSON: everything once more.
        (&["limit=500"], list(40, "", &[node("n1", "c", 21)])),
        (&["watch=true", "resourceVersion=40"], Answer::Events(vec![event("ADDED", &node("n2", "d", 41))])),
    ])
    .await;
    let table = Arc::new(NodeTable::new());
    let facts = table.register(RowView::Facts(AnnotationPrefixes::default().into())).leak();
    let watching = tokio::spawn(super::nodes(Arc::clone(&table), client));

    table.synced().await;
    until(&table, facts, &["n1 b", "n3 a", "n4 b"]).await;
    until(&table, facts, &["n1 c"]).await;
    let raw = table.register(RowView::FactsAndRaw(AnnotationPrefixes::default().into())).leak();
    table.complete(raw).await;
    until(&table, raw, &["n1 c", "n2 d"]).await;

    let row = NodeRows::decode(table.read().entry("n2", raw).unwrap()).unwrap().rows.remove(0);
    assert_eq!(row.raw_json, node("n2", "d", 41), "byte for byte as the apiserver wrote it");
    assert!(!watching.is_finished());
    watching.abort();
}

#[tokio::test]
async fn a_node_that_cannot_be_read_costs_only_itself() {
    let broken = node("n2", "a", 2).replace(r#""status":{"#, r#""status":{"capacity":{"cpu":"x"},"#);
    let client = apiserver(vec![
        (&["limit=500"], list(10, "", &[node("n1", "a", 1), broken.clone(), node("n3", "a", 3)])),
        (
            &["watch=true"],
            Answer::Events(vec![
                event("MODIFIED", &broken.replace("n2", "n1")),
                event("ADDED", &node("n4", "a", 12)),
            ]),
        ),
    ])
    .await;
    let table = Arc::new(NodeTable::new());
    let facts = table.register(RowView::Facts(AnnotationPrefixes::default().into())).leak();
    let watching = tokio::spawn(super::nodes(Arc::clone(&table), client));
    until(&table, facts, &["n1 a", "n3 a", "n4 a"]).await;
    watching.abort();
}

#[tokio::test]
async fn a_kubeconfig_that_is_not_there_is_named() {
    let path = std::path::Path::new("/nonexistent/kubeconfig");
    let Err(error) = super::connect(Some(path)).await else { panic!("there is no such file") };
    assert!(error.to_string().contains("/nonexistent/kubeconfig"), "{error}");
}

fn pod(name: &str, uid: &str, node: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"shop","uid":"{uid}","resourceVersion":"1"}},"spec":{{"nodeName":"{node}","priority":5}}}}"#
    )
}

/// The nodes of the pods named so in `shop`; "?" where there is no such pod.
fn places(table: &PodTable, names: [&str; 3]) -> [String; 3] {
    names.map(|name| table.by_name("shop", name).map_or("?".to_owned(), |pod| pod.node.clone()))
}

#[tokio::test]
async fn living_pods_are_listed_and_watched() {
    let client = serving(
        "/api/v1/pods",
        vec![
            (&["limit=500"], Answer::Reply(403, status(403))),
            (
                &["fieldSelector=status.phase", "Succeeded", "Failed", "limit=500"],
                list(10, "", &[pod("web", "u-1", "n1"), pod("db", "u-2", "n1"), pod("old", "u-3", "n2")]),
            ),
            (
                &["watch=true", "resourceVersion=10"],
                Answer::Events(vec![
                    event("DELETED", &pod("old", "u-3", "n2")),
                    event("DELETED", &pod("web", "u-1", "n1")),
                    event("ADDED", &pod("web", "u-4", "")),
                    event("MODIFIED", &pod("web", "u-4", "n3")),
                ]),
            ),
        ],
    )
    .await;
    let table = Arc::new(PodTable::new());
    let watching = tokio::spawn(super::pods(Arc::clone(&table), client));
    table.synced().await;
    let source_health = async {
        while places(&table, ["web", "db", "old"]) != ["n3", "n1", "?"] {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), source_health).await.unwrap();
    assert_eq!((table.get("u-1"), table.get("u-4").unwrap().priority, table.len()), (None, 5, 2));
    watching.abort();
}

/// What an apiserver was asked so far.
#[derive(Default)]
struct Asked {
    lists: AtomicU32,
    watches: AtomicU32,
}

/// Says nothing to the first list and to the first watch, and nothing in the second watch after its head. Later
/// ones are answered, as often as they are asked for.
async fn silent_at_first(asked: Arc<Asked>, uri: Uri) -> Response {
    let is_watch = uri.query().unwrap_or_default().contains("watch=true");
    let count = if is_watch { &asked.watches } else { &asked.lists };
    let body = match (is_watch, count.fetch_add(1, Ordering::Relaxed)) {
        (_, 0) => std::future::pending().await,
        (false, _) => listed(10, "", &[node("n1", "a", 1)]).into(),
        (true, 1) => Body::from_stream(stream::pending::<Result<String, Infallible>>()),
        (true, _) => (event("MODIFIED", &node("n1", "b", 11)) + "\n").into(),
    };
    Response::new(body)
}

#[tokio::test]
async fn an_apiserver_that_says_nothing_is_asked_again() {
    let asked = Arc::new(Asked::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let state = Arc::clone(&asked);
    let router = Router::new().fallback(move |uri| silent_at_first(Arc::clone(&state), uri));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let table = Arc::new(NodeTable::new());
    let facts = table.register(RowView::Facts(AnnotationPrefixes::default().into())).leak();
    // An answer that took longer on a slow machine would only be asked for again.
    let watching =
        tokio::spawn(super::nodes(Arc::clone(&table), client(address, Duration::from_millis(300))));
    let source_health = until(&table, facts, &["n1 b"]);
    tokio::time::timeout(Duration::from_mins(1), source_health).await.unwrap();
    assert!(asked.lists.load(Ordering::Relaxed) >= 2 && asked.watches.load(Ordering::Relaxed) >= 3);
    watching.abort();
}

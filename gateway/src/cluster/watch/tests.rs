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
use extender_apiserver::ClientTimeouts;
use extender_policy_api::v1alpha1::NodeRows;
use futures_util::{StreamExt, stream};
use kube::{Client, Config};
use prost::Message;
use tokio::{net::TcpListener, task::JoinHandle, time::Instant};

use super::{Backoff, Watcher, watch_nodes};
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
    /// An error with a header `Retry-After` of a day.
    Later(u16),
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
        Answer::Later(code) => {
            let later = Response::builder().status(code).header("retry-after", "86400");
            later.body(status(code).into()).unwrap()
        }
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
    let config = Config::new(format!("http://{address}").parse().unwrap());
    extender_apiserver::client(config, ClientTimeouts { connect: silence, silence }).unwrap()
}

/// Hardly any pauses: the clock is real where sockets are.
fn hasty() -> Backoff {
    Backoff::new(Duration::from_millis(1), Duration::from_millis(10))
}

fn watch(table: &Arc<NodeTable>, client: Client, backoff: Backoff) -> JoinHandle<Infallible> {
    let table = Arc::clone(table);
    tokio::spawn(async move { watch_nodes(&table, client, backoff).await })
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
        // Whatever the header says, the watch has its own backoff; the place is still good.
        (&["watch=true", "resourceVersion=30"], Answer::Later(429)),
        (&["watch=true", "resourceVersion=30"], Answer::Later(503)),
        (&["watch=true", "resourceVersion=30"], Answer::Events(vec![event("ADDED", &node("n4", "d", 31))])),
        // A backend wants JSON: everything once more.
        (&["limit=500"], list(40, "", &[node("n1", "c", 21)])),
        (&["watch=true", "resourceVersion=40"], Answer::Events(vec![event("ADDED", &node("n2", "d", 41))])),
    ])
    .await;
    let table = Arc::new(NodeTable::new());
    let facts = table.register(RowView::Facts(AnnotationPrefixes::default().into())).leak();
    let watching = watch(&table, client, hasty());

    table.synced().await;
    until(&table, facts, &["n1 b", "n3 a", "n4 b"]).await;
    until(&table, facts, &["n1 c", "n4 d"]).await;
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
        (
            &["limit=500"],
            list(
                10,
                "",
                &[node("n1", "a", 1), broken.clone(), r#"{"metadata":{}}"#.into(), node("n3", "a", 3)],
            ),
        ),
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
    let watching = watch(&table, client, hasty());
    until(&table, facts, &["n1 a", "n3 a", "n4 a"]).await;
    watching.abort();
}

#[tokio::test]
async fn a_kubeconfig_that_is_not_there_is_named() {
    let path = std::path::Path::new("/nonexistent/kubeconfig");
    let Err(error) = extender_apiserver::connect(Some(path)).await else { panic!("there is no such file") };
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
    let watching = tokio::spawn({
        let table = Arc::clone(&table);
        async move { Watcher::new(&*table, client, hasty()).run().await }
    });
    table.synced().await;
    let synced = async {
        while places(&table, ["web", "db", "old"]) != ["n3", "n1", "?"] {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), synced).await.unwrap();
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
    let watching = watch(&table, client(address, Duration::from_millis(300)), hasty());
    let synced = until(&table, facts, &["n1 b"]);
    tokio::time::timeout(Duration::from_mins(1), synced).await.unwrap();
    assert!(asked.lists.load(Ordering::Relaxed) >= 2 && asked.watches.load(Ordering::Relaxed) >= 3);
    watching.abort();
}

/// What an apiserver answers to a watch: HTTP status and lines, after which the watch ends or stays open.
type WatchAnswer = (u16, &'static str, After);

#[derive(Clone, Copy)]
enum After {
    End,
    Silence,
}

/// An apiserver in memory, for a paused clock: lists `n1`, or refuses to, and answers all watches alike.
#[derive(Clone)]
struct InMemory {
    list: (u16, String),
    watch: WatchAnswer,
    asked: Arc<Asked>,
}

impl InMemory {
    fn new(list: (u16, String), watch: WatchAnswer) -> Self {
        Self { list, watch, asked: Arc::default() }
    }

    fn client(&self) -> Client {
        let apiserver = self.clone();
        let service = move |request: http::Request<kube::client::Body>| {
            std::future::ready(Ok::<_, Infallible>(apiserver.answer(request.uri())))
        };
        Client::new(tower::service_fn(service), "default")
    }

    fn answer(&self, uri: &Uri) -> Response {
        let is_watch = uri.query().unwrap_or_default().contains("watch=true");
        let (status, body) = if is_watch {
            self.asked.watches.fetch_add(1, Ordering::Relaxed);
            let (status, lines, after) = self.watch;
            let lines = stream::iter([Ok::<_, Infallible>(lines)]);
            let body = match after {
                After::End => Body::from_stream(lines),
                After::Silence => Body::from_stream(lines.chain(stream::pending())),
            };
            (status, body)
        } else {
            self.asked.lists.fetch_add(1, Ordering::Relaxed);
            (self.list.0, self.list.1.clone().into())
        };
        Response::builder().status(status).body(body).unwrap()
    }

    /// Lists and watches so far.
    fn asked(&self) -> (u32, u32) {
        (self.asked.lists.load(Ordering::Relaxed), self.asked.watches.load(Ordering::Relaxed))
    }
}

fn one_node() -> (u16, String) {
    (200, listed(10, "", &[node("n1", "a", 1)]))
}

/// Five minutes of pauses that double up to 30 s, each made at most twice as long.
const FIVE_MINUTES: Duration = Duration::from_mins(5);
const ATTEMPTS: std::ops::RangeInclusive<u32> = 8..=16;

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_is_retried_with_growing_pauses() {
    let line = "<p>sign in</p>\n";
    for (answer, text, relists) in [
        ((200, "", After::End), "the watch ended at once", false),
        ((302, "", After::End), "HTTP status 302 Found", true),
        ((200, line, After::Silence), "the watch cannot be read: expected value", true),
        (
            (200, "{\"type\":\"ERROR\",\"object\":{\"code\":500,\"message\":\"etcd\"}}\n", After::Silence),
            "etcd",
            true,
        ),
    ] {
        let apiserver = InMemory::new(one_node(), answer);
        let table = Arc::new(NodeTable::new());
        let watching = watch(&table, apiserver.client(), Backoff::default());
        table.synced().await;
        tokio::time::sleep(FIVE_MINUTES).await;
        let (lists, watches) = apiserver.asked();
        assert!(ATTEMPTS.contains(&watches), "{text}: {watches} watches in 5 minutes");
        assert_eq!(lists, if relists { watches } else { 1 }, "{text}");
        let (since, why) = table.source_health.failing().expect("it fails");
        assert!(since + Duration::from_secs(2) > FIVE_MINUTES && why.starts_with(text), "{since:?} {why}");
        assert_eq!(table.len(), 1, "what is known stays");
        watching.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn lists_that_fail_are_no_sign_of_life() {
    for list in [(503, "away".to_owned()), (200, "<html>".to_owned()), (200, "{}".to_owned())] {
        let apiserver = InMemory::new(list, (200, "", After::Silence));
        let table = Arc::new(NodeTable::new());
        let watching = watch(&table, apiserver.client(), Backoff::default());
        tokio::time::sleep(FIVE_MINUTES).await;
        let (lists, watches) = apiserver.asked();
        assert!(ATTEMPTS.contains(&lists) && watches == 0, "{lists} lists, {watches} watches in 5 minutes");
        assert_eq!(table.source_health.silence(), None);
        assert!(
            table
                .source_health
                .failing()
                .is_some_and(|(since, _)| since + Duration::from_secs(2) > FIVE_MINUTES)
        );
        watching.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_quiet_watch_is_no_failure() {
    let apiserver = InMemory::new(one_node(), (200, "", After::Silence));
    let table = Arc::new(NodeTable::new());
    table.source_health.failed(|| "earlier".to_owned());
    let (began, watching) = (Instant::now(), watch(&table, apiserver.client(), Backoff::default()));
    table.synced().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((table.source_health.failing(), apiserver.asked()), (None, (1, 1)));
    assert!(table.source_health.silence().is_some_and(|silence| silence < began.elapsed()));
    watching.abort();
}

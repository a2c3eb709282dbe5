//! The watch against a scripted apiserver on a real socket, and against one in memory with a paused clock.

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
use extender_gateway_contract::row::RowView;
use extender_gateway_object::view::KeyPrefixes;
use extender_policy_api::v1beta1::NodeRows;
use futures_util::{StreamExt, stream};
use kube::{Client, Config};
use prost::Message;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{Pauses, Watcher, watch_nodes};

use crate::{
    pods::PodTable,
    table::{NodeTable, ViewId},
};

/// Much longer than any test takes on a slow machine.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The apiserver's answer to one request.
enum Answer {
    Reply(u16, String),
    /// An error with a `Retry-After` header of a day.
    Later(u16),
    /// Events. The connection then stays open.
    Events(Vec<String>),
}

/// Answers to consecutive requests with this path and with queries that contain these words.
struct Script {
    path: &'static str,
    answers: Mutex<VecDeque<(&'static [&'static str], Answer)>>,
    /// The first request that differs. The test panics: a panic here would only end the connection.
    unexpected: watch::Sender<Option<String>>,
}

async fn answer(State(script): State<Arc<Script>>, uri: Uri) -> Response {
    let scripted = script.answers.lock().unwrap().pop_front();
    let query = uri.query().unwrap_or_default();
    let Some((_, answer)) = scripted
        .filter(|(words, _)| uri.path() == script.path && words.iter().all(|word| query.contains(word)))
    else {
        script.unexpected.send_if_modified(|first| first.replace(uri.to_string()).is_none());
        return std::future::pending().await;
    };
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

/// Fails the test at the first request that differs from the script.
struct Scripted(watch::Receiver<Option<String>>);

impl Scripted {
    /// Waits for a future; panics after [`TIMEOUT`] or an unexpected request.
    async fn within<T>(&mut self, awaited: impl Future<Output = T>) -> T {
        tokio::select! {
            awaited = timeout(TIMEOUT, awaited) => awaited.expect("it happens in time"),
            Ok(request) = self.0.wait_for(Option::is_some) => panic!("unexpected request: {request:?}"),
        }
    }
}

/// A client of an apiserver that follows the script.
async fn apiserver(answers: Vec<(&'static [&'static str], Answer)>) -> (Client, Scripted) {
    serving("/api/v1/nodes", answers).await
}

async fn serving(path: &'static str, answers: Vec<(&'static [&'static str], Answer)>) -> (Client, Scripted) {
    let (unexpected, seen) = watch::channel(None);
    let script = Arc::new(Script { path, answers: Mutex::new(answers.into()), unexpected });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(answer).with_state(script);
    tokio::spawn(async move { axum::serve(listener, router).await });
    (client(address, Duration::from_mins(1)).await, Scripted(seen))
}

/// A client of the apiserver at this address.
async fn client(address: SocketAddr, timeout: Duration) -> Client {
    let config = Config::new(format!("http://{address}").parse().unwrap());
    extender_apiserver::client(config, ClientTimeouts { connect: timeout, read: timeout }).await.unwrap()
}

/// Short pauses: with sockets the clock is real.
fn short_pauses() -> Pauses {
    Pauses::new(Duration::from_millis(1), Duration::from_millis(10))
}

fn begin(table: &Arc<NodeTable>, client: Client, pauses: Pauses) -> JoinHandle<Infallible> {
    let table = Arc::clone(table);
    tokio::spawn(async move { watch_nodes(&table, client, pauses).await })
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

/// Name and zone of each of four nodes that the table has.
fn zones(table: &NodeTable, view: ViewId) -> Vec<String> {
    let read = table.read();
    let rows = ["n1", "n2", "n3", "n4"].iter().filter_map(|name| read.row(name, view));
    let rows = rows.map(|row| NodeRows::decode(row.bytes.clone()).unwrap().rows.remove(0));
    rows.map(|row| format!("{} {}", row.name, row.facts.unwrap().labels.unwrap().entries["zone"])).collect()
}

/// Waits until the table has exactly these.
async fn until(table: &NodeTable, view: ViewId, expected: &[&str]) {
    let mut changes = table.changes();
    while zones(table, view) != expected {
        changes.changed().await.unwrap();
    }
}

#[tokio::test]
async fn lists_in_pages_watches_and_lists_again_when_it_must() {
    let (client, mut scripted) = apiserver(vec![
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
        // The watch ignores the header and uses its own backoff; its position is still valid.
        (&["watch=true", "resourceVersion=30"], Answer::Later(429)),
        (&["watch=true", "resourceVersion=30"], Answer::Later(503)),
        (&["watch=true", "resourceVersion=30"], Answer::Events(vec![event("ADDED", &node("n4", "d", 31))])),
        // A backend needs JSON: all nodes are listed again.
        (&["limit=500"], list(40, "", &[node("n1", "c", 21)])),
        (&["watch=true", "resourceVersion=40"], Answer::Events(vec![event("ADDED", &node("n2", "d", 41))])),
    ])
    .await;
    let table = Arc::new(NodeTable::new());
    let facts = table.register(RowView::Facts(KeyPrefixes::default().into())).leak();
    let watching = begin(&table, client, short_pauses());

    scripted.within(table.synced()).await;
    scripted.within(until(&table, facts, &["n1 b", "n3 a", "n4 b"])).await;
    scripted.within(until(&table, facts, &["n1 c", "n4 d"])).await;
    let raw = table.register(RowView::FactsAndRaw(KeyPrefixes::default().into())).leak();
    scripted.within(table.complete(raw)).await;
    scripted.within(until(&table, raw, &["n1 c", "n2 d"])).await;

    let row = NodeRows::decode(table.read().row("n2", raw).unwrap().bytes.clone()).unwrap().rows.remove(0);
    assert_eq!(row.raw_json, node("n2", "d", 41), "byte for byte as the apiserver wrote it");
    assert!(!watching.is_finished());
    watching.abort();
}

#[tokio::test]
async fn an_invalid_node_does_not_affect_others() {
    let broken = node("n2", "a", 2).replace(r#""status":{"#, r#""status":{"capacity":{"cpu":"x"},"#);
    let (client, mut scripted) = apiserver(vec![
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
                event("ADDED", &node("n5", "a", 12).replace("\"n5\"", "{}")),
                event("DELETED", &broken),
                event("MODIFIED", &broken.replace("n2", "n3")),
                event("MODIFIED", &node("n3", "b", 13)),
                event("ADDED", &node("n4", "a", 14)),
            ]),
        ),
    ])
    .await;
    let table = Arc::new(NodeTable::new());
    let facts = table.register(RowView::Facts(KeyPrefixes::default().into())).leak();
    let watching = begin(&table, client, short_pauses());
    scripted.within(until(&table, facts, &["n3 b", "n4 a"])).await;
    // The one that was deleted, and the one that can be read again, are no longer named.
    let (unreadable, count) = table.unreadable.all();
    let named: Vec<_> = unreadable.iter().map(|(name, _)| name.name.as_str()).collect();
    assert_eq!((named, count), (vec!["n1", ""], 3), "two have no name");
    assert!(unreadable[0].1.error.contains("status.capacity.cpu"), "{unreadable:?}");
    let asked = ["n1", "n2", "n3", "n9"];
    let found = table.rows(asked.into_iter(), facts, &mut None, Instant::now()).await;
    assert_eq!((found.unknown, found.unreadable, found.deleted), (vec![0, 1, 3], vec![0], vec![1]));
    watching.abort();
}

/// The bytes of a text in which this character stands for one that is not UTF-8.
fn bytes(text: &str) -> Vec<u8> {
    if memchr::memchr(0x1a, text.as_bytes()).is_none() {
        return text.into();
    }
    text.bytes().map(|byte| if byte == 0x1a { 0xff } else { byte }).collect()
}

/// A node or pod whose managed fields have what Go reads and passes on.
fn strange(object: &str) -> String {
    let (open, close) = (r#"{"f:a":["#.repeat(4_900), "]}".repeat(4_900));
    let fields = format!(
        r#"{{"metadata":{{"managedFields":[{{"fieldsV1":{{"f:BAD\ud800":{open}1e400{close},"n":{}}}}}],"#,
        "9".repeat(400)
    );
    let fields = fields.replace("BAD", "\u{1a}");
    let object = object.replacen(r#"{"metadata":{"#, &fields, 1);
    assert!(object.len() > 40_000);
    object
}

#[tokio::test(start_paused = true)]
async fn what_go_passes_on_stops_no_list_and_no_watch() {
    let (list, line) = (strange(&node("n1", "a", 1)), strange(&node("n2", "a", 11)));
    let lines = [event("ADDED", &line), event("MODIFIED", &node("n3", "c", 12))].join("\n") + "\n";
    let apiserver = InMemory::with(
        move |_, _| (200, listed(10, "", &[list.clone(), node("n3", "b", 2)])),
        move |_, _| (200, lines.clone(), After::Silence),
    );
    let table = Arc::new(NodeTable::new());
    let facts = table.register(RowView::Facts(KeyPrefixes::default().into())).leak();
    let watching = begin(&table, apiserver.client(), Pauses::default());
    timeout(seconds(30), until(&table, facts, &["n1 a", "n2 a", "n3 c"])).await.unwrap();
    assert_eq!((apiserver.counts(), table.unreadable.count()), ((1, 1), 0));
    watching.abort();
}

#[tokio::test(start_paused = true)]
async fn a_line_that_is_too_long_costs_its_object_alone() {
    let long =
        node("n2", "a", 11).replace(r#""images":["#, &format!(r#""images":["{}","#, "x".repeat(17 << 20)));
    let lines = [event("ADDED", &long), event("ADDED", &node("n3", "c", 12))].join("\n") + "\n";
    let apiserver = InMemory::with(
        |_, _| (200, listed(10, "", &[node("n1", "a", 1), node("n2", "a", 1)])),
        move |_, nth| (200, if nth == 0 { lines.clone() } else { String::new() }, After::End(seconds(2))),
    );
    let table = Arc::new(NodeTable::new());
    let facts = table.register(RowView::Facts(KeyPrefixes::default().into())).leak();
    let watching = begin(&table, apiserver.client(), Pauses::default());
    timeout(seconds(30), until(&table, facts, &["n1 a", "n3 c"])).await.unwrap();
    let (unreadable, _) = table.unreadable.all();
    assert_eq!(unreadable[0].1.error, "its JSON has more than 16 MiB");
    assert_eq!((unreadable[0].0.words(), apiserver.counts().0), ("node n2".to_owned(), 1));
    timeout(seconds(30), async {
        while apiserver.counts().1 < 2 {
            sleep(seconds(1)).await;
        }
    })
    .await
    .unwrap();
    assert_eq!(apiserver.watch(1).1, "12", "it continues");
    watching.abort();
}

#[tokio::test]
async fn the_error_names_a_missing_kubeconfig() {
    let path = std::path::Path::new("/nonexistent/kubeconfig");
    let Err(error) = extender_apiserver::connect(Some(path)).await else { panic!("there is no such file") };
    assert!(error.to_string().contains("/nonexistent/kubeconfig"), "{error}");
}

fn pod(name: &str, uid: &str, node: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"shop","uid":"{uid}","resourceVersion":"1"}},"spec":{{"nodeName":"{node}","priority":5}}}}"#
    )
}

/// The nodes of the pods with these names in `shop`; "?" without such a pod.
fn nodes_of(table: &PodTable, names: [&str; 3]) -> [String; 3] {
    names.map(|name| table.by_name("shop", name).map_or("?".to_owned(), |pod| pod.node.clone()))
}

#[tokio::test]
async fn pods_are_listed_and_watched() {
    let (client, mut scripted) = serving(
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
        async move { Watcher::new(&*table, client, short_pauses()).run().await }
    });
    scripted.within(table.synced()).await;
    let synced = async {
        while nodes_of(&table, ["web", "db", "old"]) != ["n3", "n1", "?"] {
            tokio::task::yield_now().await;
        }
    };
    scripted.within(synced).await;
    assert_eq!((table.get("u-1"), table.get("u-4").unwrap().priority, table.len()), (None, 5, 2));
    watching.abort();
}

/// The number of requests.
#[derive(Default)]
struct Counts {
    lists: AtomicU32,
    watches: AtomicU32,
}

/// Does not answer the first list and the first watch, and sends only the head of the second watch. Answers all later
/// requests.
async fn silent_at_first(counts: Arc<Counts>, uri: Uri) -> Response {
    let is_watch = uri.query().unwrap_or_default().contains("watch=true");
    let count = if is_watch { &counts.watches } else { &counts.lists };
    let body = match (is_watch, count.fetch_add(1, Ordering::Relaxed)) {
        (_, 0) => std::future::pending().await,
        (false, _) => listed(10, "", &[node("n1", "a", 1)]).into(),
        (true, 1) => Body::from_stream(stream::pending::<Result<String, Infallible>>()),
        (true, _) => (event("MODIFIED", &node("n1", "b", 11)) + "\n").into(),
    };
    Response::new(body)
}

#[tokio::test]
async fn requests_without_an_answer_are_repeated() {
    let counts = Arc::new(Counts::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let state = Arc::clone(&counts);
    let router = Router::new().fallback(move |uri| silent_at_first(Arc::clone(&state), uri));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let table = Arc::new(NodeTable::new());
    let facts = table.register(RowView::Facts(KeyPrefixes::default().into())).leak();
    // If an answer takes longer on a slow machine, the request is repeated, too.
    let watching = begin(&table, client(address, Duration::from_millis(300)).await, short_pauses());
    let synced = until(&table, facts, &["n1 b"]);
    timeout(TIMEOUT, synced).await.unwrap();
    assert!(counts.lists.load(Ordering::Relaxed) >= 2 && counts.watches.load(Ordering::Relaxed) >= 3);
    watching.abort();
}

/// The answer to a watch: HTTP status, lines, and what follows them.
type WatchAnswer = (u16, String, After);

#[derive(Clone, Copy)]
enum After {
    /// The body ends.
    End(Duration),
    /// The connection breaks.
    Cut(Duration),
    /// This line arrives, and nothing after it.
    Line(Duration, &'static str),
    Silence,
}

/// Answers to a query and the number of earlier lists or watches.
type Answers<T> = dyn Fn(&str, usize) -> T + Send + Sync;

/// An apiserver in memory, for a paused clock.
#[derive(Clone)]
struct InMemory {
    list: Arc<Answers<(u16, String)>>,
    watch: Arc<Answers<WatchAnswer>>,
    requests: Arc<Mutex<Requests>>,
}

/// The queries of lists and watches, with the time since the first request.
#[derive(Default)]
struct Requests {
    began: Option<Instant>,
    lists: Vec<(Duration, String)>,
    watches: Vec<(Duration, String)>,
}

impl InMemory {
    /// One answer to all lists and one to all watches.
    fn new(list: (u16, String), (status, lines, after): (u16, &'static str, After)) -> Self {
        Self::with(move |_, _| list.clone(), move |_, _| (status, lines.to_owned(), after))
    }

    fn with(
        list: impl Fn(&str, usize) -> (u16, String) + Send + Sync + 'static,
        watch: impl Fn(&str, usize) -> WatchAnswer + Send + Sync + 'static,
    ) -> Self {
        Self { list: Arc::new(list), watch: Arc::new(watch), requests: Arc::default() }
    }

    fn client(&self) -> Client {
        let apiserver = self.clone();
        let service = move |request: http::Request<kube::client::Body>| {
            std::future::ready(Ok::<_, Infallible>(apiserver.answer(request.uri())))
        };
        Client::new(tower::service_fn(service), "default")
    }

    fn answer(&self, uri: &Uri) -> Response {
        let query = uri.query().unwrap_or_default();
        let mut requests = self.requests.lock().unwrap();
        let at = requests.began.get_or_insert_with(Instant::now).elapsed();
        let is_watch = query.contains("watch=true");
        let before = if is_watch { &mut requests.watches } else { &mut requests.lists };
        before.push((at, query.to_owned()));
        let (status, body) = if is_watch {
            let (status, lines, after) = (self.watch)(query, before.len() - 1);
            let next = async move {
                match after {
                    After::Silence => std::future::pending().await,
                    After::End(time) => {
                        sleep(time).await;
                        None
                    }
                    After::Cut(time) => {
                        sleep(time).await;
                        Some(Err(std::io::Error::other("connection reset")))
                    }
                    After::Line(time, line) => {
                        sleep(time).await;
                        Some(Ok(bytes(line)))
                    }
                }
            };
            let next = stream::once(next).filter_map(std::future::ready);
            let lines = stream::iter([Ok(bytes(&lines))]).chain(next);
            let body = match after {
                After::Line(..) => Body::from_stream(lines.chain(stream::pending())),
                _ => Body::from_stream(lines),
            };
            (status, body)
        } else {
            let (status, body) = (self.list)(query, before.len() - 1);
            (status, bytes(&body).into())
        };
        Response::builder().status(status).body(body).unwrap()
    }

    /// The number of lists and watches.
    fn counts(&self) -> (usize, usize) {
        let requests = self.requests.lock().unwrap();
        (requests.lists.len(), requests.watches.len())
    }

    /// The time and the position of the nth watch, from 0.
    fn watch(&self, nth: usize) -> (Duration, String) {
        let (at, query) = self.requests.lock().unwrap().watches[nth].clone();
        let version = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion="));
        (at, version.expect("a position").to_owned())
    }

    /// The time and the limit of the nth list, from 0, and whether it has a continue token.
    fn list(&self, nth: usize) -> (Duration, Option<u32>, bool) {
        let (at, query) = self.requests.lock().unwrap().lists[nth].clone();
        let limit = query.split('&').find_map(|pair| pair.strip_prefix("limit="));
        (at, limit.map(|limit| limit.parse().unwrap()), query.contains("continue="))
    }
}

fn one_node() -> (u16, String) {
    (200, listed(10, "", &[node("n1", "a", 1)]))
}

const FIVE_MINUTES: Duration = Duration::from_mins(5);

/// Attempts in five minutes: pauses double up to 30 s, and each is extended to at most twice its length.
const ATTEMPTS: std::ops::RangeInclusive<usize> = 8..=16;

const AT_ONCE: After = After::End(Duration::ZERO);

fn error_event(code: u16, message: &str) -> String {
    event("ERROR", &format!(r#"{{"code":{code},"message":"{message}"}}"#)) + "\n"
}

fn bookmark(version: u32) -> String {
    event("BOOKMARK", &format!(r#"{{"metadata":{{"resourceVersion":"{version}"}}}}"#)) + "\n"
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fails_is_retried_with_growing_pauses() {
    let (each, third) = (1, 3);
    for (answer, text, watches_per_list) in [
        ((200, "", AT_ONCE), "the watch ended (in less than a second, without an event)", third),
        ((200, "", After::Cut(Duration::ZERO)), "the watch was interrupted: ", third),
        ((502, "<html>", AT_ONCE), "HTTP status 502 Bad Gateway: <html>", third),
        ((302, "", AT_ONCE), "HTTP status 302 Found", each),
        // The position is that of the list just before.
        ((410, "", AT_ONCE), "HTTP status 410 Gone", each),
        ((200, "{\"type\":\"ERROR\",\"object\":{\"code\":410,\"message\":\"old\"}}\n", AT_ONCE), "old", each),
        ((200, "<p>sign in</p>\n", After::Silence), "the watch cannot be read: expected value", each),
        (
            (200, "{\"type\":\"ERROR\",\"object\":{\"code\":500,\"message\":\"etcd\"}}\n", After::Silence),
            "etcd",
            third,
        ),
    ] {
        let apiserver = InMemory::new(one_node(), answer);
        let table = Arc::new(NodeTable::new());
        let watching = begin(&table, apiserver.client(), Pauses::default());
        table.synced().await;
        sleep(FIVE_MINUTES).await;
        let (lists, watches) = apiserver.counts();
        assert!(ATTEMPTS.contains(&watches), "{text}: {watches} watches in 5 minutes");
        assert_eq!(lists, watches.div_ceil(watches_per_list), "{text}: {watches} watches");
        let (since, why) = table.source_health.failing().expect("it fails");
        assert!(since + Duration::from_secs(2) > FIVE_MINUTES && why.starts_with(text), "{since:?} {why}");
        assert_eq!(table.len(), 1, "the table keeps its node");
        watching.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn failed_lists_are_retried_with_growing_pauses() {
    for list in [(503, "away".to_owned()), (200, "<html>".to_owned()), (200, "{}".to_owned())] {
        let apiserver = InMemory::new(list, (200, "", After::Silence));
        let table = Arc::new(NodeTable::new());
        let watching = begin(&table, apiserver.client(), Pauses::default());
        sleep(FIVE_MINUTES).await;
        let (lists, watches) = apiserver.counts();
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
    table.source_health.failed("earlier".to_owned());
    let (began, watching) = (Instant::now(), begin(&table, apiserver.client(), Pauses::default()));
    table.synced().await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!((table.source_health.failing(), apiserver.counts()), (None, (1, 1)));
    assert!(table.source_health.silence().is_some_and(|silence| silence < began.elapsed()));
    watching.abort();
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_after_a_while_continues_at_once() {
    for after in [After::End(seconds(20)), After::Cut(seconds(20)), After::Cut(seconds(1))] {
        let apiserver = InMemory::new(one_node(), (200, "", after));
        let table = Arc::new(NodeTable::new());
        let watching = begin(&table, apiserver.client(), Pauses::default());
        table.synced().await;
        let lasts = match after {
            After::End(time) | After::Cut(time) => time,
            After::Line(..) | After::Silence => unreachable!("it ends"),
        };
        for watch in 0..10 {
            sleep(lasts).await;
            assert_eq!(apiserver.watch(watch as usize), (watch * lasts, "10".to_owned()));
            assert_eq!(table.source_health.failing(), None);
        }
        assert_eq!(apiserver.counts().0, 1);
        watching.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_continues_from_the_bookmark_at_its_end() {
    let apiserver = InMemory::with(
        |_, _| one_node(),
        |_, nth| match nth {
            0 => (200, bookmark(20), After::End(seconds(60))),
            // Ends within a second, so the next one waits.
            1 => (200, bookmark(30), After::Cut(Duration::ZERO)),
            _ => (200, String::new(), After::Silence),
        },
    );
    let table = Arc::new(NodeTable::new());
    let watching = begin(&table, apiserver.client(), Pauses::default());
    sleep(seconds(70)).await;
    assert_eq!(apiserver.watch(1), (seconds(60), "20".to_owned()));
    assert_eq!(apiserver.watch(2), (seconds(61), "30".to_owned()));
    assert_eq!((apiserver.counts(), table.source_health.failing()), ((1, 3), None));
    watching.abort();
}

#[tokio::test(start_paused = true)]
async fn pauses_begin_again_after_a_watch_that_lasted() {
    // A watch may end with an error event or an unreadable line.
    for line in [error_event(500, "etcd"), "<html>\n".to_owned()] {
        let line: &'static str = line.leak();
        let apiserver = InMemory::with(
            |_, _| one_node(),
            move |_, nth| match nth {
                8 => (200, String::new(), After::Line(seconds(30), line)),
                0..10 => (503, String::new(), AT_ONCE),
                _ => (200, String::new(), After::Silence),
            },
        );
        let table = Arc::new(NodeTable::new());
        let watching = begin(&table, apiserver.client(), Pauses::default());
        sleep(FIVE_MINUTES * 2).await;
        let [before, lasting, after, second] = [7, 8, 9, 10].map(|nth| apiserver.watch(nth).0);
        assert!(lasting >= before + seconds(30), "{before:?} {lasting:?}");
        assert!(after < lasting + seconds(30 + 2), "{lasting:?} {after:?}");
        assert!(second < after + seconds(4), "{after:?} {second:?}");
        watching.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_position_that_worked_and_has_expired_is_no_failure() {
    for (status, lines) in [(410, String::new()), (200, error_event(410, "too old resource version"))] {
        let apiserver = InMemory::with(
            |_, _| one_node(),
            move |_, nth| match nth {
                0 => (200, String::new(), After::Cut(seconds(20))),
                1 => (status, lines.clone(), AT_ONCE),
                _ => (200, String::new(), After::Silence),
            },
        );
        let table = Arc::new(NodeTable::new());
        let watching = begin(&table, apiserver.client(), Pauses::default());
        sleep(seconds(20) + Duration::from_millis(100)).await;
        assert_eq!((apiserver.counts(), table.source_health.failing()), ((1, 2), None));
        sleep(seconds(2)).await;
        assert_eq!((apiserver.counts(), table.source_health.failing()), ((2, 3), None));
        watching.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn after_an_expired_continue_token_the_list_is_requested_without_pages() {
    let apiserver = InMemory::with(
        |query, _| {
            if query.contains("continue=") {
                (410, status(410))
            } else if query.contains("limit=") {
                (200, listed(10, "more", &[node("n1", "a", 1), node("n3", "a", 1)]))
            } else {
                (200, listed(11, "", &[node("n1", "b", 1), node("n2", "b", 1)]))
            }
        },
        |_, _| (200, String::new(), After::Silence),
    );
    let table = Arc::new(NodeTable::new());
    let facts = table.register(RowView::Facts(KeyPrefixes::default().into())).leak();
    let watching = begin(&table, apiserver.client(), Pauses::default());
    timeout(seconds(1), table.synced()).await.unwrap();
    assert_eq!(
        [0, 1, 2].map(|nth| apiserver.list(nth)),
        [
            (Duration::ZERO, Some(500), false),
            (Duration::ZERO, Some(500), true),
            (Duration::ZERO, None, false),
        ]
    );
    assert_eq!((zones(&table, facts), table.len()), (vec!["n1 b".to_owned(), "n2 b".to_owned()], 2));
    assert_eq!(table.source_health.failing(), None);
    watching.abort();
}

#[tokio::test(start_paused = true)]
async fn a_page_that_is_too_large_is_requested_in_smaller_ones() {
    let large = " ".repeat(64 << 20);
    let apiserver = InMemory::with(
        move |query, _| {
            if query.contains("continue=") {
                (200, listed(10, "", &[node("n2", "a", 1)]))
            } else if query.contains("limit=125") {
                (200, listed(10, "more", &[node("n1", "a", 1)]))
            } else {
                (200, listed(10, "more", &[node("n1", "a", 1)]) + &large)
            }
        },
        |_, _| (200, String::new(), After::Silence),
    );
    let table = Arc::new(NodeTable::new());
    let watching = begin(&table, apiserver.client(), Pauses::default());
    timeout(seconds(1), table.synced()).await.unwrap();
    let lists = [0, 1, 2, 3].map(|nth| apiserver.list(nth)).map(|(_, limit, next)| (limit, next));
    assert_eq!(lists, [(Some(500), false), (Some(250), false), (Some(125), false), (Some(250), true)]);
    assert_eq!((table.len(), table.source_health.failing()), (2, None));
    watching.abort();
    // The size is remembered, and pages grow again as long as they are small.
    let mut watcher = Watcher::new(&*table, apiserver.client(), Pauses::default());
    watcher.list().await.unwrap();
    let first = apiserver.counts().0;
    watcher.list().await.unwrap();
    let lists = [first, first + 1].map(|nth| apiserver.list(nth)).map(|(_, limit, next)| (limit, next));
    assert_eq!((lists, apiserver.counts().0), ([(Some(125), false), (Some(250), true)], first + 2));
}

#[tokio::test(start_paused = true)]
async fn an_object_larger_than_a_page_ends_the_list() {
    let large = " ".repeat(65 << 20);
    let apiserver = InMemory::with(move |_, _| (200, large.clone()), |_, _| (200, String::new(), AT_ONCE));
    let table = Arc::new(NodeTable::new());
    let watching = begin(&table, apiserver.client(), Pauses::default());
    sleep(Duration::from_millis(100)).await;
    assert_eq!(apiserver.list(apiserver.counts().0 - 1).1, Some(1));
    let (_, why) = table.source_health.failing().expect("it fails");
    assert_eq!(why, "the answer has more than 64 MiB");
    watching.abort();
}

#[tokio::test(start_paused = true)]
async fn the_latest_error_is_shown_with_the_time_since_the_first() {
    let apiserver = InMemory::with(
        |_, nth| (if nth == 0 { 500 } else { 503 }, String::new()),
        |_, _| unreachable!("no list works"),
    );
    let table = Arc::new(NodeTable::new());
    let watching = begin(&table, apiserver.client(), Pauses::default());
    sleep(seconds(3)).await;
    let (since, why) = table.source_health.failing().expect("it fails");
    assert!(apiserver.counts().0 > 1 && since == seconds(3), "{since:?}");
    assert!(why.starts_with("HTTP status 503"), "{why}");
    watching.abort();
}

#[tokio::test(start_paused = true)]
async fn long_messages_of_the_apiserver_are_truncated() {
    let long = "x".repeat(1 << 20);
    for answer in [
        (403, status(403).replace("\"no\"", &format!("{long:?}")), AT_ONCE),
        (200, error_event(500, &long), After::Silence),
        (200, event(&long, "{}") + "\n", After::Silence),
    ] {
        let apiserver = InMemory::with(|_, _| one_node(), move |_, _| answer.clone());
        let table = Arc::new(NodeTable::new());
        let watching = begin(&table, apiserver.client(), Pauses::default());
        sleep(seconds(1)).await;
        let (_, why) = table.source_health.failing().expect("it fails");
        assert!(why.len() < 1_200, "{} bytes", why.len());
        watching.abort();
    }
}

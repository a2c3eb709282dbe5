//! What kube-scheduler's plugin calls, at a Unix socket: one call for each attempt to place a pod.

mod holding;
mod secured;

use std::path::Path;

use bytes::Bytes;
use extender_gateway_door::v1alpha1::{
    Assumed, BindRequest, Change, NodeReads, Nodes, PlaceRequest, PlaceResponse, Placement, PreemptRequest,
    PreemptResponse, Rejection, ScoreRequest, ScoreResponse, Totals, UnknownList, change::Change as Kind,
    place_response::Outcome, score_response,
};
use extender_gateway_pace::cadences::Cadences;
use extender_policy_api::v1beta1::{self as api, NodePart};
use h2::client::SendRequest;
use http::Request;
use prost::Message;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{net::UnixStream, task::yield_now};

use crate::support::{
    Gateway, TEST_TIMEOUT,
    backend::{Act, Scripted, configured as backend, filtered, framed, info, rows, scored},
    by_name,
    function::pure,
    node, preempting, reading, steady,
};

/// A gateway with a socket, and a connection there.
struct Plugin {
    gateway: Gateway,
    socket: Socket,
    _folder: TempDir,
}

/// A connection to a gateway's socket.
pub(crate) struct Socket(SendRequest<Bytes>);

const SERVICE: &str = "/extender.door.v1alpha1.DoorService/";

/// The code of a gRPC status, and its message or that of the response.
type Answer = Result<Bytes, (String, String)>;

impl Socket {
    pub(crate) async fn open(path: &Path) -> Self {
        let stream = UnixStream::connect(path).await.unwrap();
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Self(requests)
    }

    async fn call(&self, method: &str, body: Bytes) -> Answer {
        self.call_with(("content-type", "application/grpc"), method, body).await
    }

    async fn call_with(&self, (name, value): (&str, &str), method: &str, body: Bytes) -> Answer {
        let uri = format!("http://gateway{SERVICE}{method}");
        let request = Request::post(uri).header(name, value).body(()).unwrap();
        let mut ready = self.0.clone().ready().await.unwrap();
        let (response, mut sending) = ready.send_request(request, false).unwrap();
        sending.send_data(body, true).unwrap();
        let (head, mut body) = response.await.unwrap().into_parts();
        assert_eq!(
            (head.status.as_u16(), &head.headers["content-type"].to_str().unwrap()),
            (200, &"application/grpc")
        );
        let mut whole = Vec::new();
        while let Some(chunk) = body.data().await {
            whole.extend_from_slice(&chunk.unwrap());
        }
        let trailers = body.trailers().await.unwrap().unwrap_or(head.headers);
        let of = |name: &str| trailers.get(name).map_or("", |text| text.to_str().unwrap()).to_owned();
        match of("grpc-status").as_str() {
            "0" => Ok(Bytes::from(whole).slice(5..)),
            code => Err((code.to_owned(), of("grpc-message"))),
        }
    }

    /// Calls a method that answers.
    pub(crate) async fn answer<M: Message + Default>(&self, method: &str, request: &impl Message) -> M {
        let answer = self.call(method, framed(&request.encode_to_vec())).await;
        M::decode(answer.unwrap_or_else(|refusal| panic!("{method}: {refusal:?}"))).unwrap()
    }
}

impl Plugin {
    async fn start(rest: &str) -> Self {
        // Until what it waits for is there.
        Self::start_paced(rest, Cadences { unknown_nodes: TEST_TIMEOUT, ..steady() }).await
    }

    async fn start_paced(rest: &str, cadences: Cadences) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plugin.sock");
        let socket = format!(", socket: {}", path.display());
        let gateway = Gateway::start_as_paced(&socket, rest, cadences).await;
        Self { gateway, socket: Socket::open(&path).await, _folder: folder }
    }

    async fn outcome(&self, nodes: Nodes) -> Outcome {
        self.outcome_after(vec![], nodes).await
    }

    async fn outcome_after(&self, changes: Vec<Kind>, nodes: Nodes) -> Outcome {
        let changes = changes.into_iter().map(|change| Change { change: Some(change) }).collect();
        self.answered(PlaceRequest { nodes: Some(nodes), changes, ..PlaceRequest::default() }).await
    }

    async fn answered(&self, request: PlaceRequest) -> Outcome {
        let request = PlaceRequest { pod: pod(), ..request };
        self.socket.answer::<PlaceResponse>("Place", &request).await.outcome.unwrap()
    }

    /// The rejections and the totals of a call about these nodes.
    async fn place(&self, nodes: Nodes) -> (Vec<Rejection>, Option<Vec<i64>>) {
        let Outcome::Placement(Placement { rejections, totals, call, .. }) = self.outcome(nodes).await else {
            panic!("the list is unknown")
        };
        assert!(!call.is_empty());
        (rejections, totals.map(|totals| totals.values))
    }

    async fn score(&self, nodes: Nodes) -> Vec<i64> {
        let request = ScoreRequest { pod: pod(), nodes: Some(nodes) };
        match self.socket.answer::<ScoreResponse>("Score", &request).await.outcome.unwrap() {
            score_response::Outcome::Totals(Totals { values }) => values,
            score_response::Outcome::UnknownList(_) => panic!("the list is unknown"),
        }
    }
}

fn pod() -> Bytes {
    json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}}).to_string().into()
}

fn nodes(list: &str, names: &[&str], offered: &'static [u8]) -> Nodes {
    let names = names.iter().map(|name| (*name).to_owned()).collect();
    Nodes { list: list.into(), names, offered: offered.into() }
}

fn rejection(reason: &str, preemption_may_help: bool, positions: &[u32]) -> Rejection {
    Rejection {
        reason: reason.into(),
        preemption_may_help,
        positions: positions.into(),
        ..Rejection::default()
    }
}

/// Refuses some nodes, and scores each by its name's last letter.
async fn by_letter(refused: &'static [&'static str]) -> Scripted {
    Scripted::start(info(reading::names()), move |verb, message| {
        if verb == "Filter" {
            return Act::Message(filtered(&message, refused, "no room").encode_to_vec());
        }
        let letter = |name: &str| i32::from(*name.as_bytes().last().unwrap() - b'a');
        Act::Message(scored(&message, letter).encode_to_vec())
    })
    .await
}

#[tokio::test]
async fn a_placement_has_the_verdicts_and_totals_of_the_http_address() {
    let (first, second) = (by_letter(&["a"]).await, by_letter(&["a", "d"]).await);
    let plugin = Plugin::start(&format!(
        "nodes: {{source: NamesOnly}}\nbackends:\n{}{}",
        backend("first", &first, "filter: {}, score: {weight: 2}"),
        backend("second", &second, "filter: {preemptionMayHelp: Honored}, score: {}"),
    ))
    .await;
    let all = ["a", "b", "c", "d"];
    let expected = (
        vec![rejection("first: no room", false, &[0]), rejection("second: no room", true, &[3])],
        Some(vec![3, 6]),
    );
    assert_eq!(plugin.place(nodes("1", &all, b"")).await, expected);
    let told = plugin.gateway.post("/filter", by_name(&all)).await.json();
    assert_eq!(told["FailedAndUnresolvableNodes"], json!({"a": "first: no room"}));
    assert_eq!(told["FailedNodes"], json!({"d": "second: no room"}));
    let told = plugin.gateway.post("/prioritize", by_name(&["b", "c"])).await.json();
    assert_eq!(told, json!([{"Host": "b", "Score": 3}, {"Host": "c", "Score": 6}]));
    // By its id, about some of its nodes; positions are those of the list.
    let (rejections, totals) = plugin.place(nodes("1", &[], b"\x0e")).await;
    assert_eq!((rejections, totals), (vec![rejection("second: no room", true, &[3])], Some(vec![3, 6])));
    assert_eq!(first.asked("Filter").last().unwrap(), &["b", "c", "d"]);
    // Both are counted and recorded like calls of an extender.
    plugin.gateway.until_counted("filter", "calls_total{verb=\"filter\",outcome=\"ok\"} 3").await;
    plugin.gateway.until_counted("prioritize", "calls_total{verb=\"prioritize\",outcome=\"ok\"} 3").await;
}

#[tokio::test]
async fn a_list_that_the_gateway_does_not_hold_is_asked_for() {
    let policy = by_letter(&[]).await;
    let rest = format!("nodes: {{source: NamesOnly}}\nbackends:\n{}", backend("only", &policy, "filter: {}"));
    let plugin = Plugin::start(&rest).await;
    assert_eq!(plugin.outcome(nodes("1", &[], b"")).await, Outcome::UnknownList(UnknownList {}));
    assert!(policy.asked("Filter").is_empty());
    assert_eq!(plugin.place(nodes("1", &["a", "b"], b"")).await, (vec![], Some(vec![])));
    assert_eq!(plugin.place(nodes("1", &[], b"")).await, (vec![], Some(vec![])));
    // A node has come: another list.
    assert_eq!(plugin.outcome(nodes("2", &[], b"")).await, Outcome::UnknownList(UnknownList {}));
}

#[tokio::test]
async fn scores_that_depend_on_the_nodes_that_are_left_are_asked_for_when_these_are_known() {
    let policy = by_letter(&["a"]).await;
    let configured = backend("only", &policy, "filter: {}, score: {normalize: Max}");
    let plugin = Plugin::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{configured}")).await;
    let (rejections, totals) = plugin.place(nodes("1", &["a", "b", "c", "f"], b"")).await;
    assert_eq!((rejections, totals), (vec![rejection("only: no room", false, &[0])], None));
    assert!(policy.asked("Score").is_empty());
    assert_eq!(plugin.score(nodes("1", &[], b"\x0e")).await, [2, 4, 10]);
    assert_eq!(plugin.score(nodes("1", &[], b"\x06")).await, [5, 10]);
}

/// What is decided about some nodes is no end of the attempt: the plugin asks about the others.
#[tokio::test]
async fn a_pod_is_not_rejected_with_a_part_of_the_nodes() {
    let policy = by_letter(&["a", "b"]).await;
    let rest = format!("nodes: {{source: NamesOnly}}\nbackends:\n{}", backend("only", &policy, "filter: {}"));
    let plugin = Plugin::start_paced(&rest, Cadences { refusals: TEST_TIMEOUT, ..steady() }).await;
    let request = |part| PlaceRequest {
        pod: pod(),
        nodes: Some(nodes("1", &["a", "b", "c"], b"\x03")),
        part,
        ..PlaceRequest::default()
    };
    for _ in 0..60 {
        let Outcome::Placement(placement) = plugin.answered(request(true)).await else { panic!() };
        assert_eq!(placement.rejections, [rejection("only: no room", false, &[0, 1])]);
        assert!(placement.by_node);
    }
    let whole = framed(&request(false).encode_to_vec());
    for _ in 0..50 {
        plugin.socket.call("Place", whole.clone()).await.unwrap();
    }
    let (_, text) = plugin.socket.call("Place", whole).await.unwrap_err();
    assert!(text.contains("retried too often"), "{text}");
}

#[tokio::test]
async fn a_placement_says_whether_it_depends_on_which_nodes_are_asked_about() {
    for (scope, by_node) in [(api::Scope::Node, true), (api::Scope::WholeSet, false)] {
        let mut declared = info(reading::names());
        declared.verbs[0].scope = scope.into();
        let answer =
            |_: &str, message: Bytes| Act::Message(filtered(&message, &["a"], "no room").encode_to_vec());
        let policy = Scripted::start(declared, answer).await;
        let rest =
            format!("nodes: {{source: NamesOnly}}\nbackends:\n{}", backend("only", &policy, "filter: {}"));
        let outcome = Plugin::start(&rest).await.outcome(nodes("1", &["a", "b"], b"")).await;
        assert!(
            matches!(outcome, Outcome::Placement(placement) if placement.by_node == by_node),
            "{scope:?}"
        );
    }
}

#[tokio::test]
async fn a_single_node_is_not_scored() {
    let policy = by_letter(&["a"]).await;
    let configured = backend("only", &policy, "filter: {}, score: {}");
    let plugin = Plugin::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{configured}")).await;
    let (_, totals) = plugin.place(nodes("1", &["a", "b"], b"")).await;
    assert_eq!((totals, policy.asked("Score").len()), (None, 0));
}

#[tokio::test]
async fn errors_are_those_of_the_http_address() {
    let failing = Scripted::always(Act::Hang).await;
    let rest = backend("only", &failing, "filter: {timeout: 10ms}");
    let plugin = Plugin::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{rest}")).await;
    let request = |pod: &'static [u8], nodes| {
        PlaceRequest { pod: pod.into(), nodes, ..PlaceRequest::default() }.encode_to_vec()
    };
    let some = || Some(nodes("1", &["a"], b""));
    let twice = Some(nodes("2", &["a", "a"], b""));
    for (method, body, code, text) in [
        ("Place", framed(&request(b"{}", some())), "14", "backend only failed filter"),
        ("Place", framed(&request(b"{}", None)), "3", "the request has no nodes"),
        ("Place", framed(&request(b"{}", twice)), "3", "a name is in the list of nodes twice"),
        ("Place", framed(&request(b"no", some())), "3", "bad request"),
        ("Place", framed(b"\xff\xff"), "3", "cannot decode"),
        ("Place", Bytes::from_static(b"x"), "3", "no gRPC message"),
        ("Hold", framed(b"\xff\xff"), "3", "cannot decode"),
        ("Tell", framed(b"\xff\xff"), "3", "cannot decode"),
        ("Tell", Bytes::from_static(b"x"), "3", "no gRPC message"),
        ("Preempt", framed(b""), "3", "bad request"),
        ("Bind", framed(b""), "3", "bad request"),
        ("Bind", framed(&binding()), "14", "bind is not configured"),
        (
            "Permit",
            framed(b""),
            "12",
            "has no method Permit; expected Place, Score, Preempt, Bind, Hold or Tell",
        ),
    ] {
        let (said, message) = plugin.socket.call(method, body).await.unwrap_err();
        assert!(said == code && message.contains(text), "{method}: {said} {message}");
    }
}

#[tokio::test]
async fn an_answer_says_what_can_change_it() {
    let with = |part| reading::with_part(reading::names(), part);
    let nothing = || Some(NodeReads::default());
    let taints = || Some(NodeReads { taints: true, ..NodeReads::default() });
    for (declared, regardless_of_pods, node_reads) in [
        (pure(reading::names()), true, nothing()),
        (pure(with(NodePart::Taints)), true, taints()),
        (pure(with(NodePart::Usage)), false, nothing()),
        (info(reading::names()), false, None),
    ] {
        let revision = declared.revision.clone();
        let policy = Scripted::start(declared, move |_, message| {
            let answer = filtered(&message, &["a"], "no room");
            let result = answer.result.map(|result| api::Result { revision: revision.clone(), ..result });
            Act::Message(api::FilterResponse { result, ..answer }.encode_to_vec())
        })
        .await;
        let configured = backend("only", &policy, "filter: {}");
        let rest = format!("nodes: {{source: Watch}}\npods: {{source: Watch}}\nbackends:\n{configured}");
        let plugin = Plugin::start(&rest).await;
        for name in ["a", "b"] {
            plugin.gateway.table.apply(node(name).to_string().as_bytes()).unwrap();
        }
        for (version, names, nodes_at, expected) in [
            // The gateway has not seen what kube-scheduler knows.
            ("", &["a", "b"][..], 6, None),
            ("6", &["a", "b"], 6, node_reads),
            // kube-scheduler does not say what it knows, and nothing is rejected.
            ("6", &["a", "b"], 0, None),
            ("6", &["b"], 6, None),
        ] {
            plugin.gateway.table.source_health.advanced_to(version);
            let request = PlaceRequest {
                nodes: Some(nodes(&format!("{nodes_at}-{}", names.len()), names, b"")),
                nodes_at,
                ..PlaceRequest::default()
            };
            let Outcome::Placement(said) = plugin.answered(request).await else {
                panic!("the list is unknown")
            };
            assert_eq!(said.node_reads, expected, "{names:?} {nodes_at}");
            let said: Vec<_> = said.rejections.iter().map(|said| said.regardless_of_pods).collect();
            assert_eq!(said, vec![regardless_of_pods; names.len() - 1]);
        }
    }
}

fn binding() -> Vec<u8> {
    let args = r#"{"PodName":"web","PodNamespace":"shop","PodUID":"u1","Node":"a"}"#;
    BindRequest { args: args.into() }.encode_to_vec()
}

#[tokio::test]
async fn candidates_are_those_of_the_http_address() {
    let racks = preempting::sparing(&["n2"], &[]).await;
    let rest = backend("racks", &racks, "preempt: {timeout: 60s}");
    let plugin = Plugin::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{rest}")).await;
    let request = PreemptRequest { args: preempting::call().into() };
    let told = plugin.gateway.post("/preempt", preempting::call()).await.json();
    for _ in 0..2 {
        let answer: PreemptResponse = plugin.socket.answer("Preempt", &request).await;
        assert_eq!(serde_json::from_slice::<Value>(&answer.result).unwrap(), told);
    }
    assert_eq!(told, preempting::left(&[("n1", &["u1", "u2"], 1)]));
}

/// The CPU that a policy was told as requested on each node, at its last call.
fn requested(policy: &Scripted) -> Vec<i64> {
    let messages = policy.messages("Filter");
    let usage = |row: api::NodeRow| row.usage.unwrap_or_default().requested.unwrap_or_default();
    rows(messages.last().unwrap()).into_iter().map(|row| usage(row).milli_cpu).collect()
}

#[tokio::test]
async fn a_pod_that_was_placed_counts_until_it_is_forgotten() {
    let reads = reading::with_part(reading::facts(), NodePart::Usage);
    let policy =
        Scripted::start(info(reads), |_, message| Act::Message(filtered(&message, &[], "").encode_to_vec()))
            .await;
    let configured = backend("only", &policy, "filter: {}");
    let rest = format!("nodes: {{source: Watch}}\npods: {{source: Watch}}\nbackends:\n{configured}");
    let plugin = Plugin::start(&rest).await;
    for name in ["a", "b"] {
        plugin.gateway.table.apply(node(name).to_string().as_bytes()).unwrap();
    }
    let placed = |uid: &str, node: &str| {
        let requests = json!({"requests": {"cpu": "250m"}});
        let pod = json!({"metadata": {"name": uid, "namespace": "shop", "uid": uid}, "spec": {"containers": [{"name": "c", "resources": requests}]}});
        Kind::Assumed(Assumed { pod: pod.to_string().into(), node: node.into() })
    };
    let strange = Kind::Assumed(Assumed { pod: br#"{"metadata":1}"#.as_slice().into(), node: "a".into() });
    plugin.gateway.pods.as_ref().unwrap().source_health.advanced_to("9");
    let with = |uid: &str, key: &str, value: &str| {
        let Kind::Assumed(Assumed { pod, node }) = placed(uid, "b") else { panic!("it is another change") };
        let mut pod: Value = serde_json::from_slice(&pod).unwrap();
        pod[if key == "nodeName" { "spec" } else { "metadata" }][key] = json!(value);
        Kind::Assumed(Assumed { pod: pod.to_string().into(), node })
    };
    for (step, changes, expected) in [
        ("nothing was placed", vec![], [0, 0]),
        ("two were", vec![placed("p1", "a"), placed("p2", "a")], [500, 0]),
        ("they still count, and once", vec![placed("p1", "a")], [500, 0]),
        ("one is forgotten", vec![Kind::Forgotten("p1".into())], [250, 0]),
        ("and is placed elsewhere", vec![placed("p1", "b")], [250, 250]),
        ("a bound one counts until the watch says otherwise", vec![Kind::Bound("p2".into())], [250, 250]),
        ("it can be forgotten no more", vec![Kind::Forgotten("p2".into())], [250, 250]),
        ("forgotten twice", vec![Kind::Forgotten("p1".into()), Kind::Forgotten("p1".into())], [250, 0]),
        ("the pod of the call itself", vec![placed("u1", "b")], [250, 0]),
        ("it is placed after that", vec![placed("p3", "b")], [250, 250]),
        (
            "one that cannot be read does not keep others",
            vec![strange, Kind::Forgotten("p3".into())],
            [250, 0],
        ),
        ("bound ones are the watch's", vec![with("p4", "nodeName", "b")], [250, 0]),
        ("one of which the watch has seen the end", vec![with("p5", "resourceVersion", "9")], [250, 0]),
        ("one of which it has not seen the beginning", vec![with("p6", "resourceVersion", "10")], [250, 250]),
    ] {
        let outcome = plugin.outcome_after(changes, nodes("1", &["a", "b"], b"")).await;
        assert!(matches!(outcome, Outcome::Placement(_)), "{step}");
        assert_eq!(requested(&policy), expected, "{step}");
    }
}

#[tokio::test]
async fn a_call_waits_until_the_gateway_knows_what_kube_scheduler_knows() {
    let reads = reading::with_part(reading::facts(), NodePart::Usage);
    let policy =
        Scripted::start(info(reads), |_, message| Act::Message(filtered(&message, &[], "").encode_to_vec()))
            .await;
    let configured = backend("only", &policy, "filter: {}");
    let rest = format!("nodes: {{source: Watch}}\npods: {{source: Watch}}\nbackends:\n{configured}");
    let plugin = Plugin::start(&rest).await;
    let (table, pods) = (&plugin.gateway.table, plugin.gateway.pods.as_ref().unwrap());
    table.apply(node("a").to_string().as_bytes()).unwrap();
    table.source_health.advanced_to("6");
    pods.source_health.advanced_to("6");
    let about = |nodes_at, pods_at| {
        let nodes = Some(nodes("1", &["a"], b""));
        plugin.answered(PlaceRequest { nodes, nodes_at, pods_at, ..PlaceRequest::default() })
    };
    about(6, 0).await;
    assert_eq!(requested(&policy), [0]);
    let pod = json!({
        "metadata": {"name": "p", "namespace": "shop", "uid": "p", "resourceVersion": "8"},
        "spec": {"nodeName": "a", "containers": [{"name": "c", "resources": {"requests": {"cpu": "250m"}}}]},
    });
    let asked = policy.asked("Filter").len();
    let change = async {
        yield_now().await;
        table.source_health.advanced_to("7");
        yield_now().await;
        assert_eq!(policy.asked("Filter").len(), asked, "it waits for the pods");
        pods.apply(pod.to_string().as_bytes()).unwrap();
        pods.source_health.advanced_to("8");
    };
    tokio::join!(about(7, 8), change);
    assert_eq!(requested(&policy), [250]);
}

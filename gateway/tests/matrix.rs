//! Every way in which a backend can fail × verb × failure policy: generated, on real sockets.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::net::SocketAddr;

use extender_policy_api::v1alpha1::{
    FilterResponse, KeptCandidate, NodeView, PreemptResponse, Rejection, Result as Evaluated, ScoreResponse,
    Scores, Verb as Declared, VerbInfo,
};
use futures_util::future::join_all;
use prost::Message;
use serde_json::{Value, json};
use support::{
    Gateway,
    backend::{Act, Scripted, framed, info},
    by_name, pod,
};
use tokio::net::TcpListener;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Verb {
    Filter,
    Score,
    Preempt,
}

const VERBS: [Verb; 3] = [Verb::Filter, Verb::Score, Verb::Preempt];

impl Verb {
    /// As a block of the configuration and in metrics.
    fn block(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Score => "score",
            Self::Preempt => "preempt",
        }
    }

    fn policies(self) -> &'static [&'static str] {
        if self == Self::Score { &["Ignore"] } else { &["Fail", "Ignore"] }
    }

    fn path(self) -> &'static str {
        if self == Self::Score { "/prioritize" } else { self.filter_or_preempt() }
    }

    fn filter_or_preempt(self) -> &'static str {
        if self == Self::Filter { "/filter" } else { "/preempt" }
    }

    /// An answer that says that `count` nodes were looked at: accepted, scored 0, still candidates.
    fn answer(self, count: u32) -> Vec<u8> {
        let result = Some(Evaluated { evaluated: count, ..Evaluated::default() });
        match self {
            Self::Filter => FilterResponse { result, ..FilterResponse::default() }.encode_to_vec(),
            Self::Score => {
                let scores = Some(Scores { values: vec![0; count as usize] });
                ScoreResponse { result, scores }.encode_to_vec()
            }
            Self::Preempt => {
                let kept = (0..count).map(kept).collect();
                PreemptResponse { result, kept }.encode_to_vec()
            }
        }
    }

    fn request(self) -> String {
        match self {
            Self::Filter | Self::Score => by_name(&["a", "b"]),
            Self::Preempt => {
                let victims = |uid: &str| json!({"Pods": [{"UID": uid}], "NumPDBViolations": 1});
                let victims = json!({"a": victims("u-a"), "b": victims("u-b")});
                json!({"Pod": pod(), "NodeNameToMetaVictims": victims}).to_string()
            }
        }
    }

    /// What the other backend alone makes of the request.
    fn without_the_failing_one(self) -> Value {
        match self {
            Self::Filter => json!(["b"]),
            Self::Score => json!([{"Host": "a", "Score": 4}, {"Host": "b", "Score": 4}]),
            Self::Preempt => json!({"b": {"Pods": [{"UID": "u-b"}], "NumPDBViolations": 1}}),
        }
    }
}

fn kept(position: u32) -> KeptCandidate {
    KeptCandidate { position, victims: vec![0], added_uids: Vec::new() }
}

/// A way to fail: what happens, for which verbs, the kind that is counted and what is said.
struct Fault {
    name: String,
    script: Script,
    verbs: &'static [Verb],
    kind: &'static str,
    said: String,
}

enum Script {
    /// Nobody listens.
    Nobody,
    Does(fn(Verb) -> Act),
    Status(i32),
}

impl Fault {
    fn new(name: &str, does: fn(Verb) -> Act, (kind, said): (&'static str, &str)) -> Self {
        let (name, said) = (name.to_owned(), said.to_owned());
        Self { name, script: Script::Does(does), verbs: &VERBS, kind, said }
    }

    fn only(mut self, verbs: &'static [Verb]) -> Self {
        self.verbs = verbs;
        self
    }
}

/// The names of the gRPC specification, by code.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

fn faults() -> Vec<Fault> {
    let mut faults = transport();
    faults.extend(contents());
    faults.extend((0..).zip(CODES).skip(1).map(|(code, word)| Fault {
        name: format!("status {word}"),
        script: Script::Status(code),
        verbs: &VERBS,
        kind: if code == 4 { "late" } else { "status" },
        said: format!("{word}: no, percent"),
    }));
    faults.push(Fault {
        name: "nobody listens".to_owned(),
        script: Script::Nobody,
        verbs: &VERBS,
        kind: "unreachable",
        said: "cannot connect to ".to_owned(),
    });
    faults
}

fn transport() -> Vec<Fault> {
    vec![
        Fault::new("hangs", |_| Act::Hang, ("late", "no answer within 150ms")),
        Fault::new("never ends", |verb| Act::Endless(verb.answer(2)), ("late", "no answer within 150ms")),
        Fault::new("trickles", |verb| Act::Trickle(verb.answer(2)), ("late", "no answer within 150ms")),
        Fault::new("resets", |_| Act::Reset, ("reset", "the stream was reset: ")),
        Fault::new("resets amid", |verb| Act::Torn(verb.answer(2)), ("reset", "the stream was reset: ")),
        Fault::new("hangs up", |_| Act::Drop, ("reset", "the connection was lost")),
        Fault::new("HTTP 404", |_| Act::Http(404), ("malformed", "the answer is not gRPC: HTTP status 404")),
        Fault::new("HTTP 503", |_| Act::Http(503), ("malformed", "the answer is not gRPC: HTTP status 503")),
        Fault::new(
            "half a prefix",
            |_| Act::Framed(vec![0; 3]),
            ("malformed", "the answer holds no message"),
        ),
        Fault::new(
            "cut off",
            |_| Act::Framed(vec![0, 0, 0, 0, 9, 1]),
            ("malformed", "the answer's message is cut off"),
        ),
        Fault::new(
            "two messages",
            |verb| Act::Framed(framed(&verb.answer(2)).repeat(2)),
            ("malformed", "the answer holds more than one message"),
        ),
        Fault::new(
            "compressed",
            |_| Act::Framed(vec![1, 0, 0, 0, 1, 7]),
            ("malformed", "the answer is compressed"),
        ),
        Fault::new("oversize", |_| Act::Framed(vec![0; 1 << 20]), ("oversize", "the answer has more than ")),
    ]
}

fn contents() -> Vec<Fault> {
    vec![
        Fault::new(
            "garbage",
            |_| Act::Message(b"\xff\xff\xff".to_vec()),
            ("malformed", "the answer cannot be decoded"),
        ),
        Fault::new("empty", |_| Act::Message(Vec::new()), ("malformed", "the answer has no result")),
        Fault::new(
            "fewer evaluated",
            |verb| Act::Message(verb.answer(1)),
            ("malformed", "1 nodes were evaluated, 2 were asked about"),
        ),
        Fault::new(
            "more evaluated",
            |verb| Act::Message(verb.answer(3)),
            ("malformed", "3 nodes were evaluated, 2 were asked about"),
        ),
        Fault::new(
            "a miss",
            |_| Act::Message(missed()),
            ("malformed", "the backend does not know nodes inline"),
        )
        .only(&[Verb::Filter, Verb::Score]),
        Fault::new("too few scores", |_| scores(1), ("malformed", "1 scores for 2 nodes"))
            .only(&[Verb::Score]),
        Fault::new("too many scores", |_| scores(3), ("malformed", "3 scores for 2 nodes"))
            .only(&[Verb::Score]),
        Fault::new(
            "no scores",
            |_| Act::Message(Verb::Filter.answer(2)),
            ("malformed", "the answer has no scores"),
        )
        .only(&[Verb::Score]),
        Fault::new("out of range", |_| refused(&[&[2]]), ("malformed", "position 2 is out of range"))
            .only(&[Verb::Filter]),
        Fault::new(
            "in two groups",
            |_| refused(&[&[0], &[1, 0]]),
            ("malformed", "position 0 is refused twice"),
        )
        .only(&[Verb::Filter]),
        Fault::new("twice in a group", |_| refused(&[&[1, 1]]), ("malformed", "position 1 is refused twice"))
            .only(&[Verb::Filter]),
        Fault::new("a strange node", |_| keeps(vec![kept(2)]), ("malformed", "")).only(&[Verb::Preempt]),
        Fault::new("a node twice", |_| keeps(vec![kept(0), kept(0)]), ("malformed", ""))
            .only(&[Verb::Preempt]),
        Fault::new(
            "a strange victim",
            |_| keeps(vec![KeptCandidate { victims: vec![1], ..kept(0) }]),
            ("malformed", ""),
        )
        .only(&[Verb::Preempt]),
        Fault::new(
            "an added victim",
            |_| keeps(vec![KeptCandidate { added_uids: vec!["u-x".into()], ..kept(0) }]),
            ("malformed", ""),
        )
        .only(&[Verb::Preempt]),
    ]
}

fn two() -> Evaluated {
    Evaluated { evaluated: 2, ..Evaluated::default() }
}

fn missed() -> Vec<u8> {
    let result = Some(Evaluated { miss: 1, ..Evaluated::default() });
    FilterResponse { result, ..FilterResponse::default() }.encode_to_vec()
}

fn scores(count: usize) -> Act {
    let scores = Some(Scores { values: vec![0; count] });
    Act::Message(ScoreResponse { result: Some(two()), scores }.encode_to_vec())
}

fn refused(groups: &[&[u32]]) -> Act {
    let group = |positions: &&[u32]| Rejection { positions: positions.to_vec(), ..Rejection::default() };
    let rejections = groups.iter().map(group).collect();
    Act::Message(FilterResponse { result: Some(two()), rejections, scores: None }.encode_to_vec())
}

fn keeps(kept: Vec<KeptCandidate>) -> Act {
    Act::Message(PreemptResponse { result: Some(two()), kept }.encode_to_vec())
}

/// A backend that serves all verbs by this script.
async fn start(script: impl Fn(&str) -> Act + Send + Sync + 'static) -> Scripted {
    let mut served = info(NodeView::Name);
    let preempt = VerbInfo { verb: Declared::Preempt as i32, ..served.verbs[0] };
    served.verbs.push(preempt);
    Scripted::start(served, move |verb, _| script(verb)).await
}

/// Refuses and spares node `a`, scores 4.
async fn good() -> Scripted {
    start(|verb| match verb {
        "Filter" => refused(&[&[0]]),
        "Score" => {
            let scores = Some(Scores { values: vec![4, 4] });
            Act::Message(ScoreResponse { result: Some(two()), scores }.encode_to_vec())
        }
        _ => keeps(vec![kept(1)]),
    })
    .await
}

async fn check(fault: &Fault, verb: Verb, policy: &str) {
    let bad: SocketAddr = match fault.script {
        Script::Nobody => TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap(),
        Script::Does(does) => start(move |_| does(verb)).await.address,
        Script::Status(code) => start(move |_| Act::Status(code, "no, %")).await.address,
    };
    let good = good().await.address;
    let block = verb.block();
    // Only what is late on purpose may be late: the others have time on any machine.
    let timeout = if fault.said.contains("150ms") { "150ms" } else { "20s" };
    let gateway = Gateway::start(&format!(
        "nodes: {{source: Request}}\ntimeouts: {{decision: 30s}}\nbackends:\n\
         - {{name: bad, url: 'http://{bad}', {block}: {{timeout: {timeout}, failurePolicy: {policy}}}}}\n\
         - {{name: good, url: 'http://{good}', {block}: {{timeout: 20s}}}}\n"
    ))
    .await;
    let answer = gateway.post(verb.path(), verb.request()).await;
    let case = format!("{} × {block} × {policy}", fault.name);
    let error = format!("extender-gateway: backend bad failed {block}: {}", fault.said);
    match (verb, policy) {
        (Verb::Filter, "Fail") => assert!(answer.error().starts_with(&error), "{case}: {}", answer.error()),
        (Verb::Preempt, "Fail") => {
            let said = answer.header("x-extender-gateway-error").unwrap_or_default();
            assert!(answer.status == 502 && said.starts_with(&error), "{case}: {answer:?}");
            assert_eq!(answer.header("content-length"), Some("0"), "{case}");
        }
        _ => {
            let whole = answer.json();
            let merged = match verb {
                Verb::Filter => &whole["NodeNames"],
                Verb::Score => &whole,
                Verb::Preempt => &whole["NodeNameToMetaVictims"],
            };
            assert_eq!(*merged, verb.without_the_failing_one(), "{case}: {whole}");
        }
    }
    let counted = format!(
        "extender_gateway_backend_failures_total{{backend=\"bad\",verb=\"{block}\",kind=\"{}\"}}",
        fault.kind
    );
    assert!(gateway.metrics.text().contains(&counted), "{case}: {}", gateway.metrics.text());
}

#[tokio::test]
async fn every_failure_of_every_verb_is_decided_by_its_policy() {
    let faults = faults();
    let mut cases = Vec::new();
    for fault in &faults {
        for verb in VERBS.into_iter().filter(|verb| fault.verbs.contains(verb)) {
            cases.extend(verb.policies().iter().map(|policy| check(fault, verb, policy)));
        }
    }
    println!("{} failures, {} cases", faults.len(), cases.len());
    join_all(cases).await;
}

#[tokio::test]
async fn an_answer_of_another_revision_counts() {
    let revised = |verb: &str| {
        let result = Some(Evaluated { evaluated: 2, revision: "r2".into(), ..Evaluated::default() });
        assert_eq!(verb, "Filter");
        Act::Message(FilterResponse { result, ..FilterResponse::default() }.encode_to_vec())
    };
    let backend = start(revised).await;
    let gateway = Gateway::start(&format!(
        "nodes: {{source: Request}}\nbackends: [{{name: only, url: 'http://{}', filter: {{timeout: 1s}}}}]\n",
        backend.address
    ))
    .await;
    let answer = gateway.post("/filter", by_name(&["a", "b"])).await;
    assert_eq!(answer.json()["NodeNames"], json!(["a", "b"]));
}

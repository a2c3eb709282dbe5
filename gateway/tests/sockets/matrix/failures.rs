//! The ways to fail.

use std::time::Duration;

use extender_gateway_pace::cadences::Cadences;
use extender_policy_api::v1beta1::KeptCandidate;

use super::verbs::{ABOUT_NODES, VERBS, Verb, bound, keeps, kept, missed, refused, scores};
use crate::support::{
    backend::{Act, framed},
    steady,
};

/// A failure mode: what happens, for which verbs, the kind that is counted, and the text.
pub(crate) struct Fault {
    pub(crate) name: String,
    pub(crate) script: Script,
    pub(crate) verbs: &'static [Verb],
    pub(crate) kind: &'static str,
    pub(crate) said: String,
}

#[derive(Clone)]
pub(crate) enum Script {
    /// The address has no listener.
    ClosedPort,
    /// Calls would succeed, and the handshake fails: as behind a service whose pods are not ready.
    Greets(Act),
    Does(fn(Verb) -> Act),
    Status(i32),
}

impl Fault {
    /// The timeout of the failing backend. Only deliberate delays may exceed it; the others have enough time on any
    /// machine.
    pub(crate) fn timeout(&self) -> &'static str {
        if self.said.contains("150 ms") { "150ms" } else { "20s" }
    }

    /// A handshake without an answer is waited for, also by the other backend: not too short.
    pub(crate) fn cadences(&self) -> Cadences {
        match self.script {
            Script::Greets(Act::Hang) => Cadences { handshake: Duration::from_secs(5), ..steady() },
            _ => steady(),
        }
    }

    /// Whether a backend that fails in this way has received the request.
    pub(crate) fn is_asked(&self) -> bool {
        !matches!(self.script, Script::ClosedPort | Script::Greets(_))
    }

    fn new(name: &str, does: fn(Verb) -> Act, (kind, said): (&'static str, &str)) -> Self {
        let (name, said) = (name.to_owned(), said.to_owned());
        Self { name, script: Script::Does(does), verbs: VERBS, kind, said }
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

pub(crate) fn faults() -> Vec<Fault> {
    let mut faults = transport();
    faults.extend(contents());
    faults.extend((0..).zip(CODES).skip(1).map(|(code, word)| Fault {
        name: format!("status {word}"),
        script: Script::Status(code),
        verbs: VERBS,
        kind: match code {
            4 => "late",
            // Without a reason it is about a size.
            8 => "oversize",
            _ => "status",
        },
        said: format!("{word}: no, percent"),
    }));
    faults.push(Fault {
        name: "no listener".to_owned(),
        script: Script::ClosedPort,
        verbs: VERBS,
        kind: "unreachable",
        said: "cannot connect to ".to_owned(),
    });
    faults.extend([
        greeting("not ready", Act::Status(14, "no, %"), ("status", "UNAVAILABLE: no, percent")),
        greeting("never ready", Act::Hang, ("late", "no answer within 5000 ms")),
    ]);
    faults
}

fn greeting(name: &str, act: Act, (kind, said): (&'static str, &str)) -> Fault {
    let said = format!("handshake failed: {said}");
    Fault { name: name.to_owned(), script: Script::Greets(act), verbs: VERBS, kind, said }
}

fn transport() -> Vec<Fault> {
    vec![
        Fault::new("hangs", |_| Act::Hang, ("late", "no answer within 150 ms")),
        Fault::new("never ends", |verb| Act::Endless(verb.answer(2)), ("late", "no answer within 150 ms")),
        Fault::new("trickles", |verb| Act::Trickle(verb.answer(2)), ("late", "no answer within 150 ms")),
        Fault::new("resets", |_| Act::Reset, ("reset", "the stream was reset: ")),
        Fault::new("resets amid", |verb| Act::Torn(verb.answer(2)), ("reset", "the stream was reset: ")),
        Fault::new("hangs up", |_| Act::Drop, ("reset", "the connection was lost")),
        Fault::new(
            "HTTP 404",
            |_| Act::Http(404),
            ("malformed", "not a gRPC response: HTTP status 404; does url point to another service?"),
        ),
        Fault::new(
            "HTTP 503",
            |_| Act::Http(503),
            ("malformed", "not a gRPC response: HTTP status 503; does url point to another service?"),
        ),
        Fault::new(
            "half a prefix",
            |_| Act::Framed(vec![0; 3]),
            ("malformed", "response contains no message"),
        ),
        Fault::new("cut off", |_| Act::Framed(vec![0, 0, 0, 0, 9, 1]), ("malformed", "message is truncated")),
        Fault::new(
            "two messages",
            |verb| Act::Framed(framed(&verb.answer(2)).repeat(2)),
            ("malformed", "response contains more than one message"),
        ),
        Fault::new(
            "compressed",
            |_| Act::Framed(vec![1, 0, 0, 0, 1, 7]),
            ("malformed", "message is compressed"),
        ),
        Fault::new("oversize", |_| Act::Framed(vec![0; 1 << 20]), ("oversize", "response is larger than ")),
    ]
}

fn malformed(name: &str, does: fn(Verb) -> Act, said: &str, verbs: &'static [Verb]) -> Fault {
    Fault { verbs, ..Fault::new(name, does, ("malformed", said)) }
}

fn contents() -> Vec<Fault> {
    let empty = |_| Act::Message(Vec::new());
    let mut faults = vec![
        malformed("garbage", |_| Act::Message(b"\xff\xff\xff".to_vec()), "cannot decode the response", VERBS),
        malformed("empty", empty, "response has no result", ABOUT_NODES),
        malformed("empty", empty, "response has no outcome", &[Verb::Bind]),
        malformed("a strange outcome", |_| Act::Message(bound(7)), "unknown outcome 7", &[Verb::Bind]),
        malformed(
            "fewer evaluated",
            |verb| Act::Message(verb.answer(1)),
            "evaluated 1 nodes, expected 2",
            ABOUT_NODES,
        ),
        malformed(
            "more evaluated",
            |verb| Act::Message(verb.about(2, 3)),
            "evaluated 3 nodes, expected 2",
            ABOUT_NODES,
        ),
        malformed(
            "a miss",
            |_| Act::Message(missed()),
            "the backend does not support inline nodes",
            &[Verb::Filter, Verb::Score],
        ),
    ];
    faults.extend(of_filter());
    faults.extend(of_score());
    faults.extend(of_preempt());
    faults
}

fn of_filter() -> [Fault; 6] {
    let wrong = |name, does, said| malformed(name, does, said, &[Verb::Filter]);
    [
        wrong("out of range", |_| refused(&[&[2]]), "position 2 is out of range"),
        wrong("in two groups", |_| refused(&[&[0], &[0]]), "position 0 is rejected twice"),
        wrong("twice in a group", |_| refused(&[&[1, 1]]), "position 1 is rejected twice"),
        wrong("a rejection of nothing", |_| refused(&[&[0], &[]]), "a rejection names no position"),
        wrong("too many rejections", |_| refused(&[&[0], &[0], &[0]]), "3 rejections for 2 nodes"),
        wrong("too many positions", |_| refused(&[&[0], &[1, 0]]), "3 rejected positions for 2 nodes"),
    ]
}

fn of_score() -> [Fault; 3] {
    let wrong = |name, does, said| malformed(name, does, said, &[Verb::Score]);
    [
        wrong("too few scores", |_| scores(0, 1), "1 scores for 2 nodes"),
        wrong("too many scores", |_| scores(0, 3), "3 scores for 2 nodes"),
        wrong("no scores", |_| Act::Message(Verb::Filter.answer(2)), "response has no scores"),
    ]
}

fn of_preempt() -> [Fault; 4] {
    let wrong = |name, does, said| malformed(name, does, said, &[Verb::Preempt]);
    [
        wrong("a strange node", |_| keeps(vec![kept(2)]), "position 2 is out of range"),
        wrong("a node twice", |_| keeps(vec![kept(0), kept(0)]), "position 0 is kept twice"),
        wrong(
            "a strange victim",
            |_| keeps(vec![KeptCandidate { victims: vec![1], ..kept(0) }]),
            "victim 1 of position 0 is out of range",
        ),
        wrong(
            "an added victim",
            |_| keeps(vec![KeptCandidate { added_uids: vec!["u-x".into()], ..kept(0) }]),
            "victim u-x was not offered",
        ),
    ]
}

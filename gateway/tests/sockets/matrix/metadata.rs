//! Headers and trailers of answers: missing, repeated, joined, binary, huge. Whatever they contain, either the
//! answer counts or that backend fails, in calls, in handshakes, on the stream of nodes, and in shadow.

use extender_gateway_backend::info::NODE_TABLE_SERVICE;
use extender_policy_api::v1beta1::{FilterResponse, GetInfoResponse};
use futures_util::FutureExt;
use prost::Message;
use serde_json::json;

use super::{Case, run};
use crate::support::{
    Gateway,
    backend::{Act, Exactly, Fields, Scripted, configured, filtered, framed, info},
    by_name, in_full, reading,
};

/// Where the status of an answer is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Trailers,
    /// In the head, followed by a message and trailers of OK.
    Head,
    /// In the head, with nothing after it.
    HeadAlone,
}

const PLACES: [Place; 3] = [Place::Trailers, Place::Head, Place::HeadAlone];

/// What such an answer means.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meaning {
    /// The message counts, if there is one.
    Counts,
    /// A failure of this kind, whose text begins like this.
    Fails(&'static str, &'static str),
}

use Meaning::{Counts, Fails};

struct Metadata {
    name: &'static str,
    fields: Fields,
    meaning: Meaning,
}

fn metadata(name: &'static str, fields: &[(&'static str, &[u8])], meaning: Meaning) -> Metadata {
    let fields = fields.iter().map(|(name, value)| (*name, value.to_vec())).collect();
    Metadata { name, fields, meaning }
}

/// gRPC's own fields.
fn statuses() -> Vec<Metadata> {
    let (status, message) = ("grpc-status", "grpc-message");
    let unreadable = "invalid gRPC status: ";
    vec![
        metadata("OK", &[(status, b"0")], Counts),
        metadata("OK in two digits", &[(status, b"00")], Counts),
        metadata("OK with a message", &[(status, b"0"), (message, b"%zz%")], Counts),
        metadata("doubled", &[(status, b"0"), (status, b"0")], Fails("malformed", unreadable)),
        metadata("contradictory", &[(status, b"0"), (status, b"14")], Fails("malformed", unreadable)),
        metadata("joined", &[(status, b"0,0")], Fails("malformed", unreadable)),
        metadata("no number", &[(status, b"OK")], Fails("malformed", unreadable)),
        metadata("negative", &[(status, b"-1")], Fails("malformed", unreadable)),
        metadata("signed", &[(status, b"+0")], Fails("malformed", unreadable)),
        metadata("empty", &[(status, b"")], Fails("malformed", unreadable)),
        metadata("binary", &[(status, b"\x80\xff")], Fails("malformed", unreadable)),
        metadata("a number too long", &[(status, &[b'9'; 4000])], Fails("malformed", unreadable)),
        metadata("an unknown code", &[(status, b"17")], Fails("status", "UNKNOWN: grpc-status 17")),
        metadata(
            "the largest code",
            &[(status, b"4294967295")],
            Fails("status", "UNKNOWN: grpc-status 42949"),
        ),
        metadata("no message", &[(status, b"14")], Fails("status", "UNAVAILABLE")),
        metadata("no reason", &[(status, b"8")], Fails("oversize", "RESOURCE_EXHAUSTED")),
        metadata(
            "a reason",
            &[(status, b"8"), ("extender-reason", b"ERROR_REASON_OVERLOADED")],
            Fails("status", "RESOURCE_EXHAUSTED"),
        ),
        metadata(
            "escapes",
            &[(status, b"14"), (message, b"n%6f%0Aw%C3%A4y")],
            Fails("status", "UNAVAILABLE: no wäy"),
        ),
        metadata("broken escapes", &[(status, b"14"), (message, b"%4 a%")], Fails("status", "UNAVAILABLE: ")),
        metadata(
            "no UTF-8",
            &[(status, b"14"), (message, b"a%ff\xfe")],
            Fails("status", "UNAVAILABLE: a\u{fffd}"),
        ),
        metadata(
            "two messages",
            &[(status, b"14"), (message, b"a"), (message, b"b")],
            Fails("status", "UNAVAILABLE: a"),
        ),
        metadata(
            "a long message",
            &[(status, b"14"), (message, &[b'x'; 9000])],
            Fails("status", "UNAVAILABLE: xxx"),
        ),
    ]
}

/// Fields besides an OK, none of which the gateway needs.
fn others() -> Vec<Metadata> {
    const DETAILS: &str = "grpc-status-details-bin";
    let ok: (&str, &[u8]) = ("grpc-status", b"0");
    let with = |name, fields: &[(&'static str, &[u8])]| {
        let all: Vec<_> = [ok].into_iter().chain(fields.iter().copied()).collect();
        metadata(name, &all, Counts)
    };
    vec![
        with("details that are no base64", &[(DETAILS, b"!!!!")]),
        with("details that are binary", &[(DETAILS, b"\xff\xfe")]),
        with("details joined", &[(DETAILS, b"CAM,CAM=")]),
        with("details doubled", &[(DETAILS, b"CAM"), (DETAILS, b"CAM")]),
        with("details of base64url", &[(DETAILS, b"_-__")]),
        with("details with odd last bits", &[(DETAILS, b"CAN=")]),
        with("details empty", &[(DETAILS, b"")]),
        with("details huge", &[(DETAILS, &[b'A'; 9000])]),
        with("an encoding", &[("grpc-encoding", b"gzip"), ("grpc-encoding", b"\xff")]),
        with("accepted encodings", &[("grpc-accept-encoding", b"gzip,,\xff")]),
        with("a field of its own", &[("x-custom-bin", b"!!"), ("x-custom-bin", b"\xff"), ("x-custom", b"%")]),
        with("a trace", &[("traceparent", b"00-zz"), ("traceparent", b""), ("tracestate", &[b'='; 4000])]),
        with("a retry", &[("grpc-retry-pushback-ms", b"-99999999999999999999")]),
        with("a timeout", &[("grpc-timeout", b"99999999999999H")]),
    ]
}

/// The failing fields of the table, with an error instead of the OK: the details are not read there either.
fn with_an_error() -> Vec<Metadata> {
    others()
        .into_iter()
        .map(|mut metadata| {
            metadata.fields[0].1 = b"14".to_vec();
            Metadata { meaning: Fails("status", "UNAVAILABLE"), ..metadata }
        })
        .collect()
}

fn all() -> Vec<Metadata> {
    let mut all = statuses();
    all.extend(others());
    all.extend(with_an_error());
    all
}

const GRPC: (&str, &[u8]) = ("content-type", b"application/grpc+proto");

fn answer(fields: &Fields, place: Place, message: &[u8]) -> Act {
    let mut head: Fields = vec![(GRPC.0, GRPC.1.to_vec())];
    let body = (place != Place::HeadAlone).then(|| framed(message).to_vec());
    let trailers = match place {
        Place::Trailers => fields.clone(),
        Place::Head | Place::HeadAlone => {
            head.extend(fields.iter().cloned());
            vec![("grpc-status", b"0".to_vec())]
        }
    };
    Act::Exactly(Exactly { status: 200, head, body, trailers })
}

impl Meaning {
    fn at(self, place: Place) -> Self {
        match (self, place) {
            (Counts, Place::HeadAlone) => Fails("reset", "response ended without a gRPC status"),
            (meaning, _) => meaning,
        }
    }
}

/// The answer to `GetInfo`.
fn greeting() -> GetInfoResponse {
    info(reading::names())
}

fn rejecting(message: &bytes::Bytes) -> FilterResponse {
    filtered(message, &["a"], "no")
}

/// Nothing panicked.
fn goes_on(gateway: &Gateway, case: &str) {
    let text = gateway.metrics.text();
    assert!(text.contains("extender_gateway_panics_total 0\n"), "{case}: {text}");
}

/// A backend that answers filter like this, with one that refuses node `b`, under this mode or policy.
async fn called(metadata: &Metadata, place: Place, entry: &str) -> (Gateway, String) {
    let fields = metadata.fields.clone();
    let bad = Scripted::start(greeting(), move |_, message| {
        answer(&fields, place, &rejecting(&message).encode_to_vec())
    })
    .await;
    let good = Scripted::refusing(&["b"], "no", 0).await;
    let backends =
        configured("bad", &bad, &format!("{entry}, filter: {{timeout: 20s, failurePolicy: Ignore}}"))
            + &configured("good", &good, "filter: {timeout: 20s}");
    let gateway = Gateway::start(&format!(
        "nodes: {{source: Request}}\ntimeouts: {{decision: 30s}}\nbackends:\n{backends}"
    ))
    .await;
    let case = format!("{} × {place:?} × {entry}", metadata.name);
    (gateway, case)
}

async fn in_a_call(metadata: &Metadata, place: Place) {
    let (gateway, case) = called(metadata, place, "mode: Enforce").await;
    let reply = gateway.post("/filter", by_name(&["a", "b", "c"])).await.json();
    match metadata.meaning.at(place) {
        Counts => assert_eq!(reply["NodeNames"], json!(["c"]), "{case}: {reply}"),
        Fails(kind, _) => {
            assert_eq!(reply["NodeNames"], json!(["a", "c"]), "{case}: {reply}");
            let counted = format!("backend_failures_total{{backend=\"bad\",verb=\"filter\",kind=\"{kind}\",");
            gateway.until_counted(&case, &counted).await;
        }
    }
    goes_on(&gateway, &case);
}

async fn in_shadow(metadata: &Metadata, place: Place) {
    let (gateway, case) = called(metadata, place, "mode: Shadow").await;
    let reply = gateway.post("/filter", by_name(&["a", "b", "c"])).await.json();
    assert_eq!(reply["NodeNames"], json!(["a", "c"]), "{case}: {reply}");
    let counted = match metadata.meaning.at(place) {
        Counts => {
            "backend_shadow_answers_total{backend=\"bad\",verb=\"filter\",outcome=\"disagrees\"} 1".to_owned()
        }
        Fails(kind, _) => format!("backend_failures_total{{backend=\"bad\",verb=\"filter\",kind=\"{kind}\","),
    };
    gateway.until_counted(&case, &counted).await;
    goes_on(&gateway, &case);
}

async fn in_a_handshake(metadata: &Metadata, place: Place) {
    let fields = metadata.fields.clone();
    let bad = Scripted::start_bare(
        move |verb, message| match verb {
            "GetInfo" => answer(&fields, place, &greeting().encode_to_vec()),
            _ => Act::Message(rejecting(&message).encode_to_vec()),
        },
        None,
    )
    .await;
    let gateway = Gateway::start(&format!(
        "nodes: {{source: Request}}\ntimeouts: {{decision: 30s}}\nbackends:\n{}",
        configured("bad", &bad, "filter: {timeout: 20s}")
    ))
    .await;
    let case = format!("{} × {place:?} × handshake", metadata.name);
    let reply = gateway.post("/filter", by_name(&["a", "b"])).await;
    match metadata.meaning.at(place) {
        Counts => assert_eq!(reply.json()["NodeNames"], json!(["b"]), "{case}"),
        Fails(_, said) => {
            let expected = format!("extender-gateway: backend bad failed filter: handshake failed: {said}");
            assert!(reply.error().starts_with(&expected), "{case}: {}", reply.error());
        }
    }
    goes_on(&gateway, &case);
}

/// The stream of nodes ends, or its answer is invalid; calls carry the nodes.
async fn on_the_stream(metadata: &Metadata, place: Place) {
    let fields = metadata.fields.clone();
    let served = GetInfoResponse { services: vec![NODE_TABLE_SERVICE.to_owned()], ..info(reading::facts()) };
    let bad = Scripted::start(served, move |verb, message| match verb {
        "SyncNodes" => answer(&fields, place, b"\x08\x01"),
        _ => Act::Message(rejecting(&message).encode_to_vec()),
    })
    .await;
    let gateway = Gateway::start(&format!(
        "nodes: {{source: Request}}\ntimeouts: {{decision: 30s}}\nbackends:\n{}",
        configured("bad", &bad, "filter: {timeout: 20s}")
    ))
    .await;
    let case = format!("{} × {place:?} × stream", metadata.name);
    let mut opened = false;
    while !opened {
        let reply = gateway.post("/filter", in_full(&["a", "b"])).await.json();
        assert_eq!(reply["Nodes"]["items"].as_array().map(Vec::len), Some(1), "{case}: {reply}");
        opened = !bad.messages("SyncNodes").is_empty();
    }
    let reply = gateway.post("/filter", in_full(&["a", "b"])).await.json();
    assert_eq!(reply["Nodes"]["items"].as_array().map(Vec::len), Some(1), "{case}: {reply}");
    goes_on(&gateway, &case);
}

fn everywhere<'m, F>(all: &'m [Metadata], check: fn(&'m Metadata, Place) -> F)
where
    F: Future<Output = ()> + 'm,
{
    let cases = all.iter().flat_map(|metadata| PLACES.map(|place| (metadata, place)));
    let cases: Vec<Case<'m>> = cases.map(|(metadata, place)| check(metadata, place).boxed_local()).collect();
    run(cases);
}

#[test]
fn metadata_of_an_answer_to_a_call_fails_that_backend_or_nothing() {
    everywhere(&all(), in_a_call);
}

#[test]
fn metadata_of_an_answer_in_shadow_changes_no_decision() {
    everywhere(&all(), in_shadow);
}

#[test]
fn metadata_of_a_handshake_refuses_the_handshake_or_nothing() {
    everywhere(&all(), in_a_handshake);
}

#[test]
fn metadata_on_the_stream_of_nodes_ends_it_at_most() {
    everywhere(&all(), on_the_stream);
}

/// Responses whose head is not gRPC.
#[test]
fn another_head_is_no_grpc() {
    let head = |status, head: &[(&'static str, &[u8])]| {
        let head = head.iter().map(|(name, value)| (*name, value.to_vec())).collect();
        Exactly { status, head, body: None, trailers: Vec::new() }
    };
    let another = "not a gRPC response: unexpected content type; does url point to another service?";
    let cases = [
        (head(200, &[]), another),
        (head(200, &[("content-type", b"application/grpc-web+proto")]), another),
        (head(200, &[("content-type", b"\xff")]), another),
        (head(200, &[("content-type", b"text/html"), GRPC]), another),
        (head(204, &[GRPC]), "not a gRPC response: HTTP status 204; does url point to another service?"),
        (
            head(500, &[GRPC, ("grpc-status", b"0")]),
            "not a gRPC response: HTTP status 500; does url point to another service?",
        ),
        (
            head(304, &[("content-length", b"7")]),
            "not a gRPC response: HTTP status 304; does url point to another service?",
        ),
    ];
    let check = |(mut exactly, said): (Exactly, &'static str)| async move {
        if exactly.status == 200 {
            exactly.body = Some(framed(b"").to_vec());
            exactly.trailers = vec![("grpc-status", b"0".to_vec())];
        }
        let case = format!("{exactly:?}");
        let bad = Scripted::start(greeting(), move |_, _| Act::Exactly(exactly.clone())).await;
        let gateway = Gateway::start(&format!(
            "nodes: {{source: Request}}\ntimeouts: {{decision: 30s}}\nbackends:\n{}",
            configured("bad", &bad, "filter: {timeout: 20s}")
        ))
        .await;
        let error = gateway.post("/filter", by_name(&["a"])).await.error();
        assert!(error.contains(said), "{case}: {error}");
        goes_on(&gateway, &case);
    };
    run(cases.map(|case| check(case).boxed_local()).into());
}

/// Fields beyond 16 KiB are not kept: that answer fails, or counts without them.
#[test]
fn more_metadata_than_is_read_is_that_answers_loss() {
    let huge = |place| async move {
        let fields: Fields = vec![("grpc-status", b"0".to_vec()), ("x-custom", vec![b'x'; 40 << 10])];
        let metadata = Metadata { name: "40 KiB", fields, meaning: Counts };
        let (gateway, case) = called(&metadata, place, "mode: Enforce").await;
        let reply = gateway.post("/filter", by_name(&["a", "b", "c"])).await.json();
        let left = &reply["NodeNames"];
        assert!(*left == json!(["a", "c"]) || *left == json!(["c"]), "{case}: {reply}");
        goes_on(&gateway, &case);
    };
    run(PLACES.map(|place| huge(place).boxed_local()).into());
}

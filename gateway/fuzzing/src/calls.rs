//! Bodies of kube-scheduler's calls, and the replies to them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use extender_gateway_core::filter::{By, Group, Rejected};
use extender_gateway_wire::{
    KnownObjects, Names, Offer, PreemptRequest, Request, WireError, bind as wire_bind,
    preempt::preempted,
    reply::{Body, Reason, filtered, prioritized},
};
use serde_json::{Value, json};

/// The longest text of an error, in bytes: one that echoes a name.
const LONGEST_ERROR: usize = 4 << 10;

/// A filter call is refused with a place, or answered with what was sent.
pub fn filter(bytes: &[u8]) {
    let Some(request) = request(bytes) else { return };
    let rejected = rejected(&request.names);
    let reasons = [Reason { text: "no".to_owned(), ..Reason::default() }];
    let reply = pieces(filtered(&request, &rejected, &reasons));
    bounded(&reply, bytes);
    // Skipped values are not checked, and an object is returned unchanged.
    let Ok(body) = serde_json::from_slice::<Value>(bytes) else { return };
    let reply = parsed(&reply);
    let accepted = match request.offer {
        Offer::Names => &reply["NodeNames"],
        Offer::Objects(_) => &reply["Nodes"]["items"],
    };
    if let Some(sent) = sent(&body, &request.offer) {
        let entries = entries(&request.names);
        assert_eq!(entries.len(), sent.len());
        let left = entries.iter().zip(&sent).filter(|(node, _)| rejected.nodes[**node as usize].is_none());
        assert_eq!(accepted, &json!(left.map(|(_, element)| element).collect::<Vec<_>>()));
    }
    let fallen = rejected.nodes.iter().flatten().count();
    let told: usize = ["FailedNodes", "FailedAndUnresolvableNodes"]
        .iter()
        .map(|map| reply[map].as_object().map_or(0, serde_json::Map::len))
        .sum();
    assert_eq!(told, fallen);
}

/// A prioritize call is refused with a place, or each of its entries gets the score of its node.
pub fn prioritize(bytes: &[u8]) {
    let Some(request) = request(bytes) else { return };
    let names = &request.names;
    let totals: Vec<Option<i64>> = (0..i64::from(names.count())).map(Some).collect();
    let list = pieces(prioritized(&request, &totals));
    bounded(&list, bytes);
    if is_json(bytes) {
        let entries = entries(names);
        let scored = entries.iter().map(|node| json!({"Host": names.name(*node), "Score": node}));
        assert_eq!(parsed(&list), json!(scored.collect::<Vec<_>>()));
    }
    if is_json(bytes) && names.count() > 0 {
        let one = Request::about(request.pod(), Arc::new(names.only(&[0])));
        let one = one.unwrap_or_else(|error| panic!("a node of the call is none of a call: {error}"));
        assert_eq!((one.names.name(0), one.pod()), (names.name(0), request.pod()));
    }
}

/// A preempt call is refused with a place, or what is echoed means the same.
pub fn preempt(bytes: &[u8]) {
    let request = match PreemptRequest::read(Bytes::copy_from_slice(bytes)) {
        Ok(request) => request,
        Err(error) => return explained(&error, bytes),
    };
    let candidates = request.candidates();
    for candidate in &candidates {
        assert!(candidate.victims.iter().all(|uid| !uid.is_empty()));
        assert!(request.objects(candidate.node).len() <= candidate.victims.len());
    }
    let reply = pieces(preempted(&request, &candidates));
    bounded(&reply, bytes);
    let mut echo = parsed(&reply);
    assert!(!holds_null(&echo), "{echo}");
    if !is_json(bytes) {
        return;
    }
    echo["Pod"] = json!({});
    let again = PreemptRequest::read(echo.to_string().into()).unwrap();
    assert_eq!(named(&again), named(&request));
}

/// A bind call is refused with a reason, or names a pod and a node that may be part of a path of kube-apiserver.
pub fn bind(bytes: &[u8]) {
    let assignment = match wire_bind::read(bytes) {
        Ok(assignment) => assignment,
        Err(error) => return explained(&error, bytes),
    };
    for name in [&assignment.namespace, &assignment.name, &assignment.node] {
        let uri: http::Uri = format!("https://host/{name}/x").parse().unwrap();
        assert_eq!(uri.path(), format!("/{name}/x"));
        assert!(!name.is_empty() && !name.contains(['/', '?', '#', '%']));
    }
    if !is_json(bytes) {
        return;
    }
    let (name, namespace) = (&assignment.name, &assignment.namespace);
    let body = json!({"PodName": name, "PodNamespace": namespace, "PodUID": assignment.uid, "Node": assignment.node});
    assert_eq!(wire_bind::read(body.to_string().as_bytes()), Ok(assignment));
}

/// Whether a body is JSON as a whole. Others are accepted, too, if what is used of them can be read; their strings may have
/// control characters, which take more bytes when they are escaped.
fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Value>(bytes).is_ok()
}

/// The request in these bytes. One that is read again beside its own nodes, as after an earlier call, is the same.
fn request(bytes: &[u8]) -> Option<Request> {
    let body = Bytes::copy_from_slice(bytes);
    let request = match Request::read(body.clone()) {
        Ok(request) => request,
        Err(error) => {
            explained(&error, bytes);
            return None;
        }
    };
    let known = Known::of(&request);
    let again = Request::read_with(body, &known).unwrap_or_else(|error| panic!("with known nodes: {error}"));
    let text = |request: &Request| -> Vec<(String, Option<Vec<u8>>)> {
        let node = |node| (request.names.name(node).to_owned(), request.object(node).map(<[u8]>::to_vec));
        (0..request.names.count()).map(node).collect()
    };
    assert_eq!(text(&again), text(&request));
    assert_eq!((entries(&again.names), again.pod()), (entries(&request.names), request.pod()));
    Some(request)
}

/// The nodes of an earlier call, if they are objects.
struct Known(HashMap<String, Vec<u8>>);

impl Known {
    fn of(request: &Request) -> Self {
        let known = |node| Some((request.names.name(node).to_owned(), request.object(node)?.to_vec()));
        // A table keeps only objects that can be parsed.
        let is_kept = |(_, object): &(String, Vec<u8>)| is_json(object);
        Self((0..request.names.count()).filter_map(known).filter(is_kept).collect())
    }
}

impl KnownObjects for Known {
    fn json(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }
}

/// An error has a short text, and its place is in the body.
fn explained(error: &WireError, bytes: &[u8]) {
    let text = error.to_string();
    assert!(!text.is_empty() && text.len() <= LONGEST_ERROR, "{} bytes", text.len());
    assert!(error.at.is_none_or(|at| at <= bytes.len()), "{text} of {} bytes", bytes.len());
}

/// A reply is at most some times as large as the body: the shortest entry of a list becomes an object.
fn bounded(reply: &[u8], body: &[u8]) {
    assert!(reply.len() <= 256 + 12 * body.len(), "{} bytes of {}", reply.len(), body.len());
}

fn pieces(body: Body) -> Vec<u8> {
    body.into_pieces().concat()
}

fn parsed(reply: &[u8]) -> Value {
    serde_json::from_slice(reply).unwrap_or_else(|error| panic!("{error}: {}", reply.escape_ascii()))
}

fn entries(names: &Names) -> Vec<u32> {
    (0..names.entries()).map(|entry| names.node_at(entry)).collect()
}

/// Rejects every third node.
fn rejected(names: &Names) -> Rejected {
    let group = Group { by: By::Seat(0), reason: String::new(), preemption_may_help: false };
    Rejected {
        groups: vec![group],
        nodes: (0..names.count()).map(|node| (node % 3 == 0).then_some(0)).collect(),
    }
}

/// The nodes in the request: names or objects.
fn sent(body: &Value, offer: &Offer) -> Option<Vec<Value>> {
    let list = match offer {
        Offer::Names => only(body, "NodeNames")?,
        Offer::Objects(_) => only(only(body, "Nodes")?, "items")?,
    };
    list.as_array().cloned()
}

/// The value of the only key with this name in any letter case.
fn only<'v>(object: &'v Value, name: &str) -> Option<&'v Value> {
    let mut found = object.as_object()?.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
    let (_, value) = found.next()?;
    found.next().is_none().then_some(value)
}

fn holds_null(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(holds_null),
        Value::Object(values) => values.values().any(holds_null),
        other => other.is_null(),
    }
}

/// The victims and the violated budgets of each node.
fn named(request: &PreemptRequest) -> BTreeMap<String, (Vec<String>, i64)> {
    let candidates = request.candidates().into_iter();
    candidates.map(|one| (request.name(one.node).to_owned(), (one.victims, one.pdb_violations))).collect()
}

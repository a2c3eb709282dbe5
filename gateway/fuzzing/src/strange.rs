//! An object that Go reads, between others: whatever it has, it costs itself alone, in calls, lists and watches.

use std::convert::Infallible;

use extender_gateway_cluster::{head::ObjectHead, pods::PodTable, table::NodeTable, watch::follow_once};
use extender_gateway_contract::row::RowView;
use extender_gateway_object::{
    limits::LONGEST_NAME,
    node, pod,
    view::{KeyPrefixes, PodFactsView},
};
use extender_gateway_wire::Request as Call;
use http::{Request, Response};
use kube::{Client, client::Body};
use serde::de::IgnoredAny;
use tokio::runtime::Builder;

/// The names of the others.
const OTHERS: [&str; 2] = ["fuzz-other-1", "fuzz-other-2"];

/// No object costs another one.
pub fn object(bytes: &[u8]) {
    // Go's encoder writes no line ends.
    let is_json = bytes.first() == Some(&b'{') && serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
    if is_json && !bytes.contains(&b'\n') && bytes.len() < 1 << 20 {
        in_a_call(bytes);
        in_a_cluster(bytes);
        slimmed(bytes);
    }
}

fn other(name: &str, version: u32) -> Vec<u8> {
    let kind = format!(r#""name":"{name}","namespace":"fuzz","uid":"{name}","resourceVersion":"{version}""#);
    format!(r#"{{"metadata":{{{kind}}},"status":{{"allocatable":{{"cpu":"{version}"}}}}}}"#).into_bytes()
}

/// What the gateway can read, a call can bring; what it cannot read is rejected alone.
fn in_a_call(bytes: &[u8]) {
    let [one, two] = OTHERS.map(|name| other(name, 1));
    let nodes = [&one, bytes, &two].join(&b',');
    let body = [br#"{"Pod":{},"Nodes":{"items":["#.as_slice(), &nodes, b"]}}"].concat();
    let Ok(call) = Call::read(body.into()) else {
        let is_readable = node::parse(bytes).is_ok_and(|node| node.name().len() <= LONGEST_NAME);
        assert!(!is_readable, "a node that can be read costs its call");
        return;
    };
    let table = NodeTable::of_calls();
    let view = table.register(RowView::FactsAndRaw(KeyPrefixes::all().into()));
    let names = (0..call.names.count()).map(|node| call.names.name(node)).collect::<Vec<_>>();
    let Ok(found) = table.import(names.iter().copied(), |node| call.object(node), view.id()) else {
        panic!("one node costs its call");
    };
    assert_eq!(found.unknown, found.unreadable);
    assert!(found.unreadable.iter().all(|node| *node == 1 || names.len() < 3), "{names:?}");
}

/// A list and a watch with it end as those without it, and have the others.
fn in_a_cluster(bytes: &[u8]) {
    let head = ObjectHead::of(bytes);
    if head.resource_version.is_empty() || OTHERS.contains(&&*head.name) || OTHERS.contains(&&*head.uid) {
        return;
    }
    let [one, two] = OTHERS.map(|name| other(name, 1));
    let items = [&one, bytes, &two].join(&b',');
    let list = [br#"{"metadata":{"resourceVersion":"1"},"items":["#.as_slice(), &items, b"]}"].concat();
    let event = |kind: &str, object: &[u8]| {
        [format!(r#"{{"type":"{kind}","object":"#).as_bytes(), object, b"}\n"].concat()
    };
    let changed = OTHERS.map(|name| other(name, 2));
    let lines =
        [event("MODIFIED", &changed[0]), event("MODIFIED", bytes), event("MODIFIED", &changed[1])].concat();
    let (nodes, pods) = (NodeTable::new(), PodTable::new());
    let ended = Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
        let answer = move |request: Request<Body>| {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let body = if is_watch { lines.clone() } else { list.clone() };
            std::future::ready(Ok::<_, Infallible>(Response::new(Body::from(body))))
        };
        follow_once(&nodes, &pods, &Client::new(tower::service_fn(answer), "default")).await
    });
    assert_eq!(ended.map_err(|error| error.to_string()), Ok(()));
    for name in OTHERS {
        let (facts, _) = nodes.known(name).unwrap_or_else(|| panic!("{name} is lost"));
        let cpu = facts.and_then(|facts| facts.allocatable).map(|allocatable| allocatable.milli_cpu);
        assert_eq!((cpu, pods.get(name).is_some()), (Some(2_000), true), "{name}");
    }
}

/// What is kept of a pod has the same facts, and what is kept of a large one is the same pod.
fn slimmed(bytes: &[u8]) {
    let Ok(pod) = pod::parse(bytes) else { return };
    let pods = PodTable::new();
    pods.apply(bytes).unwrap();
    let Some(kept) = pods.get(pod.uid()).and_then(|known| known.whole()) else { return };
    let kept = pod::parse(&kept).unwrap_or_else(|error| panic!("{error}"));
    let view = PodFactsView::complete();
    assert_eq!((kept.identity(), kept.facts(&view)), (pod.identity(), pod.facts(&view)));
}

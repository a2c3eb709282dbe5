//! A backend that answers when all of them have a request.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use extender_policy_api::v1beta1::{
    self as api, ChangeResponse, ChangedPart, FilterRequest, FilterResponse, GetInfoResponse, MapReads,
    NodeChange, NodePart, NodeReads, PodPart, PodReads, Reads, Rejection, Scope, ScoreResponse, Scores, Verb,
    VerbInfo, nodes::Form,
};
use h2::{RecvStream, server::SendResponse};
use http::{HeaderMap, Request, Response};
use prost::Message;
use tokio::{
    net::{TcpListener, TcpStream},
    task::yield_now,
};

use super::Meeting;
use crate::calls::REFUSED_RACK;

/// Never used up by a test, so that no window update wakes the gateway at another time.
const WINDOW: u32 = 1 << 30;

/// The flags and the length in front of a message.
const PREFIX: usize = 5;

/// How often other tasks run before an answer is certainly written: far more than necessary.
const TURNS: usize = 20;

/// Serves the backend with this number, for calls with this many nodes.
pub(super) async fn serve(listener: TcpListener, who: (usize, usize), meeting: Arc<Meeting>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(stream, who, Arc::clone(&meeting)));
    }
}

async fn connection(stream: TcpStream, who: (usize, usize), meeting: Arc<Meeting>) {
    let _ = stream.set_nodelay(true);
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(WINDOW).initial_connection_window_size(WINDOW).max_frame_size(1 << 20);
    let Ok(mut connection) = builder.handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(call(request, respond, who, Arc::clone(&meeting)));
    }
}

async fn call(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    (number, nodes): (usize, usize),
    meeting: Arc<Meeting>,
) {
    let (head, mut body) = request.into_parts();
    let mut framed = BytesMut::new();
    while let Some(Ok(chunk)) = body.data().await {
        let _ = body.flow_control().release_capacity(chunk.len());
        framed.extend_from_slice(&chunk);
    }
    let message = match head.uri.path().rsplit('/').next() {
        Some("Filter") => filtered(number, nodes, &framed[PREFIX..]).encode_to_vec(),
        Some("Score") => scored(nodes).encode_to_vec(),
        // A hook is called before all of them, so it waits for none.
        Some("Change") => return send(&mut respond, &changed(nodes).encode_to_vec()),
        _ => return send(&mut respond, &info().encode_to_vec()),
    };
    meeting.asked.wait().await;
    meeting.go.wait().await;
    send(&mut respond, &message);
    for _ in 0..TURNS {
        yield_now().await;
    }
    meeting.gone.wait().await;
}

/// It filters, scores and changes node by node, and is called every time. It is a hook if the configuration says so.
fn info() -> GetInfoResponse {
    let verb = |verb: Verb| VerbInfo {
        verb: verb as i32,
        reads: Some(reads()),
        scope: Scope::Node as i32,
        ..VerbInfo::default()
    };
    let changes = vec![ChangedPart::NodeLabels as i32];
    let hook = VerbInfo { changes, ..verb(Verb::BeforeFilterNodes) };
    GetInfoResponse {
        name: "scripted".into(),
        api_version: "extender.policy.v1beta1".into(),
        services: vec!["extender.policy.v1beta1.HookService".into()],
        verbs: vec![verb(Verb::Filter), verb(Verb::Score), hook],
        ..GetInfoResponse::default()
    }
}

/// Nearly everything. Not `everything`, which grows with the facts that the gateway knows, and the recorded cost with it.
fn reads() -> Reads {
    let all = || Some(MapReads { keys: Vec::new(), prefixes: vec![String::new()] });
    let of_pod = PodPart::Identity as i32..=PodPart::SchedulerName as i32;
    let of_node = NodePart::Taints as i32..=NodePart::Name as i32;
    Reads {
        pod: Some(PodReads { parts: of_pod.collect(), labels: all(), ..PodReads::default() }),
        node: Some(NodeReads { parts: of_node.collect(), labels: all(), ..NodeReads::default() }),
    }
}

/// The first backend refuses a rack, the others refuse no node.
fn filtered(number: usize, nodes: usize, message: &[u8]) -> FilterResponse {
    let request = FilterRequest::decode(message).expect("it is a question of the contract");
    let refused = if number == 0 { in_the_rack(&request) } else { vec![] };
    let rejection = Rejection { reason: "drained".into(), positions: refused, ..Rejection::default() };
    let rejections = if rejection.positions.is_empty() { vec![] } else { vec![rejection] };
    let scores = request.want_scores.then(|| scores(nodes));
    FilterResponse { result: Some(evaluated(nodes)), rejections, scores }
}

fn in_the_rack(request: &FilterRequest) -> Vec<u32> {
    let nodes = request.nodes.as_ref().expect("there are nodes");
    let Some(Form::Rows(rows)) = &nodes.form else { return vec![] };
    let is_refused = |row: &api::NodeRow| {
        let labels = row.facts.as_ref().and_then(|facts| facts.labels.as_ref());
        labels.is_some_and(|labels| labels.entries.values().any(|value| value == REFUSED_RACK))
    };
    (0..).zip(&rows.rows).filter(|(_, row)| is_refused(row)).map(|(at, _)| at).collect()
}

fn scored(nodes: usize) -> ScoreResponse {
    ScoreResponse { result: Some(evaluated(nodes)), scores: Some(scores(nodes)) }
}

fn scores(nodes: usize) -> Scores {
    Scores { values: (0..10).cycle().take(nodes).collect(), absent: Vec::new() }
}

/// Each node gets a label of its own.
fn changed(nodes: usize) -> ChangeResponse {
    let change = |at: usize| NodeChange {
        positions: vec![u32::try_from(at).expect("there are few nodes")],
        set_labels: [("rank".to_owned(), at.to_string())].into(),
        ..NodeChange::default()
    };
    let nodes_changed = (0..nodes).map(change).collect();
    ChangeResponse { result: Some(evaluated(nodes)), pod: None, nodes: nodes_changed }
}

fn evaluated(nodes: usize) -> api::Result {
    let evaluated = u32::try_from(nodes).expect("there are few nodes");
    api::Result::answered(evaluated, "")
}

fn send(respond: &mut SendResponse<Bytes>, message: &[u8]) {
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).expect("messages are small"));
    framed.extend_from_slice(message);
    let head = Response::builder().header("content-type", "application/grpc").body(()).expect("it is valid");
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", 0.into());
    // The gateway closes streams that it no longer needs: errors are ignored.
    if let Ok(mut stream) = respond.send_response(head, false) {
        let _ = stream.send_data(framed.freeze(), false);
        let _ = stream.send_trailers(trailers);
    }
}

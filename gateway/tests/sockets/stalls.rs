//! A policy that stalls for a while and recovers.

use std::{future::poll_fn, net::SocketAddr, pin::Pin, sync::Mutex, task::Poll};

use bytes::Bytes;
use extender_policy_api::v1beta1::{
    self as api, Call, FilterRequest, NodeRow, NodeRows, Nodes, PodFacts, Purpose, nodes::Form,
};
use extender_policy_sdk::{Bound, Info, Node, Options, Pod, Policy, Verb, Verdict};
use h2::{
    SendStream,
    client::{ResponseFuture, SendRequest},
};
use http::Request;
use prost::Message;
use ring::digest::{SHA256, digest};
use tokio::{
    net::TcpStream,
    runtime,
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::support::{TEST_TIMEOUT, backend::framed};

/// Reports that a filter call has come, and then blocks until the other end of the gate is dropped, together with
/// the thread that serves everything.
struct Stalling {
    called: mpsc::UnboundedSender<()>,
    gate: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Policy for Stalling {
    fn info(&self) -> Info {
        Info::new("stalling", "1").filters(Verb::per_node())
    }

    fn filter(&self, _: &Pod<'_>, _: &Node<'_>) -> Verdict {
        self.called.send(()).unwrap();
        let _ = self.gate.lock().unwrap().recv();
        Verdict::Accept
    }
}

/// Serves on its own thread.
async fn serve(policy: Stalling) -> SocketAddr {
    let (told, address) = oneshot::channel();
    std::thread::spawn(move || {
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let bound = Bound::new(policy, Options::default()).await.unwrap();
            told.send(bound.address()).unwrap();
            bound.until(std::future::pending()).await
        })
    });
    address.await.unwrap()
}

fn open(requests: &mut SendRequest<Bytes>, path: &str) -> (ResponseFuture, SendStream<Bytes>) {
    let request = Request::post(format!("http://stalling/extender.policy.v1beta1.{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap();
    requests.send_request(request, false).unwrap()
}

/// A filter call about one node.
fn filter(requests: &mut SendRequest<Bytes>) -> (ResponseFuture, SendStream<Bytes>) {
    let nodes = Some(Nodes { count: 1, form: Some(Form::Rows(NodeRows { rows: vec![NodeRow::default()] })) });
    // The policy reads nothing.
    let reads = Bytes::copy_from_slice(digest(&SHA256, b"").as_ref());
    let call = Some(Call { purpose: Purpose::Decide.into(), reads, ..Call::default() });
    let pod = Some(api::Pod { facts: Some(PodFacts::default()), ..api::Pod::default() });
    let question = FilterRequest { call, pod, nodes, want_scores: false }.encode_to_vec();
    let (response, mut stream) = open(requests, "PolicyService/Filter");
    stream.send_data(framed(&question), true).unwrap();
    (response, stream)
}

async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context))).await
}

#[tokio::test]
async fn a_policy_keeps_its_connection_after_calls_that_were_given_up_while_it_stood_still() {
    let (called, mut calls) = mpsc::unbounded_channel();
    let (stall, gate) = std::sync::mpsc::channel();
    let address = serve(Stalling { called, gate: Mutex::new(gate) }).await;
    let (requests, connection) =
        h2::client::handshake(TcpStream::connect(address).await.unwrap()).await.unwrap();
    let mut requests = requests.ready().await.unwrap();
    let mut connection = Box::pin(connection);
    // As the gateway's streams of nodes are.
    let (mut lasting, _requests) = open(&mut requests, "NodeTableService/SyncNodes");
    let _first = filter(&mut requests);
    tokio::select! {
        called = timeout(TEST_TIMEOUT, calls.recv()) => assert_eq!(called, Ok(Some(()))),
        ended = &mut connection => panic!("the connection ended: {ended:?}"),
    }
    // Four seconds of some 50 pods a second, each of which is canceled after its timeout.
    for _ in 0..200 {
        let call = filter(&mut requests);
        assert!(poll_once(&mut connection).await.is_pending(), "the call goes out");
        drop(call);
        assert!(poll_once(&mut connection).await.is_pending(), "and the reset");
    }
    drop(stall);
    let (answer, _last) = filter(&mut requests);
    let answered = async {
        tokio::select! {
            answer = answer => answer.unwrap().status(),
            ended = &mut connection => panic!("the connection ended: {ended:?}"),
        }
    };
    assert_eq!(timeout(TEST_TIMEOUT, answered).await.unwrap(), 200);
    if let Poll::Ready(Err(error)) = poll_once(&mut lasting).await {
        panic!("the stream ended: {error}");
    }
}

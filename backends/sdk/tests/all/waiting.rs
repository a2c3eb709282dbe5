//! A policy that waits for something outside, over a real socket: other calls are answered meanwhile, nothing is asked
//! twice, and a call that ends takes its future with it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use extender_policy_api::v1beta1::{
    FilterRequest, NodeFacts, NodeRow, ScoreRequest, policy_service_client::PolicyServiceClient,
};
use extender_policy_sdk::{
    BoxFuture, CannotAnswer, Info, Node, Nodes, NotReady, Pod, Policy, Reads, Scale, Unanswered, Verb,
    Verdict,
};
use tokio::sync::Semaphore;
use tonic::{Code, Status, transport::Channel};

use crate::{evaluated, filter_request, of_namespace, served, soon};

/// Filter waits for the gate, except in namespaces that say otherwise.
#[derive(Default)]
struct Waiting(Arc<Outside>);

struct Outside {
    entered: Semaphore,
    gate: Semaphore,
    left: Semaphore,
    calls: AtomicUsize,
}

impl Default for Outside {
    fn default() -> Self {
        let closed = || Semaphore::new(0);
        Self { entered: closed(), gate: closed(), left: closed(), calls: AtomicUsize::new(0) }
    }
}

/// Says when a future ends, however it does.
struct Left<'a>(&'a Outside);

impl Drop for Left<'_> {
    fn drop(&mut self) {
        self.0.left.add_permits(1);
    }
}

impl Policy for Waiting {
    fn info(&self) -> Info {
        let verb = Verb::per_node().reads(&Reads::everything());
        Info::new("waiting", "1").filters(verb.clone().waits()).scores(verb, Scale::between(0..=10))
    }

    fn filter_later<'a>(
        &'a self,
        pod: Pod<'a>,
        nodes: Nodes<'a>,
    ) -> BoxFuture<'a, Result<Vec<Verdict>, Unanswered>> {
        Box::pin(async move {
            let _left = Left(&self.0);
            self.0.calls.fetch_add(1, Ordering::Relaxed);
            self.0.entered.add_permits(1);
            match pod.namespace() {
                "away" => return Err(NotReady("the other server is away".to_owned()).into()),
                "unknown" => return Err(CannotAnswer("no such claim".to_owned()).into()),
                "panic" => panic!("as asked"),
                _ => self.0.gate.acquire().await.unwrap().forget(),
            }
            let verdict = |node: Node<'_>| match node.name() {
                "b" => Verdict::reject("its name"),
                _ => Verdict::Accept,
            };
            Ok(nodes.iter().map(verdict).collect())
        })
    }

    fn score(&self, _: &Pod<'_>, _: &Node<'_>) -> i32 {
        7
    }
}

async fn serving() -> (PolicyServiceClient<Channel>, Arc<Outside>) {
    let outside = Arc::new(Outside::default());
    (PolicyServiceClient::new(served(Waiting(Arc::clone(&outside))).await), outside)
}

fn request(namespace: &str) -> FilterRequest {
    let row = |name: &str| NodeRow {
        name: name.to_owned(),
        facts: Some(NodeFacts::default()),
        ..NodeRow::default()
    };
    let rows = ["a", "b"].map(row).into();
    FilterRequest { want_scores: true, ..filter_request(of_namespace(namespace), rows) }
}

#[tokio::test]
async fn other_calls_are_answered_while_one_waits() {
    let (mut client, outside) = serving().await;
    let mut waiting = client.clone();
    let filtered = tokio::spawn(async move { waiting.filter(request("shop")).await });
    soon(outside.entered.acquire()).await.unwrap().forget();
    let FilterRequest { call, pod, nodes, .. } = request("shop");
    let scored = soon(client.score(ScoreRequest { call, pod, nodes })).await.unwrap().into_inner();
    assert_eq!(scored.scores.unwrap().values, [7, 7]);
    assert!(!filtered.is_finished());
    outside.gate.add_permits(1);
    let filtered = soon(filtered).await.unwrap().unwrap().into_inner();
    assert_eq!((filtered.rejections[0].positions.clone(), evaluated(filtered.result)), (vec![1], 2));
    assert_eq!(filtered.scores.unwrap().values, [7, 7], "this verb does not wait");
    assert_eq!(outside.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_call_that_is_cancelled_takes_its_future_with_it() {
    let (mut client, outside) = serving().await;
    let filtered = tokio::spawn(async move { client.filter(request("shop")).await });
    soon(outside.entered.acquire()).await.unwrap().forget();
    filtered.abort();
    soon(outside.left.acquire()).await.unwrap().forget();
}

#[tokio::test]
async fn failures_fail_this_call_alone() {
    let (mut client, outside) = serving().await;
    let mut failed =
        async |namespace: &str| -> Status { soon(client.filter(request(namespace))).await.unwrap_err() };
    let away = failed("away").await;
    assert_eq!((away.code(), away.message()), (Code::Unavailable, "the other server is away"));
    let unknown = failed("unknown").await;
    assert_eq!((unknown.code(), unknown.message()), (Code::Aborted, "no such claim"));
    let panicked = failed("panic").await;
    assert_eq!(
        (panicked.code(), panicked.message()),
        (Code::Internal, "filter failed; see the policy's log")
    );
    outside.gate.add_permits(1);
    soon(client.filter(request("shop"))).await.unwrap();
}

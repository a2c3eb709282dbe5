//! Hooks that wait for something outside, over a real socket.

use std::sync::Arc;

use extender_policy_api::v1beta1::{
    ChangeRequest, FilterRequest, NodeFacts, NodeRow, Reads as Declared, Verb,
    hook_service_client::HookServiceClient,
};
use extender_policy_sdk::{
    BoxFuture, ChangedPart, Hook, Info, NodeChange, Nodes, NotReady, Pod, PodChange, Policy, Reads,
    Unanswered,
    testing::{self, TestNode, TestPod},
};
use tokio::sync::Semaphore;
use tonic::Code;

use crate::{call_reading, everything, filter_request, of_namespace, served, soon};

fn of_pod(namespace: &str) -> ChangeRequest {
    let pod = filter_request(of_namespace(namespace), Vec::new()).pod;
    let call = Some(call_reading(&Declared { node: None, ..everything() }));
    ChangeRequest { call, pod, nodes: None, hook: Verb::BeforeFilter.into() }
}

fn of_nodes(hook: Verb, nodes: usize) -> ChangeRequest {
    let row = NodeRow { name: "n".to_owned(), facts: Some(NodeFacts::default()), ..NodeRow::default() };
    let FilterRequest { call, pod, nodes, .. } = filter_request(of_namespace("shop"), vec![row; nodes]);
    ChangeRequest { call, pod, nodes, hook: hook.into() }
}

/// Waits for the gate before it filters; what else it is asked it answers at once.
struct Waiting {
    entered: Arc<Semaphore>,
    gate: Arc<Semaphore>,
}

impl Policy for Waiting {
    fn info(&self) -> Info {
        let pod = Hook::changes([ChangedPart::PodLabels]).reads(&Reads::everything());
        let nodes = Hook::changes([ChangedPart::NodeLabels]).reads(&Reads::everything());
        Info::new("waiting", "1")
            .before_filter(pod.clone().waits())
            .before_filter_nodes(nodes.waits())
            .before_score(pod.waits())
    }

    fn before_score(&self, _: &Pod<'_>, _: &Nodes<'_>) -> (PodChange, Vec<NodeChange>) {
        (PodChange::none(), Vec::new())
    }

    fn before_filter_later<'a>(&'a self, pod: Pod<'a>) -> BoxFuture<'a, Result<PodChange, Unanswered>> {
        Box::pin(async move {
            if pod.namespace() == "away" {
                return Err(NotReady("the other server is away".to_owned()).into());
            }
            self.entered.add_permits(1);
            self.gate.acquire().await.unwrap().forget();
            Ok(PodChange::none().set_label("waited", ""))
        })
    }

    fn before_filter_nodes_later<'a>(
        &'a self,
        _: Pod<'a>,
        nodes: Nodes<'a>,
    ) -> BoxFuture<'a, Result<Vec<NodeChange>, Unanswered>> {
        let change = NodeChange::none().set_label("waited", "");
        Box::pin(async move {
            tokio::task::yield_now().await;
            Ok(vec![change; nodes.len()])
        })
    }
}

#[tokio::test]
async fn other_calls_are_answered_while_a_hook_waits() {
    let [entered, gate] = [0, 0].map(|permits| Arc::new(Semaphore::new(permits)));
    let waiting = Waiting { entered: Arc::clone(&entered), gate: Arc::clone(&gate) };
    let mut hooks = HookServiceClient::new(served(waiting).await);
    let mut other = hooks.clone();
    let changed = tokio::spawn(async move { other.change(of_pod("shop")).await });
    soon(entered.acquire()).await.unwrap().forget();
    let nodes = soon(hooks.change(of_nodes(Verb::BeforeFilterNodes, 2))).await.unwrap().into_inner();
    assert_eq!((nodes.nodes.len(), &*nodes.nodes[0].positions), (1, &[0, 1][..]));
    let score = soon(hooks.change(of_nodes(Verb::BeforeScore, 1))).await.unwrap().into_inner();
    assert_eq!((score.pod, score.nodes), (None, vec![]), "it changes nothing");
    let status = soon(hooks.change(of_pod("away"))).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "the other server is away"));
    assert!(!changed.is_finished());
    gate.add_permits(1);
    let changed = soon(changed).await.unwrap().unwrap().into_inner();
    assert!(changed.pod.unwrap().set_labels.contains_key("waited"));
}

#[tokio::test]
async fn hooks_that_wait_are_tried_without_a_server() {
    let waiting = || Waiting { entered: Arc::new(Semaphore::new(0)), gate: Arc::new(Semaphore::new(1)) };
    let (pod, nodes) = (TestPod::new("shop"), [TestNode::new("a"), TestNode::new("b")]);
    let changed = testing::before_filter_later(waiting(), &pod).await.unwrap();
    assert_eq!(changed, PodChange::none().set_label("waited", ""));
    let changed = testing::before_filter_nodes_later(waiting(), &pod, &nodes).await.unwrap();
    let waited = NodeChange::none().set_label("waited", "");
    assert_eq!(changed, ["a", "b"].map(|node| (node.to_owned(), waited.clone())));
    let changed = testing::before_score_later(waiting(), &pod, &nodes).await.unwrap();
    assert_eq!(changed, (PodChange::none(), vec![]));
    let error = testing::before_filter(waiting(), &pod).unwrap_err().to_string();
    assert_eq!(error, "it is declared with waits(); use the function whose name ends with _later");
}

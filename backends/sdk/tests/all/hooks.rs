//! Hooks over a real socket: generated clients of the services on one connection.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;

use extender_policy_api::v1alpha1::{
    BeforeFilterNodesRequest, BeforeFilterRequest, BeforeScoreRequest, Call, FilterRequest, GetInfoRequest,
    Miss, NodeFacts, NodeRef, NodeRow, NodeRows, NodeView, Nodes as NodesMessage, Pod as PodMessage,
    PodFacts, Purpose, SyncNodesRequest, TableEntry, TableView, hook_service_client::HookServiceClient,
    hook_service_server::SERVICE_NAME, node_table_service_client::NodeTableServiceClient, nodes::Form,
    policy_service_client::PolicyServiceClient,
};
use extender_policy_sdk::{
    Args, Backend, BoxFuture, Change, Hook, Info, Node, NodeChange, Nodes, NotReady, Pod, PodChange, Policy,
    Unanswered, Verb,
    testing::{self, TestNode, TestPod},
};
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, transport::Channel};

use crate::{served, soon};

/// Does what the namespace of the pod says; closes the nodes of a zone.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Closing {
    zone: String,
}

impl Policy for Closing {
    fn info(&self) -> Info {
        Info::new("closing", "1")
            .before_filter(Hook::changing([Change::PodNodeSelector]))
            .before_filter_nodes(Hook::changing([Change::NodeTaints]))
            .before_score(Hook::changing([Change::NodeTaints, Change::PodLabels]))
    }

    fn before_filter(&self, pod: &Pod<'_>) -> PodChange {
        match pod.namespace() {
            "panic" => panic!("as asked"),
            _ => PodChange::none().set_node_selector("zone", &self.zone),
        }
    }

    fn before_filter_node(&self, _: &Pod<'_>, node: &Node<'_>) -> NodeChange {
        match node.label("zone") {
            Some(zone) if zone == self.zone => NodeChange::none().add_taint("closed", "", "NoSchedule"),
            _ => NodeChange::none(),
        }
    }

    fn before_score(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> (PodChange, Vec<NodeChange>) {
        (PodChange::none().set_label("seen", ""), self.before_filter_nodes(pod, nodes))
    }
}

fn closing() -> Closing {
    Closing { zone: "z1".to_owned() }
}

async fn hooks(backend: impl Into<Backend>) -> HookServiceClient<Channel> {
    HookServiceClient::new(served(backend).await)
}

fn call() -> Call {
    Call { purpose: Purpose::Decide.into(), ..Call::default() }
}

fn pod(namespace: &str) -> PodMessage {
    let facts = PodFacts { namespace: namespace.to_owned(), ..PodFacts::default() };
    PodMessage { facts: Some(facts), ..PodMessage::default() }
}

fn row(zone: &str) -> NodeRow {
    let labels = [("zone".to_owned(), zone.to_owned())].into();
    let facts = NodeFacts { labels, ..NodeFacts::default() };
    NodeRow { name: "n".to_owned(), facts: Some(facts), ..NodeRow::default() }
}

fn of_pod(namespace: &str) -> BeforeFilterRequest {
    BeforeFilterRequest { call: Some(call()), pod: Some(pod(namespace)) }
}

fn of_nodes(zones: &[&str]) -> BeforeFilterNodesRequest {
    let rows = zones.iter().map(|zone| row(zone)).collect();
    let form = Some(Form::Rows(NodeRows { rows }));
    let nodes = NodesMessage { count: zones.len().try_into().unwrap(), form };
    BeforeFilterNodesRequest { call: Some(call()), pod: Some(pod("shop")), nodes: Some(nodes) }
}

fn before_score(request: BeforeFilterNodesRequest) -> BeforeScoreRequest {
    let BeforeFilterNodesRequest { call, pod, nodes } = request;
    BeforeScoreRequest { call, pod, nodes }
}

#[tokio::test]
async fn the_handshake_lists_the_hooks_and_their_service() {
    let mut policies = PolicyServiceClient::new(served(closing()).await);
    let info = policies.get_info(GetInfoRequest::default()).await.unwrap().into_inner();
    assert!(info.services.iter().any(|service| service == SERVICE_NAME), "{:?}", info.services);
    let verbs: Vec<_> = info.verbs.iter().map(|verb| verb.verb().as_str_name()).collect();
    assert_eq!(verbs, ["VERB_BEFORE_FILTER", "VERB_BEFORE_FILTER_NODES", "VERB_BEFORE_SCORE"]);
}

#[tokio::test]
async fn hooks_answer_what_changes() {
    let mut hooks = hooks(closing()).await;
    let answer = hooks.before_filter(of_pod("shop")).await.unwrap().into_inner();
    assert_eq!(answer.result.unwrap().evaluated, 1);
    assert_eq!(answer.pod.unwrap().set_node_selector["zone"], "z1");
    let request = of_nodes(&["z1", "z2", "z1"]);
    let filter = hooks.before_filter_nodes(request.clone()).await.unwrap().into_inner();
    let score = hooks.before_score(before_score(request)).await.unwrap().into_inner();
    assert_eq!((filter.result.unwrap().evaluated, score.result.unwrap().evaluated), (3, 3));
    let [change] = &filter.nodes[..] else { panic!("one change for both nodes: {:?}", filter.nodes) };
    assert_eq!((&*change.positions, &*change.add_taints[0].key), (&[0, 2][..], "closed"));
    assert_eq!((score.nodes, score.pod.unwrap().set_labels.len()), (filter.nodes, 1));
}

#[tokio::test]
async fn failures_have_the_status_of_their_cause() {
    let mut hooks = hooks(closing()).await;
    let without_purpose = BeforeFilterRequest { call: Some(Call::default()), ..of_pod("shop") };
    for (request, code, text) in [
        (BeforeFilterRequest { call: None, ..of_pod("shop") }, Code::InvalidArgument, "call is missing"),
        (BeforeFilterRequest { pod: None, ..of_pod("shop") }, Code::InvalidArgument, "pod is missing"),
        (without_purpose, Code::InvalidArgument, "call.purpose is missing"),
        (of_pod("panic"), Code::Internal, "the policy panicked; see the policy's log"),
    ] {
        let status = hooks.before_filter(request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(text), "{status} lacks {text}");
    }
    let without_nodes = BeforeFilterNodesRequest { nodes: None, ..of_nodes(&["z1"]) };
    let status = hooks.before_filter_nodes(without_nodes).await.unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::InvalidArgument, "nodes is missing; every request has it")
    );
    hooks.before_filter(of_pod("shop")).await.unwrap();
}

#[tokio::test]
async fn what_is_not_declared_is_not_served() {
    struct BeforeFilterAlone;
    impl Policy for BeforeFilterAlone {
        fn info(&self) -> Info {
            Info::new("alone", "1").before_filter(Hook::changing([Change::PodLabels]))
        }
    }
    let channel = served(BeforeFilterAlone).await;
    let (mut hooks, mut policies) =
        (HookServiceClient::new(channel.clone()), PolicyServiceClient::new(channel));
    let unserved = |status: Status| {
        assert_eq!(status.code(), Code::Unimplemented, "{status}");
    };
    unserved(hooks.before_filter_nodes(of_nodes(&["z1"])).await.unwrap_err());
    unserved(hooks.before_score(before_score(of_nodes(&["z1"]))).await.unwrap_err());
    unserved(policies.filter(FilterRequest::default()).await.unwrap_err());
    assert_eq!(hooks.before_filter(of_pod("shop")).await.unwrap().into_inner().pod, None);
}

#[tokio::test]
async fn a_policy_without_hooks_serves_none() {
    struct Filters;
    impl Policy for Filters {
        fn info(&self) -> Info {
            Info::new("filters", "1").filters(Verb::per_node())
        }
    }
    let channel = served(Filters).await;
    let info = PolicyServiceClient::new(channel.clone()).get_info(GetInfoRequest::default()).await.unwrap();
    assert!(!info.into_inner().services.iter().any(|service| service == SERVICE_NAME));
    let status =
        HookServiceClient::new(channel).before_filter(BeforeFilterRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented, "{status}");
    assert!(status.message().contains("does not serve BeforeFilter"), "{status}");
}

#[tokio::test]
async fn nodes_are_named_by_a_table() {
    let channel = served(closing()).await;
    let (messages, receiver) = mpsc::channel(1);
    let mut tables = NodeTableServiceClient::new(channel.clone());
    let mut applied = soon(tables.sync_nodes(ReceiverStream::new(receiver))).await.unwrap().into_inner();
    let entry = |(id, zone)| TableEntry { id, row: Some(row(zone)) };
    let first = SyncNodesRequest {
        table: 7,
        version: 1,
        view: Some(TableView { node_view: NodeView::Facts.into(), ..TableView::default() }),
        upserts: [(1, "z1"), (2, "z2")].map(entry).into(),
        ..SyncNodesRequest::default()
    };
    soon(messages.send(first)).await.unwrap();
    soon(applied.message()).await.unwrap().unwrap();
    let mut hooks = HookServiceClient::new(channel);
    let named = |table: u64, at_least: u64| {
        // A zero stands for the row.
        let form = NodeRef { table, at_least, ids: vec![2, 1, 0], rows: vec![row("z1")] };
        let nodes = Some(NodesMessage { count: 3, form: Some(Form::Table(form)) });
        BeforeFilterNodesRequest { nodes, ..of_nodes(&[]) }
    };
    let answer = hooks.before_filter_nodes(named(7, 1)).await.unwrap().into_inner();
    assert_eq!((answer.result.unwrap().evaluated, &*answer.nodes[0].positions), (3, &[1, 2][..]));
    for (request, expected) in [(named(8, 1), Miss::TableUnknown), (named(7, 2), Miss::TableBehind)] {
        let filter = hooks.before_filter_nodes(request.clone()).await.unwrap().into_inner();
        let score = hooks.before_score(before_score(request)).await.unwrap().into_inner();
        for result in [filter.result.unwrap(), score.result.unwrap()] {
            assert_eq!((result.evaluated, result.miss()), (0, expected));
        }
        assert_eq!((filter.nodes, score.nodes, score.pod), (vec![], vec![], None));
    }
}

#[tokio::test]
async fn args_choose_the_policy() {
    let mut hooks = hooks(Backend::configured(Args::parse::<Closing>)).await;
    let mut selected = async |args: &str| -> Result<String, Status> {
        let call = Call { args: args.as_bytes().to_vec().into(), ..call() };
        let request = BeforeFilterRequest { call: Some(call), ..of_pod("shop") };
        let change = hooks.before_filter(request).await?.into_inner().pod.unwrap();
        Ok(change.set_node_selector["zone"].clone())
    };
    assert_eq!(selected(r#"{"zone": "z9"}"#).await.unwrap(), "z9");
    let status = selected(r#"{"zones": "z9"}"#).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert!(status.message().contains("args.zones: unknown field"), "{status}");
}

/// Waits for the gate before it filters; what else it is asked it answers at once.
struct Waiting {
    entered: Arc<Semaphore>,
    gate: Arc<Semaphore>,
}

impl Policy for Waiting {
    fn info(&self) -> Info {
        let pod = Hook::changing([Change::PodLabels]);
        let nodes = Hook::changing([Change::NodeLabels]);
        Info::new("waiting", "1")
            .before_filter(pod.clone().waits())
            .before_filter_nodes(nodes.waits())
            .before_score(pod.waits())
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
    let mut hooks = hooks(waiting).await;
    let mut other = hooks.clone();
    let changed = tokio::spawn(async move { other.before_filter(of_pod("shop")).await });
    soon(entered.acquire()).await.unwrap().forget();
    let nodes = soon(hooks.before_filter_nodes(of_nodes(&["z1", "z2"]))).await.unwrap().into_inner();
    assert_eq!((nodes.nodes.len(), &*nodes.nodes[0].positions), (1, &[0, 1][..]));
    let score = soon(hooks.before_score(before_score(of_nodes(&["z1"])))).await.unwrap().into_inner();
    assert_eq!((score.pod, score.nodes), (None, vec![]), "the default changes nothing");
    let status = soon(hooks.before_filter(of_pod("away"))).await.unwrap_err();
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

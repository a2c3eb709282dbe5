//! A policy that declares what it reads, over real sockets: the handshake, calls with values, tables of values.

use extender_policy_api::v1alpha1::{
    Call, FilterRequest, FilterResponse, GetInfoRequest, MapReads, Miss, NodeFacts, NodeReads, NodeRef,
    NodeRow, NodeRows, NodeView, Nodes, Pod as PodMessage, PodFacts, Purpose, Reads as ReadsMessage,
    SyncNodesRequest, TableEntry, TableView, node_table_service_client::NodeTableServiceClient, nodes::Form,
    policy_service_client::PolicyServiceClient,
};
use extender_policy_sdk::{Backend, Info, Node, NodeKey, Pod, PodPart, Policy, Reads, Verb, Verdict};
use tokio_stream::{StreamExt as _, pending};
use tonic::{Code, Status, transport::Channel};

use crate::served;

/// Refuses nodes that have a label, by its value. Pods of one namespace make it read a second one.
struct Labelled {
    reads: Reads,
    key: NodeKey,
}

impl Labelled {
    fn new(key: &str) -> Self {
        let mut reads = Reads::new();
        let key = reads.node_label(key);
        reads.pod(PodPart::Namespace);
        Self { reads, key }
    }
}

impl Policy for Labelled {
    fn info(&self) -> Info {
        Info::new("labelled", "1").filters(Verb::per_node().pure().reads(&self.reads))
    }

    fn filter(&self, pod: &Pod<'_>, node: &Node<'_>) -> Verdict {
        let value = if pod.namespace() == "curious" { node.label("secret") } else { node.get(&self.key) };
        value.map_or(Verdict::Accept, |value| Verdict::reject(format!("it is {value:?}")))
    }
}

async fn declared(channel: &Channel) -> ReadsMessage {
    let info = PolicyServiceClient::new(channel.clone()).get_info(GetInfoRequest::default()).await.unwrap();
    info.into_inner().verbs.remove(0).reads.unwrap()
}

fn row(value: Option<&str>) -> NodeRow {
    let facts = NodeFacts {
        label_values: vec![value.unwrap_or_default().to_owned()],
        absent_labels: value.is_none().then_some(0).into_iter().collect(),
        ..NodeFacts::default()
    };
    NodeRow { name: "n".into(), facts: Some(facts), ..NodeRow::default() }
}

async fn filtered(
    channel: &Channel,
    reads: u32,
    namespace: &str,
    count: u32,
    form: Form,
) -> Result<FilterResponse, Status> {
    let facts = PodFacts { namespace: namespace.into(), ..PodFacts::default() };
    let request = FilterRequest {
        call: Some(Call { purpose: Purpose::Decide.into(), reads, ..Call::default() }),
        pod: Some(PodMessage { facts: Some(facts), ..PodMessage::default() }),
        nodes: Some(Nodes { count, form: Some(form) }),
        want_scores: false,
    };
    Ok(PolicyServiceClient::new(channel.clone()).filter(request).await?.into_inner())
}

/// The refused positions, each with its reason.
fn refused(answer: &FilterResponse) -> Vec<(u32, &str)> {
    let refused = answer.rejections.iter();
    refused.flat_map(|entry| entry.positions.iter().map(|position| (*position, &*entry.reason))).collect()
}

fn inline() -> Form {
    Form::Rows(NodeRows { rows: vec![row(Some("r1")), row(None), row(Some(""))] })
}

#[tokio::test]
async fn values_are_read_from_calls_and_other_labels_are_not() {
    let channel = served(Labelled::new("rack")).await;
    let ReadsMessage { id, node, .. } = declared(&channel).await;
    assert_eq!(node.unwrap().labels.unwrap().keys, ["rack"]);
    let answer = filtered(&channel, id, "shop", 3, inline()).await.unwrap();
    assert_eq!(refused(&answer), [(0, "it is \"r1\""), (2, "it is \"\"")]);
    let undeclared = filtered(&channel, id, "curious", 3, inline()).await.unwrap_err();
    assert_eq!(undeclared.code(), Code::Internal);
    assert!(undeclared.message().contains("label \"secret\" of the node is read and not declared"));
    let other = filtered(&channel, id ^ 1, "shop", 3, inline()).await.unwrap_err();
    assert_eq!(other.code(), Code::FailedPrecondition, "{other}");
    let short =
        Form::Rows(NodeRows { rows: vec![NodeRow { facts: Some(NodeFacts::default()), ..row(None) }] });
    let short = filtered(&channel, id, "shop", 1, short).await.unwrap_err();
    assert_eq!(short.code(), Code::InvalidArgument, "{short}");
}

#[tokio::test]
async fn calls_for_replaced_rules_are_answered_by_them() {
    let (backend, replace) = Backend::replaceable(Labelled::new("rack")).unwrap();
    let channel = served(backend).await;
    let racks = declared(&channel).await.id;
    replace.with(Labelled::new("zone")).unwrap();
    let zones = declared(&channel).await.id;
    assert_ne!(racks, zones);
    for id in [racks, zones] {
        let answer = filtered(&channel, id, "shop", 3, inline()).await.unwrap();
        assert_eq!(refused(&answer).len(), 2);
    }
}

#[tokio::test]
async fn a_table_of_values_answers_the_verb_that_declares_them() {
    let channel = served(Labelled::new("rack")).await;
    let ReadsMessage { id, node, .. } = declared(&channel).await;
    let zones = MapReads { keys: vec!["zone".to_owned()], prefixes: vec![] };
    let mut streams = Vec::new();
    for (table, reads) in [(1, node), (2, Some(NodeReads { labels: Some(zones), ..NodeReads::default() }))] {
        let view = Some(TableView { node_view: NodeView::Facts.into(), reads, ..TableView::default() });
        let upserts = [(1, row(Some("r1"))), (2, row(None))];
        let upserts = upserts.map(|(id, row)| TableEntry { id, row: Some(row) }).into();
        let first = SyncNodesRequest { table, version: 1, view, upserts, ..SyncNodesRequest::default() };
        let messages = tokio_stream::once(first).chain(pending());
        let mut client = NodeTableServiceClient::new(channel.clone());
        let mut applied = client.sync_nodes(messages).await.unwrap().into_inner();
        assert_eq!(applied.message().await.unwrap().unwrap().applied, 1);
        streams.push(applied);
    }
    for (table, expected) in [(1, Miss::Unspecified), (2, Miss::TableUnknown)] {
        let rows = vec![row(Some("r2"))];
        let form = Form::Table(NodeRef { table, at_least: 1, ids: vec![2, 0, 1], rows });
        let answer = filtered(&channel, id, "shop", 3, form).await.unwrap();
        assert_eq!(answer.result.as_ref().unwrap().miss(), expected);
        let all = [(1, "it is \"r2\""), (2, "it is \"r1\"")];
        assert_eq!(refused(&answer), if expected == Miss::Unspecified { &all[..] } else { &[] });
    }
}

//! Tables of nodes over real sockets: generated clients of both services on one connection.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use extender_policy_api::v1alpha1::{
    Call, FilterRequest, GetInfoRequest, Miss, NodeFacts, NodeRef, NodeRow, NodeView, Nodes,
    Pod as PodMessage, PodFacts, Purpose, ScoreRequest, SyncNodesRequest, SyncNodesResponse, TableEntry,
    TableView, node_table_service_client::NodeTableServiceClient, node_table_service_server::SERVICE_NAME,
    nodes::Form, policy_service_client::PolicyServiceClient,
};
use extender_policy_sdk::{
    Bound, Info, Node, Nodes as NodesOfCall, Options, Pod, Policy, Scale, ServeError, Verb, Verdict, View,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, transport::Channel};

use crate::soon;

/// Refuses the nodes that have a label `refused`, by its text. Scores each node by the number of different
/// generations among the nodes of the call.
struct Labelled(View);

impl Policy for Labelled {
    fn info(&self) -> Info {
        let score = Verb::whole_set().view(self.0);
        Info::new("labelled", "1").filters(Verb::per_node().view(self.0)).scores(score, Scale::unbounded())
    }

    fn filter(&self, _: &Pod<'_>, node: &Node<'_>) -> Verdict {
        node.label("refused").map_or(Verdict::Accept, |text| Verdict::reject(text.to_owned()))
    }

    fn score_all(&self, _: &Pod<'_>, nodes: &NodesOfCall<'_>) -> Vec<i32> {
        let generations: BTreeSet<_> = nodes.iter().map(|node| node.label("generation")).collect();
        vec![i32::try_from(generations.len()).unwrap(); nodes.len()]
    }
}

struct Running {
    address: SocketAddr,
    channel: Channel,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServeError>>,
}

async fn running(view: View, options: Options) -> Running {
    let bound = Bound::new(Labelled(view), options).await.unwrap();
    let address = bound.address();
    let (stop, stopped) = oneshot::channel();
    let served = tokio::spawn(bound.until(async { drop(stopped.await) }));
    Running { address, channel: connected(address).await, stop, served }
}

async fn connected(address: SocketAddr) -> Channel {
    Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

/// Runs as long as the test.
async fn with_facts() -> Channel {
    let bound = Bound::new(Labelled(View::Facts), Options::default()).await.unwrap();
    let address = bound.address();
    tokio::spawn(bound.until(std::future::pending()));
    connected(address).await
}

/// The gateway's end of a stream.
struct Stream {
    table: u64,
    version: u64,
    messages: mpsc::Sender<SyncNodesRequest>,
    applied: Streaming<SyncNodesResponse>,
}

impl Stream {
    /// Before its first message.
    async fn open(channel: &Channel, table: u64) -> Self {
        let (messages, receiver) = mpsc::channel(1);
        let mut client = NodeTableServiceClient::new(channel.clone());
        let applied = soon(client.sync_nodes(ReceiverStream::new(receiver))).await.unwrap().into_inner();
        Self { table, version: 0, messages, applied }
    }

    /// With its first message applied.
    async fn filled(channel: &Channel, table: u64, nodes: &[(u32, &str)]) -> Self {
        let mut stream = Self::open(channel, table).await;
        stream.change(nodes, &[]).await.unwrap();
        stream
    }

    /// The next version: nodes, each refused with its text, if there is one.
    async fn change(&mut self, upserts: &[(u32, &str)], removed: &[u32]) -> Result<u64, Status> {
        let upserts = upserts.iter().map(|(id, text)| TableEntry { id: *id, row: Some(row(text)) });
        let message = self.message(upserts.collect(), removed.into());
        self.send(message).await
    }

    fn message(&self, upserts: Vec<TableEntry>, removed: Vec<u32>) -> SyncNodesRequest {
        let view = Some(TableView { node_view: NodeView::Facts.into(), ..TableView::default() });
        SyncNodesRequest {
            table: self.table,
            version: self.version + 1,
            view,
            upserts,
            removed,
            complete: false,
        }
    }

    async fn send(&mut self, message: SyncNodesRequest) -> Result<u64, Status> {
        self.version = message.version;
        soon(self.messages.send(message)).await.unwrap();
        Ok(soon(self.applied.message()).await?.unwrap().applied)
    }
}

fn row(refused: &str) -> NodeRow {
    let labels = Some(("refused".to_owned(), refused.to_owned())).filter(|(_, text)| !text.is_empty());
    let facts = NodeFacts { labels: labels.into_iter().collect(), ..NodeFacts::default() };
    NodeRow { name: "n".into(), facts: Some(facts), ..NodeRow::default() }
}

fn score_request(table: u64, at_least: u64, ids: &[u32], rows: Vec<NodeRow>) -> ScoreRequest {
    let form = Form::Table(NodeRef { table, at_least, ids: ids.into(), rows });
    ScoreRequest {
        call: Some(Call { purpose: Purpose::Decide.into(), ..Call::default() }),
        pod: Some(PodMessage { facts: Some(PodFacts::default()), ..PodMessage::default() }),
        nodes: Some(Nodes { count: ids.len().try_into().unwrap(), form: Some(form) }),
    }
}

/// Why each node was refused ("": it was not), in the order of the ids, or the miss.
type Refused = Result<Vec<String>, Miss>;

async fn filtered(channel: &Channel, table: u64, at_least: u64, ids: &[u32]) -> Result<Refused, Status> {
    let ScoreRequest { call, pod, nodes } = score_request(table, at_least, ids, vec![]);
    let request = FilterRequest { call, pod, nodes, want_scores: false };
    let answer = soon(PolicyServiceClient::new(channel.clone()).filter(request)).await?.into_inner();
    let result = answer.result.unwrap();
    if result.miss() != Miss::Unspecified {
        return Ok(Err(result.miss()));
    }
    assert_eq!(usize::try_from(result.evaluated).unwrap(), ids.len());
    let reason = |position| {
        let rejection = answer.rejections.iter().find(|rejection| rejection.positions.contains(&position));
        rejection.map(|rejection| rejection.reason.clone()).unwrap_or_default()
    };
    Ok(Ok((0..result.evaluated).map(reason).collect()))
}

fn refused(texts: &[&str]) -> Refused {
    texts.iter().map(|text| Ok((*text).to_owned())).collect()
}

#[tokio::test]
async fn the_service_is_announced_where_a_verb_wants_facts() {
    for (view, expected) in [(View::Facts, &[SERVICE_NAME][..]), (View::Name, &[])] {
        let running = running(view, Options::default()).await;
        let mut client = PolicyServiceClient::new(running.channel);
        let info = client.get_info(GetInfoRequest::default()).await.unwrap().into_inner();
        assert_eq!(info.services, expected);
    }
}

#[tokio::test]
async fn a_table_is_filled_completed_changed_and_read() {
    let channel = with_facts().await;
    let mut stream = Stream::filled(&channel, 5, &[(1, ""), (2, "drained")]).await;
    assert_eq!(filtered(&channel, 5, 1, &[2, 1]).await.unwrap(), refused(&["drained", ""]));
    let more = vec![TableEntry { id: 3, row: Some(row("broken")) }];
    let complete =
        SyncNodesRequest { version: 9, complete: true, view: None, ..stream.message(more, vec![]) };
    assert_eq!(stream.send(complete).await.unwrap(), 9);
    assert_eq!(filtered(&channel, 5, 9, &[1, 2, 3]).await.unwrap(), refused(&["", "drained", "broken"]));
    assert_eq!(stream.change(&[(2, ""), (4, "new")], &[3]).await.unwrap(), 10);
    assert_eq!(filtered(&channel, 5, 10, &[1, 2, 4]).await.unwrap(), refused(&["", "", "new"]));
}

#[tokio::test]
async fn a_miss_says_what_is_missing() {
    let channel = with_facts().await;
    let mut stream = Stream::filled(&channel, 5, &[(1, ""), (2, "")]).await;
    assert_eq!(filtered(&channel, 6, 1, &[1]).await.unwrap(), Err(Miss::TableUnknown));
    assert_eq!(filtered(&channel, 5, 2, &[1]).await.unwrap(), Err(Miss::TableBehind));
    assert_eq!(filtered(&channel, 5, 1, &[1, 3]).await.unwrap(), Err(Miss::TableBehind));
    stream.change(&[], &[2]).await.unwrap();
    // A call in transit when the node was removed.
    assert_eq!(filtered(&channel, 5, 1, &[1, 2]).await.unwrap(), Err(Miss::TableBehind));
    assert_eq!(filtered(&channel, 5, 2, &[1]).await.unwrap(), refused(&[""]));
}

#[tokio::test]
async fn every_verb_reads_tables_and_rows_between_the_ids() {
    let channel = with_facts().await;
    let _stream = Stream::filled(&channel, 5, &[(1, "")]).await;
    let labels = [("generation".to_owned(), "1".to_owned())].into();
    let young = NodeRow { facts: Some(NodeFacts { labels, ..NodeFacts::default() }), ..row("") };
    let mut client = PolicyServiceClient::new(channel);
    let request = score_request(5, 1, &[1, 0, 1], vec![young]);
    let scores = client.score(request).await.unwrap().into_inner().scores.unwrap();
    assert_eq!(scores.values, [2, 2, 2]);
    let request = score_request(5, 2, &[1], vec![]);
    assert_eq!(client.score(request).await.unwrap().into_inner().result.unwrap().miss(), Miss::TableBehind);
    let request = score_request(5, 1, &[1, 0], vec![]);
    assert_eq!(client.score(request).await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn streams_have_tables_of_their_own_that_go_with_them() {
    let channel = with_facts().await;
    let first = Stream::filled(&channel, 5, &[(1, "first")]).await;
    let _second = Stream::filled(&channel, 6, &[(1, "second")]).await;
    assert_eq!(filtered(&channel, 5, 1, &[1]).await.unwrap(), refused(&["first"]));
    assert_eq!(filtered(&channel, 6, 1, &[1]).await.unwrap(), refused(&["second"]));
    drop(first);
    gone(&channel, 5).await;
    assert_eq!(filtered(&channel, 6, 1, &[1]).await.unwrap(), refused(&["second"]));
    // The stream ends in order.
    let Stream { messages, mut applied, .. } = Stream::filled(&channel, 7, &[(1, "")]).await;
    drop(messages);
    assert!(soon(applied.message()).await.unwrap().is_none());
    gone(&channel, 7).await;
}

/// Waits until the table is gone: the backend learns asynchronously that a stream has ended.
async fn gone(channel: &Channel, table: u64) {
    let gone = async {
        while filtered(channel, table, 1, &[1]).await.unwrap() != Err(Miss::TableUnknown) {
            tokio::task::yield_now().await;
        }
    };
    soon(Box::pin(gone)).await;
}

#[tokio::test]
async fn a_connection_that_breaks_takes_its_tables_along() {
    let running = running(View::Facts, Options::default()).await;
    let Stream { messages, applied, .. } = Stream::filled(&running.channel, 5, &[(1, "")]).await;
    let other = connected(running.address).await;
    assert_eq!(filtered(&other, 5, 1, &[1]).await.unwrap(), refused(&[""]));
    // The connection has no holder left.
    drop((messages, applied, running.channel));
    gone(&other, 5).await;
}

#[tokio::test]
async fn a_backend_that_was_started_again_is_filled_again() {
    let running = running(View::Facts, Options::default()).await;
    let stream = Stream::filled(&running.channel, 5, &[(1, "before")]).await;
    drop((stream, running.stop, running.channel));
    soon(running.served).await.unwrap().unwrap();
    let channel = with_facts().await;
    assert_eq!(filtered(&channel, 5, 1, &[1]).await.unwrap(), Err(Miss::TableUnknown));
    let _stream = Stream::filled(&channel, 6, &[(1, "after")]).await;
    assert_eq!(filtered(&channel, 6, 1, &[1]).await.unwrap(), refused(&["after"]));
}

#[tokio::test]
async fn a_name_that_is_in_use_and_a_wrong_message_end_the_stream_alone() {
    let channel = with_facts().await;
    let mut stream = Stream::filled(&channel, 5, &[(1, "first")]).await;
    let error = Stream::open(&channel, 5).await.change(&[(1, "second")], &[]).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().starts_with("table 5 already has a stream"), "{error}");
    assert_eq!(filtered(&channel, 5, 1, &[1]).await.unwrap(), refused(&["first"]));
    let error = stream.change(&[(0, "")], &[]).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().starts_with("upserts[0].id is missing"), "{error}");
    gone(&channel, 5).await;
}

#[tokio::test]
async fn a_table_of_names_is_not_enough_for_facts() {
    let channel = with_facts().await;
    let mut stream = Stream::open(&channel, 5).await;
    let upserts = vec![TableEntry { id: 1, row: Some(NodeRow { facts: None, ..row("") }) }];
    let view = Some(TableView { node_view: NodeView::Name.into(), ..TableView::default() });
    let names = SyncNodesRequest { view, ..stream.message(upserts, vec![]) };
    assert_eq!(stream.send(names).await.unwrap(), 1);
    let error = filtered(&channel, 5, 1, &[1]).await.unwrap_err();
    let expected = "nodes.table is a table of View::Name, and this policy declares View::Facts";
    assert_eq!((error.code(), error.message()), (Code::InvalidArgument, expected));
}

#[tokio::test]
async fn there_is_room_for_64_tables() {
    let channel = with_facts().await;
    let mut streams = Vec::new();
    for table in 1..=64 {
        streams.push(Stream::filled(&channel, table, &[(1, "")]).await);
    }
    let error = Stream::open(&channel, 65).await.change(&[], &[]).await.unwrap_err();
    let expected = "this backend already holds 64 tables, the maximum";
    assert_eq!((error.code(), error.message()), (Code::ResourceExhausted, expected));
    drop(streams.pop());
    gone(&channel, 64).await;
    let _stream = Stream::filled(&channel, 65, &[(1, "")]).await;
}

#[tokio::test]
async fn calls_are_answered_from_one_version_while_the_next_is_applied() {
    const NODES: u32 = 3000;
    let channel = with_facts().await;
    let mut stream = Stream::open(&channel, 5).await;
    let ids: Vec<_> = (1..=NODES).collect();
    for version in 1..=5 {
        let labels = [("generation".to_owned(), version.to_string())];
        let facts = NodeFacts { labels: labels.into(), ..NodeFacts::default() };
        let row = NodeRow { name: "n".into(), facts: Some(facts), ..NodeRow::default() };
        let upserts = ids.iter().map(|id| TableEntry { id: *id, row: Some(row.clone()) }).collect();
        let message = stream.message(upserts, vec![]);
        let asking = tokio::spawn(asked_until(channel.clone(), version, ids.clone()));
        assert_eq!(stream.send(message).await.unwrap(), version);
        soon(asking).await.unwrap();
    }
}

/// Calls until the table has this version: before that each answer is a miss or about one earlier version.
async fn asked_until(channel: Channel, version: u64, ids: Vec<u32>) {
    let mut client = PolicyServiceClient::new(channel);
    loop {
        for at_least in [1, version] {
            let request = score_request(5, at_least, &ids, vec![]);
            let answer = client.score(request).await.unwrap().into_inner();
            let missed = answer.result.unwrap().miss() != Miss::Unspecified;
            assert!(!missed || at_least == version, "version {version}");
            let generations = answer.scores.unwrap_or_default().values;
            assert!(generations.iter().all(|number| *number == 1), "{generations:?}");
            if !missed && at_least == version {
                return;
            }
        }
    }
}

#[tokio::test]
async fn an_open_stream_does_not_hold_up_draining() {
    let running =
        running(View::Facts, Options { drain: Duration::from_hours(1), ..Options::default() }).await;
    let mut stream = Stream::filled(&running.channel, 5, &[(1, "")]).await;
    running.stop.send(()).unwrap();
    let end = soon(stream.applied.message()).await.unwrap_err();
    assert_eq!((end.code(), end.message()), (Code::Unavailable, "this backend is shutting down"));
    soon(running.served).await.unwrap().unwrap();
}

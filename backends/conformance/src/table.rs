//! A table of nodes that the suite keeps in the backend, as a gateway does.

use std::time::Duration;

use bytes::Bytes;
use extender_policy_api::v1beta1 as api;
use prost::Message as _;
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::{
    case::{Stop, failed, skipped},
    client::{Client, shown},
    declared::{PER_NODE, Terms},
    objects::Node,
    question::{LARGE, Question, Scene, number},
    sent::Extent,
    suite::Suite,
    trail::Sent,
};

/// The pause before a question about a table is repeated.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// The rows of a message.
const ROWS_AT_ONCE: usize = 100;

/// A stream and the table that it fills.
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) version: u64,
    messages: mpsc::Sender<Bytes>,
    responses: Option<Streaming<Bytes>>,
    opening: Option<Opening>,
    client: Client,
}

/// A server may send the headers of its response with the first message only.
type Opening = JoinHandle<Result<Streaming<Bytes>, Status>>;

impl Table {
    /// Opens a stream; nothing is sent yet.
    pub(crate) fn open(suite: &Suite, client: &Client) -> Self {
        let (messages, receiver) = mpsc::channel(1);
        let stream = client.clone();
        let opening = tokio::spawn(async move { stream.sync_nodes(ReceiverStream::new(receiver)).await });
        Self {
            name: suite.table_name(),
            version: 0,
            messages,
            responses: None,
            opening: Some(opening),
            client: client.clone(),
        }
    }

    /// The next message of the stream, with these nodes; the first one says what rows contain.
    pub(crate) fn message(&mut self, terms: Terms<'_>, upserts: &[(u32, &Node)]) -> api::SyncNodesRequest {
        let reads = (self.version == 0).then(|| terms.table_reads());
        self.version += 1;
        let entry = |(id, node): &(u32, &Node)| api::TableEntry {
            id: *id,
            row: Some(terms.row(node, Extent::Declared)),
        };
        api::SyncNodesRequest {
            table: self.name.clone(),
            version: self.version,
            reads,
            upserts: upserts.iter().map(entry).collect(),
            removed: Vec::new(),
            complete: false,
        }
    }

    /// A first message with all nodes of a scene.
    pub(crate) fn first(&mut self, terms: Terms<'_>, scene: &Scene) -> api::SyncNodesRequest {
        self.message(terms, &ids(scene).into_iter().zip(&scene.nodes).collect::<Vec<_>>())
    }

    /// Sends as many of 15,000 nodes in one message as the backend accepts, and returns the version. Nothing is awaited.
    pub(crate) async fn send_large(&mut self, suite: &Suite, terms: Terms<'_>) -> Result<u64, Stop> {
        let mut scene = Scene::without_victims(&mut suite.objects(), LARGE);
        loop {
            self.version = 0;
            let message = self.first(terms, &scene);
            let bytes = u64::try_from(message.encoded_len()).unwrap_or(u64::MAX);
            if bytes <= suite.declared.max_request_bytes() {
                self.send(&message).await;
                return Ok(message.version);
            }
            if scene.nodes.len() < 2 {
                return failed("`max_request_bytes` is too small for the row of one node");
            }
            scene.nodes.truncate(scene.nodes.len() / 2);
        }
    }

    /// Waits until the messages so far have left: then another one does, which is empty, and makes room for a third.
    pub(crate) async fn arrived(&mut self, terms: Terms<'_>) {
        let message = self.message(terms, &[]);
        self.send(&message).await;
        // If the stream has ended, or is not read, the response says so.
        drop(tokio::time::timeout(self.client.patience(), self.messages.reserve()).await);
    }

    /// Sends without waiting for the response.
    pub(crate) async fn send(&self, message: &api::SyncNodesRequest) {
        self.send_bytes(message.encode_to_vec().into()).await;
    }

    /// The same with any bytes.
    pub(crate) async fn send_bytes(&self, message: Bytes) {
        self.client.sent(&Sent { method: "SyncNodes".to_owned(), message: message.clone() });
        // If the stream has ended, or is not read, the response says so.
        drop(tokio::time::timeout(self.client.patience(), self.messages.send(message)).await);
    }

    /// The next response, or how the stream ended: `Ok(None)` without an error.
    pub(crate) async fn response(&mut self) -> Result<Result<Option<u64>, Status>, Stop> {
        let patience = self.client.patience();
        match tokio::time::timeout(patience, self.next()).await {
            Ok(next) => next,
            Err(_) => failed(format!("SyncNodes: no response within {patience:?}")),
        }
    }

    async fn next(&mut self) -> Result<Result<Option<u64>, Status>, Stop> {
        if let Some(opening) = self.opening.take() {
            let opened = opening.await.map_err(|error| Stop::broken(error.to_string()))?;
            match opened {
                Ok(responses) => self.responses = Some(responses),
                Err(status) => return Ok(Err(status)),
            }
        }
        let Some(responses) = &mut self.responses else { return Ok(Ok(None)) };
        match responses.message().await {
            Ok(Some(bytes)) => {
                api::SyncNodesResponse::decode(bytes).map(|response| Ok(Some(response.applied))).map_err(
                    |error| Stop::Failed(format!("a response of SyncNodes is not its message: {error}")),
                )
            }
            Ok(None) => Ok(Ok(None)),
            Err(status) => Ok(Err(status)),
        }
    }

    /// Sends a message and waits until it is applied.
    pub(crate) async fn apply(&mut self, message: api::SyncNodesRequest) -> Result<(), Stop> {
        let version = message.version;
        self.send(&message).await;
        self.applied(version).await
    }

    /// Waits until this version is applied.
    pub(crate) async fn applied(&mut self, version: u64) -> Result<(), Stop> {
        match self.response().await? {
            Ok(Some(applied)) if applied == version => Ok(()),
            Ok(Some(applied)) => failed(format!(
                "SyncNodes responded with version {applied} to a message of version {version}"
            )),
            Ok(None) => failed("SyncNodes: the backend ended the stream"),
            Err(status) => failed(format!("SyncNodes ended: {}", shown(&status))),
        }
    }

    /// How the stream ends after this message, which breaks a rule.
    pub(crate) async fn ends(&mut self, message: api::SyncNodesRequest) -> Result<Option<Status>, Stop> {
        self.send(&message).await;
        self.end().await
    }

    /// How the stream ends; `None` if a message is acknowledged.
    pub(crate) async fn end(&mut self) -> Result<Option<Status>, Stop> {
        Ok(match self.response().await? {
            Ok(Some(_)) => None,
            Ok(None) => Some(Status::new(tonic::Code::Ok, "")),
            Err(status) => Some(status),
        })
    }

    /// Ends the stream from this side, properly.
    pub(crate) async fn close(self) -> Result<(), Stop> {
        let Self { messages, mut responses, opening, client, .. } = self;
        drop(messages);
        let ended = async {
            if let Some(opening) = opening {
                responses = opening.await.ok().and_then(Result::ok);
            }
            while let Some(responses) = &mut responses {
                match responses.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => return,
                }
            }
        };
        tokio::time::timeout(client.patience(), ended).await.map_err(|_| {
            Stop::Failed("SyncNodes: the stream does not end although the client ended it".to_owned())
        })
    }

    /// All nodes of a scene with which the table was filled, at the current version.
    pub(crate) fn all(&self, scene: &Scene) -> api::NodeRef {
        self.refer(&ids(scene))
    }

    /// The nodes with these ids at the current version.
    pub(crate) fn refer(&self, ids: &[u32]) -> api::NodeRef {
        api::NodeRef { table: self.name.clone(), at_least: self.version, ids: ids.to_vec(), rows: Vec::new() }
    }
}

/// The verb of the cases about tables, so many nodes, and a table that has them.
pub(crate) async fn held(suite: &Suite, nodes: usize) -> Result<(Terms<'_>, Scene, Table), Stop> {
    let (terms, scene) = (table_verb(suite)?, Scene::without_victims(&mut suite.objects(), nodes));
    let table = filled(suite, terms, &scene).await?;
    Ok((terms, scene, table))
}

/// The verbs for which a gateway fills tables: filter, score and the hooks about nodes, if they read more than the name.
pub(crate) fn table_verbs(suite: &Suite) -> impl Iterator<Item = Terms<'_>> {
    suite.askable().filter(|terms| PER_NODE.contains(&terms.verb) && terms.has_facts())
}

/// The verb whose rows the cases about tables use.
pub(crate) fn table_verb(suite: &Suite) -> Result<Terms<'_>, Stop> {
    if !suite.declared.holds_tables() {
        return skipped("NodeTableService is not listed in `services`");
    }
    table_verbs(suite)
        .next()
        .map_or_else(|| skipped("no verb with a table of nodes reads more than their names"), Ok)
}

/// A table with all nodes of a scene: their ids are 1 and up.
pub(crate) async fn filled(suite: &Suite, terms: Terms<'_>, scene: &Scene) -> Result<Table, Stop> {
    filled_on(suite, &suite.client, terms, scene).await
}

/// The same on this connection.
pub(crate) async fn filled_on(
    suite: &Suite,
    client: &Client,
    terms: Terms<'_>,
    scene: &Scene,
) -> Result<Table, Stop> {
    let mut table = Table::open(suite, client);
    let nodes: Vec<_> = ids(scene).into_iter().zip(&scene.nodes).collect();
    // In small messages, as a gateway sends them.
    let mut parts = nodes.chunks(ROWS_AT_ONCE).peekable();
    while let Some(part) = parts.next() {
        let complete = parts.peek().is_none();
        let message = api::SyncNodesRequest { complete, ..table.message(terms, part) };
        table.apply(message).await?;
    }
    Ok(table)
}

/// The ids of the nodes of a scene.
pub(crate) fn ids(scene: &Scene) -> Vec<u32> {
    (1..=number(scene.nodes.len())).collect()
}

/// The same question about nodes of a table.
pub(crate) fn by_table(suite: &Suite, terms: Terms<'_>, scene: &Scene, nodes: api::NodeRef) -> Question {
    Question::new(terms, scene, &suite.args).by_table(nodes)
}

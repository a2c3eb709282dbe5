//! Streams through the proxy: one message in, one response out.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::{Buf as _, Bytes, BytesMut};
use extender_policy_api::v1beta1 as api;
use http::{HeaderMap, Request, Response, header::CONTENT_TYPE, uri::PathAndQuery};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming, body::Body};

use super::proxy::{Shared, status};

/// How a stream breaks the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StreamFault {
    #[default]
    None,
    /// The service is missing.
    Unimplemented,
    /// No service lists others.
    NoReflection,
    /// Changes are not announced.
    NoWatch,
    /// Responds with another version.
    WrongVersion,
    /// Changes after the first message are acknowledged, and lost.
    LosesChanges,
    /// Of upserts with one id the first counts.
    FirstUpsert,
    /// Removals are not applied.
    KeepsRemoved,
    /// Ends at a removal of id 0.
    RefusesRemovals,
    /// Applies a message in two halves.
    Halves,
    /// Ends at unknown fields.
    RefusesUnknownFields,
    /// Acknowledges what should be refused.
    Tolerates,
    /// Applies the good entries of a message that it refuses.
    AppliesAPart,
    /// More than one table, more than ten, more than one stream in all: refused in the wrong way.
    OneTable,
    TenTables,
    OneStream,
    /// Tables outlive their streams.
    NeverEnds,
    /// Only small tables.
    RefusesLarge,
    /// Tables that contain usage are for verbs that do not read it, too.
    TakesMore,
    /// Takes a while to apply the first message.
    Blocks,
    /// Dies of ten open streams.
    Spoiled,
}

type Sender = mpsc::Sender<Result<Frame<Bytes>, Status>>;

pub(super) async fn pass_on(
    shared: Arc<Shared>,
    connection: usize,
    request: Request<Incoming>,
) -> Response<Body> {
    let path: PathAndQuery = request.uri().path().parse().unwrap();
    let fault = shared.fault.stream;
    let tables = path.as_str().ends_with("/SyncNodes");
    let refused = match fault {
        StreamFault::Unimplemented if tables => true,
        StreamFault::NoReflection => path.as_str().ends_with("/ServerReflectionInfo"),
        StreamFault::NoWatch => path.as_str().ends_with("/Watch"),
        _ => false,
    };
    let (sender, receiver) = mpsc::channel(4);
    if refused {
        drop(sender.send(Ok(trailers(&status(Code::Unimplemented)))).await);
    } else {
        tokio::spawn(async move {
            let mut stream = Stream { shared, connection, fault, sender, kept: None, versions: 0 };
            stream.run(path, request.into_body(), tables).await;
        });
    }
    let body = Body::new(StreamBody::new(ReceiverStream::new(receiver)));
    Response::builder().header(CONTENT_TYPE, "application/grpc").body(body).unwrap()
}

struct Stream {
    shared: Arc<Shared>,
    connection: usize,
    fault: StreamFault,
    sender: Sender,
    /// The end of the backend's stream.
    kept: Option<(mpsc::Sender<Bytes>, Streaming<Bytes>)>,
    /// The versions of the backend's table, if they are not those of the suite.
    versions: u64,
}

impl Stream {
    async fn run(&mut self, path: PathAndQuery, body: Incoming, tables: bool) {
        let state = &self.shared.state;
        let number = state.streams.fetch_add(1, Ordering::SeqCst);
        let open = state.open_streams.fetch_add(1, Ordering::SeqCst);
        if self.fault == StreamFault::Spoiled && open >= 10 {
            state.spoil();
        }
        let ended = match self.fault {
            StreamFault::OneTable if open >= 1 => Err(status(Code::ResourceExhausted)),
            StreamFault::TenTables if open >= 10 => Err(status(Code::Internal)),
            StreamFault::OneStream if number >= 1 => Err(status(Code::Unavailable)),
            _ if path.as_str().ends_with("/Watch") => self.watch(path, body).await,
            _ => self.exchange(path, body, tables).await,
        };
        let ended = ended.err().unwrap_or_else(|| Status::new(Code::Ok, ""));
        drop(self.sender.send(Ok(trailers(&ended))).await);
        self.shared.state.open_streams.fetch_sub(1, Ordering::SeqCst);
        if matches!(self.fault, StreamFault::NeverEnds | StreamFault::AppliesAPart) {
            // The backend's stream stays open for as long as the test runs.
            std::mem::forget(self.kept.take());
        }
    }

    async fn exchange(&mut self, path: PathAndQuery, mut body: Incoming, tables: bool) -> Result<(), Status> {
        let (messages, receiver) = mpsc::channel(4);
        let backend = self.shared.backend.clone();
        let responses = if tables {
            backend.sync_nodes(ReceiverStream::new(receiver)).await?
        } else {
            backend.stream(path, ReceiverStream::new(receiver)).await?
        };
        self.kept = Some((messages, responses));
        let mut buffer = BytesMut::new();
        while let Some(message) = next(&mut body, &mut buffer).await {
            let applied = if tables { self.table(message).await? } else { self.one(message).await? };
            if self.sender.send(Ok(Frame::data(framed(&applied)))).await.is_err() {
                return Ok(());
            }
            if let Ok(response) = api::SyncNodesResponse::decode(applied) {
                self.shared.state.applied.store(response.applied, Ordering::SeqCst);
                self.shared.state.busy.store(false, Ordering::SeqCst);
                self.shared.state.changed.notify_waiters();
            }
        }
        Ok(())
    }

    /// One message of the suite, and those of the backend.
    async fn watch(&mut self, path: PathAndQuery, mut body: Incoming) -> Result<(), Status> {
        let (messages, receiver) = mpsc::channel(1);
        if let Some(message) = next(&mut body, &mut BytesMut::new()).await {
            drop(messages.send(message).await);
        }
        drop(messages);
        let mut responses = self.shared.backend.clone().stream(path, ReceiverStream::new(receiver)).await?;
        while let Some(message) = responses.message().await? {
            if self.sender.send(Ok(Frame::data(framed(&message)))).await.is_err() {
                break;
            }
        }
        Ok(())
    }

    /// One message of the backend for one of the suite.
    async fn one(&mut self, message: Bytes) -> Result<Bytes, Status> {
        let Some((messages, responses)) = &mut self.kept else { return Err(status(Code::Internal)) };
        drop(messages.send(message).await);
        responses.message().await?.ok_or_else(|| status(Code::Unavailable))
    }

    async fn table(&mut self, bytes: Bytes) -> Result<Bytes, Status> {
        // A message takes long to decode, and no call is answered meanwhile either.
        self.shared.state.busy.store(self.fault == StreamFault::Blocks, Ordering::SeqCst);
        let Ok(mut message) = api::SyncNodesRequest::decode(bytes.clone()) else {
            return if self.fault == StreamFault::Tolerates {
                Ok(acknowledged(1))
            } else {
                self.one(bytes).await
            };
        };
        self.shared.state.table_of(message.table.clone(), self.connection);
        let later = message.version > 1;
        match self.fault {
            StreamFault::WrongVersion => {
                return self.one(bytes).await.map(|_| acknowledged(message.version + 1));
            }
            StreamFault::LosesChanges if later => message.upserts.clear(),
            StreamFault::FirstUpsert => message.upserts.reverse(),
            StreamFault::KeepsRemoved => message.removed.clear(),
            StreamFault::RefusesRemovals if message.removed.contains(&0) => {
                return Err(status(Code::InvalidArgument));
            }
            StreamFault::RefusesLarge if message.version > 20 => return Err(status(Code::ResourceExhausted)),
            StreamFault::RefusesUnknownFields if bytes.ends_with(&[7, 0, 0, 0]) => {
                return Err(status(Code::InvalidArgument));
            }
            StreamFault::TakesMore => {
                let usage = i32::from(api::NodePart::Usage);
                message.reads.iter_mut().for_each(|reads| reads.parts.retain(|part| *part != usage));
            }
            StreamFault::Halves => return self.halves(message).await,
            StreamFault::AppliesAPart => return self.part(message).await,
            StreamFault::Blocks if !later => return self.blocked(bytes).await,
            _ => {}
        }
        match self.one(message.encode_to_vec().into()).await {
            Err(refused)
                if self.fault == StreamFault::Tolerates && refused.code() == Code::InvalidArgument =>
            {
                Ok(acknowledged(message.version))
            }
            applied => applied,
        }
    }

    /// The backend's versions are twice those of the suite.
    async fn halves(&mut self, message: api::SyncNodesRequest) -> Result<Bytes, Status> {
        let middle = message.upserts.len() / 2;
        let (first, second) = message.upserts.split_at(middle);
        self.versions = message.version * 2;
        let half = |version, upserts: &[api::TableEntry]| api::SyncNodesRequest {
            version,
            upserts: upserts.to_vec(),
            ..message.clone()
        };
        self.one(half(self.versions - 1, first).encode_to_vec().into()).await?;
        // The fault needs a call between the halves; without one nothing is seen.
        drop(tokio::time::timeout(Duration::from_secs(1), self.shared.state.called.notified()).await);
        self.one(half(self.versions, second).encode_to_vec().into()).await?;
        Ok(acknowledged(message.version))
    }

    async fn part(&mut self, mut message: api::SyncNodesRequest) -> Result<Bytes, Status> {
        let entries = message.upserts.len();
        message.upserts.retain(|entry| entry.row.is_some());
        let applied = self.one(message.encode_to_vec().into()).await?;
        if message.upserts.len() < entries { Err(status(Code::InvalidArgument)) } else { Ok(applied) }
    }

    async fn blocked(&mut self, bytes: Bytes) -> Result<Bytes, Status> {
        let applied = self.one(bytes).await;
        drop(tokio::time::timeout(Duration::from_secs(10), self.shared.state.called.notified()).await);
        // Much longer than the calls that could come meanwhile, also beside the other tests.
        tokio::time::sleep(Duration::from_secs(3)).await;
        applied
    }
}

/// The next message of a stream.
async fn next(body: &mut Incoming, buffer: &mut BytesMut) -> Option<Bytes> {
    loop {
        if buffer.len() >= 5 {
            let length = usize::try_from((&buffer[1..5]).get_u32()).unwrap();
            if buffer.len() >= 5 + length {
                buffer.advance(5);
                return Some(buffer.split_to(length).freeze());
            }
        }
        let frame = body.frame().await?.ok()?;
        buffer.extend_from_slice(frame.data_ref()?);
    }
}

fn framed(message: &Bytes) -> Bytes {
    crate::client::framed(0, u32::try_from(message.len()).unwrap(), message)
}

fn acknowledged(applied: u64) -> Bytes {
    api::SyncNodesResponse { applied }.encode_to_vec().into()
}

fn trailers(status: &Status) -> Frame<Bytes> {
    let mut trailers = HeaderMap::new();
    status.add_header(&mut trailers).unwrap();
    Frame::trailers(trailers)
}

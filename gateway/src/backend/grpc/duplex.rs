//! One gRPC call with messages in both directions, each answered before the next one is sent.

use bytes::Bytes;
use futures_util::{future::BoxFuture, stream};
use http::Uri;
use tokio::sync::mpsc;
use tonic::{Response, Status, Streaming, transport::Channel};

use super::{RpcError, client, codec::Passing, from_status, lost, path_of, reset};
use crate::contract::protobuf::malformed;

/// The largest answer, in bytes: it is a single number.
const LARGEST_ANSWER: usize = 1024;

/// An open call. Dropping it resets the stream.
pub struct Duplex {
    requests: mpsc::Sender<[Bytes; 1]>,
    answers: Answers,
}

enum Answers {
    /// The headers have not arrived, which some servers send with the first message.
    Opening(BoxFuture<'static, Result<Response<Streaming<Bytes>>, Status>>),
    Open(Streaming<Bytes>),
}

impl Duplex {
    /// Prepares a call without a deadline, which begins with the first message.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn open(connection: &Channel, path: &Uri) -> Result<Self, RpcError> {
        let (requests, mut sent) = mpsc::channel(1);
        let path = path_of(path);
        let mut client = client(connection, LARGEST_ANSWER);
        client.ready().await.map_err(|_| lost())?;
        let messages = stream::poll_fn(move |context| sent.poll_recv(context));
        let opening = async move {
            client.streaming(tonic::Request::new(messages), path, Passing::<[Bytes; 1]>::stream()).await
        };
        Ok(Self { requests, answers: Answers::Opening(Box::pin(opening)) })
    }

    /// Sends a message, which begins with its prefix, and waits for the answer.
    ///
    /// # Errors
    /// The stream has ended, with or without an error, or the answer is malformed.
    pub async fn exchange(&mut self, message: Bytes) -> Result<Bytes, RpcError> {
        // If the stream has ended, reading the answer returns the cause.
        let _ = self.requests.send([message]).await;
        if let Answers::Opening(opening) = &mut self.answers {
            let opened = opening.await.map_err(|status| failure(&status))?;
            self.answers = Answers::Open(opened.into_inner());
        }
        self.next().await?.ok_or_else(|| reset("the backend ended the stream").into())
    }

    /// Waits for an unrequested end of the stream and returns its cause. Only after a first exchange. Safe to drop
    /// and to call again.
    pub async fn failure(&mut self) -> RpcError {
        match self.next().await {
            Ok(Some(_)) => malformed("unexpected message on the stream").into(),
            Ok(None) => reset("the backend ended the stream").into(),
            Err(error) => error,
        }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, RpcError> {
        let Answers::Open(answers) = &mut self.answers else { return std::future::pending().await };
        answers.message().await.map_err(|status| failure(&status))
    }
}

fn failure(status: &Status) -> RpcError {
    from_status(status, LARGEST_ANSWER).unwrap_or_else(|| lost().into())
}

//! One gRPC call with messages in both directions, each answered before the next one is sent; or one whose only message has many
//! answers.

use bytes::{Buf, Bytes, BytesMut};
use extender_gateway_contract::protobuf::{PREFIX, malformed};
use extender_gateway_core::BackendFailure;
use extender_policy_api::limits::TABLE_RESPONSE_BYTES;
use h2::{RecvStream, SendStream, client::ResponseFuture, client::SendRequest};
use http::Uri;

use super::{RpcError, ended_ok, message_body, request, reset};

/// An open call. Dropping it resets the stream.
#[derive(Debug)]
pub struct Duplex {
    requests: SendStream<Bytes>,
    response: ResponseFuture,
    /// The answers; `None` until the headers have arrived, which some servers send with the first message.
    answers: Option<RecvStream>,
    /// The part of the next answer that was received.
    received: BytesMut,
}

impl Duplex {
    /// Starts a call without a deadline.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn open(connection: &SendRequest<Bytes>, path: &Uri) -> Result<Self, RpcError> {
        let mut connection = connection.clone().ready().await?;
        let (response, requests) = connection.send_request(request(path), false)?;
        Ok(Self { requests, response, answers: None, received: BytesMut::new() })
    }

    /// Sends a message, which begins with its prefix, and waits for the answer.
    ///
    /// # Errors
    /// The stream has ended, with or without an error, or the answer is malformed.
    pub async fn exchange(&mut self, message: Bytes) -> Result<Bytes, RpcError> {
        // If the stream has ended, reading the answer returns the cause.
        let _ = self.requests.send_data(message, false);
        self.next().await
    }

    /// Sends the only message, which begins with its prefix.
    pub fn send_only(&mut self, message: Bytes) {
        // As above.
        let _ = self.requests.send_data(message, true);
    }

    /// Waits for the next answer.
    ///
    /// # Errors
    /// The stream has ended, with or without an error, or the answer is malformed.
    pub async fn next(&mut self) -> Result<Bytes, RpcError> {
        let body = match &mut self.answers {
            Some(body) => body,
            none => none.insert(message_body((&mut self.response).await?)?),
        };
        loop {
            if let Some(answer) = message_of(&mut self.received)? {
                return Ok(answer);
            }
            let Some(chunk) = body.data().await else { return Err(ended(body).await) };
            let chunk = chunk?;
            // Fails only for a stream that has ended; its window no longer matters.
            let _ = body.flow_control().release_capacity(chunk.len());
            self.received.extend_from_slice(&chunk);
        }
    }

    /// Waits for an unrequested end of the stream and returns its cause. Only after a first exchange. Safe to drop
    /// and to call again.
    pub async fn failure(&mut self) -> RpcError {
        let Some(body) = &mut self.answers else { return std::future::pending().await };
        match body.data().await {
            Some(Ok(_)) => malformed("unexpected message on the stream").into(),
            Some(Err(error)) => error.into(),
            None => ended(body).await,
        }
    }
}

/// Takes the first received message once it is complete.
fn message_of(received: &mut BytesMut) -> Result<Option<Bytes>, BackendFailure> {
    let Some((&[compressed, a, b, c, d], _)) = received.split_first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let len = u32::from_be_bytes([a, b, c, d]) as usize;
    if compressed != 0 || len > TABLE_RESPONSE_BYTES {
        return Err(malformed("stream message is compressed or too large"));
    }
    if received.len() < PREFIX + len {
        return Ok(None);
    }
    received.advance(PREFIX);
    Ok(Some(received.split_to(len).freeze()))
}

async fn ended(body: &mut RecvStream) -> RpcError {
    match body.trailers().await {
        Err(error) => error.into(),
        Ok(None) => reset("stream ended without a gRPC status").into(),
        Ok(Some(trailers)) => match ended_ok(&trailers) {
            Err(ended) => ended,
            Ok(()) => reset("the backend ended the stream").into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::{BytesMut, message_of};

    #[test]
    fn messages_come_out_whole_however_they_were_cut() {
        let mut received = BytesMut::new();
        let sent = [0, 0, 0, 0, 2, 7, 8, 0, 0, 0, 0, 0, 0, 0];
        let mut answers = Vec::new();
        for byte in sent {
            received.extend_from_slice(&[byte]);
            answers.extend(message_of(&mut received).unwrap());
        }
        assert_eq!(answers, [&[7, 8][..], &[]]);
        assert_eq!(&received[..], [0, 0]);
        for broken in [[1, 0, 0, 0, 0], [0, 0, 0, 5, 0]] {
            assert!(message_of(&mut BytesMut::from(&broken[..])).is_err(), "{broken:?}");
        }
    }
}

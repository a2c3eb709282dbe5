//! Reads the body of a request, bounded in size and time.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{header, request::Parts};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::timeout;

use super::answer::Refusal;

/// How long a body may take to arrive. Kube-scheduler gives up after 5 seconds by default.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much of a body that is too large is still read, so that the sender sees the answer instead of a
/// reset connection, and for how long.
const DRAINED: usize = 1 << 30;

/// Why a body was not read.
#[derive(Debug)]
pub(super) enum BodyError {
    /// It has more bytes than the limit.
    TooLarge(usize),
    /// It did not arrive in time.
    Late,
    /// The sender went away, or sent something that is not HTTP.
    Broken(hyper::Error),
}

impl BodyError {
    pub(super) fn refusal(self) -> Refusal {
        match self {
            Self::TooLarge(most) => Refusal::too_large(most),
            Self::Late => Refusal::request(format!("the body did not arrive within {PATIENCE:?}")),
            Self::Broken(error) => Refusal::request(format!("the body could not be read ({error})")),
        }
    }
}

/// Reads a body of at most `most` bytes.
pub(super) async fn read(head: &Parts, mut body: Incoming, most: usize) -> Result<Bytes, BodyError> {
    let declared = head.headers.get(header::CONTENT_LENGTH);
    let declared = declared.and_then(|length| length.to_str().ok()).and_then(|length| length.parse().ok());
    if declared.is_some_and(|declared: usize| declared > most) {
        drain(body);
        return Err(BodyError::TooLarge(most));
    }
    let read = timeout(PATIENCE, collect(&mut body, declared.unwrap_or(0), most)).await;
    match read.unwrap_or(Err(BodyError::Late)) {
        Err(too_large @ BodyError::TooLarge(_)) => {
            drain(body);
            Err(too_large)
        }
        read => read,
    }
}

async fn collect(body: &mut Incoming, declared: usize, most: usize) -> Result<Bytes, BodyError> {
    let mut whole = BytesMut::new();
    while let Some(chunk) = next(body).await? {
        if whole.is_empty() {
            if body.is_end_stream() {
                return bounded(chunk, most);
            }
            // Memory that is reserved and not written to costs nothing yet.
            whole.reserve(declared.max(chunk.len()));
        }
        whole.extend_from_slice(&chunk);
        if whole.len() > most {
            return Err(BodyError::TooLarge(most));
        }
    }
    Ok(whole.freeze())
}

fn bounded(body: Bytes, most: usize) -> Result<Bytes, BodyError> {
    if body.len() > most { Err(BodyError::TooLarge(most)) } else { Ok(body) }
}

async fn next(body: &mut Incoming) -> Result<Option<Bytes>, BodyError> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error)) => return Err(BodyError::Broken(error)),
            // Trailers are of no interest.
            Some(Ok(frame)) => {
                if let Ok(chunk) = frame.into_data() {
                    return Ok(Some(chunk));
                }
            }
        }
    }
}

/// Reads on beside the answer and throws away what comes: a sender that is still writing would otherwise
/// meet a reset before it looks for the answer.
pub(super) fn drain(mut body: Incoming) {
    tokio::spawn(timeout(PATIENCE, async move {
        let mut drained = 0;
        while let Ok(Some(chunk)) = next(&mut body).await {
            drained += chunk.len();
            if drained > DRAINED {
                return;
            }
        }
    }));
}

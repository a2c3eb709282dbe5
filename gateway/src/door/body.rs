//! Reads the body of a request, limited in size and time.

use std::time::Duration;

use bytes::Bytes;
use http::{header, request::Parts};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::timeout;

use super::answer::CallRefusal;

/// How long a body may take to arrive. kube-scheduler times out after 5 seconds by default.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much of a body that is too large is still read, in bytes, and for how long: without this the sender would
/// see a reset connection instead of the response.
const DRAINED: usize = 1 << 30;
/// The buffer for a body of which little has arrived, in bytes.
const FIRST: usize = 64 << 10;
/// How many bytes of the declared length are reserved for each byte received beyond that. A body of 128 MiB is
/// moved twice while it grows: at 64 KiB and at 4 MiB.
const TRUSTED: usize = 64;

/// Why a body was not read.
#[derive(Debug)]
pub(super) enum BodyError {
    /// It has more bytes than the limit.
    TooLarge(usize),
    /// It did not arrive in time.
    Late,
    /// The sender disconnected, or sent something that is not HTTP.
    Broken(hyper::Error),
}

impl BodyError {
    pub(super) fn refusal(self) -> CallRefusal {
        match self {
            Self::TooLarge(most) => CallRefusal::too_large(most),
            Self::Late => CallRefusal::request(format!("request body not received within {PATIENCE:?}")),
            Self::Broken(error) => CallRefusal::request(format!("cannot read the request body ({error})")),
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
    let mut whole = Vec::new();
    while let Some(chunk) = next(body).await? {
        if whole.is_empty() && body.is_end_stream() {
            return bounded(chunk, most);
        }
        let came = whole.len() + chunk.len();
        if came > whole.capacity() {
            whole.reserve_exact(room(declared, came) - whole.len());
        }
        whole.extend_from_slice(&chunk);
        if whole.len() > most {
            return Err(BodyError::TooLarge(most));
        }
    }
    Ok(whole.into())
}

/// The new size of a buffer that has become too small. The declared length is not verified: it is trusted in
/// proportion to the bytes received.
fn room(declared: usize, came: usize) -> usize {
    if came > declared {
        return came.saturating_mul(2).max(FIRST);
    }
    let trusted = if came <= FIRST { FIRST } else { came.saturating_mul(TRUSTED) };
    declared.min(trusted)
}

fn bounded(body: Bytes, most: usize) -> Result<Bytes, BodyError> {
    if body.len() > most { Err(BodyError::TooLarge(most)) } else { Ok(body) }
}

async fn next(body: &mut Incoming) -> Result<Option<Bytes>, BodyError> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error)) => return Err(BodyError::Broken(error)),
            // Trailers are ignored.
            Some(Ok(frame)) => {
                if let Ok(chunk) = frame.into_data() {
                    return Ok(Some(chunk));
                }
            }
        }
    }
}

/// Reads and discards the rest of the body while the response is sent: a sender that is still writing could
/// otherwise see a reset before it reads the response.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The buffer sizes while a body arrives in chunks of this size.
    fn sizes(declared: usize, length: usize, chunk: usize) -> Vec<usize> {
        let (mut came, mut sizes) = (0, vec![0]);
        while came < length {
            came = length.min(came + chunk);
            if came > sizes[sizes.len() - 1] {
                sizes.push(room(declared, came));
            }
        }
        sizes.split_off(1)
    }

    #[test]
    fn a_body_takes_memory_by_what_came_and_not_by_what_was_declared() {
        const DECLARED: usize = 128 << 20;
        assert_eq!(sizes(DECLARED, 1, 1), [FIRST]);
        for came in [1, 4_096, FIRST, FIRST + 1, 1 << 20, DECLARED] {
            let taken = room(DECLARED, came);
            assert!(taken >= came && taken <= FIRST.max(came * TRUSTED), "{came}: {taken}");
        }
    }

    #[test]
    fn a_body_is_hardly_moved_while_it_grows() {
        assert_eq!(sizes(10_000, 10_000, 1_000), [10_000]);
        assert_eq!(sizes(1_400_000, 1_400_000, 8_000), [FIRST, 1_400_000]);
        let large = 128 << 20;
        let sizes = sizes(large, large, 8 << 10);
        assert_eq!(sizes[sizes.len() - 1], large);
        assert!(sizes[..sizes.len() - 1].iter().sum::<usize>() < large / 16, "{sizes:?}");
    }

    #[test]
    fn a_body_without_a_declared_length_grows_by_doubling() {
        let sizes = sizes(0, 10 << 20, 8 << 10);
        assert!(sizes.windows(2).all(|pair| pair[1] >= pair[0] * 2), "{sizes:?}");
    }
}

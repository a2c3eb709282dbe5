//! Reads the body of a request, limited in size and time.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_decide::CallError;
use http::{header, request::Parts};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::timeout;

use super::{
    answer::CallRefusal,
    in_flight::BodyBytes,
    turns::{FlowTurns, LargeBody},
};

/// How long a body may take to arrive. kube-scheduler times out after 5 seconds by default.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How much of a body that is too large is still read, in bytes, and for how long: without this the sender would
/// see a reset connection instead of the response.
const DRAINED: usize = 1 << 30;
/// The buffer for a body of which little has arrived, in bytes.
const FIRST: usize = 64 << 10;
/// How many bytes of the declared length are reserved for each byte received beyond that. A body of 128 MiB is
/// moved twice while it grows: at 64 KiB and at 4 MiB.
const TRUSTED: usize = 64;

/// How large a body is that waits for its turn to be read, in bytes: the names of some 3,000 nodes. The thread would read those
/// of all callers at once otherwise, and calls that it decides would wait for it.
const LARGE: usize = 64 << 10;
/// How much of a body is read at once, in bytes.
const A_TURN: usize = 512 << 10;

/// Reads a body of at most `most` bytes, which count in `bytes`. Large ones take turns with
/// others, beside the calls.
pub(super) async fn read(
    head: &Parts,
    mut body: Incoming,
    most: usize,
    bytes: &mut BodyBytes,
    turns: FlowTurns<'_>,
) -> Result<Bytes, CallRefusal> {
    let declared = declared_length(head);
    let read = if declared > most {
        Err(Unread::TooLarge)
    } else if bytes.has_room_for(declared) {
        let read = timeout(TIMEOUT, collect(&mut body, declared, most, bytes, turns)).await;
        read.unwrap_or(Err(Unread::Late))
    } else {
        Err(Unread::Overload)
    };
    let unread = match read {
        Ok(whole) => return Ok(whole),
        Err(unread) => unread,
    };
    bytes.release();
    let refusal = match unread {
        Unread::TooLarge => CallRefusal::too_large(declared, most),
        Unread::Overload => CallRefusal::overload(bytes.most()),
        Unread::Late => {
            return Err(CallError::Request(format!("request body not received within {TIMEOUT:?}")).into());
        }
        Unread::Cut(error) => {
            return Err(CallError::Request(format!("cannot read the request body ({error})")).into());
        }
    };
    drain(head, body, turns);
    Err(refusal)
}

/// 0 if the request does not say it.
fn declared_length(head: &Parts) -> usize {
    let declared = head.headers.get(header::CONTENT_LENGTH);
    declared.and_then(|length| length.to_str().ok()).and_then(|length| length.parse().ok()).unwrap_or(0)
}

/// Why there is no body.
#[derive(Debug)]
enum Unread<E> {
    TooLarge,
    Overload,
    Late,
    Cut(E),
}

/// The reading of a body, which takes turns if it is large.
struct Reading<'t> {
    turns: FlowTurns<'t>,
    received: usize,
    large: Option<LargeBody<'t>>,
}

impl<'t> Reading<'t> {
    fn new(turns: FlowTurns<'t>) -> Self {
        Self { turns, received: 0, large: None }
    }

    /// Waits for a turn to begin with a body of so many bytes, if it is large.
    async fn begin(&mut self, declared: usize) {
        if declared > LARGE {
            self.turn().await;
        }
    }

    /// So many bytes have come: waits for the next turn when this one is over.
    async fn received(&mut self, bytes: usize) {
        let before = self.received;
        self.received += bytes;
        if self.received / A_TURN > before / A_TURN {
            self.turn().await;
        }
    }

    async fn turn(&mut self) {
        let FlowTurns { turns, flow } = self.turns;
        self.large.get_or_insert_with(|| turns.large_body(flow)).turn().await;
    }
}

/// The whole body.
async fn collect<B: Body<Data = Bytes> + Unpin>(
    body: &mut B,
    declared: usize,
    most: usize,
    bytes: &mut BodyBytes,
    turns: FlowTurns<'_>,
) -> Result<Bytes, Unread<B::Error>> {
    let (mut whole, mut reading) = (Vec::new(), Reading::new(turns));
    reading.begin(declared).await;
    while let Some(chunk) = next(body).await.map_err(Unread::Cut)? {
        let received = whole.len() + chunk.len();
        if received > most {
            return Err(Unread::TooLarge);
        }
        // What is reserved beyond is not touched, and takes no memory.
        if !bytes.grow_to(received) {
            return Err(Unread::Overload);
        }
        if whole.is_empty() && body.is_end_stream() {
            return Ok(chunk);
        }
        if !body.is_end_stream() {
            reading.received(chunk.len()).await;
        }
        if received > whole.capacity() {
            whole.reserve_exact(room(declared, received) - whole.len());
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.into())
}

/// The new size of a buffer that has become too small. The declared length is not verified: it is trusted in
/// proportion to the bytes received.
fn room(declared: usize, received: usize) -> usize {
    if received > declared {
        return received.saturating_mul(2).max(FIRST);
    }
    let trusted = if received <= FIRST { FIRST } else { received.saturating_mul(TRUSTED) };
    declared.min(trusted)
}

async fn next<B: Body<Data = Bytes> + Unpin>(body: &mut B) -> Result<Option<Bytes>, B::Error> {
    while let Some(frame) = body.frame().await.transpose()? {
        // Trailers are ignored.
        if let Ok(chunk) = frame.into_data() {
            return Ok(Some(chunk));
        }
    }
    Ok(None)
}

/// Reads and discards the rest of the body while the response is sent: a sender that is still writing could
/// otherwise see a reset before it reads the response.
pub(super) fn drain(head: &Parts, mut body: Incoming, FlowTurns { turns, flow }: FlowTurns<'_>) {
    let declared = declared_length(head);
    let turns = Arc::clone(turns);
    tokio::spawn(timeout(TIMEOUT, async move {
        let mut reading = Reading::new(FlowTurns { turns: &turns, flow });
        reading.begin(declared).await;
        while let Ok(Some(chunk)) = next(&mut body).await {
            reading.received(chunk.len()).await;
            if reading.received > DRAINED {
                return;
            }
        }
    }));
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{FutureExt, stream};
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use extender_gateway_pace::fair_queue::Flow;

    use super::*;
    use crate::in_flight::BytesInFlight;
    use crate::turns::Turns;

    #[test]
    fn a_large_body_takes_turns_while_others_wait() {
        const CHUNK: usize = 32 << 10;
        let chunks = (0..64).map(|_| Ok::<_, Infallible>(Frame::data(vec![b' '; CHUNK].into())));
        let mut body = StreamBody::new(stream::iter(chunks));
        let mut bytes = Arc::<BytesInFlight>::default().request(usize::MAX);
        let turns = Arc::new(Turns::default());
        let read =
            collect(&mut body, 0, usize::MAX, &mut bytes, FlowTurns { turns: &turns, flow: Flow::Own });
        let mut read = std::pin::pin!(read);
        let another = turns.large_body(Flow::Own);
        // Nobody else waits when it begins.
        for turn in 1..64 * CHUNK / A_TURN {
            assert!(read.as_mut().now_or_never().is_none());
            assert!(read.as_mut().now_or_never().is_none(), "it is not its turn");
            assert!(turns.begin_body(), "turn {turn}");
        }
        // Alone it needs no turn.
        drop(another);
        let whole = read.now_or_never().expect("it has had all its turns").unwrap();
        assert_eq!((whole.len(), turns.begin_body()), (64 * CHUNK, false));
    }

    #[test]
    fn a_body_that_is_declared_large_waits_for_a_turn_to_begin() {
        for (declared, begins) in [(LARGE, true), (LARGE + 1, false)] {
            let mut body =
                StreamBody::new(stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from("{}")))]));
            let mut bytes = Arc::<BytesInFlight>::default().request(usize::MAX);
            let turns = Arc::new(Turns::default());
            let _another = turns.large_body(Flow::Own);
            let flow = FlowTurns { turns: &turns, flow: Flow::Own };
            let mut read = std::pin::pin!(collect(&mut body, declared, usize::MAX, &mut bytes, flow));
            assert_eq!(read.as_mut().now_or_never().is_some(), begins, "{declared}");
            assert_eq!(turns.begin_body(), !begins, "{declared}");
        }
    }

    /// The buffer sizes while a body arrives in chunks of this size.
    fn sizes(declared: usize, length: usize, chunk: usize) -> Vec<usize> {
        let (mut received, mut sizes) = (0, vec![0]);
        while received < length {
            received = length.min(received + chunk);
            if received > sizes[sizes.len() - 1] {
                sizes.push(room(declared, received));
            }
        }
        sizes.split_off(1)
    }

    #[test]
    fn a_body_takes_memory_by_what_came_and_not_by_what_was_declared() {
        const DECLARED: usize = 128 << 20;
        assert_eq!(sizes(DECLARED, 1, 1), [FIRST]);
        for received in [1, 4_096, FIRST, FIRST + 1, 1 << 20, DECLARED] {
            let taken = room(DECLARED, received);
            assert!(taken >= received && taken <= FIRST.max(received * TRUSTED), "{received}: {taken}");
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

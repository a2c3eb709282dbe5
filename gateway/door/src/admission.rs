//! The admission of a call: when its body is read, when it is decided, and what it is told if neither happens in time.

use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::{answer::CallRefusal, body, in_flight::BodyBytes, turns::FlowTurns};

/// A request whose turn it is.
pub(super) struct Received {
    pub(super) body: Bytes,
    /// How long it waited for the thread that decides calls.
    pub(super) queued: Duration,
}

/// A call that asks to be decided.
pub(super) struct Admission<'t> {
    pub(super) turns: FlowTurns<'t>,
    pub(super) arrived: Instant,
    /// How long it may wait.
    pub(super) longest: Duration,
}

impl Admission<'_> {
    /// Reads its body of at most `most` bytes, which count in `bytes`, and waits for its turn. `awaited` is dropped when the body
    /// has been read.
    pub(super) async fn admit<A>(
        self,
        head: &Parts,
        body: Incoming,
        most: usize,
        bytes: &mut BodyBytes,
        awaited: A,
    ) -> Result<Received, CallRefusal> {
        let Self { turns: FlowTurns { turns, flow }, arrived, longest } = self;
        if turns.admits(flow, longest).is_ok() {
            let body = body::read(head, body, most, bytes, self.turns).await?;
            drop(awaited);
            if let Ok(queued) = turns.turn(flow, longest).await {
                return Ok(Received { body, queued });
            }
            drop(body);
            bytes.release();
        } else {
            body::drain(head, body, self.turns);
        }
        // In time for the caller to see it.
        let latest = (longest * 2).saturating_sub(arrived.elapsed()).max(longest / 2);
        turns.refusal(flow, latest).await;
        Err(CallRefusal::too_many(longest))
    }
}

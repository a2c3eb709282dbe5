//! `bind`: bind the pod to the node.

use bytes::Bytes;
use tokio::time::Instant;

use crate::{
    decide::{CallError, Decider},
    wire::{bind, reply},
};

/// Answers a body of `ExtenderBindingArgs` with the pieces of an `ExtenderBindingResult`.
pub(super) async fn answer(decider: &Decider, body: &[u8], began: Instant) -> Result<Vec<Bytes>, CallError> {
    let assignment = bind::read(body)?;
    decider.bind(&assignment, began).await?;
    Ok(reply::bound().into_pieces())
}

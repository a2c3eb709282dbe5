//! `filter`: which nodes may the pod run on?

use bytes::Bytes;
use tokio::time::Instant;

use crate::{
    decide::{Call, CallError, Decider},
    object,
    wire::{Request, reply},
};

/// Answers a body of `ExtenderArgs` with the pieces of an `ExtenderFilterResult`.
pub(super) async fn answer(decider: &Decider, body: Bytes, began: Instant) -> Result<Vec<Bytes>, CallError> {
    let request = Request::read(body)?;
    let json = request.pod();
    let pod = object::pod::parse(&json).map_err(|error| CallError::pod(&error))?;
    let filtered = decider.filter(Call { request: &request, pod: &pod, began }).await?;
    Ok(reply::filtered(&request, &filtered.rejected, &filtered.reasons).into_pieces())
}

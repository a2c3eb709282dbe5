//! `prioritize`: how good are these nodes for the pod?

use bytes::Bytes;
use tokio::time::Instant;

use crate::{
    decide::{Call, CallError, Decider},
    object,
    wire::{Request, reply},
};

/// Answers a body of `ExtenderArgs` with the pieces of a `HostPriorityList`.
pub(super) async fn answer(decider: &Decider, body: Bytes, began: Instant) -> Result<Vec<Bytes>, CallError> {
    let request = Request::read(body)?;
    let json = request.pod();
    let pod = object::pod::parse(&json).map_err(|error| CallError::pod(&error))?;
    let totals = decider.prioritize(Call { request: &request, pod: &pod, began }).await?;
    Ok(reply::prioritized(&request, &totals).into_pieces())
}

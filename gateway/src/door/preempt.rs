//! `preempt`: who may be evicted to make room for the pod?

use bytes::Bytes;
use tokio::time::Instant;

use crate::{
    decide::{CallError, Decider, PreemptCall},
    object,
    wire::{PreemptRequest, preempt},
};

/// Answers a body of `ExtenderPreemptionArgs` with the pieces of an `ExtenderPreemptionResult`.
pub(super) async fn answer(decider: &Decider, body: Bytes, began: Instant) -> Result<Vec<Bytes>, CallError> {
    let request = PreemptRequest::read(body)?;
    let json = request.pod();
    let pod = object::pod::parse(&json).map_err(|error| CallError::pod(&error))?;
    let left = decider.preempt(PreemptCall { request: &request, pod: &pod, began }).await?;
    Ok(preempt::preempted(&request, &left).into_pieces())
}

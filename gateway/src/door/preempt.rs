//! `preempt`: who may be evicted to make room for the pod?

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use crate::{
    account::{Account, Nodes},
    decide::{CallError, Decider, PreemptCall},
    object,
    wire::{PreemptRequest, preempt},
};

/// Answers a body of `ExtenderPreemptionArgs` with the pieces of an `ExtenderPreemptionResult`.
pub(super) async fn answer(
    decider: &Decider,
    (body, began): (Bytes, Instant),
    account: &mut Option<Account>,
) -> Result<Vec<Bytes>, CallError> {
    let request = Arc::new(PreemptRequest::read(body)?);
    let json = request.pod();
    let pod = object::pod::parse(&json).map_err(|error| CallError::pod(&error))?;
    let nodes = Nodes::Candidates(Arc::clone(&request));
    let account = account.insert(decider.account((&pod).into(), nodes, began));
    let left = decider.preempt(PreemptCall { request: &request, pod: &pod, began }, account).await?;
    Ok(preempt::preempted(&request, &left).into_pieces())
}

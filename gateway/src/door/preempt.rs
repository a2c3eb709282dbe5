//! `preempt`: who may be evicted to make room for the pod?

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    account::{Nodes, Visit},
    decide::{CallError, Decider, PreemptCall},
    object,
    wire::{PreemptRequest, preempt},
};

/// Answers a body of `ExtenderPreemptionArgs` with the pieces of an `ExtenderPreemptionResult`.
pub(super) async fn answer(
    decider: &Decider,
    body: Bytes,
    visit: &mut Visit,
) -> Result<Vec<Bytes>, CallError> {
    let request = Arc::new(PreemptRequest::read(body)?);
    let json = request.pod();
    let pod = object::pod::offered(&json).map_err(|error| CallError::pod(&error))?;
    let nodes = Nodes::Candidates(Arc::clone(&request));
    let (began, parent) = (visit.began, visit.parent);
    let account = visit.account.insert(decider.account_of(&pod, nodes, (began, parent)));
    let left = decider.preempt(PreemptCall { request: &request, pod: &pod, began }, account).await?;
    Ok(preempt::preempted(&request, &left).into_pieces())
}

//! `filter`: which nodes may the pod run on?

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    account::{Nodes, Visit},
    decide::{Call, CallError, Decider},
    object,
    wire::{Request, reply},
};

/// Answers a body of `ExtenderArgs` with the pieces of an `ExtenderFilterResult`.
pub(super) async fn answer(
    decider: &Decider,
    body: Bytes,
    visit: &mut Visit,
) -> Result<Vec<Bytes>, CallError> {
    let request = Arc::new(Request::read(body)?);
    let json = request.pod();
    let pod = object::pod::offered(&json).map_err(|error| CallError::pod(&error))?;
    let nodes = Nodes::Offered(Arc::clone(&request));
    let (began, parent) = (visit.began, visit.parent);
    let account = visit.account.insert(decider.account_of(&pod, nodes, (began, parent)));
    let filtered = decider.filter(Call { request: &request, pod: &pod, began }, account).await?;
    Ok(reply::filtered(&request, &filtered.rejected, &filtered.reasons).into_pieces())
}

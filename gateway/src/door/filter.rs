//! `filter`: which nodes may the pod run on?

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use crate::{
    account::{Account, Nodes},
    decide::{Call, CallError, Decider},
    object,
    wire::{Request, reply},
};

/// Answers a body of `ExtenderArgs` with the pieces of an `ExtenderFilterResult`.
pub(super) async fn answer(
    decider: &Decider,
    (body, began): (Bytes, Instant),
    account: &mut Option<Account>,
) -> Result<Vec<Bytes>, CallError> {
    let request = Arc::new(Request::read(body)?);
    let json = request.pod();
    let pod = object::pod::parse(&json).map_err(|error| CallError::pod(&error))?;
    let nodes = Nodes::Offered(Arc::clone(&request));
    let account = account.insert(decider.account((&pod).into(), nodes, began));
    let filtered = decider.filter(Call { request: &request, pod: &pod, began }, account).await?;
    Ok(reply::filtered(&request, &filtered.rejected, &filtered.reasons).into_pieces())
}

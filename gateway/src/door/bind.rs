//! `bind`: bind the pod to the node.

use bytes::Bytes;

use crate::{
    account::{Nodes, Subject, Visit},
    cluster::binder::Assignment,
    decide::{CallError, Decider},
    wire::{bind, reply},
};

/// Answers a body of `ExtenderBindingArgs` with the pieces of an `ExtenderBindingResult`.
pub(super) async fn answer(
    decider: &Decider,
    body: &[u8],
    visit: &mut Visit,
) -> Result<Vec<Bytes>, CallError> {
    let assignment = bind::read(body)?;
    let nodes = Nodes::Target(assignment.node.clone());
    let (began, parent) = (visit.began, visit.parent);
    let account = visit.account.insert(decider.account(subject(&assignment), nodes, (began, parent)));
    decider.bind((&assignment, began), account).await?;
    Ok(reply::bound().into_pieces())
}

fn subject(assignment: &Assignment) -> Subject {
    let Assignment { namespace, name, uid, .. } = assignment.clone();
    Subject { namespace, name, uid, nominated: String::new() }
}

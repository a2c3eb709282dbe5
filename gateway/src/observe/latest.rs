//! The latest call of each verb, for who wants to know whether kube-scheduler calls at all.

use std::{
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use super::api::{LastCall, NodeForm};
use crate::{
    account::{Nodes, Visit},
    wire::Offer,
};

/// The verbs, in the order in which they are shown.
pub(super) const VERBS: [&str; 4] = ["filter", "prioritize", "preempt", "bind"];

/// The latest calls.
#[derive(Debug, Default)]
pub struct Latest([Mutex<Option<Call>>; VERBS.len()]);

#[derive(Debug, Clone, Copy)]
struct Call {
    time: SystemTime,
    form: Option<NodeForm>,
    nodes: u32,
    outcome: &'static str,
}

impl Latest {
    pub(super) fn put(&self, visit: &Visit) {
        let Some(at) = VERBS.iter().position(|verb| *verb == visit.verb) else { return };
        let account = visit.account.as_ref();
        let form = account.and_then(|account| match &account.nodes {
            Nodes::Offered(request) if matches!(request.offer, Offer::Names) => Some(NodeForm::Names),
            Nodes::Offered(_) => Some(NodeForm::Objects),
            Nodes::Candidates(_) | Nodes::Target(_) => None,
        });
        let call = Call {
            time: account.map_or_else(SystemTime::now, |account| account.time),
            form,
            nodes: account.map_or(0, |account| account.nodes.count()),
            outcome: visit.outcome,
        };
        *self.0[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(call);
    }

    /// The latest call of a verb, by its place in [`VERBS`].
    pub(super) fn of(&self, at: usize) -> Option<LastCall> {
        let Call { time, form, nodes, outcome } =
            (*self.0[at].lock().unwrap_or_else(PoisonError::into_inner))?;
        let time = jiff::Timestamp::try_from(time).ok()?;
        Some(LastCall { time, node_form: form, nodes, outcome: outcome.to_owned() })
    }
}

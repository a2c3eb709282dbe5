//! The latest call of each verb, for who wants to know whether kube-scheduler calls at all.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use super::api::{LastCall, NodeForm, Refused};
use crate::{
    account::{Nodes, Visit},
    wire::Offer,
};

/// The verbs, in the order in which they are shown.
pub(super) const VERBS: [&str; 4] = ["filter", "prioritize", "preempt", "bind"];

/// The latest calls, and the latest failure of each backend and verb.
#[derive(Debug, Default)]
pub struct Latest {
    calls: [Mutex<Option<Call>>; VERBS.len()],
    failures: Mutex<HashMap<(String, &'static str), (SystemTime, String)>>,
}

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
            Nodes::Candidates(_) | Nodes::Target(_) | Nodes::OfTheCall(_) => None,
        });
        let call = Call {
            time: account.map_or_else(SystemTime::now, |account| account.time),
            form,
            nodes: account.map_or(0, |account| account.nodes.count()),
            outcome: visit.outcome,
        };
        *self.calls[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(call);
    }

    /// A backend failed; `verb` is what it was asked.
    pub(super) fn failed(&self, backend: &str, verb: &'static str, what: &str) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.insert((backend.to_owned(), verb), (SystemTime::now(), what.to_owned()));
    }

    /// How a backend failed last.
    pub(super) fn failure(&self, backend: &str, verb: &'static str) -> Option<Refused> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let (time, message) = failures.get(&(backend.to_owned(), verb))?.clone();
        Some(Refused { time: jiff::Timestamp::try_from(time).ok()?, message })
    }

    /// Forgets the failures of all backends but these.
    pub fn retain(&self, names: &[&str]) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|(name, _), _| names.contains(&name.as_str()));
    }

    /// The latest call of a verb, by its place in [`VERBS`].
    pub(super) fn of(&self, at: usize) -> Option<LastCall> {
        let Call { time, form, nodes, outcome } =
            (*self.calls[at].lock().unwrap_or_else(PoisonError::into_inner))?;
        let time = jiff::Timestamp::try_from(time).ok()?;
        Some(LastCall { time, node_form: form, nodes, outcome: outcome.to_owned() })
    }
}

//! The latest call of each verb, for who wants to know whether kube-scheduler calls at all, and the latest failure of
//! each backend.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use extender_gateway_core::{BackendFailure, PerVerb, Verb};
use jiff::Timestamp;

use super::api::{LastCall, NodeForm, Refused};
use crate::{
    account::{Nodes, Visit},
    wire::Offer,
};

/// The latest calls.
#[derive(Debug, Default)]
pub struct Latest(PerVerb<Mutex<Option<Call>>>);

#[derive(Debug, Clone, Copy)]
struct Call {
    time: SystemTime,
    form: Option<NodeForm>,
    nodes: u32,
    outcome: &'static str,
}

impl Latest {
    pub(super) fn put(&self, visit: &Visit) {
        let Some(verb) = visit.verb else { return };
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
        *self.0[verb].lock().unwrap_or_else(PoisonError::into_inner) = Some(call);
    }

    /// The latest call of a verb.
    pub(super) fn of(&self, verb: Verb) -> Option<LastCall> {
        let Call { time, form, nodes, outcome } =
            (*self.0[verb].lock().unwrap_or_else(PoisonError::into_inner))?;
        let time = Timestamp::try_from(time).ok()?;
        Some(LastCall { time, node_form: form, nodes, outcome: outcome.to_owned() })
    }
}

/// The latest failure of each backend in each of its verbs. Backends are those that were configured since the start.
#[derive(Debug, Default)]
pub struct Failures(Mutex<HashMap<(String, Verb), Refused>>);

impl Failures {
    /// Forgets those of all backends but these.
    pub fn retain(&self, names: &[&str]) {
        let mut failures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        failures.retain(|(name, _), _| names.contains(&name.as_str()));
    }

    pub(super) fn put(&self, (backend, verb): (&str, Verb), failure: &BackendFailure) {
        let said = Refused { time: Timestamp::now(), message: failure.to_string() };
        let mut latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        latest.insert((backend.to_owned(), verb), said);
    }

    /// That of a backend in one of its verbs.
    pub(super) fn of(&self, backend: &str, verb: Verb) -> Option<Refused> {
        let latest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        latest.get(&(backend.to_owned(), verb)).cloned()
    }
}

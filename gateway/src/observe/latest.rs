//! The latest call of each verb, which shows whether kube-scheduler calls at all, and the latest failure of each
//! backend.

use std::{collections::HashMap, time::SystemTime};

use extender_gateway_core::{BackendFailure, PerVerb, Verb};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{
    api::{LastCall, NodeForm, TimedMessage},
    record::{HttpCall, RequestedNodes},
    wire::Offer,
};

/// The latest call of each verb.
#[derive(Debug, Default)]
pub struct LatestCalls(PerVerb<Mutex<Option<LatestCall>>>);

#[derive(Debug, Clone, Copy)]
struct LatestCall {
    time: SystemTime,
    form: Option<NodeForm>,
    nodes: u32,
    outcome: &'static str,
}

impl LatestCalls {
    pub(super) fn put(&self, http_call: &HttpCall) {
        let Some(verb) = http_call.verb else { return };
        let record = http_call.record.as_ref();
        let form = record.and_then(|record| match &record.nodes {
            RequestedNodes::Offered(request) if matches!(request.offer, Offer::Names) => {
                Some(NodeForm::Names)
            }
            RequestedNodes::Offered(_) => Some(NodeForm::Objects),
            RequestedNodes::Candidates(_) | RequestedNodes::Target(_) | RequestedNodes::CountOnly(_) => None,
        });
        let call = LatestCall {
            time: record.map_or_else(SystemTime::now, |record| record.time),
            form,
            nodes: record.map_or(0, |record| record.nodes.count()),
            outcome: http_call.outcome,
        };
        *self.0[verb].lock() = Some(call);
    }

    /// The latest call of a verb.
    pub(crate) fn of(&self, verb: Verb) -> Option<LastCall> {
        let LatestCall { time, form, nodes, outcome } = (*self.0[verb].lock())?;
        let time = Timestamp::try_from(time).ok()?;
        Some(LastCall { time, node_form: form, nodes, outcome: outcome.to_owned() })
    }
}

/// The latest failure of each configured backend in each of its verbs.
#[derive(Debug, Default)]
pub struct LatestFailures(Mutex<HashMap<(String, Verb), TimedMessage>>);

impl LatestFailures {
    /// Drops the failures of all backends except these.
    pub fn retain(&self, names: &[&str]) {
        let mut failures = self.0.lock();
        failures.retain(|(name, _), _| names.contains(&name.as_str()));
    }

    pub(super) fn put(&self, (backend, verb): (&str, Verb), failure: &BackendFailure) {
        let said = TimedMessage { time: Timestamp::now(), message: failure.to_string() };
        let mut latest = self.0.lock();
        latest.insert((backend.to_owned(), verb), said);
    }

    /// The failure of a backend in one of its verbs.
    pub(crate) fn of(&self, backend: &str, verb: Verb) -> Option<TimedMessage> {
        let latest = self.0.lock();
        latest.get(&(backend.to_owned(), verb)).cloned()
    }
}

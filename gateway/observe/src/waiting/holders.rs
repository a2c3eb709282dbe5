//! What a call means for its pod: whether it waits, and because of which backends.

use std::sync::Arc;

use extender_gateway_core::Verb;
use extender_gateway_record::{BackendOutcome, CallOutcome, CallRecord, OnFailure, Outcome};
use extender_gateway_settings::BackendSettings;

/// The longest reason in characters.
const LONGEST_REASON: usize = 200;

/// What a pod waits for.
#[derive(Debug, Default)]
pub(super) struct Holders {
    /// The backends that rejected or failed it.
    pub(super) backends: Vec<Arc<BackendSettings>>,
    /// The reason of the first of them, with its name.
    pub(super) reason: String,
}

/// The effect of a call on its pod.
#[derive(Debug)]
pub(super) enum Effect {
    /// It waits because of these backends.
    Waits(Holders),
    /// It does not wait because of a backend.
    Placed,
    /// None that is known.
    None,
}

/// The effect of a call with this outcome.
pub(super) fn effect(verb: Verb, outcome: CallOutcome, record: &CallRecord) -> Effect {
    // Of a call whose caller disconnected, the late answers are missing.
    if record.pod.uid.is_empty() || outcome == CallOutcome::Gone {
        return Effect::None;
    }
    let is_ok = outcome == CallOutcome::Ok;
    let ended_without_node = match verb {
        Verb::Filter | Verb::Preempt => !is_ok || record.left == Some(0),
        Verb::Bind => !is_ok,
        // Its failures fail no call.
        Verb::Prioritize => false,
    };
    if ended_without_node {
        let holds: fn(&BackendOutcome) -> bool =
            if outcome == CallOutcome::Backend { has_ended_call } else { has_dropped_nodes };
        let held_by: Vec<_> = record.backends.iter().filter(|part| holds(part)).collect();
        // Whatever the other policies say, one that rejects all nodes leaves none. What hooks have changed may be why it does.
        let rejects_all = |part: &&BackendOutcome| rejects_all(part, record);
        let mut decisive: Vec<_> = held_by.iter().copied().filter(rejects_all).collect();
        let held_by = if decisive.is_empty() {
            held_by
        } else {
            decisive.extend(held_by.iter().filter(|part| part.verb.is_hook()));
            decisive
        };
        let Some(first) = held_by.first() else { return Effect::None };
        let reason =
            format!("{}: {}", first.backend.name, reason(first)).chars().take(LONGEST_REASON).collect();
        let backends = held_by.iter().map(|part| Arc::clone(&part.backend)).collect();
        return Effect::Waits(Holders { backends, reason });
    }
    match verb {
        Verb::Filter | Verb::Bind => Effect::Placed,
        Verb::Prioritize | Verb::Preempt => Effect::None,
    }
}

/// Whether it rejects every node of the call.
fn rejects_all(part: &BackendOutcome, record: &CallRecord) -> bool {
    let Outcome::Filtered(heard) = &part.outcome else { return false };
    let rejected: usize = heard.refusals.iter().map(|refusal| refusal.positions.len()).sum();
    rejected > 0 && rejected >= record.nodes.count() as usize
}

/// Why it holds a pod, in its words if it has any.
fn reason(part: &BackendOutcome) -> &str {
    match &part.outcome {
        Outcome::Filtered(heard) => {
            let largest = heard.refusals.iter().max_by_key(|refusal| refusal.positions.len());
            largest.map_or("nodes are not known to it", |refusal| &refusal.reason)
        }
        Outcome::Failed(failure) => failure.kind.as_str(),
        Outcome::Candidates(_) => "no preemption",
        Outcome::Changed(_) => "its changes",
        Outcome::Pending | Outcome::Scored(..) | Outcome::Bound(_) => "nodes are not known to it",
    }
}

/// Whether its failure ends the call, whatever the others answer.
fn has_ended_call(part: &BackendOutcome) -> bool {
    part.has_failed() && part.policy == OnFailure::Fail
}

/// Whether nodes or candidates were lost because of it.
fn has_dropped_nodes(part: &BackendOutcome) -> bool {
    let is_left_out = part.not_sent.lists().iter().any(|nodes| !nodes.is_empty());
    // A hook drops none: what it is not told of stays as it is.
    let has_dropped = is_left_out && !part.verb.is_hook();
    match &part.outcome {
        Outcome::Filtered(heard) => has_dropped || !heard.refusals.is_empty(),
        Outcome::Candidates(left) => left.is_empty(),
        // The call ended without its answer.
        Outcome::Pending => has_dropped,
        // The policies may have dropped the nodes because of it.
        Outcome::Changed(changes) => changes.pod.is_some() || !changes.nodes.is_empty(),
        Outcome::Failed(_) | Outcome::Scored(..) | Outcome::Bound(_) => false,
    }
}

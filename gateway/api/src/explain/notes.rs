//! Notes about a pod beyond the tables: what happened, and what the gateway cannot know.

mod backends;
mod nodes;
mod overrides;
#[cfg(test)]
mod tests;

use extender_gateway_object::text::{ago, bytes, counted, moment};
use jiff::{SignedDuration, Timestamp};

use super::{
    evidence::{Evidence, Replica},
    pod::{PodFacts, PodState, ShownCondition},
};

pub use self::nodes::offered;

/// The time that kube-scheduler may need from a response until it has written the pod's condition; more than a
/// second, since the apiserver's times are whole seconds.
const CONDITION_DELAY: SignedDuration = SignedDuration::from_secs(2);

/// What a simulation leaves out.
const SIMULATED: &str = "kube-scheduler's own filters and scores are not part of this: it calls extenders for the nodes that its filters left, \
                     and adds the scores of its plugins.";

/// All sentences, in reading order.
pub fn of(evidence: &Evidence) -> Vec<String> {
    let mut notes = Vec::from_iter(not_called(evidence));
    nodes::note(evidence, &mut notes);
    backends::note(evidence, &mut notes);
    overrides::note(evidence, &mut notes);
    for replica in &evidence.gateways {
        notes.extend(incomplete_log(evidence, replica));
    }
    for Replica { name, .. } in evidence.gateways.iter().filter(|replica| replica.truncated) {
        notes.push(format!(
            "{name} has more calls for this pod than one response holds; the latest are shown."
        ));
    }
    notes.extend(calls_about_others(evidence));
    for away in &evidence.away {
        notes.push(format!("{} did not answer: {}.", away.gateway, away.why));
    }
    match &evidence.cluster.pod {
        PodState::NotAsked { why } => notes.push(format!("No data from the apiserver: {why}.")),
        PodState::Simulated { .. } => notes.push(SIMULATED.to_owned()),
        PodState::Gone { .. } | PodState::There(_) => {}
    }
    notes
}

/// Whether the gateway was called for the pod at all, and since when it was not.
fn not_called(evidence: &Evidence) -> Option<String> {
    let pod = evidence.pod()?;
    if evidence.latest().is_none() {
        return Some(never_called(evidence, pod));
    }
    let Retry { last_call, time, condition } = retry_without_call(evidence)?;
    let (since, age) = (moment(last_call), ago(last_call, evidence.time));
    let begin = if has_all_since(evidence, last_call) {
        format!("Not called since {since} ({age}): {}", why_not_called(condition))
    } else {
        format!("No call after {since} ({age}) found, but the logs may be incomplete.")
    };
    Some(format!("{begin} PodScheduled, written at {}, says: {}", moment(time), condition_text(condition)))
}

/// A failed attempt after the last call, without a call to the gateway.
pub struct Retry<'a> {
    /// When the last call was answered, as measured by the gateway.
    last_call: Timestamp,
    /// When the scheduler last changed the condition's text.
    time: Timestamp,
    condition: &'a ShownCondition,
}

/// Whether the pod was tried without success after the last call.
pub fn retry_without_call(evidence: &Evidence) -> Option<Retry<'_>> {
    let condition = unschedulable(evidence.pod()?)?;
    let call = &evidence.latest()?.calls.last()?.decision;
    let duration = SignedDuration::try_from_secs_f64(call.seconds).unwrap_or_default();
    let last_call = call.time.checked_add(duration).unwrap_or(call.time);
    let time = condition.time.filter(|time| time.duration_since(last_call) > CONDITION_DELAY)?;
    Some(Retry { last_call, time, condition })
}

/// Why there is no call about an existing pod.
fn never_called(evidence: &Evidence, pod: &PodFacts) -> String {
    let says = |condition| format!(" PodScheduled says: {}", condition_text(condition));
    if pod.created_with_node {
        return "Never called: the pod was created with spec.nodeName, so no scheduler decided where it goes."
            .to_owned();
    }
    if let Some(gated) = pod.scheduled.as_ref().filter(|condition| condition.reason == "SchedulingGated") {
        return format!("Not called yet: the pod is held back by its spec.schedulingGates.{}", says(gated));
    }
    let text = match (unschedulable(pod), &pod.node) {
        (None, None) => {
            "Not called: no scheduler has tried the pod yet; check that a scheduler with its spec.schedulerName runs."
                .to_owned()
        }
        (condition, _) if !has_all_since(evidence, pod.created) => {
            let says = condition.map(says).unwrap_or_default();
            format!("No call for the pod found, but the logs may be incomplete.{says}")
        }
        (Some(condition), _) => {
            let (created, why) = (moment(pod.created), why_not_called(condition));
            let says = says(condition) + &only_one_queried(evidence);
            format!("Not called since the pod was created, {created}: {why}{says}")
        }
        (None, Some(_)) => {
            "Never called: the pod was placed by another scheduler, or by one that does not list this gateway as an \
            extender (`extender-gateway scheduler-config` prints them)."
                .to_owned()
                + &only_one_queried(evidence)
        }
    };
    text + &other_scheduler(pod)
}

/// The condition of a pod that a scheduler tried without success.
pub fn unschedulable(pod: &PodFacts) -> Option<&ShownCondition> {
    let condition = pod.scheduled.as_ref()?;
    let tried = condition.status == "False" && condition.reason != "SchedulingGated";
    (pod.node.is_none() && tried).then_some(condition)
}

/// Why an attempt does not call an extender.
fn why_not_called(condition: &ShownCondition) -> &'static str {
    if condition.reason == "SchedulerError" {
        "the attempt ended with an error before the gateway was called."
    } else {
        "kube-scheduler's own filters left no node."
    }
}

/// A condition's reason and message.
pub fn condition_text(condition: &ShownCondition) -> String {
    let ShownCondition { reason, message, .. } = condition;
    let parts: Vec<_> = [reason.as_str(), message].into_iter().filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(": ") }
}

/// The name of the scheduler, if it may be another one.
fn other_scheduler(pod: &PodFacts) -> String {
    match pod.scheduler_name.as_str() {
        "" | "default-scheduler" => String::new(),
        name => format!(
            " Its spec.schedulerName is {name}: if that scheduler does not list this gateway as an extender, the gateway is never called."
        ),
    }
}

/// A sentence if other replicas may exist.
fn only_one_queried(evidence: &Evidence) -> String {
    match evidence.gateways.as_slice() {
        [only] => format!(" Only {} was queried; --gateway-namespace queries all replicas.", only.name),
        _ => String::new(),
    }
}

/// Whether all calls since then are known: every replica has answered, and its log reaches back that far.
fn has_all_since(evidence: &Evidence, time: Timestamp) -> bool {
    evidence.away.is_empty() && evidence.gateways.iter().all(|replica| reaches_back_to(replica, time))
}

/// Whether a replica's log has all calls about an object created then: an apiserver time, in whole seconds.
fn reaches_back_to(Replica { log, .. }: &Replica, time: Timestamp) -> bool {
    let kept = log.complete_since.is_none_or(|complete| complete <= time);
    log.max_bytes > 0 && log.since.as_second() <= time.as_second() && kept
}

/// The gaps of a log. For a pod of unknown age this matters only if there is no call at all.
fn incomplete_log(evidence: &Evidence, replica: &Replica) -> Option<String> {
    let Replica { name, log, .. } = replica;
    let is_complete = match evidence.pod() {
        Some(pod) => reaches_back_to(replica, pod.created),
        None => !evidence.attempts.is_empty(),
    };
    let gap = match log.complete_since {
        _ if log.max_bytes == 0 => "is disabled: decisions.maxBytes is 0".to_owned(),
        _ if is_complete => return None,
        Some(complete) => format!(
            "is complete only since {}: {} evicted since the start (decisions.maxBytes is {})",
            moment(complete),
            counted(log.evicted, "call"),
            bytes(log.max_bytes)
        ),
        None => format!("begins at {}, when the gateway was started", moment(log.since)),
    };
    Some(format!("The decision log of {name} {gap}."))
}

/// Calls about earlier pods with this name.
fn calls_about_others(evidence: &Evidence) -> Option<String> {
    let uid = evidence.uid.as_deref()?;
    let calls = match evidence.calls_about_others {
        0 => return None,
        1 => "1 call is".to_owned(),
        count => format!("{} are", counted(count as u64, "call")),
    };
    Some(format!("{calls} for other pods of this name and not shown: this one's UID is {uid}."))
}

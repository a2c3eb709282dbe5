//! Notes about whether the gateway was called for the pod at all, and since when it was not.

use jiff::{SignedDuration, Timestamp};

use crate::cli::{
    explain::{
        attempt::ended,
        case::Evidence,
        pod::{PodFacts, ShownCondition},
    },
    text::{ago, moment},
};

/// The time that kube-scheduler may need from a response until it has written the pod's condition; more than a
/// second, since the apiserver's times are whole seconds.
const AFTER_CALL: SignedDuration = SignedDuration::from_secs(2);

pub(super) fn note(case: &Evidence, notes: &mut Vec<String>) {
    let Some(pod) = case.pod() else { return };
    if case.latest().is_none() {
        notes.push(never(case, pod));
    } else if let Some(again) = tried_again(case) {
        notes.push(since(case, &again));
    }
}

/// An attempt after the last call, without a call to the gateway.
pub(in crate::cli::explain) struct TriedAgain<'a> {
    /// When the last call was answered.
    last: Timestamp,
    /// When the scheduler last changed the condition's text.
    tried: Timestamp,
    condition: &'a ShownCondition,
}

/// Whether the pod was tried without success after the last call.
pub(in crate::cli::explain) fn tried_again(case: &Evidence) -> Option<TriedAgain<'_>> {
    let condition = refused(case.pod()?)?;
    let last = ended(&case.latest()?.last()?.decision);
    let tried = condition.time.filter(|tried| tried.duration_since(last) > AFTER_CALL)?;
    Some(TriedAgain { last, tried, condition })
}

fn since(case: &Evidence, again: &TriedAgain<'_>) -> String {
    let TriedAgain { last, tried, condition } = again;
    let (moment_of_last, ago) = (moment(*last), ago(*last, case.time));
    let begin = if has_all_since(case, *last) {
        format!("Not called since {moment_of_last} ({ago}): {}", own_doing(condition))
    } else {
        format!("No call after {moment_of_last} ({ago}) found, but the logs may be incomplete.")
    };
    format!("{begin} PodScheduled, written at {}, says: {}", moment(*tried), words(condition))
}

const UNSEEN: &str = "No call for the pod found, but the logs may be incomplete.";

/// Why there is no call about an existing pod.
fn never(case: &Evidence, pod: &PodFacts) -> String {
    if pod.created_with_node {
        return "Never called: the pod was created with spec.nodeName, so no scheduler decided where it goes."
            .to_owned();
    }
    if let Some(gated) = pod.scheduled.as_ref().filter(|condition| condition.reason == "SchedulingGated") {
        return format!(
            "Not called yet: the pod is held back by its spec.schedulingGates.{}",
            following(gated)
        );
    }
    let text = match (refused(pod), &pod.node) {
        (None, None) => {
            "Not called: no scheduler has tried the pod yet; check that a scheduler with its spec.schedulerName runs."
                .to_owned()
        }
        (condition, _) if !has_all_since(case, pod.created) => {
            format!("{UNSEEN}{}", condition.map(following).unwrap_or_default())
        }
        (Some(condition), _) => {
            format!(
                "Not called since the pod was created, {}: {}{}",
                moment(pod.created),
                own_doing(condition),
                following(condition)
            ) + &only_one(case)
        }
        (None, Some(_)) => {
            "Never called: the pod was placed by another scheduler, or by one that does not list this gateway as an \
            extender (`extender-gateway scheduler-config` prints them)."
                .to_owned()
                + &only_one(case)
        }
    };
    text + &scheduler(pod)
}

/// The condition of a pod that a scheduler tried without success.
pub(in crate::cli::explain) fn refused(pod: &PodFacts) -> Option<&ShownCondition> {
    let condition = pod.scheduled.as_ref()?;
    let tried = condition.status == "False" && condition.reason != "SchedulingGated";
    (pod.node.is_none() && tried).then_some(condition)
}

/// Why an attempt does not call an extender.
fn own_doing(condition: &ShownCondition) -> &'static str {
    if condition.reason == "SchedulerError" {
        "the attempt ended with an error before the gateway was called."
    } else {
        "kube-scheduler's own filters left no node."
    }
}

/// The scheduler's message as a further sentence.
fn following(condition: &ShownCondition) -> String {
    format!(" PodScheduled says: {}", words(condition))
}

/// A condition's reason and message.
pub(in crate::cli::explain) fn words(condition: &ShownCondition) -> String {
    let ShownCondition { reason, message, .. } = condition;
    let words: Vec<_> = [reason.as_str(), message].into_iter().filter(|part| !part.is_empty()).collect();
    if words.is_empty() { "nothing".to_owned() } else { words.join(": ") }
}

/// The name of the scheduler, if it may be another one.
fn scheduler(pod: &PodFacts) -> String {
    match pod.scheduler_name.as_str() {
        "" | "default-scheduler" => String::new(),
        name => format!(
            " Its spec.schedulerName is {name}: if that scheduler does not list this gateway as an extender, the gateway is never called."
        ),
    }
}

/// Whether all calls since then are known: every replica has answered, and its log reaches back that far.
fn has_all_since(case: &Evidence, time: Timestamp) -> bool {
    case.away.is_empty() && case.gateways.iter().all(|replica| replica.reaches_back_to(time))
}

/// A sentence if other replicas may exist.
fn only_one(case: &Evidence) -> String {
    match case.gateways.as_slice() {
        [only] => format!(" Only {} was queried; --gateway-namespace queries all replicas.", only.name),
        _ => String::new(),
    }
}

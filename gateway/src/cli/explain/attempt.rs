//! Attempts to schedule a pod, assembled from the calls of all replicas.

use extender_gateway_core::Verb;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::api::{Decision, NodePart};

/// The largest clock difference between replicas at which their calls are ordered by time.
const CLOCKS: SignedDuration = SignedDuration::from_secs(1);

/// One call, and the replica that decided it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AttemptCall {
    /// The replica.
    pub(super) gateway: String,
    /// The call in the replica's decision log.
    #[serde(flatten)]
    pub(super) decision: Decision,
}

/// One attempt of kube-scheduler: a filter call, and the other calls about the pod until the next one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SchedulingAttempt {
    /// When its first call was received.
    pub(super) time: Timestamp,
    /// Its calls, the oldest first. The filter call is missing if the log has lost it.
    pub(super) calls: Vec<AttemptCall>,
}

impl SchedulingAttempt {
    fn beginning_with(call: AttemptCall) -> Self {
        Self { time: call.decision.time, calls: vec![call] }
    }

    /// Groups calls, which may be in any order, into attempts; the newest attempt first.
    pub(super) fn of_calls(mut calls: Vec<AttemptCall>) -> Vec<Self> {
        calls.sort_by_key(|call| call.decision.time);
        for at in 1..calls.len() {
            if is_scored_by_a_slow_clock(&calls[at - 1], &calls[at]) {
                calls.swap(at - 1, at);
            }
        }
        let mut attempts: Vec<Self> = Vec::new();
        for call in calls {
            match attempts.last_mut().filter(|_| !call.decision.is(Verb::Filter)) {
                Some(attempt) => attempt.calls.push(call),
                None => attempts.push(Self::beginning_with(call)),
            }
        }
        attempts.reverse();
        attempts
    }

    /// Its latest call of a verb.
    pub(super) fn call(&self, verb: Verb) -> Option<&Decision> {
        self.calls.iter().rev().map(|call| &call.decision).find(|decision| decision.is(verb))
    }

    /// Its filter call.
    pub(super) fn filter(&self) -> Option<&Decision> {
        self.call(Verb::Filter)
    }

    /// Its prioritize call, if that was answered.
    pub(super) fn scored(&self) -> Option<&Decision> {
        self.call(Verb::Prioritize).filter(|call| call.outcome == "ok")
    }

    /// Its latest call.
    pub(super) fn last(&self) -> Option<&AttemptCall> {
        self.calls.last()
    }

    /// The node that a bind call bound the pod to.
    pub(super) fn bound(&self) -> Option<&str> {
        let call = self.call(Verb::Bind).filter(|call| call.outcome == "ok")?;
        call.nodes.first().map(|node| node.name.as_str())
    }
}

/// Whether the prioritize call seems to precede its filter call: the clocks of replicas differ by more than the
/// time between the two.
fn is_scored_by_a_slow_clock(prioritize: &AttemptCall, filter: &AttemptCall) -> bool {
    let (scored, filtered) = (&prioritize.decision, &filter.decision);
    scored.is(Verb::Prioritize)
        && filtered.is(Verb::Filter)
        && prioritize.gateway != filter.gateway
        && filtered.left == Some(scored.offered)
        && filtered.time.duration_since(scored.time) < CLOCKS
}

/// The best total of a prioritize call, and the nodes with it.
pub(super) fn best(scored: &Decision) -> Option<(i64, Vec<&NodePart>)> {
    let total = scored.nodes.iter().filter_map(|node| node.total).max()?;
    Some((total, scored.nodes.iter().filter(|node| node.total == Some(total)).collect()))
}

/// The answers in a call for a node.
pub(super) fn node<'a>(call: &'a Decision, name: &str) -> Option<&'a NodePart> {
    call.nodes.iter().find(|node| node.name == name)
}

/// When a call was answered, as measured by the gateway.
pub(super) fn ended(call: &Decision) -> Timestamp {
    let taken = SignedDuration::try_from_secs_f64(call.seconds).unwrap_or_default();
    call.time.checked_add(taken).unwrap_or(call.time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::explain::samples::{call, filter, prioritize};

    #[test]
    fn a_replica_whose_clock_is_slow_scores_in_the_same_attempt() {
        let of = |gateway: &str, decision| AttemptCall { gateway: gateway.to_owned(), decision };
        let calls = |gateway, nodes: &[(&str, i32)]| {
            let mut scored = prioritize(10, nodes);
            scored.time -= SignedDuration::from_millis(40);
            vec![of("gateway-0", filter(10, &[("a", None), ("b", None)])), of(gateway, scored)]
        };
        let two = [("a", 1), ("b", 2)];
        assert_eq!(SchedulingAttempt::of_calls(calls("gateway-1", &two)).len(), 1);
        assert_eq!(SchedulingAttempt::of_calls(calls("gateway-0", &two)).len(), 2, "one clock");
        assert_eq!(
            SchedulingAttempt::of_calls(calls("gateway-1", &two[..1])).len(),
            2,
            "other nodes were left"
        );
    }

    #[test]
    fn calls_become_attempts() {
        let calls = [
            call("bind", 12, "gateway-1"),
            call("filter", 1, "gateway-0"),
            call("prioritize", 11, "gateway-1"),
            call("preempt", 2, "gateway-0"),
            call("filter", 10, "gateway-0"),
            call("prioritize", 0, "gateway-0"),
        ];
        let attempts = SchedulingAttempt::of_calls(calls.to_vec());
        let verbs = |attempt: &SchedulingAttempt| {
            attempt.calls.iter().map(|call| call.decision.verb.clone()).collect::<Vec<_>>().join(" ")
        };
        let found: Vec<_> = attempts.iter().map(verbs).collect();
        assert_eq!(found, ["filter prioritize bind", "filter preempt", "prioritize"]);
        assert_eq!(attempts[0].time, calls[4].decision.time);
        assert!(attempts[2].filter().is_none() && SchedulingAttempt::of_calls(Vec::new()).is_empty());
    }
}

//! The evidence about a pod: what the apiserver knows, and the calls of all replicas as scheduling attempts.

use extender_gateway_core::Verb;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::pod::{ClusterView, ExplainedPod, PodFacts};
use crate::explain::replicas::{Away, Gathered};
use crate::{API_VERSION, Decision, DecisionList, LogState, NodePart, Status};

/// The largest clock difference between replicas at which their calls are ordered by time.
const MAX_CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(1);

/// The known facts. In JSON, these are the fields of an `Explanation` before its notes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// Of the admin address.
    pub api_version: &'static str,
    /// Always `Explanation`.
    pub kind: &'static str,
    /// When the data was queried.
    pub time: Timestamp,
    /// The pod that is explained.
    #[serde(flatten)]
    pub target: ExplainedPod,
    /// The UID of the pod of these attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// What the apiserver knows.
    #[serde(flatten)]
    pub cluster: ClusterView,
    /// The gateways that answered.
    pub gateways: Vec<Replica>,
    /// The gateways that did not answer.
    pub away: Vec<Away>,
    /// The number of calls about earlier pods with this name.
    pub calls_about_others: usize,
    /// The attempts, the newest first.
    pub attempts: Vec<SchedulingAttempt>,
    /// The present state of the gateways.
    #[serde(skip)]
    pub statuses: Vec<Status>,
}

/// A gateway that answered.
#[derive(Debug, Serialize)]
pub struct Replica {
    /// Its host name, which is its pod's.
    pub name: String,
    /// What its log of decisions has.
    pub log: LogState,
    /// It has more calls about the pod than were requested.
    pub truncated: bool,
}

/// One attempt of kube-scheduler: a filter call, and the other calls about the pod until the next one.
#[derive(Debug, Serialize)]
pub struct SchedulingAttempt {
    /// When its first call was received.
    pub time: Timestamp,
    /// Its calls, the oldest first. The filter call is missing if the log has lost it.
    pub calls: Vec<AttemptCall>,
}

/// One call in the decision log of a replica.
#[derive(Debug, Clone, Serialize)]
pub struct AttemptCall {
    /// The replica.
    pub gateway: String,
    /// The call.
    #[serde(flatten)]
    pub decision: Decision,
}

impl Evidence {
    /// Combines the answers of the apiserver and the gateways.
    pub fn new(
        target: ExplainedPod,
        mut cluster: ClusterView,
        decisions: Gathered<DecisionList>,
        statuses: Vec<Status>,
        now: Timestamp,
    ) -> Self {
        let (gateways, calls): (Vec<_>, Vec<_>) = decisions.answers.into_iter().map(replica).unzip();
        let calls: Vec<AttemptCall> = calls.into_iter().flatten().collect();
        let latest = || calls.iter().max_by_key(|call| call.decision.time).map(|call| &call.decision.pod.uid);
        let uid = cluster.pod.facts().map(|pod| &pod.uid).or_else(latest).cloned();
        let (calls, others): (Vec<_>, Vec<_>) =
            calls.into_iter().partition(|call| Some(&call.decision.pod.uid) == uid.as_ref());
        cluster.cluster_nodes = cluster.cluster_nodes.or_else(|| watched_nodes(&statuses));
        Self {
            api_version: API_VERSION,
            kind: "Explanation",
            time: now,
            target,
            uid,
            cluster,
            gateways,
            away: decisions.away,
            calls_about_others: others.len(),
            attempts: SchedulingAttempt::group(calls),
            statuses,
        }
    }

    /// The pod, if it exists.
    pub fn pod(&self) -> Option<&PodFacts> {
        self.cluster.pod.facts()
    }

    /// The latest attempt.
    pub fn latest(&self) -> Option<&SchedulingAttempt> {
        self.attempts.first()
    }

    /// The pod's node, or the node that it was bound to before it was deleted.
    pub fn node_of_pod(&self) -> Option<&str> {
        if let Some(pod) = self.pod() {
            return pod.node.as_deref();
        }
        let bind = self.latest()?.call(Verb::Bind).filter(|call| call.outcome == "ok")?;
        bind.nodes.first().map(|node| node.name.as_str())
    }
}

fn replica(list: DecisionList) -> (Replica, Vec<AttemptCall>) {
    let DecisionList { gateway, log, truncated, items, .. } = list;
    let call = |decision| AttemptCall { gateway: gateway.clone(), decision };
    let calls = items.into_iter().map(call).collect();
    (Replica { name: gateway, log, truncated }, calls)
}

/// The number of nodes that the gateways know from a watch or a file, which is all nodes.
fn watched_nodes(statuses: &[Status]) -> Option<u64> {
    let is_complete = |source: &str| matches!(source, "Watch" | "File");
    let tables = statuses.iter().map(|status| &status.nodes);
    tables.filter(|table| table.synced && is_complete(&table.source)).map(|table| table.count).max()
}

impl SchedulingAttempt {
    /// Groups calls, which may be in any order, into attempts; the newest attempt first.
    pub fn group(mut calls: Vec<AttemptCall>) -> Vec<Self> {
        calls.sort_by_key(|call| call.decision.time);
        for at in 1..calls.len() {
            if is_clock_skew(&calls[at - 1], &calls[at]) {
                calls.swap(at - 1, at);
            }
        }
        let mut attempts: Vec<Self> = Vec::new();
        for call in calls {
            match attempts.last_mut().filter(|_| !call.decision.is(Verb::Filter)) {
                Some(attempt) => attempt.calls.push(call),
                None => attempts.push(Self { time: call.decision.time, calls: vec![call] }),
            }
        }
        attempts.reverse();
        attempts
    }

    /// Its latest call of a verb.
    pub fn call(&self, verb: Verb) -> Option<&Decision> {
        self.calls.iter().rev().map(|call| &call.decision).find(|decision| decision.is(verb))
    }

    /// Its prioritize call, if that was answered.
    pub fn scored(&self) -> Option<&Decision> {
        self.call(Verb::Prioritize).filter(|call| call.outcome == "ok")
    }
}

/// Whether the prioritize call seems to precede its filter call: the clocks of replicas differ by more than the
/// time between the two, or it was decided in a call of kube-scheduler's plugin, with which it began.
fn is_clock_skew(prioritize: &AttemptCall, filter: &AttemptCall) -> bool {
    let (scored, filtered) = (&prioritize.decision, &filter.decision);
    let skew = filtered.time.duration_since(scored.time);
    let most =
        if prioritize.gateway == filter.gateway { scored.seconds } else { MAX_CLOCK_SKEW.as_secs_f64() };
    scored.is(Verb::Prioritize)
        && filtered.is(Verb::Filter)
        && filtered.left == Some(scored.offered)
        && skew.as_secs_f64() < most
}

/// The best total of a prioritize call, and the nodes with it.
pub fn best(scored: &Decision) -> Option<(i64, Vec<&NodePart>)> {
    let total = scored.nodes.iter().filter_map(|node| node.total).max()?;
    Some((total, scored.nodes.iter().filter(|node| node.total == Some(total)).collect()))
}

/// The answers in a call for a node.
pub fn node<'a>(call: &'a Decision, name: &str) -> Option<&'a NodePart> {
    call.nodes.iter().find(|node| node.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::samples::{call, filter, prioritize};

    #[test]
    fn a_replica_whose_clock_is_slow_scores_in_the_same_attempt() {
        let of = |gateway: &str, decision| AttemptCall { gateway: gateway.to_owned(), decision };
        let calls = |gateway, nodes: &[(&str, i32)]| {
            let mut scored = prioritize(10, nodes);
            scored.time -= SignedDuration::from_millis(40);
            vec![of("gateway-0", filter(10, &[("a", None), ("b", None)])), of(gateway, scored)]
        };
        let two = [("a", 1), ("b", 2)];
        assert_eq!(SchedulingAttempt::group(calls("gateway-1", &two)).len(), 1);
        assert_eq!(SchedulingAttempt::group(calls("gateway-0", &two)).len(), 2, "one clock");
        assert_eq!(SchedulingAttempt::group(calls("gateway-1", &two[..1])).len(), 2, "other nodes were left");
    }

    #[test]
    fn scores_that_were_decided_in_the_same_call_are_of_its_attempt() {
        let scored = prioritize(10, &[("a", 1), ("b", 2)]);
        for (apart, attempts) in [(-1, 1), (0, 1), (1, 1), (2_000_000, 2)] {
            let mut filter = filter(10, &[("a", None), ("b", None)]);
            filter.time += SignedDuration::from_nanos(apart);
            let calls = [&scored, &filter]
                .map(|call| AttemptCall { gateway: "gateway-0".to_owned(), decision: call.clone() });
            assert_eq!(
                SchedulingAttempt::group(calls.to_vec()).len(),
                attempts,
                "{apart} ns after its scores"
            );
        }
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
        let attempts = SchedulingAttempt::group(calls.to_vec());
        let verbs = |attempt: &SchedulingAttempt| {
            attempt.calls.iter().map(|call| call.decision.verb.clone()).collect::<Vec<_>>().join(" ")
        };
        let found: Vec<_> = attempts.iter().map(verbs).collect();
        assert_eq!(found, ["filter prioritize bind", "filter preempt", "prioritize"]);
        assert_eq!(attempts[0].time, calls[4].decision.time);
        assert!(attempts[2].call(Verb::Filter).is_none() && SchedulingAttempt::group(Vec::new()).is_empty());
    }
}

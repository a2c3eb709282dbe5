//! Decisions and cases for tests.

#![expect(clippy::unwrap_used, reason = "samples that cannot be made are failures of tests")]

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    evidence::{AttemptCall, Evidence},
    pod::{ClusterView, ExplainedPod, PodFacts, PodState, ShownCondition},
};
use crate::explain::replicas::Gathered;
use crate::{
    API_VERSION, BackendFailed, BackendPart, Decision, DecisionList, LogState, NodeForm, NodePart,
    NodeVerdict, PodRef,
};

/// A point in time, in seconds after 2026-11-21 23:00:00 UTC.
pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_795_302_000 + seconds).unwrap()
}

/// A call about `shop/web-0` without backends.
pub fn decision(verb: &str, seconds: i64) -> Decision {
    Decision {
        id: format!("{verb}-{seconds}"),
        time: at(seconds),
        seconds: 0.002,
        verb: verb.to_owned(),
        trace_id: None,
        generation: 1,
        pod: PodRef {
            namespace: "shop".into(),
            name: "web-0".into(),
            uid: "u-1".into(),
            nominated_node: None,
        },
        node_form: Some(NodeForm::Names),
        offered: 0,
        left: None,
        outcome: "ok".to_owned(),
        message: None,
        exempt: false,
        kept: false,
        backends: Vec::new(),
        nodes: Vec::new(),
    }
}

/// The same, decided by this gateway.
pub fn call(verb: &str, seconds: i64, gateway: &str) -> AttemptCall {
    AttemptCall { gateway: gateway.to_owned(), decision: decision(verb, seconds) }
}

/// A backend that was called for all nodes.
pub fn backend(name: &str, asked: usize) -> BackendPart {
    BackendPart {
        name: name.to_owned(),
        mode: "Enforce".to_owned(),
        asked: u32::try_from(asked).unwrap(),
        seconds: 0.0012,
        ..BackendPart::default()
    }
}

/// A failure and the applied policy.
pub fn failed(kind: &str, message: &str, policy: &str) -> BackendFailed {
    BackendFailed { kind: kind.to_owned(), message: message.to_owned(), policy: policy.to_owned() }
}

/// A node without answers.
pub fn node(name: &str) -> NodePart {
    NodePart { name: name.to_owned(), ..NodePart::default() }
}

/// A filter call in which `zones` rejects the nodes that have a reason.
pub fn filter(seconds: i64, nodes: &[(&str, Option<&str>)]) -> Decision {
    let verdict = |(name, reason): &(&str, Option<&str>)| {
        let rejected = reason.map(str::to_owned);
        let verdict = NodeVerdict {
            accepted: rejected.is_none(),
            rejected: rejected.clone(),
            ..NodeVerdict::default()
        };
        NodePart {
            rejected_by: rejected.as_ref().map(|_| "zones".to_owned()),
            reason: rejected,
            backends: BTreeMap::from([("zones".to_owned(), verdict)]),
            ..node(name)
        }
    };
    let rejected = u32::try_from(nodes.iter().filter(|(_, reason)| reason.is_some()).count()).unwrap();
    let offered = u32::try_from(nodes.len()).unwrap();
    Decision {
        offered,
        left: Some(offered - rejected),
        backends: vec![BackendPart { rejected, ..backend("zones", nodes.len()) }],
        nodes: nodes.iter().map(verdict).collect(),
        ..decision("filter", seconds)
    }
}

/// A prioritize call in which `zones` gives these raw scores, unchanged and times 2.
pub fn prioritize(seconds: i64, nodes: &[(&str, i32)]) -> Decision {
    let scored = |(name, raw): &(&str, i32)| {
        let raw = *raw;
        let verdict = NodeVerdict {
            raw: Some(raw),
            normalized: Some(raw.into()),
            weighted: Some((2 * raw).into()),
            ..NodeVerdict::default()
        };
        let backends = BTreeMap::from([("zones".to_owned(), verdict)]);
        NodePart { total: Some((2 * raw).into()), backends, ..node(name) }
    };
    let zones = BackendPart {
        weight: Some(2),
        normalization: Some("None".to_owned()),
        ..backend("zones", nodes.len())
    };
    Decision {
        offered: u32::try_from(nodes.len()).unwrap(),
        backends: vec![zones],
        nodes: nodes.iter().map(scored).collect(),
        ..decision("prioritize", seconds)
    }
}

/// A bind call that succeeded.
pub fn bind(seconds: i64, name: &str) -> Decision {
    let binder = BackendPart { answer: Some("bound".to_owned()), ..backend("binder", 0) };
    Decision {
        offered: 1,
        node_form: None,
        backends: vec![binder],
        nodes: vec![node(name)],
        ..decision("bind", seconds)
    }
}

/// A log of 64 MiB with all calls since 23:00:00 UTC.
pub fn log() -> LogState {
    LogState {
        max_bytes: 64 << 20,
        bytes: 4096,
        calls: 12,
        pods: 3,
        evicted: 0,
        since: at(0),
        oldest: Some(at(1)),
        complete_since: None,
    }
}

/// The response of a gateway that decided these calls.
pub fn answer(gateway: &str, items: Vec<Decision>) -> DecisionList {
    DecisionList {
        api_version: API_VERSION.to_owned(),
        kind: "DecisionList".to_owned(),
        gateway: gateway.to_owned(),
        log: log(),
        truncated: false,
        items,
    }
}

/// The pod `u-1`, created at 23:00:05 UTC, which runs on a node or is pending.
pub fn pod(place: Option<&str>) -> PodFacts {
    PodFacts {
        uid: "u-1".to_owned(),
        created: at(5),
        scheduler_name: "default-scheduler".to_owned(),
        node: place.map(str::to_owned),
        phase: if place.is_some() { "Running" } else { "Pending" }.to_owned(),
        ..PodFacts::default()
    }
}

/// A pod that the scheduler tried without success, most recently at this time.
pub fn refused(seconds: i64) -> PodFacts {
    let scheduled = ShownCondition {
        status: "False".to_owned(),
        reason: "Unschedulable".to_owned(),
        message: "0/5 nodes are available: 5 Insufficient cpu.".to_owned(),
        time: Some(at(seconds)),
    };
    PodFacts { scheduled: Some(scheduled), ..pod(None) }
}

/// The evidence about `shop/web-0` at 23:10:00 UTC with this pod in the apiserver, in a cluster of 5 nodes with one
/// gateway, which decided these calls.
pub fn case(pod: PodFacts, items: Vec<Decision>) -> Evidence {
    of(PodState::There(Box::new(pod)), vec![answer("gateway-0", items)], None)
}

/// The same for this state and these answers, with a node of `--node`.
pub fn of(pod: PodState, answers: Vec<DecisionList>, asked: Option<&str>) -> Evidence {
    let target = ExplainedPod {
        namespace: "shop".into(),
        name: "web-0".into(),
        node: asked.map(str::to_owned),
        waiting: None,
        group: None,
    };
    let view = ClusterView { pod, cluster_nodes: Some(5), node_exists: asked.map(|_| true) };
    Evidence::new(target, view, Gathered { answers, away: Vec::new() }, Vec::new(), at(600))
}

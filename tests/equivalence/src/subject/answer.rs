//! The gateway's replies, as kube-scheduler reads them.

use std::collections::BTreeMap;

use extender_reference::{
    filter::{Kind, Status},
    model::{Candidate, Node},
};
use serde_json::Value;

use super::{client::Answer, objects};
use crate::case::Source;

/// A reply to filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filtered {
    /// Nodes are accepted and rejected.
    Decided {
        /// The remaining nodes, in the reply's order.
        feasible: Vec<Node>,
        /// Why the others were rejected.
        statuses: BTreeMap<Node, Status>,
    },
    /// `Error`, which ends the attempt.
    Failed(String),
    /// A reply that kube-scheduler would not accept.
    Unusable(String),
}

/// A reply to prioritize.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prioritized {
    /// The list.
    List(Vec<(Node, i64)>),
    /// A reply that kube-scheduler would not accept.
    Unusable(String),
}

/// A reply to preempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Preempted {
    /// These candidates are left, by node.
    Left(Vec<Candidate>),
    /// A status that ends preemption, and its text.
    Failed(String),
    /// A reply that kube-scheduler would not accept.
    Unusable(String),
}

pub(super) fn filtered(answer: &Answer, source: Source) -> Filtered {
    read_filtered(answer, source).unwrap_or_else(|| Filtered::Unusable(shown(answer)))
}

pub(super) fn prioritized(answer: &Answer) -> Prioritized {
    read_prioritized(answer).map_or_else(|| Prioritized::Unusable(shown(answer)), Prioritized::List)
}

pub(super) fn preempted(answer: &Answer) -> Preempted {
    match &answer.error {
        Some(error) if answer.status >= 500 && answer.body.is_empty() => Preempted::Failed(error.clone()),
        _ => read_preempted(answer).map_or_else(|| Preempted::Unusable(shown(answer)), Preempted::Left),
    }
}

fn shown(answer: &Answer) -> String {
    format!("status {}: {}", answer.status, String::from_utf8_lossy(&answer.body))
}

fn json(answer: &Answer) -> Option<Value> {
    serde_json::from_slice(&answer.body).ok().filter(|_| answer.status == 200)
}

fn read_filtered(answer: &Answer, source: Source) -> Option<Filtered> {
    let reply = json(answer)?;
    let error = reply.get("Error").and_then(Value::as_str).unwrap_or_default();
    if !error.is_empty() {
        return Some(Filtered::Failed(error.to_owned()));
    }
    let names: Vec<&str> = if source == Source::Request {
        let items = reply["Nodes"]["items"].as_array()?;
        items.iter().map(|node| node["metadata"]["name"].as_str()).collect::<Option<_>>()?
    } else {
        // kube-scheduler accepts `Nodes` unchecked in either mode.
        let names = reply["NodeNames"].as_array().filter(|_| reply["Nodes"].is_null())?;
        names.iter().map(Value::as_str).collect::<Option<_>>()?
    };
    let feasible = names.into_iter().map(objects::numbered).collect::<Option<_>>()?;
    let mut statuses = BTreeMap::new();
    for (map, kind) in [("FailedNodes", Kind::Failed), ("FailedAndUnresolvableNodes", Kind::Unresolvable)] {
        for (name, reason) in reply[map].as_object().into_iter().flatten() {
            let reason = reason.as_str()?.to_owned();
            if statuses.insert(objects::numbered(name)?, Status { kind, reason }).is_some() {
                return None;
            }
        }
    }
    Some(Filtered::Decided { feasible, statuses })
}

fn read_prioritized(answer: &Answer) -> Option<Vec<(Node, i64)>> {
    let reply = json(answer)?;
    let entry = |entry: &Value| Some((objects::numbered(entry["Host"].as_str()?)?, entry["Score"].as_i64()?));
    reply.as_array()?.iter().map(entry).collect()
}

fn read_preempted(answer: &Answer) -> Option<Vec<Candidate>> {
    let reply = json(answer)?;
    let candidates = reply["NodeNameToMetaVictims"].as_object()?.iter().map(|(name, left)| {
        let uids = left["Pods"].as_array()?.iter().map(|pod| objects::victim(pod["UID"].as_str()?));
        Some(Candidate {
            node: objects::numbered(name)?,
            victims: uids.collect::<Option<_>>()?,
            violations: left["NumPDBViolations"].as_i64()?,
        })
    });
    let mut candidates = candidates.collect::<Option<Vec<_>>>()?;
    candidates.sort_unstable();
    Some(candidates)
}

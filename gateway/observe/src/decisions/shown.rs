//! Converts a call of the decision log to the JSON of the admin address: the answers for its nodes, merged from all
//! backends.

use std::ops;

use extender_gateway_api::{BackendFailed, BackendPart, Decision, NodeChange, NodePart, NodeVerdict, PodRef};
use extender_gateway_core::{
    Verb, reason,
    score::{self, Ballot, Direction, Normalization},
};
use extender_gateway_object::text::clean;
use extender_gateway_record::Agreement;
use extender_gateway_settings::Choice;

use super::{
    dictionary::Texts,
    entry::{ChangeEntry, LogEntry, OutcomeEntry, PartEntry, RefusalEntry},
    packed::Runs,
};

use crate::timestamp;

/// The answer of a backend that was no longer needed, or came after the caller disconnected.
const CANCELED: &str = "canceled: the caller disconnected, or the call was decided without it";
/// The reasons of nodes that a backend did not receive, in the order of [`PartEntry::not_sent`].
const NOT_SENT: [&str; 4] = [
    "node is not yet known to the gateway",
    "node cannot be read by the gateway",
    "node was deleted",
    "node is too large for the backend",
];
/// The reason of a candidate that a backend dropped: preempt has no reasons.
const LEFT_OUT: &str = "left out";

/// Converts a call, with its shadow calls.
pub(super) fn decision<'e>(entry: &LogEntry, shadows: impl Iterator<Item = &'e LogEntry>) -> Decision {
    let texts = entry.texts();
    let mut nodes = Nodes::new(entry, &texts);
    for part in &entry.parts {
        nodes.add(part, &texts);
        nodes.apply(part, &texts);
    }
    if entry.verb == Verb::Prioritize {
        nodes.add_totals(&entry.parts);
    }
    let mut backends: Vec<_> = entry.parts.iter().map(|part| backend(part, &texts)).collect();
    for shadow in shadows {
        let texts = shadow.texts();
        shadow.parts.iter().for_each(|part| nodes.add(part, &texts));
        backends.extend(shadow.parts.iter().map(|part| backend(part, &texts)));
    }
    call(entry, &texts, backends, nodes.0)
}

/// Converts a call, with its shadow calls, without the answers for its nodes: a small part of the work.
pub(super) fn without_nodes<'e>(entry: &LogEntry, shadows: impl Iterator<Item = &'e LogEntry>) -> Decision {
    let parts = |entry: &LogEntry, texts: &Texts| -> Vec<BackendPart> {
        entry.parts.iter().map(|part| backend(part, texts)).collect()
    };
    let texts = entry.texts_without_nodes();
    let mut backends = parts(entry, &texts);
    shadows.for_each(|shadow| backends.extend(parts(shadow, &shadow.texts_without_nodes())));
    call(entry, &texts, backends, Vec::new())
}

fn call(entry: &LogEntry, texts: &Texts, backends: Vec<BackendPart>, nodes: Vec<NodePart>) -> Decision {
    let nominated = texts.at(entry.nominated).to_owned();
    Decision {
        id: entry.id.to_string(),
        time: timestamp(entry.time),
        seconds: entry.took.as_secs_f64(),
        verb: entry.verb.name().to_owned(),
        trace_id: entry.trace.map(|trace| trace.to_string()),
        generation: entry.generation,
        pod: PodRef {
            namespace: entry.pod.namespace.clone(),
            name: entry.pod.name.clone(),
            uid: entry.pod.uid.clone(),
            nominated_node: Some(nominated).filter(|node| !node.is_empty()),
        },
        node_form: entry.form,
        offered: entry.offered,
        left: entry.left,
        outcome: entry.outcome.as_str().to_owned(),
        message: entry.message.as_deref().map(str::to_owned),
        exempt: entry.exempt,
        kept: entry.kept,
        backends,
        nodes,
    }
}

fn backend(part: &PartEntry, texts: &Texts) -> BackendPart {
    let mut shown = BackendPart {
        name: texts.at(part.name).to_owned(),
        hook: part.verb.is_hook().then(|| part.verb.name().to_owned()),
        mode: part.mode.word().to_owned(),
        mode_reason: part.mode_reason.map(|words| texts.at(words).to_owned()),
        asked: part.asked,
        known: part.known,
        reads_of_pods: part.reads_of_pods.map(|words| texts.at(words).to_owned()),
        seconds: part.took.as_secs_f64(),
        answer: part.agreement.map(Agreement::as_str).map(str::to_owned),
        ..BackendPart::default()
    };
    match &part.outcome {
        OutcomeEntry::Pending if part.canceled => shown.answer = Some(CANCELED.to_owned()),
        OutcomeEntry::Pending => {}
        OutcomeEntry::Failed { kind, message } => {
            shown.failure = Some(BackendFailed {
                kind: (*kind).to_owned(),
                message: texts.at(*message).to_owned(),
                policy: part.policy.as_str().to_owned(),
            });
        }
        OutcomeEntry::Filtered { refusals, .. } => {
            let rejected = refusals.iter().map(|refusal| refusal.nodes.count()).sum::<u64>();
            shown.rejected = u32::try_from(rejected).unwrap_or(u32::MAX);
        }
        OutcomeEntry::Scored { weight, normalization, clamped, .. } => {
            shown.weight = Some(*weight);
            shown.normalization = Some(normalization_name(*normalization));
            shown.clamped = number(*clamped);
        }
        OutcomeEntry::Candidates { nodes, .. } => {
            shown.rejected = part.asked.saturating_sub(number(nodes.iter().count()));
        }
        OutcomeEntry::Bound(text) => shown.answer = Some(texts.at(*text).to_owned()),
        OutcomeEntry::Changed { pod, nodes } => {
            let changed = nodes.iter().map(|changed| changed.nodes.count()).sum::<u64>();
            shown.changed = u32::try_from(changed).unwrap_or(u32::MAX);
            shown.pod_change = pod.map(|words| texts.at(words).to_owned());
        }
    }
    shown
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn normalization_name(normalization: Normalization) -> String {
    let (name, direction) = match normalization {
        Normalization::None => ("None", Direction::LargestIsBest),
        Normalization::Range(direction) => ("Range", direction),
        Normalization::Max(direction) => ("Max", direction),
        Normalization::MinMax(direction) => ("MinMax", direction),
    };
    match direction {
        Direction::LargestIsBest => name.to_owned(),
        Direction::LeastIsBest => format!("{name} reversed"),
    }
}

/// The nodes of a call, in kube-scheduler's order, and the answers for them so far.
struct Nodes(Vec<NodePart>);

impl Nodes {
    fn new(entry: &LogEntry, texts: &Texts) -> Self {
        let node = |name: u32| NodePart { name: texts.at(name).to_owned(), ..NodePart::default() };
        Self(entry.nodes.iter().map(node).collect())
    }

    /// Adds the answer of a backend.
    fn add(&mut self, part: &PartEntry, texts: &Texts) {
        let name = texts.at(part.name);
        match &part.outcome {
            OutcomeEntry::Pending | OutcomeEntry::Failed { .. } | OutcomeEntry::Bound(_) => {}
            OutcomeEntry::Filtered { asked, refusals } => {
                let accepted = NodeVerdict { accepted: true, ..NodeVerdict::default() };
                for node in self.positions(asked.as_ref().map(Runs::iter)) {
                    self.put(node, name, &accepted);
                }
                for RefusalEntry { reason, rule, retry_after, nodes } in refusals {
                    let rule = rule.map(|rule| clean(texts.at(rule)).into_owned());
                    let rejected = NodeVerdict {
                        rule,
                        retry_after_seconds: *retry_after,
                        ..rejected(texts.at(*reason))
                    };
                    nodes.iter().for_each(|node| self.put(node, name, &rejected));
                }
            }
            OutcomeEntry::Scored { .. } => {
                part.outcome.ballot().iter().for_each(|ballot| self.score(ballot, name));
            }
            OutcomeEntry::Candidates { nodes, victims } => {
                self.leave_out(name, part);
                for (node, victims) in nodes.iter().zip(victims.iter()) {
                    let victims = Some(victims.cast_unsigned());
                    self.put(node, name, &NodeVerdict { victims, ..NodeVerdict::default() });
                }
            }
            OutcomeEntry::Changed { nodes, .. } => {
                for ChangeEntry { words, nodes } in nodes {
                    let change =
                        || NodeChange { backend: name.to_owned(), change: texts.at(*words).to_owned() };
                    nodes.iter().for_each(|node| self.change(node, change()));
                }
            }
        }
    }

    /// Marks the candidates that a backend received as left out. One that an earlier backend dropped was not sent.
    fn leave_out(&mut self, name: &str, part: &PartEntry) {
        let mut not_sent: Vec<u32> = part.not_sent.iter().flat_map(Runs::iter).collect();
        not_sent.sort_unstable();
        let left_out = rejected(LEFT_OUT);
        for node in self.all() {
            let earlier = self.0[node as usize].rejected_by.is_some();
            if !earlier && not_sent.binary_search(&node).is_err() {
                self.put(node, name, &left_out);
            }
        }
    }

    fn score(&mut self, ballot: &Ballot, name: &str) {
        let normalized = score::normalized(ballot);
        let positions = self.positions(ballot.nodes.as_ref().map(|nodes| nodes.iter().copied()));
        for (node, raw) in positions.into_iter().zip(&ballot.scores) {
            let normalized = normalized(*raw);
            let scored = NodeVerdict {
                raw: Some(*raw),
                normalized: Some(normalized),
                weighted: Some(normalized * f64::from(ballot.weight)),
                ..NodeVerdict::default()
            };
            self.put(node, name, &scored);
        }
    }

    /// Adds the total scores.
    fn add_totals(&mut self, parts: &[PartEntry]) {
        let ballots: Vec<Ballot> = parts.iter().filter_map(|part| part.outcome.ballot()).collect();
        let totals = score::totals(self.0.len(), &ballots.iter().collect::<Vec<_>>());
        self.0.iter_mut().zip(totals).for_each(|(node, total)| node.total = total);
    }

    /// Applies a backend's rejections: a node's first one is the one that kube-scheduler gets.
    fn apply(&mut self, part: &PartEntry, texts: &Texts) {
        if part.verb.is_hook() {
            return;
        }
        let name = texts.at(part.name);
        if matches!(part.outcome, OutcomeEntry::Filtered { .. } | OutcomeEntry::Candidates { .. }) {
            for (nodes, reason) in part.not_sent.iter().zip(NOT_SENT) {
                nodes.iter().for_each(|node| self.reject(node, name, reason));
            }
        }
        for node in self.all() {
            let verdict = self.0[node as usize].backends.get(name);
            if let Some(reason) = verdict.and_then(|verdict| verdict.rejected.clone()) {
                self.reject(node, name, &reason);
            }
        }
    }

    fn put(&mut self, node: u32, name: &str, verdict: &NodeVerdict) {
        if let Some(node) = self.0.get_mut(node as usize) {
            node.backends.insert(name.to_owned(), verdict.clone());
        }
    }

    fn change(&mut self, node: u32, change: NodeChange) {
        if let Some(node) = self.0.get_mut(node as usize) {
            node.changes.push(change);
        }
    }

    fn reject(&mut self, node: u32, name: &str, reason: &str) {
        let node = self.0.get_mut(node as usize).filter(|node| node.rejected_by.is_none());
        if let Some(node) = node {
            node.rejected_by = Some(name.to_owned());
            node.reason = Some(reason::clean(reason));
        }
    }

    fn all(&self) -> ops::Range<u32> {
        0..number(self.0.len())
    }

    /// These positions, or all.
    fn positions(&self, nodes: Option<impl Iterator<Item = u32>>) -> Vec<u32> {
        nodes.map_or_else(|| self.all().collect(), Iterator::collect)
    }
}

fn rejected(reason: &str) -> NodeVerdict {
    NodeVerdict { rejected: Some(reason.to_owned()), ..NodeVerdict::default() }
}

//! A call of the log as the admin address shows it.

use std::{collections::BTreeMap, time::SystemTime};

use extender_gateway_core::score::{self, Ballot, Direction, Normalization};
use jiff::Timestamp;

use super::{
    dictionary::Texts,
    entry::{Entry, PartEntry, SaidEntry},
};
use crate::{
    config::Words,
    observe::api::{BackendFailed, BackendPart, Decision, NodePart, NodeVerdict, PodRef},
};

/// What is said of a node that a backend could not be told about.
const UNKNOWN: &str = "node is not yet known to the gateway";

/// A time as it is shown.
pub(super) fn timestamp(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Shows a call, with what was asked beside it.
pub(super) fn decision<'e>(entry: &Entry, beside: impl Iterator<Item = &'e Entry>) -> Decision {
    let texts = entry.dictionary.read();
    let mut sheet = Sheet::new(entry, &texts);
    entry.parts.iter().for_each(|part| sheet.add(part, &texts));
    sheet.decide(entry, &texts);
    let mut backends: Vec<_> = entry.parts.iter().map(|part| shown_part(part, &texts)).collect();
    drop(texts);
    for aside in beside {
        let texts = aside.dictionary.read();
        aside.parts.iter().for_each(|part| sheet.add(part, &texts));
        backends.extend(aside.parts.iter().map(|part| shown_part(part, &texts)));
    }
    Decision {
        id: entry.id.to_string(),
        time: timestamp(entry.time),
        seconds: entry.took.as_secs_f64(),
        verb: entry.verb.to_owned(),
        trace_id: entry.trace.as_deref().map(str::to_owned),
        generation: entry.generation,
        pod: pod(entry),
        node_form: entry.form,
        offered: entry.offered,
        left: entry.left,
        outcome: entry.outcome.to_owned(),
        message: entry.message.as_deref().map(str::to_owned),
        exempt: entry.exempt,
        backends,
        nodes: sheet.nodes,
    }
}

fn pod(entry: &Entry) -> PodRef {
    let nominated = entry.dictionary.read().at(entry.nominated).to_owned();
    PodRef {
        namespace: entry.pod.namespace.clone(),
        name: entry.pod.name.clone(),
        uid: entry.pod.uid.clone(),
        nominated_node: Some(nominated).filter(|node| !node.is_empty()),
    }
}

/// The nodes of a call, and what was said about them so far.
struct Sheet {
    nodes: Vec<NodePart>,
}

impl Sheet {
    fn new(entry: &Entry, texts: &Texts) -> Self {
        let node = |name: u32| NodePart {
            name: texts.at(name).to_owned(),
            rejected_by: None,
            reason: None,
            total: None,
            backends: BTreeMap::new(),
        };
        Self { nodes: entry.nodes.iter().map(node).collect() }
    }

    fn verdict(&mut self, node: u32, backend: &str) -> Option<&mut NodeVerdict> {
        let node = self.nodes.get_mut(node as usize)?;
        Some(node.backends.entry(backend.to_owned()).or_default())
    }

    /// Adds what a backend said.
    fn add(&mut self, part: &PartEntry, texts: &Texts) {
        let name = texts.at(part.name);
        match &part.said {
            SaidEntry::Nothing | SaidEntry::Failed { .. } | SaidEntry::Words(_) => {}
            SaidEntry::Refused { asked, refusals } => {
                for node in self.places(asked.as_ref().map(|asked| asked.iter())) {
                    self.verdict(node, name).into_iter().for_each(|verdict| verdict.accepted = true);
                }
                for (reason, nodes) in refusals {
                    for verdict in nodes.iter() {
                        let refused = NodeVerdict {
                            rejected: Some(texts.at(*reason).to_owned()),
                            ..NodeVerdict::default()
                        };
                        self.verdict(verdict, name)
                            .into_iter()
                            .for_each(|verdict| *verdict = refused.clone());
                    }
                }
            }
            SaidEntry::Scored { .. } => {
                if let Some(ballot) = ballot(part) {
                    self.score(&ballot, name);
                }
            }
            SaidEntry::Kept { nodes, victims } => {
                for node in self.places(None::<std::iter::Empty<u32>>) {
                    let left_out = Some("left out".to_owned());
                    self.verdict(node, name)
                        .into_iter()
                        .for_each(|verdict| verdict.rejected.clone_from(&left_out));
                }
                for (node, victims) in nodes.iter().zip(victims.iter()) {
                    let kept =
                        NodeVerdict { victims: Some(victims.cast_unsigned()), ..NodeVerdict::default() };
                    self.verdict(node, name).into_iter().for_each(|verdict| *verdict = kept.clone());
                }
            }
        }
    }

    fn places(&self, asked: Option<impl Iterator<Item = u32>>) -> Vec<u32> {
        match asked {
            Some(asked) => asked.collect(),
            None => (0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)).collect(),
        }
    }

    fn score(&mut self, ballot: &Ballot, name: &str) {
        let normalized = score::normalized(ballot);
        let places = self.places(ballot.nodes.as_ref().map(|nodes| nodes.iter().copied()));
        for (node, raw) in places.into_iter().zip(&ballot.scores) {
            let normalized = normalized(*raw);
            let Some(verdict) = self.verdict(node, name) else { continue };
            verdict.raw = Some(*raw);
            verdict.normalized = Some(normalized);
            verdict.weighted = Some(normalized * f64::from(ballot.weight));
        }
    }

    /// Adds what came of it all: the first rejection of each node, or the sums.
    fn decide(&mut self, entry: &Entry, texts: &Texts) {
        if entry.verb == "prioritize" {
            let ballots: Vec<Ballot> = entry.parts.iter().filter_map(ballot).collect();
            let totals = score::totals(self.nodes.len(), &ballots);
            self.nodes.iter_mut().zip(totals).for_each(|(node, total)| node.total = total);
            return;
        }
        for part in &entry.parts {
            let answered = matches!(part.said, SaidEntry::Refused { .. } | SaidEntry::Kept { .. });
            let name = texts.at(part.name);
            for node in part.unknown.iter().filter(|_| answered) {
                self.reject(node, name, UNKNOWN);
            }
            for node in 0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX) {
                let verdict = self.nodes[node as usize].backends.get(name);
                if let Some(reason) = verdict.and_then(|verdict| verdict.rejected.clone()) {
                    self.reject(node, name, &reason);
                }
            }
        }
    }

    fn reject(&mut self, node: u32, name: &str, reason: &str) {
        let Some(node) = self.nodes.get_mut(node as usize).filter(|node| node.rejected_by.is_none()) else {
            return;
        };
        node.rejected_by = Some(name.to_owned());
        node.reason = Some(reason.to_owned());
    }
}

/// The ballot of a backend that scored.
fn ballot(part: &PartEntry) -> Option<Ballot> {
    let SaidEntry::Scored { weight, normalization, range, nodes, scores, .. } = &part.said else {
        return None;
    };
    Some(Ballot {
        weight: *weight,
        normalization: *normalization,
        range: *range,
        nodes: nodes.as_ref().map(|nodes| nodes.iter().collect()),
        scores: scores.iter().collect(),
    })
}

fn shown_part(part: &PartEntry, texts: &Texts) -> BackendPart {
    let mut shown = BackendPart {
        name: texts.at(part.name).to_owned(),
        mode: part.mode.word().to_owned(),
        weight: None,
        normalization: None,
        asked: part.asked,
        known: part.known,
        rejected: 0,
        clamped: 0,
        seconds: part.took.as_secs_f64(),
        answer: part.opinion.map(str::to_owned),
        failure: None,
    };
    match &part.said {
        SaidEntry::Nothing => {}
        SaidEntry::Failed { kind, message } => {
            shown.failure = Some(BackendFailed {
                kind: (*kind).to_owned(),
                message: texts.at(*message).to_owned(),
                policy: part.policy.as_str().to_owned(),
            });
        }
        SaidEntry::Refused { refusals, .. } => {
            shown.rejected = number(refusals.iter().flat_map(|(_, nodes)| nodes.iter()).count())
        }
        SaidEntry::Scored { weight, normalization, outside, .. } => {
            shown.weight = Some(*weight);
            shown.normalization = Some(words(*normalization));
            shown.clamped = number(*outside);
        }
        SaidEntry::Kept { nodes, .. } => {
            shown.rejected = part.asked.saturating_sub(number(nodes.iter().count()))
        }
        SaidEntry::Words(words) => shown.answer = Some(texts.at(*words).to_owned()),
    }
    shown
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn words(normalization: Normalization) -> String {
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

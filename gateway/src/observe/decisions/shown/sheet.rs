//! The answers for the nodes of a call, merged from all backends.

use std::collections::BTreeMap;

use extender_gateway_core::{
    reason,
    score::{self, Ballot},
};

use super::super::{
    entry::{LogEntry, PartEntry, SaidEntry},
    glossary::Glossary,
    packed::{Numbers, Runs},
};
use crate::api::{NodePart, NodeVerdict};

/// The reason of a node without the facts that a backend needs.
const UNKNOWN: &str = "node is not yet known to the gateway";
const DELETED: &str = "node was deleted";
const OVERSIZE: &str = "node is too large for the backend";
/// The reason of a candidate that a backend dropped: preempt has no reasons.
const LEFT_OUT: &str = "left out";

/// The nodes of a call, and the answers for them so far.
pub(super) struct VerdictTable {
    nodes: Vec<NodePart>,
}

impl VerdictTable {
    pub(super) fn new(entry: &LogEntry, texts: &Glossary) -> Self {
        let node = |name: u32| NodePart {
            name: texts.at(name).to_owned(),
            rejected_by: None,
            reason: None,
            total: None,
            backends: BTreeMap::new(),
        };
        Self { nodes: entry.nodes.iter().map(node).collect() }
    }

    /// The nodes, in kube-scheduler's order.
    pub(super) fn into_nodes(self) -> Vec<NodePart> {
        self.nodes
    }

    /// Adds the answer of the next backend.
    pub(super) fn add(&mut self, part: &PartEntry, texts: &Glossary) {
        let name = texts.at(part.name);
        match &part.said {
            SaidEntry::Nothing | SaidEntry::Failed { .. } | SaidEntry::Choice(_) => {}
            SaidEntry::Refused { asked, refusals } => self.refuse(name, asked.as_ref(), (refusals, texts)),
            SaidEntry::Scored { .. } => {
                if let Some(ballot) = ballot(part) {
                    self.score(&ballot, name);
                }
            }
            SaidEntry::Kept { nodes, victims } => self.keep(name, part, (nodes, victims)),
        }
    }

    /// Counts a backend's answer: a node's first rejection is the one that kube-scheduler gets.
    pub(super) fn count(&mut self, part: &PartEntry, texts: &Glossary) {
        let name = texts.at(part.name);
        if matches!(part.said, SaidEntry::Refused { .. } | SaidEntry::Kept { .. }) {
            part.unknown.iter().for_each(|node| self.reject(node, name, UNKNOWN));
            part.deleted.iter().for_each(|node| self.reject(node, name, DELETED));
            part.oversize.iter().for_each(|node| self.reject(node, name, OVERSIZE));
        }
        for node in self.all() {
            let verdict = self.nodes[node as usize].backends.get(name);
            if let Some(reason) = verdict.and_then(|verdict| verdict.rejected.clone()) {
                self.reject(node, name, &reason);
            }
        }
    }

    /// Adds the total scores.
    pub(super) fn total(&mut self, parts: &[PartEntry]) {
        let ballots: Vec<Ballot> = parts.iter().filter_map(ballot).collect();
        let totals = score::totals(self.nodes.len(), &ballots.iter().collect::<Vec<_>>());
        self.nodes.iter_mut().zip(totals).for_each(|(node, total)| node.total = total);
    }

    fn refuse(&mut self, name: &str, asked: Option<&Runs>, (refusals, texts): (&[(u32, Runs)], &Glossary)) {
        let accepted = NodeVerdict { accepted: true, ..NodeVerdict::default() };
        self.places(asked.map(Runs::iter)).into_iter().for_each(|node| self.put(node, name, &accepted));
        for (reason, nodes) in refusals {
            let rejected = Some(texts.at(*reason).to_owned());
            let refused = NodeVerdict { rejected, ..NodeVerdict::default() };
            nodes.iter().for_each(|node| self.put(node, name, &refused));
        }
    }

    /// A candidate that an earlier backend dropped was not sent.
    fn keep(&mut self, name: &str, part: &PartEntry, (nodes, victims): (&Runs, &Numbers)) {
        let mut untold: Vec<u32> = part.untold().into_iter().flat_map(Runs::iter).collect();
        untold.sort_unstable();
        let left_out = NodeVerdict { rejected: Some(LEFT_OUT.to_owned()), ..NodeVerdict::default() };
        let asked = |node: &u32| {
            self.nodes[*node as usize].rejected_by.is_none() && untold.binary_search(node).is_err()
        };
        let left = self.all().filter(asked);
        left.collect::<Vec<_>>().into_iter().for_each(|node| self.put(node, name, &left_out));
        for (node, victims) in nodes.iter().zip(victims.iter()) {
            let kept = NodeVerdict { victims: Some(victims.cast_unsigned()), ..NodeVerdict::default() };
            self.put(node, name, &kept);
        }
    }

    fn score(&mut self, ballot: &Ballot, name: &str) {
        let normalized = score::normalized(ballot);
        let places = self.places(ballot.nodes.as_ref().map(|nodes| nodes.iter().copied()));
        for (node, raw) in places.into_iter().zip(&ballot.scores) {
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

    fn put(&mut self, node: u32, name: &str, verdict: &NodeVerdict) {
        if let Some(node) = self.nodes.get_mut(node as usize) {
            node.backends.insert(name.to_owned(), verdict.clone());
        }
    }

    fn reject(&mut self, node: u32, name: &str, reason: &str) {
        let node = self.nodes.get_mut(node as usize).filter(|node| node.rejected_by.is_none());
        if let Some(node) = node {
            node.rejected_by = Some(name.to_owned());
            node.reason = Some(reason::clean(reason));
        }
    }

    fn all(&self) -> std::ops::Range<u32> {
        0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)
    }

    fn places(&self, asked: Option<impl Iterator<Item = u32>>) -> Vec<u32> {
        asked.map_or_else(|| self.all().collect(), Iterator::collect)
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

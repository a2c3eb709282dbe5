//! One call in the decision log: the answer of each backend for each node, packed.

use std::{
    mem::size_of_val,
    sync::Arc,
    time::{Duration, SystemTime},
};

use extender_gateway_api::NodeForm;
use extender_gateway_contract::change::{node_in_words, pod_in_words};
use extender_gateway_core::{
    PolicyVerb, Verb,
    filter::Asked,
    score::{Ballot, Normalization, Range},
};
use extender_gateway_record::{
    Agreement, BackendAttempt, BackendOutcome, CallOutcome, CallRecord, HttpCall, OnFailure, Outcome, PodRef,
    RequestedNodes,
};
use extender_gateway_settings::Mode;
use opentelemetry::trace::TraceId;

use super::{
    dictionary::{Dictionary, DictionaryRow, TextIds, Texts, truncated_name},
    packed::{Numbers, Runs},
};

use crate::node_form;

/// A call.
#[derive(Debug, Clone)]
pub(super) struct LogEntry {
    pub(super) id: Box<str>,
    pub(super) time: SystemTime,
    pub(super) took: Duration,
    pub(super) verb: Verb,
    pub(super) trace: Option<TraceId>,
    pub(super) generation: u64,
    pub(super) pod: Arc<PodRef>,
    pub(super) nominated: u32,
    pub(super) form: Option<NodeForm>,
    pub(super) left: Option<u32>,
    pub(super) outcome: CallOutcome,
    pub(super) message: Option<Box<str>>,
    /// The dictionary of its numbers.
    pub(super) dictionary: Arc<Dictionary>,
    /// The nodes that were offered.
    pub(super) nodes: Runs,
    pub(super) offered: u32,
    pub(super) parts: Box<[PartEntry]>,
    /// No backend was called, because the pod's namespace is exempt.
    pub(super) exempt: bool,
    /// Whether it has the shadow calls of the call with this id.
    pub(super) shadow: bool,
    /// Whether the pod got the answer of the call with this id, which was about another pod.
    pub(super) kept: bool,
}

/// A backend's part. Texts are numbers of the dictionary.
#[derive(Debug, Clone)]
pub(super) struct PartEntry {
    pub(super) name: u32,
    pub(super) verb: PolicyVerb,
    pub(super) mode: Mode,
    pub(super) policy: OnFailure,
    pub(super) asked: u32,
    pub(super) known: u32,
    pub(super) reads_of_pods: Option<u32>,
    pub(super) took: Duration,
    /// Positions of nodes that it did not receive: those without the facts that it needs, deleted ones, and those
    /// that are too large for a request to it.
    pub(super) not_sent: [Runs; 4],
    pub(super) outcome: OutcomeEntry,
    pub(super) agreement: Option<Agreement>,
    /// Why it is in shadow mode although it is configured otherwise.
    pub(super) mode_reason: Option<u32>,
    /// The call ended without its answer.
    pub(super) canceled: bool,
}

/// A packed [`Outcome`]. Positions are those in the call.
#[derive(Debug, Clone)]
pub(super) enum OutcomeEntry {
    Pending,
    Failed {
        kind: &'static str,
        message: u32,
    },
    Filtered {
        asked: Option<Runs>,
        refusals: Box<[RefusalEntry]>,
    },
    Scored {
        weight: u32,
        normalization: Normalization,
        range: Range,
        nodes: Option<Runs>,
        scores: Numbers,
        clamped: usize,
    },
    Candidates {
        nodes: Runs,
        victims: Numbers,
    },
    Bound(u32),
    Changed {
        /// What changed of the pod.
        pod: Option<u32>,
        nodes: Box<[ChangeEntry]>,
    },
}

/// Nodes that a hook changed alike.
#[derive(Debug, Clone)]
pub(super) struct ChangeEntry {
    pub(super) words: u32,
    pub(super) nodes: Runs,
}

/// Nodes that a backend rejected for one reason, by one rule.
#[derive(Debug, Clone)]
pub(super) struct RefusalEntry {
    pub(super) reason: u32,
    /// `None` if the backend named no rule.
    pub(super) rule: Option<u32>,
    /// In seconds.
    pub(super) retry_after: Option<u32>,
    pub(super) nodes: Runs,
}

impl LogEntry {
    /// Packs the record of a call, or of its shadow calls, which have no HTTP call.
    pub(super) fn new(
        verb: Verb,
        record: &CallRecord,
        http_call: Option<&HttpCall>,
        pod: Arc<PodRef>,
        dictionary: &Arc<Dictionary>,
    ) -> Self {
        let mut texts = dictionary.write();
        let (nodes, offered) = nodes(&record.nodes, &mut texts);
        let attempts = record.backends.iter().flat_map(|part| &part.attempts);
        let message = http_call.map(|http_call| &*http_call.message).filter(|message| !message.is_empty());
        Self {
            id: record.id.as_str().into(),
            time: record.time,
            took: http_call.map_or_else(|| attempts.map(|attempt| attempt.took).sum(), |call| call.took),
            verb,
            trace: http_call.and(record.trace).map(|trace| trace.trace_id),
            generation: http_call.map_or(0, |http_call| http_call.generation),
            pod,
            nominated: texts.number(&truncated_name(&record.pod.nominated)),
            form: node_form(&record.nodes),
            left: record.left,
            outcome: http_call.map_or(CallOutcome::Ok, |http_call| http_call.outcome),
            message: message.map(Box::from),
            dictionary: Arc::clone(dictionary),
            nodes,
            offered,
            parts: record.backends.iter().map(|part| PartEntry::new(part, &mut texts)).collect(),
            exempt: record.exempt,
            shadow: http_call.is_none(),
            kept: false,
        }
    }

    /// The same answer for another pod, which got it without a call.
    pub(super) fn kept_for(&self, pod: Arc<PodRef>) -> Self {
        let (time, nominated) = (SystemTime::now(), self.dictionary.write().number(""));
        Self { time, took: Duration::ZERO, trace: None, pod, nominated, kept: true, ..self.clone() }
    }

    /// Whether this node was offered.
    pub(super) fn offers(&self, node: &str) -> bool {
        self.position(node).is_some()
    }

    /// The position of this node among those that were offered.
    pub(super) fn position(&self, node: &str) -> Option<u32> {
        let number = self.dictionary.read().find(node)?;
        self.nodes.iter().zip(0..).find(|(offered, _)| *offered == number).map(|(_, position)| position)
    }

    /// Whether this backend had a part.
    pub(super) fn has_part(&self, backend: &str) -> bool {
        let number = self.dictionary.read().find(backend);
        number.is_some_and(|number| self.parts.iter().any(|part| part.name == number))
    }

    /// Its texts.
    pub(super) fn texts(&self) -> Texts {
        let numbers: Vec<u32> = self.nodes.iter().chain(self.numbers()).collect();
        self.dictionary.texts(&numbers)
    }

    /// Its texts without the names of its nodes.
    pub(super) fn texts_without_nodes(&self) -> Texts {
        self.dictionary.texts(&self.numbers().collect::<Vec<_>>())
    }

    /// The numbers of its texts without those of its nodes.
    fn numbers(&self) -> impl Iterator<Item = u32> {
        [self.nominated].into_iter().chain(self.parts.iter().flat_map(PartEntry::texts))
    }

    /// The approximate size in bytes, without its pod and the dictionary.
    pub(super) fn bytes(&self) -> usize {
        let texts = self.id.len() + self.message.as_deref().map_or(0, str::len);
        let parts: usize = self.parts.iter().map(PartEntry::bytes).sum();
        size_of_val(self) + texts + self.nodes.bytes() + parts
    }
}

/// The nodes of a call, and their number.
fn nodes(nodes: &RequestedNodes, texts: &mut TextIds) -> (Runs, u32) {
    match nodes {
        RequestedNodes::Offered(request) => {
            let (names, count) = (&request.names, request.names.count());
            let row = names.in_one_piece().map(|(all, ends)| DictionaryRow { all, ends });
            let nodes = match row.filter(|row| row.are_names()) {
                Some(row) => texts.runs(row),
                None => numbered((0..count).map(|node| names.name(node)), texts),
            };
            (nodes, count)
        }
        RequestedNodes::Candidates(request) => {
            let count = request.count();
            (numbered((0..count).map(|node| request.name(node)), texts), count)
        }
        RequestedNodes::Target(node) => (Runs::of([texts.number(&truncated_name(node))]), 1),
        RequestedNodes::CountOnly(count) => (Runs::default(), *count),
    }
}

/// The numbers of names.
fn numbered<'n>(names: impl Iterator<Item = &'n str>, texts: &mut TextIds) -> Runs {
    Runs::of(texts.numbers(names.map(truncated_name)))
}

impl PartEntry {
    fn new(part: &BackendOutcome, texts: &mut TextIds) -> Self {
        let last = part.attempts.last();
        Self {
            name: texts.number(part.backend.name.as_str()),
            verb: part.verb,
            mode: part.mode(),
            policy: part.policy,
            asked: last.map_or(0, |attempt| attempt.requested),
            known: last.map_or(0, |attempt| attempt.cached),
            reads_of_pods: last
                .and_then(|attempt| attempt.reads_of_pods.as_deref())
                .map(|words| texts.number(truncated(words))),
            took: part.attempts.iter().map(waited).sum(),
            not_sent: part.not_sent.lists().map(|nodes| Runs::of(nodes.iter().copied())),
            outcome: OutcomeEntry::new(&part.outcome, texts),
            agreement: part.agreement,
            mode_reason: part.mode_reason.as_deref().map(|words| texts.number(truncated(words))),
            canceled: last.is_some_and(|last| last.canceled),
        }
    }

    /// For filter: how many nodes its answer is about, of those that were offered, and how many of them it rejected.
    pub(super) fn filtered(&self, offered: u32) -> Option<(u64, u64)> {
        let OutcomeEntry::Filtered { asked, refusals } = &self.outcome else { return None };
        let nodes = asked.as_ref().map_or(u64::from(offered), Runs::count);
        Some((nodes, refusals.iter().map(|refusal| refusal.nodes.count()).sum()))
    }

    /// The numbers of its texts.
    fn texts(&self) -> impl Iterator<Item = u32> {
        [self.name].into_iter().chain(self.reads_of_pods).chain(self.mode_reason).chain(self.outcome.texts())
    }

    fn bytes(&self) -> usize {
        size_of_val(self) + self.not_sent.iter().map(Runs::bytes).sum::<usize>() + self.outcome.bytes()
    }
}

/// How long the call waited for a backend.
fn waited(attempt: &BackendAttempt) -> Duration {
    if attempt.rpcs.all().is_empty() { Duration::ZERO } else { attempt.took }
}

/// The longest text of a backend that is kept, in bytes: it is repeated for each node that it applies to.
const MAX_TEXT: usize = 1024;

fn truncated(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

/// Positions in the order that takes the least.
fn sorted(positions: &[u32]) -> Vec<u32> {
    let mut positions = positions.to_vec();
    positions.sort_unstable();
    positions
}

impl OutcomeEntry {
    fn new(outcome: &Outcome, texts: &mut TextIds) -> Self {
        match outcome {
            Outcome::Pending => Self::Pending,
            Outcome::Failed(failure) => {
                let message = texts.number(truncated(&failure.detail));
                Self::Failed { kind: failure.kind.as_str(), message }
            }
            Outcome::Filtered(filtered) => {
                let asked = match &filtered.nodes {
                    Asked::All => None,
                    Asked::Some(nodes) => Some(Runs::of(nodes.iter().copied())),
                };
                let refusals = filtered.refusals.iter().map(|refusal| RefusalEntry {
                    reason: texts.number(truncated(&refusal.reason)),
                    rule: (!refusal.rule.is_empty()).then(|| texts.number(&refusal.rule)),
                    retry_after: refusal.retry_after,
                    nodes: Runs::of(filtered.in_call(refusal)),
                });
                Self::Filtered { asked, refusals: refusals.collect() }
            }
            Outcome::Scored(ballot, clamped) => {
                let Ballot { weight, normalization, range, nodes, scores } = ballot;
                Self::Scored {
                    weight: *weight,
                    normalization: *normalization,
                    range: *range,
                    nodes: nodes.as_ref().map(|nodes| Runs::of(nodes.iter().copied())),
                    scores: Numbers::of(scores.iter().copied()),
                    clamped: *clamped,
                }
            }
            Outcome::Candidates(candidates) => Self::Candidates {
                nodes: Runs::of(candidates.iter().map(|(node, _)| *node)),
                victims: Numbers::of(candidates.iter().map(|(_, victims)| victims.cast_signed())),
            },
            Outcome::Bound(part) => Self::Bound(texts.number(truncated(&part.to_string()))),
            Outcome::Changed(changes) => {
                let nodes = changes.nodes.iter().map(|changed| ChangeEntry {
                    words: texts.number(&node_in_words(&changed.change)),
                    nodes: Runs::of(sorted(&changed.positions)),
                });
                let nodes = nodes.collect();
                let pod = changes.pod.as_ref().map(|change| texts.number(&pod_in_words(change)));
                Self::Changed { pod, nodes }
            }
        }
    }

    /// The numbers of its texts.
    fn texts(&self) -> Vec<u32> {
        match self {
            Self::Pending | Self::Scored { .. } | Self::Candidates { .. } => Vec::new(),
            Self::Failed { message: text, .. } | Self::Bound(text) => vec![*text],
            Self::Changed { pod, nodes } => nodes.iter().map(|changed| changed.words).chain(*pod).collect(),
            Self::Filtered { refusals, .. } => {
                refusals.iter().flat_map(|refusal| [refusal.reason].into_iter().chain(refusal.rule)).collect()
            }
        }
    }

    /// The ballot of a backend that scored.
    pub(super) fn ballot(&self) -> Option<Ballot> {
        let Self::Scored { weight, normalization, range, nodes, scores, .. } = self else { return None };
        Some(Ballot {
            weight: *weight,
            normalization: *normalization,
            range: *range,
            nodes: nodes.as_ref().map(|nodes| nodes.iter().collect()),
            scores: scores.iter().collect(),
        })
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Pending | Self::Failed { .. } | Self::Bound(_) => 0,
            Self::Filtered { asked, refusals } => {
                let runs: usize = refusals.iter().map(|refusal| refusal.nodes.bytes()).sum();
                asked.as_ref().map_or(0, Runs::bytes) + size_of_val(&**refusals) + runs
            }
            Self::Scored { nodes, scores, .. } => nodes.as_ref().map_or(0, Runs::bytes) + scores.bytes(),
            Self::Candidates { nodes, victims } => nodes.bytes() + victims.bytes(),
            Self::Changed { nodes, .. } => {
                let runs: usize = nodes.iter().map(|changed| changed.nodes.bytes()).sum();
                size_of_val(&**nodes) + runs
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::refused;

    #[test]
    fn long_texts_of_backends_are_truncated() {
        let (dictionary, long) = (Dictionary::default(), "ä".repeat(1 << 20));
        dictionary.write().limit(usize::MAX);
        let outcome = OutcomeEntry::new(&refused(&[(&long, &[0, 1])]), &mut dictionary.write());
        assert!(matches!(outcome, OutcomeEntry::Filtered { .. }));
        assert!(dictionary.read().bytes() < 4 * MAX_TEXT, "{}", dictionary.read().bytes());
    }
}

//! One call in the decision log: the answer of each backend for each node, packed.

use std::{
    mem::size_of_val,
    sync::Arc,
    time::{Duration, SystemTime},
};

use extender_gateway_core::{
    Verb,
    score::{Ballot, Normalization, Range},
};
use opentelemetry::trace::TraceId;

use super::{
    dictionary::{Dictionary, DictionaryRow, TextIds, name_kept},
    packed::{Numbers, Runs},
};
use crate::{
    api::NodeForm,
    config::Mode,
    record::{BackendAttempt, BackendOutcome, CallRecord, OnFailure, Outcome, PodRef, RequestedNodes},
    wire::Offer,
};

/// A call.
#[derive(Debug)]
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
    pub(super) outcome: &'static str,
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
    pub(super) beside: bool,
}

/// A backend's part. Texts are numbers of the dictionary.
#[derive(Debug)]
pub(super) struct PartEntry {
    pub(super) name: u32,
    pub(super) mode: Mode,
    pub(super) policy: OnFailure,
    pub(super) asked: u32,
    pub(super) known: u32,
    pub(super) took: Duration,
    /// Positions of nodes without the facts that it needs.
    pub(super) unknown: Runs,
    /// Positions of the unknown nodes that were deleted.
    pub(super) deleted: Runs,
    /// Positions of nodes that are too large for a request to it.
    pub(super) oversize: Runs,
    pub(super) said: SaidEntry,
    pub(super) opinion: Option<&'static str>,
    /// The call ended without its answer.
    pub(super) given_up: bool,
}

/// Its answer. Positions are those in the call.
#[derive(Debug)]
pub(super) enum SaidEntry {
    Nothing,
    Failed {
        kind: &'static str,
        message: u32,
    },
    Refused {
        asked: Option<Runs>,
        refusals: Box<[(u32, Runs)]>,
    },
    Scored {
        weight: u32,
        normalization: Normalization,
        range: Range,
        nodes: Option<Runs>,
        scores: Numbers,
        outside: usize,
    },
    Kept {
        nodes: Runs,
        victims: Numbers,
    },
    Choice(u32),
}

/// Data of a call that its record does not contain.
#[derive(Debug, Clone, Copy)]
pub(in crate::observe) struct CallEnd<'e> {
    pub(in crate::observe) verb: Verb,
    pub(in crate::observe) took: Duration,
    pub(in crate::observe) trace: Option<TraceId>,
    pub(in crate::observe) generation: u64,
    pub(in crate::observe) outcome: &'static str,
    pub(in crate::observe) message: Option<&'e str>,
    pub(in crate::observe) beside: bool,
}

impl LogEntry {
    /// Packs a record.
    pub(super) fn new(
        record: &CallRecord,
        pod: Arc<PodRef>,
        ending: CallEnd<'_>,
        dictionary: &Arc<Dictionary>,
    ) -> Self {
        let CallEnd { verb, took, trace, generation, outcome, message, beside } = ending;
        let mut texts = dictionary.write();
        let (nodes, offered) = nodes(&record.nodes, &mut texts);
        let parts = record.backends.iter().map(|part| PartEntry::new(part, &mut texts)).collect();
        Self {
            id: record.id.as_str().into(),
            time: record.time,
            took,
            verb,
            trace,
            generation,
            pod,
            nominated: texts.number(&name_kept(&record.pod.nominated)),
            form: form(&record.nodes),
            left: record.left,
            outcome,
            message: message.map(Box::from),
            dictionary: Arc::clone(dictionary),
            nodes,
            offered,
            parts,
            exempt: record.exempt,
            beside,
        }
    }

    /// Whether this node was offered.
    pub(super) fn offers(&self, node: &str) -> bool {
        let number = self.dictionary.read().find(node);
        number.is_some_and(|number| self.nodes.iter().any(|offered| offered == number))
    }

    /// Whether this backend had a part.
    pub(super) fn has_part(&self, backend: &str) -> bool {
        let number = self.dictionary.read().find(backend);
        number.is_some_and(|number| self.parts.iter().any(|part| part.name == number))
    }

    /// The approximate size in bytes, without its pod and the dictionary.
    pub(super) fn bytes(&self) -> usize {
        let texts = self.id.len() + self.message.as_deref().map_or(0, str::len);
        let parts: usize = self.parts.iter().map(PartEntry::bytes).sum();
        size_of_val(self) + texts + self.nodes.bytes() + parts
    }
}

fn form(nodes: &RequestedNodes) -> Option<NodeForm> {
    let RequestedNodes::Offered(request) = nodes else { return None };
    Some(match request.offer {
        Offer::Names => NodeForm::Names,
        Offer::Objects(_) => NodeForm::Objects,
    })
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
        RequestedNodes::Target(node) => (Runs::of([texts.number(&name_kept(node))]), 1),
        RequestedNodes::CountOnly(count) => (Runs::default(), *count),
    }
}

/// The numbers of names.
fn numbered<'n>(names: impl Iterator<Item = &'n str>, texts: &mut TextIds) -> Runs {
    Runs::of(texts.numbers(names.map(name_kept)))
}

impl PartEntry {
    fn new(part: &BackendOutcome, texts: &mut TextIds) -> Self {
        let attempts = &part.attempts;
        let last = attempts.last();
        Self {
            name: texts.number(part.backend.name.as_str()),
            mode: part.backend.mode,
            policy: part.policy,
            asked: last.map_or(0, |attempt| attempt.requested),
            known: last.map_or(0, |attempt| attempt.cached),
            took: attempts.iter().map(waited).sum(),
            unknown: Runs::of(part.unknown.iter().copied()),
            deleted: Runs::of(part.deleted.iter().copied()),
            oversize: Runs::of(part.oversize.iter().copied()),
            said: SaidEntry::new(&part.outcome, texts),
            given_up: last.is_some_and(|last| last.canceled),
            opinion: part.agreement.map(crate::record::Agreement::as_str),
        }
    }

    /// The nodes that the backend did not receive.
    pub(super) fn untold(&self) -> [&Runs; 3] {
        [&self.unknown, &self.deleted, &self.oversize]
    }

    fn bytes(&self) -> usize {
        size_of_val(self) + self.untold().iter().map(|nodes| nodes.bytes()).sum::<usize>() + self.said.bytes()
    }
}

/// How long the call waited for a backend.
fn waited(attempt: &BackendAttempt) -> Duration {
    if attempt.rpcs.all().is_empty() { Duration::ZERO } else { attempt.took }
}

/// The longest text of a backend that is kept, in bytes: it is repeated for each node that it applies to.
const LONGEST: usize = 1024;

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST)]
}

impl SaidEntry {
    fn new(said: &Outcome, texts: &mut TextIds) -> Self {
        match said {
            Outcome::Pending => Self::Nothing,
            Outcome::Failed(failure) => {
                Self::Failed { kind: failure.kind.as_str(), message: texts.number(cut(&failure.detail)) }
            }
            Outcome::Filtered(verdicts) => Self::Refused {
                asked: match &verdicts.nodes {
                    extender_gateway_core::filter::Asked::All => None,
                    extender_gateway_core::filter::Asked::Some(nodes) => {
                        Some(Runs::of(nodes.iter().copied()))
                    }
                },
                refusals: verdicts
                    .refusals
                    .iter()
                    .map(|refusal| (texts.number(cut(&refusal.reason)), Runs::of(verdicts.in_call(refusal))))
                    .collect(),
            },
            Outcome::Scored(ballot, outside) => Self::scored(ballot, *outside),
            Outcome::Candidates(kept) => Self::Kept {
                nodes: Runs::of(kept.iter().map(|(node, _)| *node)),
                victims: Numbers::of(kept.iter().map(|(_, victims)| victims.cast_signed())),
            },
            Outcome::Bound(words) => Self::Choice(texts.number(cut(words))),
        }
    }

    fn scored(ballot: &Ballot, outside: usize) -> Self {
        let Ballot { weight, normalization, range, nodes, scores } = ballot;
        Self::Scored {
            weight: *weight,
            normalization: *normalization,
            range: *range,
            nodes: nodes.as_ref().map(|nodes| Runs::of(nodes.iter().copied())),
            scores: Numbers::of(scores.iter().copied()),
            outside,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Nothing | Self::Failed { .. } | Self::Choice(_) => 0,
            Self::Refused { asked, refusals } => {
                let runs: usize = refusals.iter().map(|(_, runs)| runs.bytes()).sum();
                asked.as_ref().map_or(0, Runs::bytes) + size_of_val(&**refusals) + runs
            }
            Self::Scored { nodes, scores, .. } => nodes.as_ref().map_or(0, Runs::bytes) + scores.bytes(),
            Self::Kept { nodes, victims } => nodes.bytes() + victims.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::samples::refused;

    #[test]
    fn long_texts_of_backends_are_cut() {
        let (dictionary, long) = (Dictionary::default(), "ä".repeat(1 << 20));
        dictionary.write().limit(usize::MAX);
        let said = SaidEntry::new(&refused(&[(&long, &[0, 1])]), &mut dictionary.write());
        assert!(matches!(said, SaidEntry::Refused { .. }));
        assert!(dictionary.read().bytes() < 4 * LONGEST, "{}", dictionary.read().bytes());
    }
}

//! Converts a call of the decision log to the JSON of the admin address.

mod sheet;

use std::time::SystemTime;

use extender_gateway_core::{
    Verb,
    score::{Direction, Normalization},
};
use jiff::Timestamp;

use self::sheet::VerdictTable;
use super::{
    entry::{LogEntry, PartEntry, SaidEntry},
    glossary::Glossary,
};
use crate::{
    api::{BackendFailed, BackendPart, Decision, PodRef},
    config::Choice,
};

/// The failure of a backend whose answer was no longer needed, or came after the caller disconnected.
const GIVEN_UP: &str = "canceled: the caller disconnected, or the call was decided without it";

/// A time in a response.
pub(super) fn timestamp(time: SystemTime) -> Timestamp {
    Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Converts a call, with its shadow calls.
pub(super) fn decision<'e>(entry: &LogEntry, beside: impl Iterator<Item = &'e LogEntry>) -> Decision {
    let texts = Glossary::of(entry);
    let mut sheet = VerdictTable::new(entry, &texts);
    for part in &entry.parts {
        sheet.add(part, &texts);
        sheet.count(part, &texts);
    }
    if entry.verb == Verb::Prioritize {
        sheet.total(&entry.parts);
    }
    let mut backends: Vec<_> = entry.parts.iter().map(|part| shown_part(part, &texts)).collect();
    for aside in beside {
        let texts = Glossary::of(aside);
        aside.parts.iter().for_each(|part| sheet.add(part, &texts));
        backends.extend(aside.parts.iter().map(|part| shown_part(part, &texts)));
    }
    Decision {
        id: entry.id.to_string(),
        time: timestamp(entry.time),
        seconds: entry.took.as_secs_f64(),
        verb: entry.verb.name().to_owned(),
        trace_id: entry.trace.map(|trace| trace.to_string()),
        generation: entry.generation,
        pod: pod(entry, &texts),
        node_form: entry.form,
        offered: entry.offered,
        left: entry.left,
        outcome: entry.outcome.to_owned(),
        message: entry.message.as_deref().map(str::to_owned),
        exempt: entry.exempt,
        backends,
        nodes: sheet.into_nodes(),
    }
}

fn pod(entry: &LogEntry, texts: &Glossary) -> PodRef {
    let nominated = texts.at(entry.nominated).to_owned();
    PodRef {
        namespace: entry.pod.namespace.clone(),
        name: entry.pod.name.clone(),
        uid: entry.pod.uid.clone(),
        nominated_node: Some(nominated).filter(|node| !node.is_empty()),
    }
}

fn shown_part(part: &PartEntry, texts: &Glossary) -> BackendPart {
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
        SaidEntry::Nothing if part.given_up => shown.answer = Some(GIVEN_UP.to_owned()),
        SaidEntry::Nothing => {}
        SaidEntry::Failed { kind, message } => {
            shown.failure = Some(BackendFailed {
                kind: (*kind).to_owned(),
                message: texts.at(*message).to_owned(),
                policy: part.policy.as_str().to_owned(),
            });
        }
        SaidEntry::Refused { refusals, .. } => {
            shown.rejected = number(refusals.iter().flat_map(|(_, nodes)| nodes.iter()).count());
        }
        SaidEntry::Scored { weight, normalization, outside, .. } => {
            shown.weight = Some(*weight);
            shown.normalization = Some(words(*normalization));
            shown.clamped = number(*outside);
        }
        SaidEntry::Kept { nodes, .. } => {
            shown.rejected = part.asked.saturating_sub(number(nodes.iter().count()));
        }
        SaidEntry::Choice(words) => shown.answer = Some(texts.at(*words).to_owned()),
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

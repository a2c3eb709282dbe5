//! Answers about nodes, one entry for each node, and the rules that every answer must keep.

use std::collections::BTreeSet;

use extender_policy_api::limits::{ADDED_UIDS, REVISION_BYTES};
use extender_policy_api::v1beta1::{self as api, result::Outcome};

use crate::{
    declared::Verb,
    hook,
    question::{Question, number},
};

/// A rule that an answer breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Such as `Filter`; empty if the backend as a whole breaks it.
    pub method: String,
    /// The number of the sentence in SPEC.md.
    pub rule: &'static str,
    pub text: String,
}

fn failed<T>(text: impl Into<String>) -> Result<T, String> {
    Err(text.into())
}

/// The verdict about one node.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Accepted,
    Rejected {
        reason: String,
        rule: String,
        /// No eviction would help.
        unresolvable: bool,
    },
    Scored(i32),
    NoOpinion,
    /// The positions of the victims, ascending, and the added UIDs.
    Evicting(Vec<u32>, Vec<String>),
    Spared,
    /// By a hook. The change has no positions.
    Changed(Box<api::NodeChange>),
    Unchanged,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// One for each node.
    pub verdicts: Vec<Verdict>,
    /// What a hook changes of the pod.
    pub pod: Option<Box<api::PodChange>>,
    pub revision: String,
    /// Those that come with the verdicts of filter.
    pub scores: Option<Vec<Verdict>>,
}

impl Answer {
    /// Where another answer to the same question differs, for people; `None` if it does not.
    pub fn difference(&self, what: &str, other: &Self) -> Option<String> {
        if self.pod != other.pod {
            let [one, other] = [self, other].map(|answer| hook::shown(answer.pod.as_deref()));
            return Some(format!("{what}: the pod was {one} and is {other}"));
        }
        difference(what, &self.verdicts, &other.verdicts)
    }

    /// Whether another answer decides and changes the same.
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.pod == other.pod && self.verdicts == other.verdicts
    }
}

/// What a backend responded to a question, if it is OK.
#[derive(Clone, Debug)]
pub enum Response {
    Filter(api::FilterResponse),
    Score(api::ScoreResponse),
    Preempt(api::PreemptResponse),
    Hook(Box<api::ChangeResponse>),
}

impl Response {
    /// From the bytes of the response.
    pub fn decode(verb: Verb, bytes: &[u8]) -> Result<Self, String> {
        fn message<M: prost::Message + Default>(verb: Verb, bytes: &[u8]) -> Result<M, String> {
            M::decode(bytes)
                .map_err(|error| format!("the response of {} is not its message: {error}", verb.title()))
        }
        Ok(match verb {
            Verb::Filter => Self::Filter(message(verb, bytes)?),
            Verb::Score => Self::Score(message(verb, bytes)?),
            Verb::Preempt => Self::Preempt(message(verb, bytes)?),
            Verb::BeforeFilter | Verb::BeforeFilterNodes | Verb::BeforeScore => {
                Self::Hook(Box::new(message(verb, bytes)?))
            }
            Verb::Bind => return failed("the suite could not ask: Bind has no nodes"),
        })
    }

    pub fn result(&self) -> Option<&api::Result> {
        match self {
            Self::Filter(response) => response.result.as_ref(),
            Self::Score(response) => response.result.as_ref(),
            Self::Preempt(response) => response.result.as_ref(),
            Self::Hook(response) => response.result.as_ref(),
        }
    }

    /// The miss, if it is one.
    pub fn miss(&self) -> Option<api::Miss> {
        self.result().and_then(miss)
    }

    /// The same response with nothing in it but that it is a miss.
    pub fn is_miss_alone(&self) -> bool {
        let result =
            self.result().map(|result| api::Result { outcome: result.outcome, ..api::Result::default() });
        match self {
            Self::Filter(response) => {
                *response == api::FilterResponse { result, ..api::FilterResponse::default() }
            }
            Self::Score(response) => {
                *response == api::ScoreResponse { result, ..api::ScoreResponse::default() }
            }
            Self::Preempt(response) => {
                *response == api::PreemptResponse { result, ..api::PreemptResponse::default() }
            }
            Self::Hook(response) => {
                **response == api::ChangeResponse { result, ..api::ChangeResponse::default() }
            }
        }
    }
}

/// The miss, if a result is one.
pub fn miss(result: &api::Result) -> Option<api::Miss> {
    match result.outcome {
        Some(Outcome::Miss(miss)) => Some(api::Miss::try_from(miss).unwrap_or_default()),
        Some(Outcome::Evaluated(_)) | None => None,
    }
}

/// The answer to a question, if the response keeps the rules for one.
pub fn answer(question: &Question, response: Response) -> Result<Answer, Breach> {
    let method = question.verb.title();
    let breaks = |rule| move |text| Breach { method: method.to_owned(), rule, text };
    let revision = evaluated(question, &response).map_err(breaks(rules(question.verb).0))?;
    let (mut pod, mut with_verdicts) = (None, None);
    let verdicts = match response {
        Response::Filter(filter) => {
            let scores = filter.scores.as_ref().filter(|_| question.want_scores);
            scores.map_or(Ok(()), |scores| counted(question, scores)).map_err(breaks("33.1"))?;
            with_verdicts = scores.map(opinions).transpose().map_err(breaks("14.1"))?;
            filtered(question, &filter)
        }
        Response::Score(score) => scored(question, &score),
        Response::Preempt(preempt) => evictions(question, &preempt),
        Response::Hook(hook) => {
            pod = hook.pod.map(Box::new);
            changed(question, hook.nodes)
        }
    };
    let verdicts = verdicts.map_err(breaks(rules(question.verb).1))?;
    Ok(Answer { verdicts, pod, revision, scores: with_verdicts })
}

/// The sentences about `Result.evaluated`, and about the entries of an answer.
fn rules(verb: Verb) -> (&'static str, &'static str) {
    match verb {
        Verb::Filter => ("11.1", "13.1"),
        Verb::Score => ("11.1", "14.1"),
        Verb::Preempt | Verb::Bind => ("11.1", "16.1"),
        Verb::BeforeFilter | Verb::BeforeFilterNodes | Verb::BeforeScore => ("58.2", "58.3"),
    }
}

/// The revision of an answer about all that was asked.
fn evaluated(question: &Question, response: &Response) -> Result<String, String> {
    let Some(result) = response.result() else {
        return failed("the response has no `result`");
    };
    let evaluated = match result.outcome {
        Some(Outcome::Evaluated(evaluated)) => evaluated,
        Some(Outcome::Miss(_)) => {
            let miss = miss(result).unwrap_or_default().as_str_name();
            return failed(format!("the response is a miss ({miss}), not an answer"));
        }
        None => return failed("`result` has neither `evaluated` nor `miss`"),
    };
    if evaluated != question.evaluated() {
        let expected = question.evaluated();
        let what = if question.verb.has_nodes() { "nodes" } else { "pod" };
        return failed(format!("`result.evaluated` is {evaluated}; the request has {expected} {what}"));
    }
    at_most("`result.revision`", &result.revision, REVISION_BYTES)?;
    Ok(result.revision.clone())
}

/// A list is not longer.
pub fn few(field: &str, entries: usize, most: usize) -> Result<(), String> {
    if entries > most {
        return failed(format!("`{field}` has {entries} entries; at most {most} are allowed"));
    }
    Ok(())
}

/// `what` is a field in backticks, or words.
pub fn at_most(what: &str, text: &str, bytes: usize) -> Result<(), String> {
    if text.len() > bytes {
        return failed(format!("{what} has {} bytes; at most {bytes} are allowed", text.len()));
    }
    Ok(())
}

fn filtered(question: &Question, response: &api::FilterResponse) -> Result<Vec<Verdict>, String> {
    let mut verdicts = accepted(question);
    for (at, rejection) in response.rejections.iter().enumerate() {
        let api::Rejection { reason, kind: _, positions, rule, retry_after_seconds: _ } = rejection;
        let unresolvable = rejection.kind() == api::RejectionKind::Unresolvable;
        if positions.is_empty() {
            return failed(format!("`rejections[{at}]` has no positions"));
        }
        for position in positions {
            let verdict = verdict(&mut verdicts, *position, &format!("rejections[{at}].positions"))?;
            if *verdict != Verdict::Accepted {
                return failed(format!("the node at position {position} is rejected twice"));
            }
            let (reason, rule) = (reason.clone(), rule.clone());
            *verdict = Verdict::Rejected { reason, rule, unresolvable };
        }
    }
    Ok(verdicts)
}

fn accepted(question: &Question) -> Vec<Verdict> {
    (0..question.count()).map(|_| Verdict::Accepted).collect()
}

fn verdict<'a>(verdicts: &'a mut [Verdict], position: u32, field: &str) -> Result<&'a mut Verdict, String> {
    let count = verdicts.len();
    let found = usize::try_from(position).ok().and_then(|at| verdicts.get_mut(at));
    found.ok_or_else(|| format!("`{field}` has position {position}; there are {count} nodes"))
}

fn counted(question: &Question, scores: &api::Scores) -> Result<(), String> {
    let (values, count) = (scores.values.len(), question.count());
    if number(values) != count {
        return failed(format!("`scores.values` has {values} scores; the request has {count} nodes"));
    }
    Ok(())
}

/// The scores of counted nodes.
fn opinions(scores: &api::Scores) -> Result<Vec<Verdict>, String> {
    let api::Scores { values, absent } = scores;
    let mut verdicts: Vec<_> = values.iter().copied().map(Verdict::Scored).collect();
    if !absent.is_sorted_by(|one, next| one < next) {
        return failed(format!("`scores.absent` is not in ascending order, each once: {absent:?}"));
    }
    for position in absent {
        *verdict(&mut verdicts, *position, "scores.absent")? = Verdict::NoOpinion;
    }
    Ok(verdicts)
}

fn scored(question: &Question, response: &api::ScoreResponse) -> Result<Vec<Verdict>, String> {
    let Some(scores) = &response.scores else { return failed("the response has no `scores`") };
    counted(question, scores)?;
    opinions(scores)
}

fn evictions(question: &Question, response: &api::PreemptResponse) -> Result<Vec<Verdict>, String> {
    let mut verdicts: Vec<_> = (0..question.count()).map(|_| Verdict::Spared).collect();
    let mut added = 0;
    for (at, kept) in response.kept.iter().enumerate() {
        let candidate = usize::try_from(kept.position).ok().and_then(|at| question.candidates.get(at));
        let offered = candidate.map_or(0, |candidate| candidate.victims.len());
        let is_placeholder = candidate.is_some_and(|candidate| candidate.placeholder);
        let verdict = verdict(&mut verdicts, kept.position, &format!("kept[{at}].position"))?;
        if *verdict != Verdict::Spared {
            return failed(format!("position {} is kept twice", kept.position));
        }
        let victims: BTreeSet<_> = kept.victims.iter().copied().collect();
        if victims.len() != kept.victims.len() {
            return failed(format!("`kept[{at}].victims` names a victim twice: {:?}", kept.victims));
        }
        if let Some(outside) = victims.iter().find(|victim| **victim >= number(offered)) {
            return failed(format!(
                "`kept[{at}].victims` has position {outside}; {offered} victims were offered"
            ));
        }
        if kept.added_uids.iter().any(String::is_empty) {
            return failed(format!("`kept[{at}].added_uids` has an empty UID"));
        }
        if victims.is_empty() && kept.added_uids.is_empty() && !is_placeholder {
            return failed(format!("`kept[{at}]` keeps a candidate without victims"));
        }
        added += kept.added_uids.len();
        *verdict = Verdict::Evicting(victims.into_iter().collect(), kept.added_uids.clone());
    }
    if added > ADDED_UIDS {
        return failed(format!("the response adds {added} UIDs; at most {ADDED_UIDS} are allowed"));
    }
    Ok(verdicts)
}

fn changed(question: &Question, changes: Vec<api::NodeChange>) -> Result<Vec<Verdict>, String> {
    let mut verdicts: Vec<_> = (0..question.count()).map(|_| Verdict::Unchanged).collect();
    for (at, mut change) in changes.into_iter().enumerate() {
        let positions = std::mem::take(&mut change.positions);
        if positions.is_empty() {
            return failed(format!("`nodes[{at}]` has no positions"));
        }
        for position in positions {
            let verdict = verdict(&mut verdicts, position, &format!("nodes[{at}].positions"))?;
            if *verdict != Verdict::Unchanged {
                return failed(format!("the node at position {position} is changed twice"));
            }
            *verdict = Verdict::Changed(Box::new(change.clone()));
        }
    }
    Ok(verdicts)
}

/// Where two lists of verdicts differ, for people; `None` if they do not.
pub fn difference(what: &str, one: &[Verdict], other: &[Verdict]) -> Option<String> {
    if one.len() != other.len() {
        return Some(format!("{what}: {} and {} verdicts", one.len(), other.len()));
    }
    let differing = one.iter().zip(other).enumerate().find(|(_, (one, other))| one != other);
    differing.map(|(at, (one, other))| format!("{what}: node {at} was {one} and is {other}"))
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Accepted => f.write_str("accepted"),
            Self::Rejected { reason, rule, unresolvable } => {
                write!(f, "rejected ({reason:?}")?;
                if !rule.is_empty() {
                    write!(f, ", rule {rule:?}")?;
                }
                write!(f, "{})", if *unresolvable { ", unresolvable" } else { "" })
            }
            Self::Scored(score) => write!(f, "scored {score}"),
            Self::NoOpinion => f.write_str("without a score"),
            Self::Evicting(victims, added) if added.is_empty() => write!(f, "kept with victims {victims:?}"),
            Self::Evicting(victims, added) => write!(f, "kept with victims {victims:?} and {added:?}"),
            Self::Spared => f.write_str("dropped"),
            Self::Changed(change) => f.write_str(&hook::shown(Some(&**change))),
            Self::Unchanged => f.write_str(&hook::shown(None::<&api::NodeChange>)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_hooks_differ_in_the_pod_or_in_a_node() {
        let pod = |reason: &str| api::PodChange { reason: reason.to_owned(), ..api::PodChange::default() };
        let answer = |pod: Option<api::PodChange>, verdict: Verdict| Answer {
            verdicts: vec![verdict],
            pod: pod.map(Box::new),
            revision: String::new(),
            scores: None,
        };
        let changed = || Verdict::Changed(Box::default());
        let one = answer(Some(pod("a")), changed());
        assert_eq!(one.difference("again", &one.clone()), None);
        assert!(one.agrees_with(&one.clone()));
        for (other, words) in [
            (answer(Some(pod("b")), changed()), "again: the pod was changed by PodChange"),
            (answer(None, changed()), "and is unchanged"),
            (answer(Some(pod("a")), Verdict::Unchanged), "again: node 0 was changed by NodeChange"),
        ] {
            assert!(!one.agrees_with(&other));
            let difference = one.difference("again", &other).unwrap();
            assert!(difference.contains(words), "{difference}");
        }
    }
}

//! What the reference decides against what the gateway answers.

use extender_reference::{
    filter::{self, Verdict, distinct},
    model::{Candidate, Extender, Mode, Node},
    preempt::{self, Ending, Room},
    prioritize,
};

use crate::{
    case::{self, Backend, Case, Failure, Manner, Reach, Scope},
    subject::{Filtered, Observed, Preempted, Prioritized, Question, Verb},
};

/// What the reference decides about a case.
#[derive(Debug)]
pub struct Expected {
    /// The extenders that it asked.
    pub extenders: Vec<Extender>,
    /// About filter.
    pub filtered: filter::Filtered,
    /// The nodes of the prioritize call: those that are left, as in kube-scheduler; all that were offered
    /// where that is none, so that the call is made.
    pub ranked: Vec<Node>,
    /// About prioritize.
    pub prioritized: prioritize::Prioritized,
    /// About preempt.
    pub preempted: preempt::Preempted,
}

/// Asks the reference.
pub fn expected(case: &Case) -> Expected {
    let extenders = case.extenders();
    let filtered = extender_reference::filter(&extenders, (&case.pod, &case.differences), &case.offered);
    let ranked = match &filtered.verdict {
        Verdict::Decided { feasible, .. } if !feasible.is_empty() => feasible.clone(),
        _ => case.offered.clone(),
    };
    let prioritized = prioritize(&extenders, (&case.pod, &case.differences), &ranked);
    let room = Room { candidates: &case.candidates, running: &case::running() };
    let preempted = extender_reference::preempt(&extenders, (&case.pod, &case.differences), room);
    Expected { extenders, filtered, ranked, prioritized, preempted }
}

/// What differs, in words; empty when nothing does.
pub fn differences(case: &Case, expected: &Expected, observed: &Observed) -> Vec<String> {
    let mut found = observed.complaints.clone();
    found.extend(filter_difference(case, &expected.filtered.verdict, &observed.filtered));
    let list = Prioritized::List(expected.prioritized.list.clone());
    if observed.prioritized != list {
        found.push(format!("prioritize: expected {list:?}, got {:?}", observed.prioritized));
    }
    found.extend(preempt_difference(case, &expected.preempted.ending, &observed.preempted));
    for (position, (backend, questions)) in case.backends.iter().zip(&observed.questions).enumerate() {
        let name = &backend.extender.name;
        for problem in question_problems(case, (position, backend), (expected, questions)) {
            found.push(format!("{name}: {problem}"));
        }
    }
    found
}

fn filter_difference(case: &Case, expected: &Verdict, observed: &Filtered) -> Option<String> {
    let same = match (expected, observed) {
        (
            Verdict::Decided { feasible, statuses },
            Filtered::Decided { feasible: left, statuses: reasons },
        ) => (feasible, statuses) == (left, reasons),
        (Verdict::Failed(position), Filtered::Failed(text)) => is_failure(case, (*position, "filter"), text),
        (Verdict::NotYetKnown(nodes), Filtered::Failed(text)) => is_not_yet_known(*nodes, text),
        _ => false,
    };
    (!same).then(|| format!("filter: expected {expected:?}, got {observed:?}"))
}

fn preempt_difference(case: &Case, expected: &Ending, observed: &Preempted) -> Option<String> {
    let same = match (expected, observed) {
        // In the reply candidates are a map: only their victims have an order.
        (Ending::Left(candidates), Preempted::Left(left)) => {
            let mut candidates = candidates.clone();
            candidates.sort_unstable();
            candidates == *left
        }
        (Ending::Failed(position), Preempted::Failed(text)) => is_failure(case, (*position, "preempt"), text),
        (Ending::NotYetKnown(nodes), Preempted::Failed(text)) => is_not_yet_known(*nodes, text),
        _ => false,
    };
    (!same).then(|| format!("preempt: expected {expected:?}, got {observed:?}"))
}

/// Whether a text says that this backend failed this verb.
fn is_failure(case: &Case, (position, verb): (usize, &str), text: &str) -> bool {
    let name = &case.backends[position].extender.name;
    text.starts_with(&format!("extender-gateway: backend {name} failed {verb}: ")) && is_safe(text)
}

fn is_not_yet_known(nodes: usize, text: &str) -> bool {
    let nodes = if nodes == 1 { "1 node is".to_owned() } else { format!("{nodes} nodes are") };
    text == format!("extender-gateway: no node is left, and {nodes} not yet known to the gateway")
}

/// Kube-scheduler uses the text as a format, and shows it as one line.
fn is_safe(text: &str) -> bool {
    !text.contains(['%', '\n'])
}

/// What is wrong with the questions that a backend was asked: those of a verdict about the whole set, and of
/// one that changes something, are the very ones that an extender gets; others may be asked earlier and
/// about more.
fn question_problems(
    case: &Case,
    (position, backend): (usize, &Backend),
    (expected, questions): (&Expected, &[Question]),
) -> Vec<String> {
    // What a backend in shadow is asked changes nothing.
    if backend.extender.mode == Mode::Shadow {
        return Vec::new();
    }
    let mut problems = Vec::new();
    let asked = |verb| -> Vec<&Vec<Node>> {
        questions.iter().filter(|question| question.verb == verb).map(|question| &question.nodes).collect()
    };
    let (filters, scores) = (asked(Verb::Filter), asked(Verb::Score));
    let due = due(&expected.filtered.asked, (position, backend.reach, backend.filter));
    let rightly = match backend.filter.scope {
        Scope::Node => filters.len() <= 2 && filters.iter().all(|set| is_part(set, &case.offered)),
        _ => filters == due,
    };
    // Asked in turn it would have been asked, so it has been asked at least about these.
    let enough = due.iter().all(|set| filters.iter().any(|asked| is_part(set, asked)));
    if !rightly || !enough {
        problems.push(format!("asked to filter {filters:?}, an extender is asked {due:?}"));
    }
    let due = self::due(&expected.prioritized.asked, (position, backend.reach, backend.score));
    if scores != due {
        problems.push(format!("asked to score {scores:?}, an extender is asked {due:?}"));
    }
    problems.extend(preempt_problem((position, backend), (expected, questions)));
    problems
}

/// In preempt a backend is asked the very questions that an extender is asked.
fn preempt_problem(
    (position, backend): (usize, &Backend),
    (expected, questions): (&Expected, &[Question]),
) -> Option<String> {
    let asked = questions.iter().filter(|question| question.verb == Verb::Preempt);
    let asked: Vec<&[Candidate]> = asked.map(|question| question.candidates.as_slice()).collect();
    let due = due(&expected.preempted.asked, (position, backend.reach, backend.preempt));
    let due: Vec<Vec<Candidate>> = due.into_iter().map(|set| set.iter().map(told).collect()).collect();
    (asked != due).then(|| format!("asked to preempt {asked:?}, an extender is asked {due:?}"))
}

/// A candidate as the contract has it: the violations are 32 bits there.
fn told(candidate: &Candidate) -> Candidate {
    Candidate { violations: candidate.violations.min(u32::MAX.into()), ..candidate.clone() }
}

/// What the reference asked an extender, as far as a backend in its place can notice.
fn due<A>(asked: &[(usize, Vec<A>)], (position, reach, manner): (usize, Reach, Manner)) -> Vec<&Vec<A>> {
    let noticed = reach == Reach::Alive && manner.failure != Failure::Unlisted;
    asked.iter().filter(|(whom, _)| noticed && *whom == position).map(|(_, set)| set).collect()
}

/// Whether a set is not empty and in the order of another one that holds it.
fn is_part(set: &[Node], whole: &[Node]) -> bool {
    let mut rest = distinct(whole).into_iter();
    !set.is_empty() && set.iter().all(|node| rest.any(|next| next == *node))
}

//! What the reference decides against what the gateway answers.

use extender_reference::{
    filter::{self, Verdict, distinct},
    model::{Extender, Mode, Node},
    prioritize,
};

use crate::{
    case::{Backend, Case, Failure, Manner, Reach, Scope},
    subject::{Filtered, Observed, Prioritized, Question, Verb},
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
    Expected { extenders, filtered, ranked, prioritized }
}

/// What differs, in words; empty when nothing does.
pub fn differences(case: &Case, expected: &Expected, observed: &Observed) -> Vec<String> {
    let mut found = observed.complaints.clone();
    found.extend(filter_difference(case, &expected.filtered.verdict, &observed.filtered));
    let list = Prioritized::List(expected.prioritized.list.clone());
    if observed.prioritized != list {
        found.push(format!("prioritize: expected {list:?}, got {:?}", observed.prioritized));
    }
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
        (Verdict::Failed(position), Filtered::Failed(text)) => {
            let name = &case.backends[*position].extender.name;
            text.starts_with(&format!("extender-gateway: backend {name} failed filter: ")) && is_safe(text)
        }
        (Verdict::NotYetKnown(nodes), Filtered::Failed(text)) => {
            let nodes = if *nodes == 1 { "1 node is".to_owned() } else { format!("{nodes} nodes are") };
            *text == format!("extender-gateway: no node is left, and {nodes} not yet known to the gateway")
        }
        _ => false,
    };
    (!same).then(|| format!("filter: expected {expected:?}, got {observed:?}"))
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
    problems
}

/// What the reference asked an extender, as far as a backend in its place can notice.
fn due(asked: &[(usize, Vec<Node>)], (position, reach, manner): (usize, Reach, Manner)) -> Vec<&Vec<Node>> {
    let noticed = reach == Reach::Alive && manner.failure != Failure::Unlisted;
    asked.iter().filter(|(whom, _)| noticed && *whom == position).map(|(_, set)| set).collect()
}

/// Whether a set is not empty and in the order of another one that holds it.
fn is_part(set: &[Node], whole: &[Node]) -> bool {
    let mut rest = distinct(whole).into_iter();
    !set.is_empty() && set.iter().all(|node| rest.any(|next| next == *node))
}

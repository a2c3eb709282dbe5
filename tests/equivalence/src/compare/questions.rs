//! Compares the requests to backends with those that extenders in their place would get.
//!
//! A verb whose verdict depends on the whole set, or that has side effects, is called exactly as an extender.
//! Others may be called earlier and about more nodes. Known answers need no call: those of a pure verb to the same
//! request, and scores that came with the filter answer for the same pod.

use std::collections::BTreeSet;

use extender_reference::{
    filter::distinct,
    model::{Candidate, Failing, Mode, Node},
};

use super::{Expected, Wanted};
use crate::{
    case::{Backend, Case, Early, Failure, Manner, Memory, Placing, Purity, Reach, Scope, World},
    subject::{About, Observed, Outcome, Question, Verb, placed_uid},
};

/// The answers of backends: backend, verb, conditions, node and its state.
#[derive(Debug, Default)]
struct Known(BTreeSet<(usize, Verb, About, Node, usize)>);

impl Known {
    fn note(&mut self, position: usize, questions: &[Question]) {
        for question in questions {
            let verbs: &[Verb] = match question.outcome {
                Outcome::Failed => &[],
                Outcome::Answered => &[question.verb],
                Outcome::AnsweredWithScores => &[Verb::Filter, Verb::Score],
            };
            for verb in verbs {
                for (node, state) in question.nodes.iter().zip(&question.states) {
                    self.0.insert((position, *verb, question.about.clone(), *node, *state));
                }
            }
        }
    }
}

/// A backend, and its requests for one pod.
struct Asked<'a> {
    case: &'a Case,
    number: u64,
    placing: &'a Placing<'a>,
    wanted: &'a Wanted,
    position: usize,
    backend: &'a Backend,
    questions: &'a [Question],
}

/// What is wrong with the requests, by backend.
pub(super) fn problems(case: &Case, expected: &Expected, observed: &Observed) -> Vec<String> {
    let mut problems = Vec::new();
    for (position, backend) in case.backends.iter().enumerate() {
        // Requests to a backend in shadow change nothing.
        if backend.extender.mode == Mode::Shadow {
            continue;
        }
        let mut known = Known::default();
        let placed = case.placings();
        for ((placing, wanted), observed_now) in placed.iter().zip(&expected.placed).zip(&observed.placed) {
            known.note(position, &observed_now.probed[position]);
            let questions = &observed_now.questions[position];
            let number = observed.number;
            let asked = Asked { case, number, placing, wanted, position, backend, questions };
            let found = asked.filter_problem(&known).into_iter();
            known.note(position, questions);
            let found = found.chain(asked.score_problem(&known));
            let name = &backend.extender.name;
            problems.extend(found.map(|what| format!("{name}, pod {}: {what}", placing.number)));
        }
        let questions = &observed.placed[0].questions[position];
        problems.extend(preempt_problem((position, backend), (expected, questions)));
    }
    problems
}

impl Asked<'_> {
    fn filter_problem(&self, known: &Known) -> Option<String> {
        let filtered = self.wanted.filtered.as_ref()?;
        let manner = self.backend.filter;
        let due = due(&filtered.asked, (self.position, self.backend.reach, manner));
        let sets = self.sets(Verb::Filter);
        let failing = self.backend.extender.filter.as_ref().map(|filter| filter.failing);
        if sets.is_empty() && is_given_up(failing, manner) {
            return None;
        }
        let rightly = match (manner.scope, manner.purity) {
            (Scope::Node, Purity::Pure) => sets.iter().all(|set| self.was_offered(set)),
            (Scope::Node, _) => sets.len() <= 2 && sets.iter().all(|set| is_part(set, self.placing.offered)),
            _ => sets == due,
        };
        // A call in turn would have been made, so there was one at least about these nodes.
        let is_due = |node: &Node| !self.is_remembered(Verb::Filter, *node, known);
        let enough = due.iter().all(|set| is_covered(set, &sets, is_due));
        (!rightly || !enough).then(|| format!("asked to filter {sets:?}, an extender is asked {due:?}"))
    }

    fn score_problem(&self, known: &Known) -> Option<String> {
        let (manner, backend) = (self.backend.score, self.backend);
        let due = due(&self.wanted.prioritized.asked, (self.position, backend.reach, manner));
        let sets = self.sets(Verb::Score);
        let failing = backend.extender.score.as_ref().map(|score| score.failing);
        if sets.is_empty() && is_given_up(failing, manner) {
            return None;
        }
        let may_come_early = manner.scope == Scope::Node && backend.early == Early::Scores;
        let rightly = if manner.purity == Purity::Pure || may_come_early {
            let is_due =
                |node: &Node| !self.is_remembered(Verb::Score, *node, known) && !self.came_early(*node);
            sets.iter().all(|set| self.was_offered(set))
                && due.iter().all(|set| is_covered(set, &sets, is_due))
        } else {
            sets == due
        };
        (!rightly).then(|| format!("asked to score {sets:?}, an extender is asked {due:?}"))
    }

    /// The nodes of each request of a verb about this pod. Requests to pure verbs do not name their pod: one whose
    /// answer was no longer needed may arrive late.
    fn sets(&self, verb: Verb) -> Vec<&Vec<Node>> {
        let uid = self.about(verb).uid;
        let about_it = |question: &&Question| question.verb == verb && question.about.uid == uid;
        self.questions.iter().filter(about_it).map(|question| &question.nodes).collect()
    }

    fn was_offered(&self, set: &[Node]) -> bool {
        self.case.placings().iter().any(|placing| is_part(set, placing.offered))
    }

    /// Whether a score for the node in its current state came with the filter answer.
    fn came_early(&self, node: Node) -> bool {
        let told = (node, self.placing.scoring.seen(node, self.backend.score));
        let about = self.about(Verb::Score);
        let early = self.questions.iter().filter(|question| question.outcome == Outcome::AnsweredWithScores);
        let mut early = early.filter(|question| question.about == about);
        early.any(|question| {
            question.nodes.iter().copied().zip(question.states.iter().copied()).any(|n| n == told)
        })
    }

    fn is_remembered(&self, verb: Verb, node: Node, known: &Known) -> bool {
        self.manner(verb).purity == Purity::Pure
            && self.backend.memory == Memory::Remembered
            && self.is_known(verb, node, known)
    }

    fn is_known(&self, verb: Verb, node: Node, known: &Known) -> bool {
        let manner = self.manner(verb);
        let state = self.world(verb).seen(node, manner);
        known.0.contains(&(self.position, verb, self.about(verb), node, state))
    }

    fn manner(&self, verb: Verb) -> Manner {
        if verb == Verb::Score { self.backend.score } else { self.backend.filter }
    }

    fn world(&self, verb: Verb) -> &World {
        if verb == Verb::Score { &self.placing.scoring } else { &self.placing.filtering }
    }

    fn about(&self, verb: Verb) -> About {
        let (manner, world) = (self.manner(verb), self.world(verb));
        let Placing { number, pod, .. } = self.placing;
        About {
            uid: (manner.purity != Purity::Pure).then(|| placed_uid((self.number, *number))),
            class: manner.class(pod),
            like: world.counts_like(pod, &manner.counts),
            rules: world.rules,
            args: world.args,
        }
    }
}

/// In preempt a backend gets exactly the requests of an extender.
fn preempt_problem(
    (position, backend): (usize, &Backend),
    (expected, questions): (&Expected, &[Question]),
) -> Option<String> {
    let asked = questions.iter().filter(|question| question.verb == Verb::Preempt);
    let asked: Vec<&[Candidate]> = asked.map(|question| question.candidates.as_slice()).collect();
    let failing = backend.extender.preempt.as_ref().map(|preempt| preempt.failing);
    if asked.is_empty() && is_given_up(failing, backend.preempt) {
        return None;
    }
    let due = due(&expected.preempted.asked, (position, backend.reach, backend.preempt));
    let due: Vec<Vec<Candidate>> = due.into_iter().map(|set| set.iter().map(told).collect()).collect();
    let name = &backend.extender.name;
    (asked != due).then(|| format!("{name}: asked to preempt {asked:?}, an extender is asked {due:?}"))
}

/// A candidate as the contract has it: the violations are 32 bits there.
fn told(candidate: &Candidate) -> Candidate {
    Candidate { violations: candidate.violations.min(u32::MAX.into()), ..candidate.clone() }
}

/// The reference's requests to an extender, as far as a backend in its place can see them.
pub(crate) fn due<A>(
    asked: &[(usize, Vec<A>)],
    (position, reach, manner): (usize, Reach, Manner),
) -> Vec<&Vec<A>> {
    let noticed = reach == Reach::Alive && manner.failure != Failure::Unlisted;
    asked.iter().filter(|(whom, _)| noticed && *whom == position).map(|(_, set)| set).collect()
}

/// Whether a call is canceled after milliseconds because the backend never answers. On a slow machine that may be
/// before the request has reached the backend.
fn is_given_up(failing: Option<Failing>, manner: Manner) -> bool {
    failing == Some(Failing::Always) && manner.failure == Failure::Hang
}

/// Whether some request was about all nodes of a set that had to be requested.
fn is_covered(set: &[Node], asked: &[&Vec<Node>], is_due: impl Fn(&Node) -> bool) -> bool {
    let rest: Vec<Node> = set.iter().copied().filter(is_due).collect();
    rest.is_empty() || asked.iter().any(|asked| is_part(&rest, asked))
}

/// Whether a set is not empty and in the order of another one that holds it.
fn is_part(set: &[Node], whole: &[Node]) -> bool {
    let mut rest = distinct(whole).into_iter();
    !set.is_empty() && set.iter().all(|node| rest.any(|next| next == *node))
}

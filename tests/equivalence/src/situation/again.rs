//! Situations of several pods: cached answers, and the changes in between.

use extender_reference::model::{Mode, Node};

use super::{Scene, Situation};
use crate::{
    case::{
        Backend, Caller, Calls, Change, Early, Memory, Placing, Purity, Reads, Scope, Sibling, Source, Table,
    },
    compare::{Wanted, due},
    subject::{Outcome, Placed, Question, Verb},
};

pub(super) const SITUATIONS: &[Situation] = &[
    ("remembered answers", |s| s.observed.placed.iter().any(|placed| placed.remembered > 0)),
    ("verdicts that are all remembered", |s| {
        parts(s).any(|part| part.is_pure(Verb::Filter) && part.known(Verb::Filter) == Share::Whole)
    }),
    ("verdicts that are partly remembered", |s| {
        parts(s).any(|part| part.is_pure(Verb::Filter) && part.known(Verb::Filter) == Share::Part)
    }),
    ("scores that are all remembered", |s| {
        parts(s).any(|part| part.is_pure(Verb::Score) && part.known(Verb::Score) == Share::Whole)
    }),
    ("scores that are partly remembered", |s| {
        parts(s).any(|part| part.is_pure(Verb::Score) && part.known(Verb::Score) == Share::Part)
    }),
    ("scores that all came with filter", |s| {
        parts(s).any(|part| part.is_early() && part.known(Verb::Score) == Share::Whole)
    }),
    ("scores of which some came with filter, or came too early", |s| {
        parts(s).any(|part| part.is_early() && part.came_early() && part.known(Verb::Score) != Share::Whole)
    }),
    ("remembered scores that came with filter", |s| {
        parts(s).any(|part| part.is_pure(Verb::Score) && part.came_early())
    }),
    ("a pure backend that is asked each time", |s| {
        parts(s).any(|part| {
            let again = part.placing.number > 0 && part.backend.memory == Memory::AskedEachTime;
            again && part.backend.filter.purity == Purity::Pure && part.asked(Verb::Filter).next().is_some()
        })
    }),
    ("a whole set that is asked for again", |s| {
        parts(s).any(|part| {
            let again = part.placing.number > 0 && part.backend.filter.scope == Scope::WholeSet;
            again && part.asked(Verb::Filter).next().is_some()
        })
    }),
    ("side effects again", |s| {
        parts(s).any(|part| {
            let again = part.placing.number > 0 && part.backend.filter.scope == Scope::NodeWithSideEffects;
            again && part.asked(Verb::Filter).next().is_some()
        })
    }),
    ("prioritize without filter, with remembered scores", |s| {
        parts(s).any(|part| {
            let alone = part.placing.round.is_some_and(|round| round.calls == Calls::PrioritizeAlone);
            alone && part.is_pure(Verb::Score) && part.known(Verb::Score) != Share::Nothing
        })
    }),
    ("nodes by their numbers", |s| asked(s).any(|question| question.named == Some(question.nodes.len()))),
    ("nodes by their numbers and some by their rows", |s| {
        asked(s)
            .any(|question| question.named.is_some_and(|named| (1..question.nodes.len()).contains(&named)))
    }),
    ("nodes of the calls by their numbers", |s| {
        s.case.source == Source::Request && asked(s).any(|question| question.named > Some(0))
    }),
    ("full objects where the gateway has a table, and remembered answers", |s| {
        s.case.source == Source::File
            && after_remembered(s).any(|placing| placing.source(s.case.source) == Source::Request)
    }),
    ("nodes that a backend did not hold", |s| s.observed.placed.iter().any(|placed| placed.missed > 0)),
    ("nodes that a backend did not hold, and remembered answers", |s| {
        s.observed.placed.iter().any(|placed| placed.missed > 0 && placed.remembered > 0)
    }),
    ("rows that changed, and remembered answers about others", |s| {
        with(s, |change| matches!(change, Change::Rows(_))).any(|placed| placed.remembered > 0)
    }),
    ("nodes that went and came back", |s| {
        with(s, |change| matches!(change, Change::Replaced(_))).next().is_some()
    }),
    ("nodes that went and came back, by their numbers", |s| {
        with(s, |change| matches!(change, Change::Replaced(_)))
            .any(|placed| placed.questions.iter().flatten().any(|question| question.named > Some(1)))
    }),
    ("other rules after remembered answers", |s| {
        after_remembered(s).any(|placing| before(&placing) == Some(&Change::Rules))
    }),
    ("other rules while answers are partly remembered", |s| {
        parts(s).any(|part| {
            let unnoticed = matches!(before(&part.placing), Some(Change::RulesAndRows(_)));
            unnoticed && part.is_pure(Verb::Filter) && part.asked(Verb::Filter).count() > 1
        })
    }),
    ("other arguments after remembered answers", |s| {
        after_remembered(s).any(|placing| before(&placing) == Some(&Change::Args))
    }),
    ("a pod of another namespace after remembered answers", |s| {
        after_remembered(s).any(|placing| matches!(sibling(&placing), Some(Sibling::Elsewhere(_))))
    }),
    ("a pod with other labels after remembered answers", |s| {
        after_remembered(s).any(|placing| matches!(sibling(&placing), Some(Sibling::Labelled(_))))
    }),
    ("verdicts that are all remembered from pods that differ in what is not read", |s| {
        parts(s).any(|part| {
            let reads = part.backend.filter.reads;
            let differs = sibling(&part.placing).is_some_and(|sibling| *sibling != Sibling::Same);
            let reads_less = matches!(reads, Reads::Namespace | Reads::Nothing);
            reads_less && differs && part.is_pure(Verb::Filter) && part.known(Verb::Filter) == Share::Whole
        })
    }),
    ("nodes by their numbers that changed in what is not read", |s| {
        parts(s).any(|part| {
            let changed = matches!(before(&part.placing), Some(Change::Rows(_)));
            let by_number = part.asked(Verb::Filter).any(|question| question.named > Some(0));
            changed && by_number && part.backend.filter.reads == Reads::Nothing
        })
    }),
    ("scores that came with filter to verbs that read something", |s| {
        parts(s).any(|part| part.came_early() && part.backend.filter.reads != Reads::Everything)
    }),
    ("rows that change while filter is under way", |s| {
        s.case.rounds.iter().any(|round| !round.during.is_empty())
    }),
    ("callers that bring the same node differently at the same time", |s| {
        let callers = &s.case.crowd.callers;
        callers.iter().enumerate().any(|(at, one)| {
            let differs = |other: &Caller, node: &Node| {
                other.offered.contains(node) && other.ahead[*node] != one.ahead[*node]
            };
            callers[..at].iter().any(|other| one.offered.iter().any(|node| differs(other, node)))
        })
    }),
    ("callers at the same time, and remembered answers", |s| {
        s.observed.crowded.iter().any(|placed| placed.remembered > 0)
    }),
    ("rows that change between filter and prioritize", |s| {
        s.case.rounds.iter().any(|round| !round.between.is_empty())
    }),
];

/// How much of an extender's request was cached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    Nothing,
    Part,
    Whole,
}

/// What one backend did for one pod.
pub(super) struct Part<'s> {
    pub(super) placing: Placing<'s>,
    position: usize,
    pub(super) backend: &'s Backend,
    wanted: &'s Wanted,
    questions: &'s [Question],
}

impl<'s> Part<'s> {
    pub(super) fn asked(&self, verb: Verb) -> impl Iterator<Item = &'s Question> {
        self.questions.iter().filter(move |question| question.verb == verb)
    }

    pub(super) fn is_pure(&self, verb: Verb) -> bool {
        let manner = if verb == Verb::Score { self.backend.score } else { self.backend.filter };
        manner.purity == Purity::Pure && self.backend.memory == Memory::Remembered
    }

    /// Whether scores may come with filter, for this pod alone.
    fn is_early(&self) -> bool {
        let Backend { early, filter, score, .. } = self.backend;
        *early == Early::Scores && (filter.purity, score.purity) == (Purity::Undeclared, Purity::Undeclared)
    }

    pub(super) fn came_early(&self) -> bool {
        self.questions.iter().any(|question| question.outcome == Outcome::AnsweredWithScores)
    }

    /// How much of a request was cached, if an extender gets one.
    pub(super) fn known(&self, verb: Verb) -> Share {
        let (asked, manner) = match (verb, &self.wanted.filtered) {
            (Verb::Score, _) => (&self.wanted.prioritized.asked, self.backend.score),
            (_, Some(filtered)) => (&filtered.asked, self.backend.filter),
            (_, None) => return Share::Nothing,
        };
        let due = due(asked, (self.position, self.backend.reach, manner));
        let due: &[Node] = due.first().map_or(&[], |set| set.as_slice());
        let is_asked = |node: &&Node| self.asked(verb).any(|question| question.nodes.contains(node));
        match due.iter().filter(is_asked).count() {
            0 if !due.is_empty() => Share::Whole,
            asked if asked < due.len() => Share::Part,
            _ => Share::Nothing,
        }
    }
}

pub(super) fn parts<'s>(scene: &'s Scene<'_>) -> impl Iterator<Item = Part<'s>> {
    let placed = scene.case.placings().into_iter().zip(&scene.expected.placed).zip(&scene.observed.placed);
    placed.flat_map(|((placing, wanted), placed)| {
        let backends = scene.case.backends.iter().enumerate();
        backends.filter(|(_, backend)| backend.extender.mode == Mode::Enforce).map(
            move |(position, backend)| {
                let questions = &placed.questions[position];
                Part { placing: placing.clone(), position, backend, wanted, questions }
            },
        )
    })
}

fn asked<'s>(scene: &'s Scene<'_>) -> impl Iterator<Item = &'s Question> {
    let questions = scene.observed.placed.iter().flat_map(|placed| placed.questions.iter().flatten());
    let is_held = scene.case.backends.iter().any(|backend| backend.table == Table::Kept);
    questions.filter(move |_| is_held)
}

fn before<'s>(placing: &Placing<'s>) -> Option<&'s Change> {
    placing.round.and_then(|round| round.before.as_ref())
}

fn sibling<'s>(placing: &Placing<'s>) -> Option<&'s Sibling> {
    placing.round.map(|round| &round.sibling)
}

/// The pods before which a change like this happened.
fn with<'s>(scene: &'s Scene<'_>, is_meant: impl Fn(&Change) -> bool) -> impl Iterator<Item = &'s Placed> {
    let placed = scene.case.placings().into_iter().zip(&scene.observed.placed);
    placed.filter(move |(placing, _)| before(placing).is_some_and(&is_meant)).map(|(_, placed)| placed)
}

/// The pods after one whose answers were cached.
fn after_remembered<'s>(scene: &'s Scene<'_>) -> impl Iterator<Item = Placing<'s>> {
    let first = scene.observed.placed.iter().position(|placed| placed.remembered > 0);
    scene.case.placings().into_iter().filter(move |placing| first.is_some_and(|first| placing.number > first))
}

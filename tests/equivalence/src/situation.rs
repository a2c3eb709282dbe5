//! The situations of the cases: a search without an interesting situation proves nothing about it.

mod again;
mod counts;
mod preempt;

use std::fmt;

use extender_reference::{
    filter::{Filtered, Kind, Verdict, distinct},
    model::{
        Best, Extender, Failing, FilterRule, Interest, Mode, Namespaces, Normalize, OnFailure, Prefix, Score,
    },
    prioritize, reason,
};
use num_bigint::BigInt;

use crate::{
    case::{Backend, Case, Failure, KNOWN, Scope, Source},
    compare::Expected,
    subject::{Observed, Verb},
};

/// A case and its results.
pub struct Scene<'s> {
    /// The case.
    pub case: &'s Case,
    /// The reference's decision.
    pub expected: &'s Expected,
    /// The gateway's answers.
    pub observed: &'s Observed,
}

impl<'s> Scene<'s> {
    /// What the reference decides about the first pod's filter call, which every case has.
    fn filtered(&self) -> &'s Filtered {
        self.expected.first().filtered.as_ref().expect("the first pod is filtered")
    }
}

/// A situation, and whether a case is one.
type Situation = (&'static str, fn(&Scene<'_>) -> bool);

/// How often each situation occurred.
#[derive(Debug, Clone)]
pub struct Coverage {
    cases: u32,
    counts: Vec<u32>,
}

impl Default for Coverage {
    fn default() -> Self {
        Self { cases: 0, counts: vec![0; situations().count()] }
    }
}

impl Coverage {
    /// Counts a case.
    pub fn note(&mut self, scene: &Scene<'_>) {
        self.cases += 1;
        for (count, (_, occurs)) in self.counts.iter_mut().zip(situations()) {
            *count += u32::from(occurs(scene));
        }
    }

    /// The situations without a case.
    pub fn missing(&self) -> Vec<&'static str> {
        let named = situations().zip(&self.counts);
        named.filter(|(_, count)| **count == 0).map(|((name, _), _)| *name).collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>7} cases, of them with", self.cases)?;
        situations().zip(&self.counts).try_for_each(|((name, _), count)| writeln!(f, "{count:>7} {name}"))
    }
}

fn situations() -> impl Iterator<Item = &'static Situation> {
    SITUATIONS.iter().chain(preempt::SITUATIONS).chain(again::SITUATIONS).chain(counts::SITUATIONS)
}

const SITUATIONS: &[Situation] = &[
    ("names and a table of nodes", |s| s.case.source == Source::File),
    ("full objects", |s| s.case.source == Source::Request),
    ("names alone", |s| s.case.source == Source::NamesOnly),
    ("an empty list", |s| s.case.offered.is_empty()),
    ("a name that is offered twice", |s| distinct(&s.case.offered).len() < s.case.offered.len()),
    ("some nodes left, some rejected", |s| {
        statuses(s).next().is_some()
            && matches!(&s.filtered().verdict,
            Verdict::Decided { feasible, .. } if !feasible.is_empty())
    }),
    ("no node left", |s| {
        statuses(s).next().is_some()
            && !s.case.offered.is_empty()
            && matches!(
        &s.filtered().verdict, Verdict::Decided { feasible, .. } if feasible.is_empty())
    }),
    ("FailedNodes", |s| statuses(s).any(|(kind, _)| kind == Kind::Failed)),
    ("FailedAndUnresolvableNodes", |s| statuses(s).any(|(kind, _)| kind == Kind::Unresolvable)),
    ("reasons without prefix", |s| s.case.differences.prefix == Prefix::None && statuses(s).next().is_some()),
    ("a reason that was cut", |s| statuses(s).any(|(_, reason)| reason.ends_with("..."))),
    ("a reason that had %", |s| statuses(s).any(|(_, reason)| reason.contains("percent"))),
    ("a reason that was empty", |s| statuses(s).any(|(_, reason)| reason.ends_with("rejected"))),
    ("a node that several reject", several_reject),
    ("a failure that ended the call", |s| matches!(s.filtered().verdict, Verdict::Failed(_))),
    ("a failure that was ignored", |s| s.filtered().failures.iter().any(|at| ignores(s, *at))),
    ("a failure when no node was left", |s| {
        filtering(s).any(|(at, _)| asked_and_failed(s, at) && !ignores(s, at) && is_spared(s, at))
    }),
    ("a failure that did not count", |s| {
        filtering(s).any(|(at, _)| asked_and_failed(s, at) && !s.filtered().failures.contains(&at))
    }),
    ("a backend that was asked again", |s| filtering(s).any(|(at, _)| times_asked(s, at) > 1)),
    ("a repetition that succeeded", |s| {
        filtering(s).any(|(at, _)| times_asked(s, at) > 1 && !s.filtered().failures.contains(&at))
    }),
    ("a verdict about the whole of a smaller set", |s| {
        in_turn_and_asked_less(s, |scope| matches!(scope, Scope::WholeSet | Scope::Unspecified))
    }),
    ("side effects after a rejection", |s| {
        in_turn_and_asked_less(s, |scope| scope == Scope::NodeWithSideEffects)
    }),
    ("side effects that were spared", |s| {
        !s.case.offered.is_empty()
            && filtering(s).any(|(at, backend)| {
                backend.filter.scope == Scope::NodeWithSideEffects
                    && times_asked(s, at) == 0
                    && backend.extender.interest == Interest::default()
                    && s.case.differences.exempt.is_empty()
            })
    }),
    ("an exempt pod", |s| s.case.differences.exempt.contains(&s.case.pod.namespace)),
    ("interest by namespace", |s| {
        s.case.backends.iter().any(|backend| backend.extender.interest.namespaces != Namespaces::All)
    }),
    ("interest by labels", |s| {
        s.case.backends.iter().any(|backend| !backend.extender.interest.selector.is_empty())
    }),
    ("interest by labels that are equal", |s| {
        let interests = s.case.backends.iter().map(|backend| &backend.extender.interest.labels);
        interests.into_iter().any(|labels| {
            !labels.is_empty() && labels.iter().all(|(key, value)| s.case.pod.labels.get(key) == Some(value))
        })
    }),
    ("interest by resources", |s| {
        s.case.backends.iter().any(|backend| !backend.extender.interest.resources.is_empty())
    }),
    ("a backend in shadow", |s| with_mode(s, Mode::Shadow)),
    ("a disabled backend", |s| with_mode(s, Mode::Disabled)),
    ("an ignorable backend before another", |s| {
        let policies: Vec<_> =
            filtering(s).filter_map(|(_, b)| Some(b.extender.filter.as_ref()?.on_failure)).collect();
        policies.windows(2).any(|two| two == [OnFailure::Ignore, OnFailure::Fail])
    }),
    ("a node that the gateway does not know", |s| {
        statuses(s).any(|(_, reason)| reason == reason::NOT_YET_KNOWN)
    }),
    ("only unknown nodes left", |s| matches!(s.filtered().verdict, Verdict::NotYetKnown(_))),
    ("an unknown node that was accepted", |s| {
        matches!(&s.filtered().verdict,
        Verdict::Decided { feasible, .. } if feasible.iter().any(|node| *node >= KNOWN))
    }),
    ("a status", |s| fails(s, |failure| matches!(failure, Failure::Status(_)))),
    ("a status that can mean lost time", |s| {
        fails(s, |failure| matches!(failure, Failure::Status(1 | 4 | 14)))
    }),
    ("a status about one pod, an answer about another", |s| {
        let decided = |at: usize| {
            s.expected.placed.iter().filter_map(move |wanted| {
                let filtered = wanted.filtered.as_ref()?;
                let is_asked = filtered.asked.iter().any(|(asked, _)| *asked == at);
                is_asked.then(|| filtered.failures.contains(&at))
            })
        };
        (0..s.case.backends.len()).any(|at| {
            let is_status = matches!(s.case.backends[at].filter.failure, Failure::Status(_));
            is_status && decided(at).any(|failed| failed) && decided(at).any(|failed| !failed)
        })
    }),
    ("a backend that hangs", |s| failed_with(s, Failure::Hang)),
    ("a reset stream", |s| failed_with(s, Failure::Reset)),
    ("garbage", |s| failed_with(s, Failure::Garbage)),
    ("a default message", |s| failed_with(s, Failure::Empty)),
    ("a wrong count", |s| failed_with(s, Failure::Miscounted)),
    ("a position out of range", |s| failed_with(s, Failure::OutOfRange)),
    ("a node that is refused twice", |s| failed_with(s, Failure::Twice)),
    ("a verb that is not served", |s| failed_with(s, Failure::Unlisted)),
    ("a backend that is away", |s| {
        s.filtered().failures.iter().any(|at| s.case.backends[*at].reach == crate::case::Reach::Dead)
    }),
    ("scores", |s| !s.expected.first().prioritized.list.is_empty()),
    ("scores of several backends", |s| scoring(s).count() > 1),
    ("a score that failed", |s| !s.expected.first().prioritized.failures.is_empty()),
    ("a list without a node", |s| {
        s.expected.first().prioritized.list.is_empty() && !s.expected.first().ranked.is_empty()
    }),
    ("nodes that are listed and were not scored", |s| {
        !s.expected.first().prioritized.list.is_empty() && scoring(s).count() == 0
    }),
    ("a score that failed beside an extender without scores", |s| {
        let prioritized = &s.expected.first().prioritized;
        !prioritized.failures.is_empty() && !prioritized.list.is_empty() && scoring(s).count() == 0
    }),
    ("a node that was not scored among others", |s| {
        let list = &s.expected.first().prioritized.list;
        !list.is_empty() && list.len() < s.expected.first().ranked.len()
    }),
    ("clamped scores", |s| {
        scoring(s).any(|(score, set)| {
            score.rule.scores(set).iter().any(|raw| {
                score.range.0.is_some_and(|lowest| *raw < lowest)
                    || score.range.1.is_some_and(|most| *raw > most)
            })
        })
    }),
    ("a negative total", |s| s.expected.first().prioritized.list.iter().any(|(_, total)| *total < 0)),
    ("a total of zero", |s| s.expected.first().prioritized.list.iter().any(|(_, total)| *total == 0)),
    ("a weight of a million", |s| scoring(s).any(|(score, _)| score.weight == 1_000_000)),
    ("a sum that ends in a half", |s| s.expected.first().prioritized.sums.values().any(ends_in_a_half)),
    ("a negative sum that ends in a half", |s| {
        s.expected
            .first()
            .prioritized
            .sums
            .values()
            .any(|sum| ends_in_a_half(sum) && *sum.numer() < BigInt::ZERO)
    }),
    ("a sum that would be rounded elsewhere part by part", rounded_by_part),
    ("a denominator beyond 32 bits", |s| {
        s.expected.first().prioritized.sums.values().any(|sum| sum.denom().bits() > 32)
    }),
    ("no normalization", |s| normalized(s, Normalize::None, Best::Largest)),
    ("Range", |s| normalized(s, Normalize::Range, Best::Largest)),
    ("Max", |s| normalized(s, Normalize::Max, Best::Largest)),
    ("MinMax", |s| normalized(s, Normalize::MinMax, Best::Largest)),
    ("Range, reversed", |s| normalized(s, Normalize::Range, Best::Least)),
    ("Max, reversed", |s| normalized(s, Normalize::Max, Best::Least)),
    ("MinMax, reversed", |s| normalized(s, Normalize::MinMax, Best::Least)),
];

fn statuses<'s>(scene: &Scene<'s>) -> impl Iterator<Item = (Kind, &'s str)> {
    let statuses = match &scene.filtered().verdict {
        Verdict::Decided { statuses, .. } => Some(statuses),
        Verdict::Failed(_) | Verdict::NotYetKnown(_) => None,
    };
    statuses
        .into_iter()
        .flat_map(|statuses| statuses.values())
        .map(|status| (status.kind, status.reason.as_str()))
}

/// The backends that take part in filtering, with their positions.
fn filtering<'s>(scene: &Scene<'s>) -> impl Iterator<Item = (usize, &'s Backend)> {
    let backends = scene.case.backends.iter().enumerate();
    backends
        .filter(|(_, Backend { extender, .. })| extender.mode == Mode::Enforce && extender.filter.is_some())
}

/// Whether a rejected node is rejected, with different reasons, by two backends that were called.
fn several_reject(scene: &Scene<'_>) -> bool {
    let words = |node: usize| {
        let asked = filtering(scene).filter(move |(at, _)| times_asked(scene, *at) > 0);
        let rules = asked.filter_map(|(_, backend)| Some(&backend.extender.filter.as_ref()?.rule));
        rules.filter_map(move |rule| match rule {
            FilterRule::PerNode(table) => table[node].as_ref(),
            _ => None,
        })
    };
    let Verdict::Decided { statuses, .. } = &scene.filtered().verdict else { return false };
    statuses.keys().any(|node| words(*node).any(|one| words(*node).any(|other| one.reason != other.reason)))
}

fn times_asked(scene: &Scene<'_>, position: usize) -> usize {
    scene.observed.placed[0].questions[position]
        .iter()
        .filter(|question| question.verb == Verb::Filter)
        .count()
}

/// Whether the reference decided without this extender, because it came after the last node was rejected.
fn is_spared(scene: &Scene<'_>, position: usize) -> bool {
    let filtered = scene.filtered();
    matches!(&filtered.verdict, Verdict::Decided { feasible, .. } if feasible.is_empty())
        && filtered.asked.iter().all(|(asked, _)| *asked != position)
}

fn ignores(scene: &Scene<'_>, position: usize) -> bool {
    let filter = scene.expected.first().extenders[position].filter.as_ref();
    filter.is_some_and(|filter| filter.on_failure == OnFailure::Ignore)
}

fn asked_and_failed(scene: &Scene<'_>, position: usize) -> bool {
    let failing =
        scene.expected.first().extenders[position].filter.as_ref().map_or(Failing::Never, |f| f.failing);
    let mut questions = scene.observed.placed[0].questions[position].iter();
    questions.any(|question| question.verb == Verb::Filter && failing.fails(question.nodes.len()))
}

fn in_turn_and_asked_less(scene: &Scene<'_>, scope: impl Fn(Scope) -> bool) -> bool {
    let offered = distinct(&scene.case.offered).len();
    let mut asked = scene.filtered().asked.iter();
    asked.any(|(at, set)| scope(scene.case.backends[*at].filter.scope) && set.len() < offered)
}

fn with_mode(scene: &Scene<'_>, mode: Mode) -> bool {
    scene.case.backends.iter().any(|backend| backend.extender.mode == mode)
}

/// A failure of this kind in the reference.
fn failed_with(scene: &Scene<'_>, failure: Failure) -> bool {
    fails(scene, |it| it == failure)
}

fn fails(scene: &Scene<'_>, is_it: impl Fn(Failure) -> bool) -> bool {
    let (filters, scores) = (&scene.filtered().failures, &scene.expected.first().prioritized.failures);
    filters.iter().any(|at| is_it(scene.case.backends[*at].filter.failure))
        || scores.iter().any(|at| is_it(scene.case.backends[*at].score.failure))
}

/// The backends whose scores count, and the nodes.
fn scoring<'s>(scene: &Scene<'s>) -> impl Iterator<Item = (&'s Score, &'s [usize])> {
    let prioritized = &scene.expected.first().prioritized;
    let extenders: &'s [Extender] = &scene.expected.first().extenders;
    prioritized
        .asked
        .iter()
        .filter(|(at, _)| !prioritized.failures.contains(at))
        .filter_map(|(at, set)| Some((extenders[*at].score.as_ref()?, set.as_slice())))
}

fn normalized(scene: &Scene<'_>, normalize: Normalize, best: Best) -> bool {
    scoring(scene).any(|(score, set)| (score.normalize, score.best) == (normalize, best) && set.len() > 1)
}

fn ends_in_a_half(sum: &prioritize::Fraction) -> bool {
    *sum.denom() == BigInt::from(2)
}

fn rounded_by_part(scene: &Scene<'_>) -> bool {
    scene.expected.first().prioritized.list.iter().any(|(node, total)| {
        let parts = scoring(scene).filter_map(|(score, set)| {
            let at = set.iter().position(|scored| scored == node)?;
            let weight = prioritize::Fraction::from_integer(BigInt::from(score.weight));
            Some((prioritize::points(score, set)[at].clone() * weight).round().to_integer())
        });
        parts.sum::<BigInt>() != BigInt::from(*total)
    })
}

//! Situations of preempt.

use extender_reference::{
    model::{Added, Candidate, Interest, Mode, OnFailure, Order, Preempt},
    policy::Evicted,
    preempt::{Ending, Failure as Why},
};

use super::{Scene, Situation};
use crate::case::{self, Failure, Form, KNOWN, Pods, Reach};

pub(super) const SITUATIONS: &[Situation] = &[
    ("victims in full", |s| s.case.form == Form::Objects && is_asked(s)),
    ("victims by UID, of pods that are known", |s| {
        (s.case.form, s.case.pods) == (Form::Uids, Pods::Watched) && is_asked(s)
    }),
    ("victims by UID alone", |s| (s.case.form, s.case.pods) == (Form::Uids, Pods::Unknown) && is_asked(s)),
    ("no candidate at all", |s| s.case.candidates.is_empty()),
    ("candidates, and no backend is called", |s| !s.case.candidates.is_empty() && !is_asked(s)),
    ("all candidates left as they were", |s| is_asked(s) && left(s).is_some_and(|l| *l == s.case.candidates)),
    ("a candidate that falls among others", |s| {
        left(s).is_some_and(|left| !left.is_empty() && left.len() < s.case.candidates.len())
    }),
    ("a victim that is spared", |s| pairs(s).any(|(sent, left)| left.victims.len() < sent.victims.len())),
    ("several victims left of more, named in another order", |s| {
        counted(s).any(|(preempt, _)| preempt.order == Order::Reversed)
            && pairs(s).any(|(sent, left)| (2..sent.victims.len()).contains(&left.victims.len()))
    }),
    ("a victim that is spared where budgets are violated", |s| {
        pairs(s).any(|(sent, left)| left.victims != sent.victims && left.violations > 0)
    }),
    ("more violations than 32 bits hold", |s| {
        is_asked(s) && pairs(s).any(|(_, left)| left.violations > u32::MAX.into())
    }),
    ("several that change candidates", |s| s.expected.preempted.changes.len() > 1),
    ("changes in another order than the file's", |s| !s.expected.preempted.changes.is_sorted()),
    ("a failure after a change", |s| {
        let preempted = &s.expected.preempted;
        matches!(preempted.ending, Ending::Failed(_)) && !preempted.changes.is_empty()
    }),
    ("a change after an ignored failure", |s| {
        let preempted = &s.expected.preempted;
        let mut asked = preempted.asked.iter().map(|(at, _)| at);
        let failed = |at: &usize| preempted.failures.iter().any(|(failed, _)| failed == at);
        asked.any(failed) && asked.any(|at| preempted.changes.contains(at))
    }),
    ("a chain that ends empty", |s| is_asked(s) && left(s).is_some_and(Vec::is_empty)),
    ("a backend that is not called because no candidate is left", |s| {
        let wanted = s.case.backends.iter().filter(|backend| {
            backend.extender.preempt.is_some()
                && backend.extender.mode == Mode::Enforce
                && backend.extender.interest == Interest::default()
        });
        is_asked(s) && left(s).is_some_and(Vec::is_empty) && wanted.count() > s.expected.preempted.asked.len()
    }),
    ("preemption that fails", |s| {
        failures(s).any(|(preempt, why)| preempt.on_failure == OnFailure::Fail && why == Why::NoAnswer)
    }),
    ("a failure that preemption ignores", |s| {
        failures(s).any(|(preempt, why)| preempt.on_failure == OnFailure::Ignore && why == Why::NoAnswer)
    }),
    ("a node without victims that is a failure", |s| {
        failures(s).any(|(_, why)| matches!(why, Why::NoVictims(_)))
    }),
    ("a node without victims that falls", |s| {
        counted(s).any(|(preempt, set)| {
            let bare = Some(Evicted::default());
            let mut kept = set.iter().zip(preempt.kept(set));
            preempt.on_failure == OnFailure::Ignore
                && kept.any(|(sent, kept)| kept == bare && !sent.victims.is_empty())
        })
    }),
    ("a placeholder that goes back", |s| {
        left(s).is_some_and(|left| is_asked(s) && left.iter().any(|candidate| candidate.victims.is_empty()))
    }),
    ("a placeholder that gets victims", |s| {
        pairs(s).any(|(sent, left)| sent.victims.is_empty() && !left.victims.is_empty())
    }),
    ("a victim that is added", |s| {
        pairs(s).any(|(sent, left)| left.victims.iter().any(|victim| !sent.victims.contains(victim)))
    }),
    ("a victim that may not be added, a failure", |s| {
        strangers(s).any(|(preempt, _)| preempt.on_failure == OnFailure::Fail)
    }),
    ("a victim that may not be added, ignored", |s| {
        strangers(s).any(|(preempt, _)| preempt.on_failure == OnFailure::Ignore)
    }),
    ("an added victim, and none may be", |s| {
        strangers(s).any(|(preempt, _)| preempt.added == Added::Refused)
    }),
    ("an added victim that matters too much", |s| {
        let running = case::running();
        strangers(s).any(|(preempt, victim)| {
            preempt.added == Added::Allowed && running[victim].priority >= s.case.pod.priority
        })
    }),
    ("an added victim that the gateway does not know", |s| {
        strangers(s)
            .any(|(preempt, victim)| preempt.added == Added::Allowed && preempt.unseen.contains(&victim))
    }),
    ("a candidate on a node that the gateway does not know, left", |s| {
        left(s).is_some_and(|left| is_asked(s) && left.iter().any(|candidate| candidate.node >= KNOWN))
    }),
    ("a candidate that falls because its node is not known", |s| {
        left(s).is_some_and(|left| {
            let fell = |candidate: &Candidate| !left.iter().any(|other| other.node == candidate.node);
            !left.is_empty() && s.case.candidates.iter().any(|sent| sent.node >= KNOWN && fell(sent))
        })
    }),
    ("only candidates left that are not known", |s| {
        matches!(s.expected.preempted.ending, Ending::NotYetKnown(_))
    }),
    ("preempt: a status", |s| (1..=16).any(|code| failed_with(s, Failure::Status(code)))),
    ("preempt: a backend that hangs", |s| failed_with(s, Failure::Hang)),
    ("preempt: a reset stream", |s| failed_with(s, Failure::Reset)),
    ("preempt: garbage", |s| failed_with(s, Failure::Garbage)),
    ("preempt: a default message", |s| failed_with(s, Failure::Empty)),
    ("preempt: a wrong count", |s| failed_with(s, Failure::Miscounted)),
    ("preempt: a position out of range", |s| failed_with(s, Failure::OutOfRange)),
    ("preempt: a node that is kept twice", |s| failed_with(s, Failure::Twice)),
    ("preempt: a victim out of range", |s| failed_with(s, Failure::VictimOutOfRange)),
    ("preempt: a victim that is kept twice", |s| failed_with(s, Failure::VictimTwice)),
    ("preempt: nodes that cannot be read", |s| failed_with(s, Failure::Miss)),
    ("preempt: a verb that is not served", |s| failed_with(s, Failure::Unlisted)),
    ("preempt: a backend that is away", |s| {
        let mut failures = s.expected.preempted.failures.iter();
        failures.any(|(at, _)| s.case.backends[*at].reach == Reach::Dead)
    }),
];

fn is_asked(scene: &Scene<'_>) -> bool {
    !scene.expected.preempted.asked.is_empty()
}

fn left<'s>(scene: &Scene<'s>) -> Option<&'s Vec<Candidate>> {
    match &scene.expected.preempted.ending {
        Ending::Left(left) => Some(left),
        Ending::Failed(_) | Ending::NotYetKnown(_) => None,
    }
}

/// The remaining candidates, as they were sent and as they are now.
fn pairs<'s>(scene: &Scene<'s>) -> impl Iterator<Item = (&'s Candidate, &'s Candidate)> {
    let sent: &'s [Candidate] = &scene.case.candidates;
    let left = left(scene).into_iter().flatten();
    left.filter_map(|left| Some((sent.iter().find(|sent| sent.node == left.node)?, left)))
}

/// The failures in the reference, with the configuration of their backends.
fn failures<'s>(scene: &Scene<'s>) -> impl Iterator<Item = (&'s Preempt, Why)> {
    let extenders = &scene.expected.first().extenders;
    let failures = scene.expected.preempted.failures.iter();
    failures.filter_map(|(at, why)| Some((extenders[*at].preempt.as_ref()?, *why)))
}

/// The victims that were named and must not be.
fn strangers<'s>(scene: &Scene<'s>) -> impl Iterator<Item = (&'s Preempt, usize)> {
    failures(scene).filter_map(|(preempt, why)| match why {
        Why::Stranger(victim) => Some((preempt, victim)),
        Why::NoAnswer | Why::NoVictims(_) => None,
    })
}

/// The backends whose answers count, and what they are about.
fn counted<'s>(scene: &Scene<'s>) -> impl Iterator<Item = (&'s Preempt, &'s [Candidate])> {
    let (extenders, preempted) = (&scene.expected.first().extenders, &scene.expected.preempted);
    let counted =
        preempted.asked.iter().filter(|(at, _)| preempted.failures.iter().all(|(failed, _)| failed != at));
    counted.filter_map(|(at, set)| Some((extenders[*at].preempt.as_ref()?, set.as_slice())))
}

/// A missing answer of this kind in the reference.
fn failed_with(scene: &Scene<'_>, failure: Failure) -> bool {
    let mut failures = scene.expected.preempted.failures.iter();
    failures.any(|(at, why)| {
        let backend = &scene.case.backends[*at];
        *why == Why::NoAnswer && backend.reach == Reach::Alive && backend.preempt.failure == failure
    })
}

//! Removes the contradictions of a generated backend.

use std::collections::BTreeSet;

use extender_reference::model::{
    Best, Extender, Failing, Filter, FilterRule, Interest, Mode, Normalize, OnFailure, Preemption, ScoreRule,
};

use super::{Backend, Early, Failure, Manner, NODES, Pods, Purity, Reach, Scope, Source, Table, View};

impl Backend {
    pub(super) fn settle(&mut self, source: Source, pods: Pods) {
        let Extender { filter, score, preempt, .. } = &self.extender;
        if filter.is_none() && score.is_none() && preempt.is_none() {
            self.extender.filter = Some(Filter {
                on_failure: OnFailure::Fail,
                preemption: Preemption::Ignored,
                rule: FilterRule::PerNode(vec![None; NODES]),
                failing: Failing::Never,
                blind: BTreeSet::new(),
            });
        }
        if source == Source::NamesOnly {
            (self.filter.view, self.score.view) = (View::Name, View::Name);
        }
        self.settle_filter();
        self.settle_score();
        self.settle_preempt(source, pods);
    }

    fn settle_filter(&mut self) {
        let Some(filter) = &mut self.extender.filter else { return };
        self.filter.scope = match (&filter.rule, self.filter.scope) {
            (FilterRule::FirstOf { .. } | FilterRule::AtLeast { .. }, Scope::Node) => Scope::WholeSet,
            (FilterRule::Once { .. }, _) => Scope::NodeWithSideEffects,
            (_, scope) => scope,
        };
        settle_purity(&mut self.filter);
        without_victims(&mut self.filter);
        settle_failure(&mut filter.failing, &mut self.filter, self.reach);
    }

    fn settle_score(&mut self) {
        let Some(score) = &mut self.extender.score else { return };
        if let (ScoreRule::ByRank { .. }, Scope::Node) = (&score.rule, self.score.scope) {
            self.score.scope = Scope::WholeSet;
        }
        if let (Some(lowest), Some(highest)) = score.range {
            score.range = (Some(lowest.min(highest)), Some(lowest.max(highest)));
        }
        let is_range = matches!(score.range, (Some(lowest), Some(highest)) if lowest < highest);
        if score.normalize == Normalize::Range && !is_range {
            score.normalize = Normalize::MinMax;
        }
        if score.normalize == Normalize::None {
            score.best = Best::Largest;
        }
        settle_purity(&mut self.score);
        without_victims(&mut self.score);
        settle_failure(&mut score.failing, &mut self.score, self.reach);
    }
}

impl Backend {
    /// A backend that fails on many nodes answers about few: which nodes it is called about depends on the cache.
    pub(super) fn settle_memory(&mut self) {
        if let Some(filter) = self.extender.filter.as_mut().filter(|_| self.filter.purity == Purity::Pure) {
            never_beyond(&mut filter.failing);
        }
        let asked_less = self.score.purity == Purity::Pure || self.early == Early::Scores;
        if let Some(score) = self.extender.score.as_mut().filter(|_| asked_less) {
            never_beyond(&mut score.failing);
        }
    }

    /// Whether it is called to filter for every pod, at once, about every row that has changed, and answers.
    pub(super) fn is_asked_about_rows(&self) -> bool {
        let Self { extender, reach, filter: manner, .. } = self;
        let Some(filter) = &extender.filter else { return false };
        let answers =
            (extender.mode, *reach, filter.failing) == (Mode::Enforce, Reach::Alive, Failing::Never);
        let sees = manner.scope == Scope::Node && manner.view == View::Facts && manner.sees_states();
        answers && sees && extender.interest == Interest::default() && manner.failure != Failure::Unlisted
    }

    /// While rows change during a call, the row that a backend sees is only certain if it is called at once, or
    /// gets the row.
    pub(super) fn settle_change(&mut self) {
        if self.filter.scope != Scope::Node {
            self.table = Table::None;
        }
        if let Some(filter) = self.extender.filter.as_mut().filter(|_| self.table != Table::None) {
            never_beyond(&mut filter.failing);
        }
    }
}

fn never_beyond(failing: &mut Failing) {
    if matches!(failing, Failing::Beyond(_)) {
        *failing = Failing::Never;
    }
}

/// A pure verb depends on facts about one node.
fn settle_purity(manner: &mut Manner) {
    if manner.scope != Scope::Node || manner.view == View::Raw {
        manner.purity = Purity::Undeclared;
    }
}

/// Only preempt has victims to be wrong about.
fn without_victims(manner: &mut Manner) {
    manner.failure = match manner.failure {
        Failure::VictimOutOfRange => Failure::OutOfRange,
        Failure::VictimTwice => Failure::Twice,
        failure => failure,
    };
}

/// A backend that is unavailable, or does not serve the verb, always fails; one that fails sometimes does not hang,
/// because its timeout would have to be short, and on a slow machine it would be exceeded.
pub(super) fn settle_failure(failing: &mut Failing, manner: &mut Manner, reach: Reach) {
    if reach == Reach::Dead {
        *failing = Failing::Always;
    }
    if *failing != Failing::Always && matches!(manner.failure, Failure::Hang | Failure::Unlisted) {
        manner.failure = Failure::Status(14);
    }
}

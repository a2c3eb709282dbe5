//! Cases adjusted towards a situation that is too rare by chance.

use std::collections::BTreeSet;

use extender_reference::model::{
    Added, Bare, Best, Eviction, Failing, Filter, FilterRule, Interest, Mode, Node, Normalize, OnFailure,
    PreemptRule, Preemption, Rejection, ScoreRule, Victim,
};
use proptest::{prelude::*, sample::select};

use crate::case::{
    ATTRIBUTES, Backend, Calls, Case, Change, Counting, Early, Failure, KNOWN, Manner, NODES, Pods, Purity,
    RUNNING, Reach, Scope, Source, UNSEEN, View, running, victims_on,
};

/// Nodes on which [`additions`] goes wrong.
const LAST: Node = KNOWN - 1;
const BEFORE_LAST: Node = KNOWN - 2;

/// The situation that a case is adjusted to.
#[derive(Debug, Clone, Copy)]
pub(super) enum Theme {
    /// Nothing.
    Any,
    /// Sums of one backend that end in a half, on either side of 0.
    Halves,
    /// A failure after the last node was rejected.
    LastNodeFalls,
    /// A failure that only the larger set causes.
    TooMany,
    /// Nodes that the gateway does not know.
    Unknown,
    /// Every backend answers preempt.
    Evictions,
    /// Victims that are added and may be.
    Additions,
    /// Every backend answers, so that there are answers to be cached.
    Memory,
    /// Every backend scores in filter, for one pod.
    Early,
    /// Every backend decides by counts of pods.
    Counts,
}

pub(super) fn theme() -> impl Strategy<Value = Theme> {
    let bent = select(vec![
        Theme::Halves,
        Theme::LastNodeFalls,
        Theme::TooMany,
        Theme::Unknown,
        Theme::Evictions,
        Theme::Additions,
        Theme::Memory,
        Theme::Early,
    ]);
    prop_oneof![10 => Just(Theme::Any), 8 => bent, 3 => Just(Theme::Counts)]
}

impl Theme {
    pub(super) fn bend(self, mut case: Case) -> Case {
        match self {
            Self::Any => return case,
            Self::Halves => halves(&mut case),
            Self::LastNodeFalls => last_node_falls(&mut case),
            Self::TooMany => too_many(&mut case),
            Self::Unknown => unknown(&mut case),
            Self::Evictions => case.backends.iter_mut().for_each(take_part),
            Self::Additions => additions(&mut case),
            Self::Memory => remembered(&mut case),
            Self::Early => answering(&mut case, (Purity::Undeclared, View::Facts)),
            Self::Counts => counting(&mut case),
        }
        case.differences.exempt = BTreeSet::new();
        case
    }
}

/// One backend scores, its largest score is 8: those that leave 2 when divided by 4 end in a half.
fn halves(case: &mut Case) {
    let last = case.backends.len() - 1;
    for (at, backend) in case.backends.iter_mut().enumerate() {
        if at < last {
            backend.extender.score = None;
        } else if let Some(score) = &mut backend.extender.score {
            let scores = score.rule.scores(&(0..NODES).collect::<Vec<_>>());
            let mut scores: Vec<i32> = scores.into_iter().map(|score| score % 9).collect();
            scores[0] = 8;
            score.rule = ScoreRule::PerNode(scores);
            (score.weight, score.normalize, score.best) = (1, Normalize::Max, Best::Largest);
            (score.range, score.failing) = ((None, None), Failing::Never);
            take_part(backend);
        }
    }
    case.offered = (0..KNOWN).collect();
}

/// The first backend rejects every node, the last one fails.
fn last_node_falls(case: &mut Case) {
    let rest = Rejection { reason: "all of them".into(), preemption_may_help: true };
    let rule = FilterRule::PerNode(vec![Some(rest); NODES]);
    if let [first, .., last] = case.backends.as_mut_slice() {
        first.extender.filter = Some(plain(rule, Failing::Never));
        last.extender.filter = Some(plain(FilterRule::PerNode(vec![None; NODES]), Failing::Always));
        take_part(first);
        take_part(last);
    }
}

/// The first backend rejects half of the nodes, the last one fails on more than the other half, and is called about
/// all.
fn too_many(case: &mut Case) {
    if let [first, .., last] = case.backends.as_mut_slice() {
        let half = Rejection { reason: "half of them".into(), preemption_may_help: false };
        let table = (0..NODES).map(|node| (node >= KNOWN / 2).then(|| half.clone())).collect();
        first.extender.filter = Some(plain(FilterRule::PerNode(table), Failing::Never));
        let rule = last.extender.filter.take().map(|filter| filter.rule);
        let rule = rule.filter(|rule| matches!(rule, FilterRule::PerNode(_)));
        let rule = rule.unwrap_or(FilterRule::PerNode(vec![None; NODES]));
        last.extender.filter = Some(plain(rule, Failing::Beyond(KNOWN / 2)));
        take_part(first);
        take_part(last);
    }
    case.offered = (0..KNOWN).collect();
}

/// Every backend needs facts, and unknown nodes come before known ones.
fn unknown(case: &mut Case) {
    case.source = Source::File;
    case.offered.insert(0, KNOWN);
    case.offered.push(KNOWN + 1);
    for backend in &mut case.backends {
        (backend.filter.view, backend.score.view, backend.preempt.view) =
            (View::Facts, View::Raw, View::Facts);
    }
}

/// The first backend adds a victim to each node: mostly one that runs there and has a lower priority; on the last
/// node one that the gateway does not know, on the node before it one with a higher priority.
fn additions(case: &mut Case) {
    case.pods = Pods::Watched;
    case.pod.priority = case.pod.priority.clamp(5, 7);
    let offered: BTreeSet<Victim> =
        case.candidates.iter().flat_map(|candidate| candidate.victims.iter().copied()).collect();
    let added = |node: Node| match node {
        LAST => Some(node * RUNNING + UNSEEN),
        BEFORE_LAST => victims_on(node).max_by_key(|victim| running()[*victim].priority),
        _ => victims_on(node).find(|victim| !offered.contains(victim)),
    };
    let eviction = |node| Eviction { spared: BTreeSet::new(), added: added(node).into_iter().collect() };
    let evictions = (0..NODES).map(|node| Some(eviction(node))).collect();
    let mut preempting = case.backends.iter_mut().filter(|backend| backend.extender.preempt.is_some());
    if let Some(first) = preempting.next() {
        if let Some(preempt) = &mut first.extender.preempt {
            (preempt.added, preempt.failing) = (Added::Allowed, Failing::Never);
            preempt.rule = PreemptRule::PerNode { evictions, bare: Bare::LeftOut };
        }
        take_part(first);
    }
}

/// Every backend filters and can be cached; before the last pod rules change, and a row with them.
fn remembered(case: &mut Case) {
    for backend in &mut case.backends {
        let accepts = || plain(FilterRule::PerNode(vec![None; NODES]), Failing::Never);
        backend.extender.filter.get_or_insert_with(accepts);
    }
    answering(case, (Purity::Pure, View::Facts));
    case.source = if case.source == Source::NamesOnly { Source::File } else { case.source };
    if let Some(round) = case.rounds.last_mut() {
        (round.calls, round.offered) = (Calls::FilterThenPrioritize, (0..KNOWN).collect());
        round.before = Some(Change::RulesAndRows(BTreeSet::from([LAST])));
    }
}

/// Every backend answers by the counts that it declares, and all or none can be cached.
fn counting(case: &mut Case) {
    case.pods = Pods::Watched;
    case.source = if case.source == Source::NamesOnly { Source::File } else { case.source };
    for Backend { filter, .. } in &mut case.backends {
        if filter.counts.is_empty() {
            filter.counts.on_nodes = [Counting::Pods; ATTRIBUTES.len()];
        }
    }
    let purity = case.backends[0].score.purity;
    answering(case, (purity, View::Facts));
}

/// Every backend answers, node by node, in the same manner in filter and score, and leaves some nodes.
fn answering(case: &mut Case, (purity, view): (Purity, View)) {
    for backend in &mut case.backends {
        take_part(backend);
        backend.early = Early::Scores;
        let Manner { reads, counts, .. } = backend.filter;
        for manner in [&mut backend.filter, &mut backend.score] {
            *manner = Manner { scope: Scope::Node, purity, view, reads, counts, ..*manner };
        }
        if let Some(filter) = &mut backend.extender.filter {
            filter.failing = Failing::Never;
        }
        if let Some(score) = &mut backend.extender.score {
            score.failing = Failing::Never;
        }
    }
}

/// It answers about every pod, node by node.
fn take_part(backend: &mut Backend) {
    backend.extender.mode = Mode::Enforce;
    backend.extender.interest = Interest::default();
    backend.reach = Reach::Alive;
    backend.filter.scope = Scope::Node;
    for manner in [&mut backend.filter, &mut backend.score, &mut backend.preempt] {
        if matches!(manner.failure, Failure::Hang | Failure::Unlisted) {
            manner.failure = Failure::Status(13);
        }
    }
}

fn plain(rule: FilterRule, failing: Failing) -> Filter {
    let (on_failure, preemption) = (OnFailure::Fail, Preemption::Honored);
    Filter { on_failure, preemption, rule, failing, blind: BTreeSet::new() }
}

//! Backends: policies, how their answers count, how they fail.

use std::collections::BTreeSet;

use extender_reference::model::{
    Best, Extender, Failing, Filter, FilterRule, Mode, Normalize, OnFailure, Preemption, Rejection, Score,
    ScoreRule,
};
use proptest::{collection::vec, prelude::*, sample::select};

use super::{counts, pod, preempt};
use crate::case::{
    Backend, Early, Failure, Manner, Memory, NODES, Purity, Reach, Reads, Scale, Scope, Table, View,
};

/// Any backend, without a name.
pub(super) fn backend() -> impl Strategy<Value = Backend> {
    let reach = prop_oneof![30 => Just(Reach::Alive), 1 => Just(Reach::Dead)];
    let scale = select(vec![Scale::Declared, Scale::Configured]);
    let manners = (manner(), manner(), preempt_manner());
    (extender(), reach, scale, manners, table(), early(), memory()).prop_map(
        |(extender, reach, scale, (filter, score, preempt), table, early, memory)| Backend {
            extender,
            reach,
            scale,
            filter,
            score,
            preempt,
            table,
            early,
            memory,
        },
    )
}

fn extender() -> impl Strategy<Value = Extender> {
    let mode = prop_oneof![14 => Just(Mode::Enforce), 1 => Just(Mode::Shadow), 1 => Just(Mode::Disabled)];
    let filter = prop::option::weighted(0.85, filter());
    let score = prop::option::weighted(0.8, score());
    let preempt = prop::option::weighted(0.7, preempt::preempt());
    (mode, pod::interest(), filter, score, preempt).prop_map(|(mode, interest, filter, score, preempt)| {
        Extender { name: String::new(), mode, interest, filter, score, preempt }
    })
}

fn filter() -> impl Strategy<Value = Filter> {
    let on_failure = select(vec![OnFailure::Fail, OnFailure::Ignore]);
    let preemption = select(vec![Preemption::Ignored, Preemption::Honored]);
    (on_failure, preemption, filter_rule(), failing()).prop_map(|(on_failure, preemption, rule, failing)| {
        Filter { on_failure, preemption, rule, failing, blind: BTreeSet::new() }
    })
}

fn filter_rule() -> impl Strategy<Value = FilterRule> {
    let per_node = prop_oneof![3 => Just(0.15), 3 => Just(0.3), 2 => Just(0.6), 2 => Just(0.98)]
        .prop_flat_map(|often| vec(prop::option::weighted(often, rejection()), NODES))
        .prop_map(FilterRule::PerNode);
    prop_oneof![
        8 => per_node,
        1 => (0..=6_usize, rejection()).prop_map(|(most, rest)| FilterRule::FirstOf { most, rest }),
        1 => (0..=6_usize, rejection()).prop_map(|(least, smaller)| FilterRule::AtLeast { least, smaller }),
        1 => rejection().prop_map(|again| FilterRule::Once { again }),
    ]
}

fn rejection() -> impl Strategy<Value = Rejection> {
    (reason(), any::<bool>())
        .prop_map(|(reason, preemption_may_help)| Rejection { reason, preemption_may_help })
}

fn reason() -> impl Strategy<Value = String> {
    let usual = select(vec!["rack is drained", "over quota", "no licence"]).prop_map(str::to_owned);
    let odd = select(vec![
        "",
        " \n",
        "50% full",
        "%d%%s %",
        "two\nlines\tand a tab",
        "a\u{7}bell",
        "ä \"quoted\" \\",
    ]);
    let long =
        (select(vec!["x", "ä", "word ", "%"]), 60..=220_usize).prop_map(|(text, times)| text.repeat(times));
    prop_oneof![6 => usual, 2 => odd.prop_map(str::to_owned), 1 => long]
}

fn failing() -> impl Strategy<Value = Failing> {
    prop_oneof![
        9 => Just(Failing::Never),
        2 => Just(Failing::Always),
        4 => (1..=9_usize).prop_map(Failing::Beyond),
    ]
}

fn score() -> impl Strategy<Value = Score> {
    let normalize = select(vec![Normalize::None, Normalize::Range, Normalize::Max, Normalize::MinMax]);
    let best = select(vec![Best::Largest, Best::Least]);
    (weight(), normalize, best, range(), score_rule(), failing()).prop_map(
        |(weight, normalize, best, range, rule, failing)| Score {
            weight,
            normalize,
            best,
            range,
            rule,
            failing,
            blind: BTreeSet::new(),
        },
    )
}

fn weight() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(1_u32), 3 => 1..=10_u32, 1 => Just(1_000_000), 1 => 1..=1_000_000_u32]
}

fn range() -> impl Strategy<Value = (Option<i32>, Option<i32>)> {
    let side = || prop_oneof![Just(None), (-10..=20_i32).prop_map(Some)];
    prop_oneof![
        3 => Just((None, None)),
        1 => (side(), side()),
        3 => (-5..=3_i32, 4..=20_i32).prop_map(|(lowest, highest)| (Some(lowest), Some(highest))),
        2 => any::<(i32, i32)>().prop_map(|(lowest, highest)| (Some(lowest), Some(highest))),
        1 => Just((Some(i32::MIN), Some(i32::MAX))),
    ]
}

/// The least score. The number before it counts as this one.
const LEAST: i32 = i32::MIN + 1;

fn score_rule() -> impl Strategy<Value = ScoreRule> {
    let per_node = prop_oneof![
        3 => vec(0..=8_i32, NODES),
        3 => vec(-8..=8_i32, NODES),
        3 => vec(-20..=40_i32, NODES),
        1 => (-3..=12_i32).prop_map(|score| vec![score; NODES]),
        2 => vec(LEAST.., NODES),
        1 => vec(select(vec![LEAST, -1, 0, 1, i32::MAX]), NODES),
    ];
    let by_rank = (-5..=10_i32, -3..=3_i32).prop_map(|(first, step)| ScoreRule::ByRank { first, step });
    prop_oneof![5 => per_node.prop_map(ScoreRule::PerNode), 1 => by_rank]
}

fn manner() -> impl Strategy<Value = Manner> {
    let view = select(vec![View::Name, View::Facts, View::Facts, View::Raw]);
    let scope = prop_oneof![
        6 => Just(Scope::Node),
        1 => Just(Scope::WholeSet),
        1 => Just(Scope::Unspecified),
        1 => Just(Scope::NodeWithSideEffects),
    ];
    let purity = select(vec![Purity::Pure, Purity::Undeclared]);
    let reads = prop_oneof![
        3 => Just(Reads::Everything),
        1 => Just(Reads::Class),
        1 => Just(Reads::Namespace),
        1 => Just(Reads::Nothing),
    ];
    (view, scope, failure(), purity, reads, counts::counts()).prop_map(
        |(view, scope, failure, purity, reads, counts)| Manner {
            view,
            scope,
            failure,
            purity,
            reads,
            counts,
        },
    )
}

/// Answers to preempt are not cached.
fn preempt_manner() -> impl Strategy<Value = Manner> {
    manner().prop_map(|manner| Manner { purity: Purity::Undeclared, ..manner })
}

fn table() -> impl Strategy<Value = Table> {
    prop_oneof![3 => Just(Table::None), 3 => Just(Table::Kept), 1 => Just(Table::Behind)]
}

fn early() -> impl Strategy<Value = Early> {
    select(vec![Early::Scores, Early::Nothing])
}

fn memory() -> impl Strategy<Value = Memory> {
    prop_oneof![9 => Just(Memory::Remembered), 1 => Just(Memory::AskedEachTime)]
}

fn failure() -> impl Strategy<Value = Failure> {
    let other = select(vec![
        // Twice, or 300 cases do not have one of each verb.
        Failure::Hang,
        Failure::Hang,
        Failure::Reset,
        Failure::Garbage,
        Failure::Empty,
        Failure::Miscounted,
        Failure::OutOfRange,
        Failure::Twice,
        Failure::VictimOutOfRange,
        Failure::VictimTwice,
        Failure::Miss,
        Failure::Unlisted,
    ]);
    prop_oneof![4 => (1..=16_u16).prop_map(Failure::Status), 11 => other]
}

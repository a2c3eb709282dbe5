//! More pods, and the changes in between.

use std::collections::BTreeSet;

use extender_reference::model::Node;
use proptest::{collection::vec, prelude::*, sample::select};

use super::{counts, offered, pod};
use crate::case::{Calls, Change, KNOWN, Offer, Round, Sibling, Tables};

/// At least two pods of the first one's class, so that there are three, and perhaps one of another among them.
pub(super) fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let other = prop_oneof![
        pod::namespace().prop_map(Sibling::Elsewhere),
        pod::labels(0..=2).prop_map(Sibling::Labelled),
    ];
    let other = prop::option::weighted(0.4, (round(), other, 0..=2_usize));
    (vec(round(), 2..=3), other).prop_map(|(mut rounds, other)| {
        if let Some((round, sibling, place)) = other {
            rounds.insert(place, Round { sibling, ..round });
        }
        rounds
    })
}

fn round() -> impl Strategy<Value = Round> {
    let offered = (offered(), 0..16_u8).prop_map(|(mut offered, chance)| {
        // A call waits a moment for unknown nodes.
        offered.retain(|node| *node < KNOWN || chance == 0);
        offered
    });
    let offer = prop_oneof![7 => Just(Offer::AsBefore), 1 => Just(Offer::Objects)];
    let calls = prop_oneof![4 => Just(Calls::FilterThenPrioritize), 1 => Just(Calls::PrioritizeAlone)];
    let before = prop_oneof![4 => Just(None), 6 => change().prop_map(Some)];
    let during = prop_oneof![5 => Just(BTreeSet::new()), 1 => nodes()];
    let between = prop_oneof![5 => Just(BTreeSet::new()), 1 => nodes()];
    let tables = select(vec![Tables::Awaited, Tables::AsTheyAre]);
    (offered, (offer, calls), before, during, between, tables, counts::news()).prop_map(
        |(offered, (offer, calls), before, during, between, tables, news)| Round {
            sibling: Sibling::Same,
            offered,
            offer,
            calls,
            before,
            during,
            between,
            tables,
            news,
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    let replaced = vec(0..KNOWN, 2..=5).prop_map(|nodes| {
        let mut seen = BTreeSet::new();
        nodes.into_iter().filter(|node| seen.insert(*node)).collect::<Vec<Node>>()
    });
    prop_oneof![
        6 => nodes().prop_map(Change::Rows),
        3 => replaced.prop_map(Change::Replaced),
        1 => Just(Change::Rules),
        1 => Just(Change::Args),
    ]
}

fn nodes() -> impl Strategy<Value = BTreeSet<Node>> {
    vec(0..KNOWN, 1..=4).prop_map(BTreeSet::from_iter)
}

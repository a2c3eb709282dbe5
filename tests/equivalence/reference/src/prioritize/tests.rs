use std::collections::BTreeSet;

use super::*;
use crate::model::{Failing, Interest, Mode, Prefix, ScoreRule};

fn score(weight: u32, normalize: Normalize, scores: &[i32]) -> Score {
    Score {
        weight,
        normalize,
        best: Best::Largest,
        range: (None, None),
        rule: ScoreRule::PerNode(scores.to_vec()),
        failing: Failing::Never,
        blind: BTreeSet::new(),
    }
}

fn list(scores: Vec<Score>, offered: &[Node]) -> Vec<(Node, i64)> {
    let extenders: Vec<_> = scores.into_iter().map(|score| extender(Some(score))).collect();
    list_of(&extenders, offered)
}

/// An extender with or without `prioritizeVerb`.
fn extender(score: Option<Score>) -> Extender {
    let (mode, interest) = (Mode::Enforce, Interest::default());
    Extender { name: "e".into(), mode, interest, filter: None, score, preempt: None }
}

fn list_of(extenders: &[Extender], offered: &[Node]) -> Vec<(Node, i64)> {
    let differences = Differences { prefix: Prefix::None, exempt: BTreeSet::new() };
    prioritize(extenders, (&Pod::default(), &differences), offered).list
}

#[test]
fn plain_scores_are_weighed_and_added_at_every_place() {
    let scores = vec![score(2, Normalize::None, &[7, 0, 1]), score(1, Normalize::None, &[3, 3, 3])];
    assert_eq!(list(scores, &[0, 1, 0]), [(0, 17), (1, 3), (0, 17)]);
}

#[test]
fn sums_are_rounded_once_half_away_from_zero() {
    let quarter = || score(1, Normalize::Max, &[1, 4]);
    assert_eq!(list(vec![quarter()], &[0, 1]), [(0, 3), (1, 10)]);
    assert_eq!(list(vec![quarter(), quarter()], &[0, 1]), [(0, 5), (1, 20)]);
    let below = score(1, Normalize::Max, &[-1, 4]);
    assert_eq!(list(vec![below], &[0, 1]), [(0, -3), (1, 10)]);
}

#[test]
fn a_reversed_score_counts_from_the_other_end() {
    let mut reversed = score(1, Normalize::MinMax, &[1, 3, 2]);
    reversed.best = Best::Least;
    assert_eq!(list(vec![reversed], &[0, 1, 2]), [(0, 10), (1, 0), (2, 5)]);
}

#[test]
fn a_failure_is_left_out_and_zeros_are_listed() {
    let mut failing = score(1, Normalize::None, &[9, 9]);
    failing.failing = Failing::Beyond(1);
    assert_eq!(list(vec![failing.clone()], &[0, 1]), []);
    assert_eq!(list(vec![failing, score(1, Normalize::None, &[0, 0])], &[0, 1]), [(0, 0), (1, 0)]);
}

#[test]
fn an_interested_extender_without_the_verb_lists_every_node() {
    let without = || extender(None);
    assert_eq!(list_of(&[without()], &[0, 1, 0]), [(0, 0), (1, 0), (0, 0)]);
    let mut failing = score(1, Normalize::None, &[9, 9]);
    failing.failing = Failing::Always;
    assert_eq!(list_of(&[extender(Some(failing)), without()], &[0, 1]), [(0, 0), (1, 0)]);
    let mut blind = score(1, Normalize::None, &[3, 4]);
    blind.blind = BTreeSet::from([1]);
    assert_eq!(list_of(&[extender(Some(blind.clone()))], &[0, 1]), [(0, 3)]);
    assert_eq!(list_of(&[extender(Some(blind)), without()], &[0, 1]), [(0, 3), (1, 0)]);
    let mut shadow = without();
    shadow.mode = Mode::Shadow;
    let mut uninterested = without();
    uninterested.interest.resources = BTreeSet::from(["example.com/gpu".to_owned()]);
    assert_eq!(list_of(&[shadow, uninterested], &[0, 1]), []);
}

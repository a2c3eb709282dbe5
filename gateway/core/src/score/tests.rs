use num_bigint::BigInt;
use proptest::prelude::*;

use super::*;

const LARGEST: Direction = Direction::LargestIsBest;
const LEAST: Direction = Direction::LeastIsBest;

fn ballot(normalization: Normalization, weight: u32, scores: &[i32]) -> Ballot {
    let range = Range { least: Some(-10), largest: Some(10) };
    Ballot { weight, normalization, range, nodes: None, scores: scores.into() }
}

#[test]
fn each_normalization_follows_its_formula() {
    for (normalization, scores, expected) in [
        (Normalization::None, [-3, 0, 12], [-3, 0, 12]),
        (Normalization::Range(LARGEST), [-10, 0, 10], [0, 5, 10]),
        (Normalization::Range(LEAST), [-10, 0, 10], [10, 5, 0]),
        (Normalization::Max(LARGEST), [0, 50, 200], [0, 3, 10]),
        (Normalization::Max(LARGEST), [-20, 10, 20], [-10, 5, 10]),
        (Normalization::Max(LARGEST), [-5, -3, 0], [0, 0, 0]),
        (Normalization::Max(LEAST), [-5, -3, 0], [10, 10, 10]),
        (Normalization::MinMax(LARGEST), [-5, 0, 15], [0, 3, 10]),
        (Normalization::MinMax(LEAST), [-5, 0, 15], [10, 8, 0]),
        (Normalization::MinMax(LARGEST), [7, 7, 7], [0, 0, 0]),
    ] {
        let totals = totals(3, &[&ballot(normalization, 1, &scores)]);
        assert_eq!(totals, expected.map(Some), "{normalization:?} {scores:?}");
    }
}

#[test]
fn the_sum_is_rounded_once() {
    // A third and two thirds: rounded apart they would be 0 + 1, 1 + 0.
    let first = ballot(Normalization::MinMax(LARGEST), 1, &[0, 1, 30]);
    let second = ballot(Normalization::MinMax(LARGEST), 1, &[0, 2, 30]);
    assert_eq!(totals(3, &[&first, &second]), [Some(0), Some(1), Some(20)]);
}

#[test]
fn half_is_rounded_away_from_zero() {
    let scores = ballot(Normalization::Max(LARGEST), 1, &[1, -1, 20]);
    assert_eq!(totals(3, &[&scores]), [Some(1), Some(-1), Some(10)]);
}

/// As integers of 64 and of 128 bits, above and below.
#[test]
fn a_total_is_bounded() {
    for (direction, expected) in [(LEAST, LARGEST_TOTAL), (LARGEST, -LARGEST_TOTAL)] {
        let scores = ballot(Normalization::Max(direction), 1_000_000, &[i32::MIN, 1]);
        for ballots in [44, 440] {
            assert_eq!(totals(2, &vec![&scores; ballots])[0], Some(expected), "{direction:?} {ballots}");
        }
    }
}

#[test]
fn a_node_without_scores_has_no_total_and_zeros_have_one() {
    let mut partial = ballot(Normalization::None, 3, &[0, 2]);
    partial.nodes = Some(vec![0, 2]);
    assert_eq!(totals(3, &[&partial]), [Some(0), None, Some(6)]);
    assert_eq!(totals(2, &[]), [None, None]);
}

#[test]
fn scores_outside_the_declared_range_are_clamped_and_counted() {
    let mut scores = [-11, -10, 3, 11];
    assert_eq!(Range { least: Some(-10), largest: Some(10) }.clamp(&mut scores), 2);
    assert_eq!(scores, [-10, -10, 3, 10]);
    assert_eq!(Range::default().clamp(&mut [i32::MIN, i32::MAX]), 0);
}

/// The reference: fractions of unbounded integers, added one by one.
fn by_the_book(count: usize, ballots: &[Ballot]) -> Vec<Option<i64>> {
    let fraction = |ballot: &Ballot, score: i32| {
        let least = i64::from(*ballot.scores.iter().min().unwrap());
        let largest = i64::from(*ballot.scores.iter().max().unwrap());
        let (lo, hi) = (i64::from(ballot.range.least.unwrap()), i64::from(ballot.range.largest.unwrap()));
        let (from, span, direction) = match ballot.normalization {
            Normalization::None => return (BigInt::from(score), BigInt::from(1)),
            Normalization::Range(direction) => (lo, hi - lo, direction),
            Normalization::Max(direction) => (0, largest, direction),
            Normalization::MinMax(direction) => (least, largest - least, direction),
        };
        let (above, below) = match span {
            1.. => (BigInt::from(10 * (i64::from(score) - from)), BigInt::from(span)),
            _ => (BigInt::ZERO, BigInt::from(1)),
        };
        if direction == LEAST { (&below * 10 - above, below) } else { (above, below) }
    };
    let node = |at: usize| {
        let mut sum: Option<(BigInt, BigInt)> = None;
        for ballot in ballots {
            let (above, below) = fraction(ballot, ballot.scores[at]);
            let above = above * ballot.weight;
            sum = Some(match sum {
                None => (above, below),
                Some((a, b)) => (a * &below + above * &b, b * below),
            });
        }
        sum.map(|(above, below)| {
            let (two, negative) = (BigInt::from(2), above < BigInt::ZERO);
            let amount = if negative { -above } else { above };
            let rounded = i64::try_from((&two * amount + &below) / (two * below)).unwrap();
            if negative { -rounded } else { rounded }
        })
    };
    (0..count).map(node).collect()
}

fn ballots() -> impl Strategy<Value = (usize, Vec<Ballot>)> {
    let direction = || prop_oneof![Just(LARGEST), Just(LEAST)];
    let normalization = prop_oneof![
        Just(Normalization::None),
        direction().prop_map(Normalization::Range),
        direction().prop_map(Normalization::Max),
        direction().prop_map(Normalization::MinMax),
    ];
    let score = || prop_oneof![-20_i32..20, any::<i32>()];
    (1_usize..5).prop_flat_map(move |count| {
        let range = (score(), score()).prop_filter("a range has two ends", |(a, b): &(i32, i32)| a != b);
        let ballot = (1_u32..=1_000_000, normalization.clone(), range, prop::collection::vec(score(), count));
        let ballot = ballot.prop_map(|(weight, normalization, (a, b), mut scores)| {
            let range = Range { least: Some(a.min(b)), largest: Some(a.max(b)) };
            range.clamp(&mut scores);
            Ballot { weight, normalization, range, nodes: None, scores }
        });
        (Just(count), prop::collection::vec(ballot, 0..9))
    })
}

proptest! {
    #[test]
    fn totals_are_exact((count, ballots) in ballots()) {
        prop_assert_eq!(totals(count, &ballots.iter().collect::<Vec<_>>()), by_the_book(count, &ballots));
    }
}

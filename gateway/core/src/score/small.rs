//! Sums that fit into 64 bits, as nearly all do: usual weights over usual ranges.

use super::{Ballot, LARGEST_TOTAL, Share};

/// A share over the common denominator: offset + slope · s.
struct Scaled {
    offset: i64,
    slope: i64,
}

/// The totals over this common denominator; `None` when a sum, or its double for rounding, could leave 64 bits.
pub(super) fn totals(
    count: usize,
    ballots: &[&Ballot],
    shares: &[Share],
    common: i64,
) -> Option<Vec<Option<i64>>> {
    let scaled: Vec<Scaled> = shares.iter().map(|share| Scaled::of(share, common)).collect::<Option<_>>()?;
    if !fit(ballots, &scaled, common) {
        return None;
    }
    let mut sums = vec![None; count];
    for (ballot, Scaled { offset, slope }) in ballots.iter().zip(scaled) {
        let mut add = |at: usize, score: i32| {
            let sum: &mut Option<i64> = &mut sums[at];
            *sum = Some(sum.unwrap_or(0) + offset + slope * i64::from(score));
        };
        match &ballot.nodes {
            None => ballot.scores.iter().enumerate().for_each(|(at, score)| add(at, *score)),
            Some(nodes) => nodes.iter().zip(&ballot.scores).for_each(|(at, score)| add(*at as usize, *score)),
        }
    }
    let round = |sum: i64| if common == 1 { sum } else { (2 * sum + sum.signum() * common) / (2 * common) };
    let bounded = |sum: i64| round(sum).clamp(-LARGEST_TOTAL, LARGEST_TOTAL);
    Some(sums.into_iter().map(|sum| sum.map(bounded)).collect())
}

impl Scaled {
    fn of(share: &Share, common: i64) -> Option<Self> {
        let factor = i128::from(common) / i128::from(share.denominator);
        let scaled = |number: i128| i64::try_from(number.checked_mul(factor)?).ok();
        Some(Self { offset: scaled(share.offset)?, slope: scaled(share.slope)? })
    }

    /// No value for these scores, nor what it is added up from, is farther from 0.
    fn most(&self, ballot: &Ballot) -> Option<i64> {
        let farthest = ballot.scores.iter().map(|score| i64::from(*score).abs()).max().unwrap_or(0);
        self.offset.checked_abs()?.checked_add(self.slope.checked_abs()?.checked_mul(farthest)?)
    }
}

/// Whether twice the largest sum, and what rounding adds, fits.
fn fit(ballots: &[&Ballot], scaled: &[Scaled], common: i64) -> bool {
    let largest = ballots
        .iter()
        .zip(scaled)
        .try_fold(common, |sum, (ballot, share)| share.most(ballot).and_then(|most| most.checked_add(sum)));
    largest.is_some_and(|largest| largest.checked_mul(2).is_some())
}

//! Exact sums of fractions over a common denominator: in 64 bits, as nearly always, otherwise in 128. Backends with wide and
//! unrelated ranges can exceed those, too: four denominators of 32 bits have a common one of 128. Then integers have no bound.

use std::ops::{Add, Div, Mul, Sub};

use num_bigint::BigInt;

use super::{Ballot, LARGEST_TOTAL, Share};

/// An integer in which all sums fit.
trait Integer:
    Clone
    + From<i64>
    + TryInto<i64>
    + PartialOrd
    + for<'n> Add<&'n Self, Output = Self>
    + for<'n> Mul<&'n Self, Output = Self>
    + for<'n> Div<&'n Self, Output = Self>
    + for<'n> Sub<&'n Self, Output = Self>
{
}

impl Integer for i64 {}
impl Integer for i128 {}
impl Integer for BigInt {}

/// The fractions of all ballots over a common denominator.
struct Common<N> {
    denominator: N,
    /// For each ballot: offset + slope · s.
    shares: Vec<(N, N)>,
}

/// The total of each node.
pub(super) fn totals(count: usize, ballots: &[&Ballot], shares: &[Share]) -> Vec<Option<i64>> {
    let Some(common) = Common::in_128_bits(shares) else {
        return Common::unbounded(shares).totals(count, ballots);
    };
    match common.in_64_bits(shares) {
        Some(common) => common.totals(count, ballots),
        None => common.totals(count, ballots),
    }
}

impl Common<i128> {
    /// `None` if a number on the way to a total could leave 128 bits.
    fn in_128_bits(shares: &[Share]) -> Option<Self> {
        let denominator = shares.iter().try_fold(1_i128, |common, share| {
            let denominator = i128::from(share.denominator);
            (common / greatest_common_divisor(common, denominator)).checked_mul(denominator)
        })?;
        let scaled = |share: &Share| {
            let factor = denominator / i128::from(share.denominator);
            Some((share.offset.checked_mul(factor)?, share.slope.checked_mul(factor)?))
        };
        let common = Self { denominator, shares: shares.iter().map(scaled).collect::<Option<_>>()? };
        common.largest(shares).map(|_| common)
    }

    /// `None` if a number on the way to a total could leave 64 bits.
    fn in_64_bits(&self, shares: &[Share]) -> Option<Common<i64>> {
        let narrow = |number: i128| i64::try_from(number).ok();
        narrow(self.largest(shares)?)?;
        let share = |(offset, slope): &(i128, i128)| Some((narrow(*offset)?, narrow(*slope)?));
        let shares = self.shares.iter().map(share).collect::<Option<_>>()?;
        Some(Common { denominator: narrow(self.denominator)?, shares })
    }

    /// No number on the way to a total is farther from 0: the sum is doubled for rounding.
    fn largest(&self, shares: &[Share]) -> Option<i128> {
        let sum = self.shares.iter().zip(shares).try_fold(self.denominator, |sum, (scaled, share)| {
            let (offset, slope) = (scaled.0.checked_abs()?, scaled.1.checked_abs()?);
            slope.checked_mul(share.farthest)?.checked_add(offset)?.checked_add(sum)
        })?;
        sum.checked_mul(2)
    }
}

impl Common<BigInt> {
    fn unbounded(shares: &[Share]) -> Self {
        let denominator: BigInt = shares.iter().map(|share| BigInt::from(share.denominator)).product();
        let scaled = |share: &Share| {
            let factor = &denominator / share.denominator;
            (&factor * share.offset, &factor * share.slope)
        };
        Self { shares: shares.iter().map(scaled).collect(), denominator }
    }
}

impl<N: Integer> Common<N> {
    fn totals(&self, count: usize, ballots: &[&Ballot]) -> Vec<Option<i64>> {
        let mut sums: Vec<Option<N>> = vec![None; count];
        for (ballot, (offset, slope)) in ballots.iter().zip(&self.shares) {
            let mut add = |at: usize, score: i32| {
                let share = N::from(score.into()) * slope + offset;
                sums[at] = Some(match sums[at].take() {
                    Some(sum) => sum + &share,
                    None => share,
                });
            };
            match &ballot.nodes {
                None => ballot.scores.iter().enumerate().for_each(|(at, score)| add(at, *score)),
                Some(nodes) => {
                    nodes.iter().zip(&ballot.scores).for_each(|(at, score)| add(*at as usize, *score));
                }
            }
        }
        let doubled = N::from(2) * &self.denominator;
        sums.into_iter().map(|sum| sum.map(|sum| self.round(sum, &doubled))).collect()
    }

    /// The sum as a whole number, half away from zero, bounded to [`LARGEST_TOTAL`]. `doubled` is twice the
    /// denominator.
    fn round(&self, sum: N, doubled: &N) -> i64 {
        let (common, is_negative) = (&self.denominator, sum < N::from(0));
        let rounded = match (*common == N::from(1), is_negative) {
            (true, _) => sum,
            // Division rounds towards zero.
            (false, true) => (sum * &N::from(2) - common) / doubled,
            (false, false) => (sum * &N::from(2) + common) / doubled,
        };
        let beyond = if is_negative { -LARGEST_TOTAL } else { LARGEST_TOTAL };
        rounded.try_into().map_or(beyond, |total: i64| total.clamp(-LARGEST_TOTAL, LARGEST_TOTAL))
    }
}

fn greatest_common_divisor(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

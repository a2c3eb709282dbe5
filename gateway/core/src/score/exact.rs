//! Exact sums of fractions: over a common denominator in 128 bits where it fits, which it does unless
//! several backends declare wide and unrelated ranges, otherwise in arbitrary-precision integers.

use num_bigint::BigInt;

use super::LARGEST_TOTAL;

/// The arithmetic for one call: the common denominator of all fractions that will be added.
pub(super) enum Exact {
    Narrow { denominator: i128 },
    Wide { denominator: BigInt },
}

/// The factor that brings a numerator to the common denominator.
pub(super) enum Factor {
    Narrow(i128),
    Wide(BigInt),
}

/// A sum over the common denominator.
#[derive(Clone)]
pub(super) enum Sum {
    Narrow(i128),
    Wide(BigInt),
}

impl Exact {
    /// For sums of one fraction of each of these kinds: (largest amount of a numerator, denominator).
    pub(super) fn over(fractions: impl Iterator<Item = (i128, u64)> + Clone) -> Self {
        match narrow(fractions.clone()) {
            Some(denominator) => Self::Narrow { denominator },
            None => Self::Wide {
                denominator: fractions.map(|(_, denominator)| BigInt::from(denominator)).product(),
            },
        }
    }

    /// The common denominator, where it fits into 64 bits.
    pub(super) fn in_64_bits(&self) -> Option<i64> {
        match self {
            Self::Narrow { denominator } => i64::try_from(*denominator).ok(),
            Self::Wide { .. } => None,
        }
    }

    /// The factor for numerators over `denominator`, one of those given to [`Exact::over`].
    pub(super) fn factor(&self, denominator: u64) -> Factor {
        match self {
            Self::Narrow { denominator: common } => Factor::Narrow(common / i128::from(denominator)),
            Self::Wide { denominator: common } => Factor::Wide(common / denominator),
        }
    }

    /// Adds a fraction to a sum; `None` is a sum of nothing.
    pub(super) fn add(sum: &mut Option<Sum>, numerator: i128, factor: &Factor) {
        let fraction = match factor {
            Factor::Narrow(factor) => Sum::Narrow(numerator * factor),
            Factor::Wide(factor) => Sum::Wide(factor * numerator),
        };
        *sum = Some(match (sum.take(), fraction) {
            (None, fraction) => fraction,
            (Some(Sum::Narrow(a)), Sum::Narrow(b)) => Sum::Narrow(a + b),
            (Some(a), b) => Sum::Wide(a.widened() + b.widened()),
        });
    }

    /// The sum as a whole number, half away from zero, bounded to [`LARGEST_TOTAL`].
    pub(super) fn round(&self, sum: Sum) -> i64 {
        match (self, sum) {
            (Self::Narrow { denominator }, Sum::Narrow(sum)) => {
                let rounded = (2 * sum + sum.signum() * denominator) / (2 * denominator);
                bounded(i64::try_from(rounded).ok(), sum < 0)
            }
            (Self::Narrow { denominator }, sum) => round_wide(&sum.widened(), &BigInt::from(*denominator)),
            (Self::Wide { denominator }, sum) => round_wide(&sum.widened(), denominator),
        }
    }
}

impl Sum {
    fn widened(self) -> BigInt {
        match self {
            Self::Narrow(sum) => BigInt::from(sum),
            Self::Wide(sum) => sum,
        }
    }
}

/// The least common denominator, if no sum over it can leave 128 bits, doubling for rounding included.
fn narrow(fractions: impl Iterator<Item = (i128, u64)> + Clone) -> Option<i128> {
    let common = fractions.clone().try_fold(1_i128, |common, (_, denominator)| {
        let denominator = i128::from(denominator);
        (common / greatest_common_divisor(common, denominator)).checked_mul(denominator)
    })?;
    let largest_sum = fractions.into_iter().try_fold(common, |sum, (largest, denominator)| {
        largest.checked_mul(common / i128::from(denominator)).and_then(|share| sum.checked_add(share))
    })?;
    largest_sum.checked_mul(4).map(|_| common)
}

fn greatest_common_divisor(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Truncating division rounds towards zero, so half the denominator is added away from zero.
fn round_wide(sum: &BigInt, denominator: &BigInt) -> i64 {
    let negative = sum < &BigInt::ZERO;
    let half = if negative { -denominator } else { denominator.clone() };
    let rounded: BigInt = (sum * 2 + half) / (denominator * 2);
    bounded(i64::try_from(&rounded).ok(), negative)
}

fn bounded(total: Option<i64>, negative: bool) -> i64 {
    let beyond = if negative { -LARGEST_TOTAL } else { LARGEST_TOTAL };
    total.map_or(beyond, |total| total.clamp(-LARGEST_TOTAL, LARGEST_TOTAL))
}

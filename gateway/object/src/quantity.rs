//! Kubernetes quantities ("100m", "1Gi", "1e3", "0.5"), by the rules of apimachinery's `resource.Quantity`.
//!
//! A [`Quantity`] is a whole number of nanos, the finest unit that apimachinery keeps: finer amounts are rounded
//! away from zero when they are parsed, as in `ParseQuantity`. Amounts beyond 2^127 nanos (1.7e29) saturate; the
//! `i64` values derived from them saturate long before.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

/// Nanos in one whole unit, and in a thousandth of one.
const NANOS: i128 = 1_000_000_000;
const NANOS_A_MILLI: i128 = 1_000_000;
/// A whole unit is ten to this power of nanos.
const NANO_DIGITS: i64 = 9;

/// An amount of a resource, exact to the nano. Sums saturate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    nanos: i128,
}

/// A text that is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid quantity {0:?}: expected a number with one of the suffixes n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, \
     Ti, Pi, Ei, or an exponent, such as 100m, 2, 1.5Gi or 1e3"
)]
pub struct QuantityError(String);

impl Quantity {
    /// Parses a quantity. Mirrors `resource.ParseQuantity`, including its leniency: `.5`, `5.`, `+1`, and a sign,
    /// point or suffix without digits, which is zero.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = QuantityParts::split(text).ok_or_else(|| QuantityError(text.to_owned()))?;
        Ok(Self { nanos: parts.nanos() })
    }

    /// A number of whole units.
    pub const fn of(whole: i64) -> Self {
        Self { nanos: whole as i128 * NANOS }
    }

    /// A number of thousandths.
    pub const fn of_milli(milli: i64) -> Self {
        Self { nanos: milli as i128 * NANOS_A_MILLI }
    }

    /// Thousandths, rounded away from zero, saturating. Mirrors `Quantity.MilliValue`, which wraps or returns 0
    /// where this saturates.
    pub fn milli_value(self) -> i64 {
        saturate(divide_away_from_zero(self.nanos, NANOS_A_MILLI))
    }

    /// Whole units, rounded away from zero, saturating. Mirrors `Quantity.Value`, which wraps or returns 0 where
    /// this saturates.
    pub fn value(self) -> i64 {
        saturate(divide_away_from_zero(self.nanos, NANOS))
    }

    /// The sum, exact unless it saturates: rounding comes last, as in `Quantity.Add`.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { nanos: self.nanos.saturating_add(other.nanos) }
    }
}

fn divide_away_from_zero(amount: i128, unit: i128) -> i128 {
    amount / unit + (amount % unit).signum()
}

fn saturate(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX })
}

struct QuantityParts<'t> {
    negative: bool,
    whole: &'t [u8],
    fraction: &'t [u8],
    scale: Scale,
}

#[derive(Clone, Copy)]
enum Scale {
    Decimal(i64),
    Binary(u32),
}

impl<'t> QuantityParts<'t> {
    /// Splits `<sign><digits>.<digits><suffix>`. Each part may be absent, but not all of them.
    fn split(text: &'t str) -> Option<Self> {
        let text = text.as_bytes();
        let (negative, unsigned) = match text.first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, rest) = split_digits(unsigned);
        let (fraction, suffix) = rest.strip_prefix(b".").map_or((&[][..], rest), split_digits);
        Some(Self { negative, whole, fraction, scale: Scale::of_suffix(suffix)? })
    }

    fn nanos(&self) -> i128 {
        let magnitude = match self.scale {
            Scale::Decimal(exponent) => self.decimal_nanos(exponent),
            Scale::Binary(exponent) => self.binary_nanos(exponent),
        };
        let magnitude = i128::try_from(magnitude).unwrap_or(i128::MAX);
        if self.negative { -magnitude } else { magnitude }
    }

    /// Shifts the decimal point to nanos; a non-zero digit after that rounds up.
    fn decimal_nanos(&self, exponent: i64) -> u128 {
        let length = |digits: &[u8]| i64::try_from(digits.len()).unwrap_or(i64::MAX);
        let point = length(self.whole).saturating_add(exponent).saturating_add(NANO_DIGITS);
        let kept = usize::try_from(point).unwrap_or(0);
        let digits = || self.whole.iter().chain(self.fraction).copied();
        let amount = digits().take(kept).fold(0, append_digit);
        let missing = kept.saturating_sub(self.whole.len() + self.fraction.len());
        let rest = digits().skip(kept).any(|digit| digit != b'0');
        shift_left(amount, missing).saturating_add(u128::from(rest))
    }

    /// The whole digits times the factor, plus the fraction's digits times the factor, rounded up once.
    fn binary_nanos(&self, exponent: u32) -> u128 {
        // At most 2^60 * 10^9 < 2^90, so that ten times it fits easily.
        let factor = (1_u128 << exponent) * NANOS.unsigned_abs();
        let whole = self.whole.iter().copied().fold(0, append_digit).saturating_mul(factor);
        let (fraction, rest) = self.fraction.iter().rev().fold((0, false), |(behind, rest), digit| {
            let amount = behind + u128::from(digit - b'0') * factor;
            (amount / 10, rest || !amount.is_multiple_of(10))
        });
        whole.saturating_add(fraction).saturating_add(u128::from(rest))
    }
}

fn split_digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

fn append_digit(amount: u128, digit: u8) -> u128 {
    amount.saturating_mul(10).saturating_add(u128::from(digit - b'0'))
}

/// Appends this many zeros. Zero stays zero, however far it is shifted.
fn shift_left(amount: u128, places: usize) -> u128 {
    if amount == 0 {
        return 0;
    }
    let factor = u32::try_from(places).ok().and_then(|places| 10_u128.checked_pow(places));
    factor.map_or(u128::MAX, |factor| amount.saturating_mul(factor))
}

impl Scale {
    /// Mirrors apimachinery's `suffixHandler.interpret`; `E` alone is a suffix, followed by digits an exponent.
    fn of_suffix(suffix: &[u8]) -> Option<Self> {
        let scale = match suffix {
            b"n" => Self::Decimal(-9),
            b"u" => Self::Decimal(-6),
            b"m" => Self::Decimal(-3),
            b"" => Self::Decimal(0),
            b"k" => Self::Decimal(3),
            b"M" => Self::Decimal(6),
            b"G" => Self::Decimal(9),
            b"T" => Self::Decimal(12),
            b"P" => Self::Decimal(15),
            b"E" => Self::Decimal(18),
            b"Ki" => Self::Binary(10),
            b"Mi" => Self::Binary(20),
            b"Gi" => Self::Binary(30),
            b"Ti" => Self::Binary(40),
            b"Pi" => Self::Binary(50),
            b"Ei" => Self::Binary(60),
            [b'e' | b'E', exponent @ ..] => Self::Decimal(std::str::from_utf8(exponent).ok()?.parse().ok()?),
            _ => return None,
        };
        Some(scale)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(QuantityVisitor)
    }
}

/// Mirrors `Quantity.UnmarshalJSON`: a string or a number; surrounding space is ignored.
struct QuantityVisitor;

impl Visitor<'_> for QuantityVisitor {
    type Value = Quantity;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a quantity such as \"100m\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        Quantity::parse(text.trim()).map_err(E::custom)
    }

    fn visit_u64<E: Error>(self, whole: u64) -> Result<Quantity, E> {
        Ok(Quantity { nanos: i128::from(whole) * NANOS })
    }

    fn visit_i64<E: Error>(self, whole: i64) -> Result<Quantity, E> {
        Ok(Quantity::of(whole))
    }

    /// The shortest text of this number is the original text or equivalent to it.
    fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_unit<E: Error>(self) -> Result<Quantity, E> {
        Ok(Quantity::default())
    }
}

#[cfg(test)]
mod tests;

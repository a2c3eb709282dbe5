//! Quantities, compared with arithmetic without limits.

use extender_gateway_object::quantity::Quantity;
use num_bigint::BigInt;

/// Longer texts are not compared, in bytes.
const LONGEST: usize = 1000;
/// Powers of ten beyond this one are not computed: more than the digits of a text can make up for.
const LARGEST_POWER: u32 = 2000;

/// A text is refused by both, or has the same values, rounded away from zero and saturated, alone and as a sum.
pub fn quantity(bytes: &[u8]) {
    let Some(text) = str::from_utf8(bytes).ok().filter(|text| text.len() <= LONGEST) else { return };
    match (Quantity::parse(text), Exact::parse(text)) {
        (Ok(quantity), Some(exact)) => {
            assert_eq!(quantity.milli_value(), exact.value(1000), "{text:?}");
            assert_eq!(quantity.value(), exact.value(1), "{text:?}");
        }
        (Err(error), None) => assert!(error.to_string().contains("100m"), "{error}"),
        (read, exact) => panic!("{text:?}: {read:?}, expected {}", exact.is_some()),
    }
    if let Ok(quantity) = Quantity::parse(text) {
        let zero = Quantity::default();
        assert_eq!(quantity.plus(zero), quantity);
        assert_eq!(quantity.plus(quantity).value() < 0, quantity < zero);
    }
}

/// `numerator / 10^below`
struct Exact {
    numerator: BigInt,
    below: u32,
}

impl Exact {
    /// `None` if it is not a quantity.
    fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        if text.is_empty() {
            return None;
        }
        let end = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (whole, rest) = unsigned.split_at(end(unsigned));
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => rest.split_at(end(rest)),
            None => ("", rest),
        };
        let digits: BigInt = format!("0{whole}{fraction}").parse().expect("digits are a number");
        let digits = if text.starts_with('-') { -digits } else { digits };
        let (factor, places) = factor(suffix)?;
        let below = places + u32::try_from(fraction.len()).ok()?;
        Some(Self { numerator: digits * factor, below })
    }

    /// In these parts of a unit.
    fn value(&self, units: u32) -> i64 {
        let numerator: BigInt = &self.numerator * units;
        let denominator = BigInt::from(10).pow(self.below);
        let magnitude = BigInt::from(numerator.magnitude().clone());
        let magnitude: BigInt = (magnitude + (&denominator - 1)) / denominator;
        let is_negative = numerator < BigInt::from(0);
        let signed = if is_negative { -magnitude } else { magnitude };
        i64::try_from(signed).unwrap_or(if is_negative { i64::MIN } else { i64::MAX })
    }
}

/// The factor of a suffix, and the power of ten below it.
fn factor(suffix: &str) -> Option<(BigInt, u32)> {
    const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let ten = |power: u32| BigInt::from(10).pow(power);
    if let Some(at) = (0_u32..).zip(DECIMAL).find(|(_, known)| *known == suffix) {
        return Some((ten(3 * at.0), 9));
    }
    if let Some(at) = (1_u32..).zip(BINARY).find(|(_, known)| *known == suffix) {
        return Some((BigInt::from(1) << (10 * at.0), 0));
    }
    let exponent: i64 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    let power = u32::try_from(exponent.unsigned_abs()).unwrap_or(u32::MAX).min(LARGEST_POWER);
    Some(if exponent < 0 { (BigInt::from(1), power) } else { (ten(power), 0) })
}

//! Sizes in bytes as the file says them: whole Kubernetes quantities, such as `128Mi`.

use std::fmt;

use super::mistake::echo;

/// Suffixes and their bytes, the larger first. No suffix: bytes.
const SUFFIXES: [(&str, u64); 7] = [
    ("Gi", 1 << 30),
    ("G", 1_000_000_000),
    ("Mi", 1 << 20),
    ("M", 1_000_000),
    ("Ki", 1 << 10),
    ("k", 1_000),
    ("", 1),
];

/// The smallest request body that the door may be limited to: below, an ordinary pod is refused.
const LEAST: u64 = 64 << 10;
/// The largest: above, one call takes more memory than a gateway should have.
const LARGEST: u64 = 1 << 30;

/// What a right size looks like.
pub(super) const EXPECTED: &str = "a size from 64Ki to 1Gi such as 128Mi";

/// Reads a size in bytes, 64 Ki to 1 Gi. Mirrors `resource.ParseQuantity` of `k8s.io/apimachinery` for
/// whole numbers.
pub(super) fn parse(text: &str) -> Result<usize, String> {
    let bytes = bytes(text).ok_or_else(|| format!("{} is not a size", echo(text)))?;
    in_range(bytes).ok_or_else(|| format!("{} is out of range", echo(text)))
}

/// Takes a plain number of bytes, which YAML does not give as text.
pub(super) fn from_number(number: i128) -> Result<usize, String> {
    u64::try_from(number).ok().and_then(in_range).ok_or_else(|| format!("{number} is out of range"))
}

/// The least and the most of the decision log: less holds no call about thousands of nodes.
const LEAST_LOG: u64 = 1 << 20;
const LARGEST_LOG: u64 = 16 << 30;

/// What a right size of the decision log looks like.
pub(super) const LOG_EXPECTED: &str = "a size from 1Mi to 16Gi such as 64Mi, or 0";

/// Reads the size of the decision log.
pub(super) fn parse_log(text: &str) -> Result<usize, String> {
    let bytes = bytes(text).ok_or_else(|| format!("{} is not a size", echo(text)))?;
    log_in_range(bytes).ok_or_else(|| format!("{} is out of range", echo(text)))
}

/// Takes a plain number of bytes.
pub(super) fn log_from_number(number: i128) -> Result<usize, String> {
    u64::try_from(number).ok().and_then(log_in_range).ok_or_else(|| format!("{number} is out of range"))
}

fn log_in_range(bytes: u64) -> Option<usize> {
    usize::try_from(bytes).ok().filter(|_| (LEAST_LOG..=LARGEST_LOG).contains(&bytes))
}

fn in_range(bytes: u64) -> Option<usize> {
    usize::try_from(bytes).ok().filter(|_| (LEAST..=LARGEST).contains(&bytes))
}

fn bytes(text: &str) -> Option<u64> {
    let (number, rest) = leading_digits(text)?;
    let (_, factor) = SUFFIXES.into_iter().find(|(suffix, _)| *suffix == rest)?;
    Some(number.saturating_mul(factor))
}

/// The number that a text begins with, and what follows it. A number too large for the type saturates:
/// whatever reads it refuses it as out of range.
pub(super) fn leading_digits(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    (!digits.is_empty()).then(|| (digits.parse().unwrap_or(u64::MAX), rest))
}

/// Writes a size in bytes as the file says it, with the largest suffix that leaves a whole number.
#[derive(Clone, Copy, Debug)]
pub struct SizeText(pub usize);

impl fmt::Display for SizeText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as u64;
        let whole = |factor: u64| bytes > 0 && bytes.is_multiple_of(factor);
        let (suffix, factor) = SUFFIXES.into_iter().find(|(_, factor)| whole(*factor)).unwrap_or(("", 1));
        write!(out, "{}{suffix}", bytes / factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let cases = [
            ("64Ki", 65_536),
            ("65536", 65_536),
            ("66k", 66_000),
            ("1M", 1_000_000),
            ("128Mi", 134_217_728),
            ("1G", 1_000_000_000),
            ("1Gi", 1_073_741_824),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_size() {
        for text in ["", "Mi", "1.5Gi", "1 Mi", "-1Mi", "1mi", "1K", "1MiB", "1e6", "100m"] {
            assert_eq!(parse(text), Err(format!("{text:?} is not a size")));
        }
    }

    #[test]
    fn sizes_out_of_range() {
        for text in ["0", "65535", "63Ki", "1025Mi", "99999999999999999999Gi"] {
            assert_eq!(parse(text), Err(format!("{text:?} is out of range")));
        }
        assert_eq!(from_number(-1), Err("-1 is out of range".to_owned()));
    }

    #[test]
    fn sizes_are_written_with_the_largest_suffix() {
        let cases =
            [(134_217_728, "128Mi"), (1_000_000, "1M"), (65_537, "65537"), (66_560, "65Ki"), (0, "0")];
        for (bytes, text) in cases {
            assert_eq!(SizeText(bytes).to_string(), text);
        }
    }
}

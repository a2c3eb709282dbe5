//! Sizes in bytes in the file: Kubernetes quantities, such as `128Mi`.

use std::fmt;

use extender_config::{Cursor, Value, echo};

use crate::object::quantity::Quantity;

/// Suffixes that sizes are displayed with and their bytes, the larger first.
const SUFFIXES: [(&str, u64); 7] = [
    ("Gi", 1 << 30),
    ("G", 1_000_000_000),
    ("Mi", 1 << 20),
    ("M", 1_000_000),
    ("Ki", 1 << 10),
    ("k", 1_000),
    ("", 1),
];

/// A size that has limits.
pub(super) struct Range {
    /// Whether 0 is allowed as well.
    zero: Zero,
    least: u64,
    largest: u64,
    /// Describes a valid size.
    right: &'static str,
}

/// What 0 means.
#[derive(PartialEq)]
enum Zero {
    /// A size that is too small.
    TooSmall,
    /// The feature is disabled.
    Off,
}

/// The largest request body: below the range ordinary pods would be rejected, above it one call could use more
/// memory than a gateway should have.
pub(super) const BODY: Range = Range {
    zero: Zero::TooSmall,
    least: 64 << 10,
    largest: 1 << 30,
    right: "a size from 64Ki to 1Gi such as 128Mi",
};
/// The decision log: a smaller one could not hold a call about thousands of nodes.
pub(super) const DECISION_LOG: Range = Range {
    zero: Zero::Off,
    least: 1 << 20,
    largest: 16 << 30,
    right: "a size from 1Mi to 16Gi such as 64Mi, or 0",
};

impl Range {
    /// Reads a size in bytes, which YAML parses as a number if it has no suffix.
    pub(super) fn read(&self, field: &Cursor<'_>) -> Option<usize> {
        match field.value() {
            Value::Integer(number) => field.accepted(self.number(*number), self.right),
            _ => field.parsed(self.right, |text| self.parse(text)),
        }
    }

    fn number(&self, number: i128) -> Result<usize, String> {
        if number == 0 && self.zero == Zero::Off {
            return Ok(0);
        }
        u64::try_from(number)
            .ok()
            .and_then(|bytes| self.within(bytes))
            .ok_or_else(|| format!("{number} is out of range"))
    }

    /// Reads the text of a size.
    pub(super) fn parse(&self, text: &str) -> Result<usize, String> {
        let size = Quantity::parse(text).map_err(|_| format!("{} is not a size", echo(text)))?;
        let bytes = u64::try_from(size.value()).ok();
        bytes.and_then(|bytes| self.within(bytes)).ok_or_else(|| format!("{} is out of range", echo(text)))
    }

    fn within(&self, bytes: u64) -> Option<usize> {
        usize::try_from(bytes).ok().filter(|_| (self.least..=self.largest).contains(&bytes))
    }
}

/// Displays a size in bytes in the file's syntax, with the largest suffix that leaves a whole number.
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
            ("0.5Gi", 536_870_912),
            ("1e6", 1_000_000),
            ("1G", 1_000_000_000),
            ("1Gi", 1_073_741_824),
        ];
        for (text, bytes) in cases {
            assert_eq!(BODY.parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_size() {
        for text in ["", "1 Mi", "1mi", "1K", "1MiB"] {
            assert_eq!(BODY.parse(text), Err(format!("{text:?} is not a size")));
        }
    }

    #[test]
    fn sizes_out_of_range() {
        for text in ["0", "Mi", "-1Mi", "100m", "65535", "63Ki", "1025Mi", "99999999999999999999Gi"] {
            assert_eq!(BODY.parse(text), Err(format!("{text:?} is out of range")));
        }
        assert_eq!(BODY.number(-1), Err("-1 is out of range".to_owned()));
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

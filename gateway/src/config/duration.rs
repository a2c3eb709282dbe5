//! Durations in the file: the whole-number part of Go's syntax, such as `1m30s`.

use std::fmt;
use std::time::Duration;

use extender_config::echo;

/// The longest duration in the file. A scheduler that waits longer for one pod is stuck.
const LONGEST: Duration = Duration::from_hours(1);

/// Units and their milliseconds. `ms` precedes `m`, its prefix.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];

/// Describes a valid duration.
pub(super) const EXPECTED: &str = "a duration from 1ms to 1h such as 200ms, 1s or 1m30s";

/// Reads whole numbers, each with a unit of `h`, `m`, `s` or `ms`, that add up to 1 ms to 1 h. Mirrors
/// Go's `time.ParseDuration`, without signs, fractions and the units below `ms`.
pub(super) fn parse(text: &str) -> Result<Duration, String> {
    let total = milliseconds(text).ok_or_else(|| format!("{} is not a duration", echo(text)))?;
    let duration = Duration::from_millis(total);
    if duration.is_zero() || duration > LONGEST {
        return Err(format!("{} is out of range", echo(text)));
    }
    Ok(duration)
}

/// The sum of all parts. `None`: not a duration. Saturates.
fn milliseconds(text: &str) -> Option<u64> {
    let (mut total, mut rest) = part(text)?;
    while !rest.is_empty() {
        let (more, after) = part(rest)?;
        total = total.saturating_add(more);
        rest = after;
    }
    Some(total)
}

/// The first number with its unit, in milliseconds, and what follows it.
fn part(text: &str) -> Option<(u64, &str)> {
    let (digits, rest) = leading_digits(text)?;
    let (unit, factor) = UNITS.into_iter().find(|(unit, _)| rest.starts_with(unit))?;
    Some((digits.saturating_mul(factor), &rest[unit.len()..]))
}

/// Displays a duration of whole milliseconds in the file's syntax.
#[derive(Clone, Copy, Debug)]
pub struct DurationText(pub Duration);

impl fmt::Display for DurationText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(duration) = self;
        if duration.is_zero() {
            return out.write_str("0s");
        }
        let seconds = duration.as_secs();
        let parts = [
            (seconds / 3600, "h"),
            (seconds / 60 % 60, "m"),
            (seconds % 60, "s"),
            (u64::from(duration.subsec_millis()), "ms"),
        ];
        parts
            .iter()
            .filter(|(number, _)| *number > 0)
            .try_for_each(|(number, unit)| write!(out, "{number}{unit}"))
    }
}

/// The number at the start of a text, and the rest. Saturates: callers reject it as out of range.
fn leading_digits(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    (!digits.is_empty()).then(|| (digits.parse().unwrap_or(u64::MAX), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let cases = [
            ("1ms", 1),
            ("200ms", 200),
            ("1s", 1_000),
            ("1m30s", 90_000),
            ("1s1s", 2_000),
            ("60m", 3_600_000),
            ("1h", 3_600_000),
            ("0h0m1s", 1_000),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_duration() {
        for text in ["", "1", "s", "1 s", "-1s", "+1s", "1.5s", "1d", "1us", "1S", "1s2", "s1", "١s"] {
            assert_eq!(parse(text), Err(format!("{text:?} is not a duration")));
        }
    }

    #[test]
    fn durations_out_of_range() {
        for text in ["0s", "0ms", "1h1ms", "99999999999999999999h", "18446744073709551615ms1ms"] {
            assert_eq!(parse(text), Err(format!("{text:?} is out of range")));
        }
    }

    #[test]
    fn durations_are_written_in_whole_parts() {
        for text in ["1h", "1m30s", "1s500ms", "200ms"] {
            assert_eq!(DurationText(parse(text).unwrap()).to_string(), text);
        }
    }
}

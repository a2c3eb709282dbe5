//! Durations as Go writes them: `1m30s`, `1.5h`, `100ms`.

use std::time::Duration;

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// As `time.ParseDuration`, without a sign; `None` if the text is something else, or longer than a year.
pub fn parse(text: &str) -> Option<Duration> {
    const YEAR: u64 = 365 * 24 * 3_600 * 1_000_000_000;
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut sum) = (text, 0_u64);
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit() && c != '.')?);
        let unit = &after[..after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len())];
        let (_, nanoseconds) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        sum = sum.checked_add(part(number, nanoseconds)?)?;
        rest = &after[unit.len()..];
    }
    (!text.is_empty() && sum <= YEAR).then(|| Duration::from_nanos(sum))
}

/// A number with at most one point, and a digit, times its unit.
fn part(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let scaled = fraction.bytes().take(15).try_fold((0_u128, 1_u128), |(value, scale), digit| {
        Some((value * 10 + u128::from(digit.checked_sub(b'0')?), scale * 10))
    });
    let (value, scale) = scaled?;
    let fraction = u64::try_from(value * u128::from(unit) / scale).ok()?;
    whole.checked_mul(unit)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, nanoseconds) in [
            ("0", 0),
            ("0s", 0),
            ("5s", 5_000_000_000),
            ("100ms", 100_000_000),
            ("1m30s", 90_000_000_000),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("1h1ns", 3_600_000_000_001),
            ("2us3µs", 5_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_nanos(nanoseconds)), "{text}");
        }
        for text in
            ["", "5", "s", ".s", "5 s", "-1s", "1d", "1..5s", "1.2.3s", "9999999999h", "8761h", "5sec"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}

//! Texts for people: numbers, times and names in sentences and tables. Names and reasons are untrusted: everything
//! passes through [`clean()`] before it reaches a terminal.

mod table;

use std::borrow::Cow;

use jiff::Timestamp;

pub use self::table::Table;

/// Displayed if there is no value.
pub const NOTHING: &str = "-";

/// The text on one line, with special characters escaped: control characters, line and paragraph separators, and
/// characters that change the writing direction.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_special) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        if is_special(character) {
            clean.extend(character.escape_unicode());
        } else {
            clean.push(character);
        }
    }
    Cow::Owned(clean)
}

fn is_special(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{61c}' | '\u{feff}')
}

/// A whole number with commas: `5,000`.
pub fn number(number: impl Into<u64>) -> String {
    let digits = number.into().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 node`, `2 nodes`. `what` is a noun with a regular plural.
pub fn counted(count: impl Into<u64>, what: &str) -> String {
    let count = count.into();
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", number(count))
}

/// A number with at most two decimals: `3.33`, `7`.
pub fn trimmed(number: f64) -> String {
    let text = format!("{number:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// A share from 0 to 1 as a percentage: `12 %`.
pub fn share(share: f64) -> String {
    let percent = share * 100.0;
    // A small share must not look like 0.
    if percent > 0.0 && percent < 1.0 { "< 1 %".to_owned() } else { format!("{percent:.0} %") }
}

/// A duration in seconds: `80 µs`, `1.2 ms`, `200 ms`, `3.5 s`.
pub fn duration(seconds: f64) -> String {
    let milliseconds = seconds * 1e3;
    match seconds {
        ..0.001 => format!("{:.0} µs", seconds * 1e6),
        ..0.1 => format!("{} ms", one_decimal(milliseconds)),
        ..0.9995 => format!("{milliseconds:.0} ms"),
        _ => format!("{} s", one_decimal(seconds)),
    }
}

fn one_decimal(number: f64) -> String {
    let text = format!("{number:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// A size: `64 MiB`, `1.5 KiB`, `12 bytes`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [(u32, &str); 3] = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let Some((shift, unit)) = UNITS.into_iter().find(|(shift, _)| bytes >> shift > 0) else {
        return counted(bytes, "byte");
    };
    #[expect(clippy::cast_precision_loss, reason = "one decimal of it is shown")]
    let amount = bytes as f64 / f64::from(1_u32 << shift);
    format!("{} {unit}", one_decimal(amount))
}

/// A point in time, to the second: `2026-11-21 23:05:27 UTC`.
pub fn moment(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// The time from `time` to `now` in its two largest units: `12 s ago`, `3 h 5 min ago`. Clocks of machines differ a
/// little: a time in the future counts as now.
pub fn ago(time: Timestamp, now: Timestamp) -> String {
    format!("{} ago", lasted(time, now))
}

/// The time from one moment to a later one: `12 s`, `4 min 0 s`, `3 h 5 min`, `2 d 1 h`.
pub fn lasted(since: Timestamp, now: Timestamp) -> String {
    age(u64::try_from(now.as_second().saturating_sub(since.as_second())).unwrap_or_default())
}

/// A time in seconds, as by [`lasted`].
pub fn age(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_escaped() {
        for (given, expected) in [
            ("zone is drained", "zone is drained"),
            ("größer → 節点", "größer → 節点"),
            ("\u{1b}[2Jgone", "\\u{1b}[2Jgone"),
            ("two\nlines", "two\\u{a}lines"),
            ("c1\u{9b}31m", "c1\\u{9b}31m"),
            ("\u{202e}desrever", "\\u{202e}desrever"),
            ("a\u{200b}b", "a\\u{200b}b"),
        ] {
            assert_eq!(clean(given), expected);
        }
    }

    #[test]
    fn numbers() {
        let written = [0_u64, 7, 999, 1_000, 12_345, 1_234_567].map(number);
        assert_eq!(written, ["0", "7", "999", "1,000", "12,345", "1,234,567"]);
        assert_eq!([counted(1_u32, "node"), counted(5_000_u32, "node")], ["1 node", "5,000 nodes"]);
        let written = [0.0, -0.001, 10.0, 3.333_33, 2.5, -1.0].map(trimmed);
        assert_eq!(written, ["0", "0", "10", "3.33", "2.5", "-1"]);
        assert_eq!([0.0, 0.001, 0.125, 1.0].map(share), ["0 %", "< 1 %", "12 %", "100 %"]);
    }

    #[test]
    fn durations_and_sizes() {
        let written = [0.0, 0.000_08, 0.001_23, 0.05, 0.2, 0.9999, 3.52, 75.0].map(duration);
        assert_eq!(written, ["0 µs", "80 µs", "1.2 ms", "50 ms", "200 ms", "1 s", "3.5 s", "75 s"]);
        let written = [0, 1, 1023, 1536, 64 << 20, 3 << 30].map(bytes);
        assert_eq!(written, ["0 bytes", "1 byte", "1,023 bytes", "1.5 KiB", "64 MiB", "3 GiB"]);
    }

    #[test]
    fn times() {
        let now: Timestamp = "2026-11-21T23:05:27.6Z".parse().unwrap();
        assert_eq!(moment(now), "2026-11-21 23:05:27 UTC");
        for (time, expected) in [
            ("2026-11-21T23:05:27Z", "0 s ago"),
            ("2026-11-21T23:06:00Z", "0 s ago"),
            ("2026-11-21T23:04:28Z", "59 s ago"),
            ("2026-11-21T23:03:14Z", "2 min 13 s ago"),
            ("2026-11-21T20:00:00Z", "3 h 5 min ago"),
            ("2026-11-19T20:00:00Z", "2 d 3 h ago"),
        ] {
            assert_eq!(ago(time.parse().unwrap(), now), expected, "{time}");
        }
    }
}

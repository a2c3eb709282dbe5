//! How the gateway changes a reason, deliberately: one short line without `%`.

use crate::model::{Extender, Prefix};

/// The reason for a node that the gateway does not know.
pub const NOT_YET_KNOWN: &str = "node is not yet known to the gateway";

/// The most bytes of a reason, the prefix not counted.
const MOST: usize = 200;

/// A policy's reason as kube-scheduler sees it.
pub fn shown(extender: &Extender, reason: &str, prefix: Prefix) -> String {
    let line = one_line(reason);
    match prefix {
        Prefix::Name => format!("{}: {line}", extender.name),
        Prefix::None => line,
    }
}

/// Words with one space between them; `%` is spelt out, since kube-scheduler uses the text as a format.
pub fn one_line(reason: &str) -> String {
    let spelt = reason.replace('%', " percent ").replace(|c: char| c.is_control(), " ");
    let line = spelt.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.is_empty() {
        return "rejected".to_owned();
    }
    if line.len() <= MOST {
        return line;
    }
    let whole = (0..=MOST - 3).rev().find(|end| line.is_char_boundary(*end)).unwrap_or(0);
    format!("{}...", &line[..whole])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_become_one_short_line() {
        for (given, shown) in [
            ("rack is drained", "rack is drained"),
            (" \n", "rejected"),
            ("50% full", "50 percent full"),
            ("%d%%", "percent d percent percent"),
            ("two\nlines\u{7}", "two lines"),
        ] {
            assert_eq!(one_line(given), shown);
        }
        assert_eq!(one_line(&"é".repeat(150)), format!("{}...", "é".repeat(98)));
        assert_eq!(one_line(&"x".repeat(200)), "x".repeat(200));
        assert_eq!(one_line(&"x".repeat(201)), format!("{}...", "x".repeat(197)));
    }
}

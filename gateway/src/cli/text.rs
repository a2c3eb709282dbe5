//! Texts for people: numbers, times and names in sentences and tables. Names and reasons are untrusted: everything
//! passes through [`clean()`] before it reaches a terminal.

mod amounts;
mod table;

use std::{borrow::Cow, fmt::Write};

pub(super) use self::{
    amounts::{ago, bytes, counted, duration, moment, number, share, trimmed},
    table::{Table, TextColumn},
};

/// Displayed if there is no value.
pub(super) const NOTHING: &str = "-";

/// The text on one line, with special characters escaped: control characters, line and paragraph separators, and
/// characters that change the writing direction.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_obeyed(character) {
            // Writing to a string cannot fail.
            let _ = write!(cleaned, "{}", character.escape_unicode());
        } else {
            cleaned.push(character);
        }
    }
    Cow::Owned(cleaned)
}

fn is_obeyed(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{61c}' | '\u{feff}')
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
}

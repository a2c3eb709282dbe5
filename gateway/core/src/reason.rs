//! Texts that are safe for kube-scheduler.
//!
//! A reason appears in a pod's condition and, as the *format* of a printf-like call, in its event. There a `%` is
//! mangled and can lose the event, a line break splits the condition's message, and a long text repeated for each
//! node displaces the others from the 1024 bytes that an event keeps. Characters that change the direction of text would
//! make `kubectl` show another sentence than the one that is there.

/// The longest text of one reason in bytes, without the prefix.
pub const LONGEST: usize = 200;

/// The text for a reason that a backend left empty: every rejected node has a reason.
pub const UNSAID: &str = "rejected";

/// How many bytes of a text are read beyond its longest line, since they may all be white space.
const MOST_BLANK: usize = 4 << 10;

/// `text` as one line of at most [`LONGEST`] bytes without `%`; [`UNSAID`] when nothing is left.
pub fn clean(text: &str) -> String {
    let mut line = one_line(text, LONGEST);
    if line.is_empty() {
        line.push_str(UNSAID);
    }
    line
}

/// [`clean`] behind the name of the backend, as `name: text`.
pub fn prefixed(backend: &str, text: &str) -> String {
    format!("{backend}: {}", clean(text))
}

/// `text` without line breaks, control characters, characters that change the direction of text, repeated spaces and `%`, cut after `longest` bytes. Time and
/// memory depend on `longest`, not on the length of the text: texts come from callers and backends.
pub fn one_line(text: &str, longest: usize) -> String {
    let start = &text[..text.floor_char_boundary(longest.saturating_add(MOST_BLANK))];
    // A piece of this length is above the longest line even where its last character is cut off.
    let most = longest.saturating_add(4);
    let mut line = String::with_capacity(start.len().min(longest) + 8);
    for word in start.split(|c: char| c.is_whitespace() || c.is_control() || changes_direction(c)) {
        for (at, piece) in word.split('%').enumerate() {
            if at > 0 {
                push_spaced(&mut line, "percent");
            }
            push_spaced(&mut line, &piece[..piece.floor_char_boundary(most)]);
            if line.len() > longest {
                return cut(line, longest);
            }
        }
    }
    if start.len() < text.len() { cut(line, longest) } else { line }
}

/// Whether it is one of Unicode's controls of bidirectional text (`Bidi_Control`).
fn changes_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn push_spaced(line: &mut String, word: &str) {
    if !line.is_empty() && !word.is_empty() {
        line.push(' ');
    }
    line.push_str(word);
}

fn cut(mut line: String, longest: usize) -> String {
    const MARK: &str = "...";
    let end = line.floor_char_boundary(longest.saturating_sub(MARK.len()));
    line.truncate(end);
    line.push_str(MARK);
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_that_would_harm_the_scheduler_are_made_harmless() {
        for (given, expected) in [
            ("rack is being drained", "rack is being drained"),
            ("", "rejected"),
            (" \n\t ", "rejected"),
            ("50% full", "50 percent full"),
            ("%d of %s", "percent d of percent s"),
            ("two\nlines\r\nand\ta tab", "two lines and a tab"),
            ("bell\u{7}and\u{85}next", "bell and next"),
            ("node is \u{202e}ton\u{202c} ready", "node is ton ready"),
            ("\u{61c}a\u{200e}b\u{200f}c\u{202a}d\u{2066}e\u{2069}", "a b c d e"),
        ] {
            assert_eq!(clean(given), expected, "{given:?}");
        }
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let cut = clean(&"ä".repeat(500));
        assert!(cut.len() <= LONGEST && cut.ends_with("ä..."), "{cut}");
        assert_eq!(prefixed("rack-drain", "no"), "rack-drain: no");
    }

    #[test]
    fn a_text_of_any_size_costs_no_more_than_its_line() {
        for (piece, first) in
            [("%", "percent"), ("a", "aaa"), ("ä", "ä"), (" ", "..."), ("a ", "a a"), ("\n%", "percent")]
        {
            let text = piece.repeat(5 << 20);
            let mut line = String::new();
            let used = allocation_counter::measure(|| line = one_line(&text, LONGEST));
            assert!(used.bytes_total < 4 << 10, "{piece:?}: {used:?}");
            assert!(
                line.len() <= LONGEST && line.starts_with(first) && line.ends_with("..."),
                "{piece:?}: {line}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_gets_through_unclean(text in "\\PC{0,300}|[%\\n a]{0,300}") {
            let clean = clean(&text);
            prop_assert!(!clean.is_empty() && clean.len() <= LONGEST);
            prop_assert!(!clean.contains('%') && !clean.chars().any(char::is_control));
            prop_assert!(!clean.chars().any(changes_direction));
        }
    }
}

//! Texts of errors: with their causes, and bounded.

use std::error::Error;

/// The most characters of a text from outside that go into an error.
const LONGEST: usize = 1_000;

/// The beginning of a text from outside: errors are logged and shown in responses.
pub fn bounded(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The error with its causes. Outer texts often hold the next one already, but hide "connection refused".
pub fn whole_text(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let inner = error.to_string();
        if !text.contains(&inner) {
            text.push_str(": ");
            text.push_str(&inner);
        }
        cause = error.source();
    }
    text
}

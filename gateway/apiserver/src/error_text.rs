//! Errors with their causes in one text.

use std::error::Error;

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

//! Reads variables and collects their mistakes.

use std::{fmt::Display, time::Duration};

use percent_encoding::percent_decode_str;

/// The variables, and the mistakes that were found in them.
pub(super) struct Variables<'a> {
    lookup: &'a dyn Fn(&str) -> Option<String>,
    mistakes: Vec<String>,
}

impl<'a> Variables<'a> {
    pub(super) fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { lookup, mistakes: Vec::new() }
    }

    /// The mistakes in order, each once.
    pub(super) fn mistakes(mut self) -> Vec<String> {
        let mut seen = std::collections::HashSet::new();
        self.mistakes.retain(|mistake| seen.insert(mistake.clone()));
        self.mistakes
    }

    pub(super) fn mistake(&mut self, sentence: String) {
        self.mistakes.push(sentence);
    }

    /// A variable's text. Empty counts as unset.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let text = (self.lookup)(name)?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// A variable's value; an invalid one counts as unset.
    pub(super) fn read<T, E: Display>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(name)?;
        let record = |error| self.mistakes.push(format!("{name}={text:?} is ignored: {error}"));
        parse(&text).map_err(record).ok()
    }

    /// As [`read`](Self::read), for values that must not be logged.
    pub(super) fn read_secret<T, E: Display>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(name)?;
        let record = |error| self.mistakes.push(format!("{name} is ignored: {error}"));
        parse(&text).map_err(record).ok()
    }
}

/// A time of at least a millisecond.
pub(super) fn milliseconds(text: &str) -> Result<Duration, &'static str> {
    let milliseconds = text.parse().ok().filter(|milliseconds: &u32| *milliseconds > 0);
    let expected = "expected a whole number of milliseconds of at least 1, such as 10000";
    milliseconds.map(|milliseconds| Duration::from_millis(milliseconds.into())).ok_or(expected)
}

pub(super) fn boolean(text: &str) -> Result<bool, &'static str> {
    text.to_ascii_lowercase().parse().map_err(|_| "expected true or false")
}

/// `key=value` pairs, separated by commas; values may be percent-encoded.
pub(super) fn pairs(text: &str) -> Result<Vec<(String, String)>, &'static str> {
    const EXPECTED: &str = "expected key=value,key=value, with % and commas of a value percent-encoded";
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').ok_or(EXPECTED)?;
        let (key, value) = (decoded(key).ok_or(EXPECTED)?, decoded(value).ok_or(EXPECTED)?);
        if key.is_empty() { Err(EXPECTED) } else { Ok((key, value)) }
    };
    text.split(',').filter(|pair| !pair.trim().is_empty()).map(pair).collect()
}

fn decoded(text: &str) -> Option<String> {
    Some(percent_decode_str(text.trim()).decode_utf8().ok()?.into_owned())
}

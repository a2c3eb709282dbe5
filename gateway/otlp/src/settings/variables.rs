//! Reads variables and keeps what is wrong with them.

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

    /// In the order in which they were found, each once.
    pub(super) fn mistakes(mut self) -> Vec<String> {
        let mut seen = std::collections::HashSet::new();
        self.mistakes.retain(|mistake| seen.insert(mistake.clone()));
        self.mistakes
    }

    pub(super) fn mistake(&mut self, sentence: String) {
        self.mistakes.push(sentence);
    }

    /// A variable's text. Empty is like not set.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let text = (self.lookup)(name)?.trim().to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// A variable's value; a mistake counts as not set.
    pub(super) fn read<T, E: Display>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(name)?;
        let told = |error| self.mistakes.push(format!("{name}={text:?} cannot be used: {error}"));
        parse(&text).map_err(told).ok()
    }

    /// As [`read`](Self::read), for what must not be repeated in a log.
    pub(super) fn read_secret<T, E: Display>(
        &mut self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(name)?;
        let told = |error| self.mistakes.push(format!("{name} cannot be used: {error}"));
        parse(&text).map_err(told).ok()
    }
}

/// A time of at least a millisecond.
pub(super) fn milliseconds(text: &str) -> Result<Duration, &'static str> {
    let milliseconds = text.parse().ok().filter(|milliseconds: &u32| *milliseconds > 0);
    let right = "a whole number of milliseconds from 1 on, such as 10000, would be right";
    milliseconds.map(|milliseconds| Duration::from_millis(milliseconds.into())).ok_or(right)
}

pub(super) fn boolean(text: &str) -> Result<bool, &'static str> {
    text.to_ascii_lowercase().parse().map_err(|_| "true or false would be right")
}

/// `key=value` by commas; values are percent-encoded where they must be.
pub(super) fn pairs(text: &str) -> Result<Vec<(String, String)>, &'static str> {
    const RIGHT: &str = "key=value,key=value would be right, with % and commas of a value percent-encoded";
    let pair = |pair: &str| {
        let (key, value) = pair.split_once('=').ok_or(RIGHT)?;
        let (key, value) = (decoded(key).ok_or(RIGHT)?, decoded(value).ok_or(RIGHT)?);
        if key.is_empty() { Err(RIGHT) } else { Ok((key, value)) }
    };
    text.split(',').filter(|pair| !pair.trim().is_empty()).map(pair).collect()
}

fn decoded(text: &str) -> Option<String> {
    Some(percent_decode_str(text.trim()).decode_utf8().ok()?.into_owned())
}

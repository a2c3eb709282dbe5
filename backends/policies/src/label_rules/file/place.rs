//! A value in the file together with where it stands, so that every mistake can name its place.

use std::cell::RefCell;

use serde_json::{Map, Value};

/// The mistakes found so far.
#[derive(Debug, Default)]
pub(super) struct Notes(RefCell<Vec<String>>);

impl Notes {
    pub(super) fn into_lines(self) -> Vec<String> {
        self.0.into_inner()
    }
}

/// A value and its path, such as `rules[2].require[0].in`. Every method that reads it notes a mistake when
/// it answers `None`.
#[derive(Clone, Debug)]
pub(super) struct Place<'v> {
    path: String,
    value: &'v Value,
    notes: &'v Notes,
}

impl<'v> Place<'v> {
    pub(super) fn document(value: &'v Value, notes: &'v Notes) -> Self {
        Self { path: String::new(), value, notes }
    }

    /// Notes what is wrong here and what would be right. Always `None`, for the caller to return.
    pub(super) fn note<T>(&self, sentence: &str) -> Option<T> {
        let path = if self.path.is_empty() { "the file" } else { &self.path };
        self.notes.0.borrow_mut().push(format!("{path} {sentence}"));
        None
    }

    /// A mapping with no other keys than these.
    pub(super) fn fields(&self, known: &[&str]) -> Option<Fields<'v>> {
        let Value::Object(map) = self.value else {
            return self.wrong("a mapping");
        };
        let fields = Fields { place: self.clone(), map };
        let unknown = map.keys().filter(|key| !known.contains(&key.as_str()));
        for key in unknown {
            fields.at(key).map(|place| place.note::<()>(&format!("is not known; {} are", known.join(", "))));
        }
        Some(fields)
    }

    /// A list that is not empty; `least` says what it must hold.
    pub(super) fn list(&self, least: &str) -> Option<Vec<Self>> {
        let elements = self.elements()?;
        if elements.is_empty() {
            return self.note(&format!("is empty; {least} is right"));
        }
        Some(elements)
    }

    /// The elements of a list that may be empty.
    pub(super) fn elements(&self) -> Option<Vec<Self>> {
        let Value::Array(values) = self.value else {
            return self.wrong("a list");
        };
        let place = |(position, value)| self.below(&format!("[{position}]"), value);
        Some(values.iter().enumerate().map(place).collect())
    }

    /// A list of texts that is not empty.
    pub(super) fn texts(&self, least: &str) -> Option<Vec<String>> {
        let read: Vec<_> = self.list(least)?.iter().map(|place| place.text().map(str::to_owned)).collect();
        read.into_iter().collect()
    }

    pub(super) fn text(&self) -> Option<&'v str> {
        match self.value {
            Value::String(text) => Some(text),
            // YAML takes these for other things; people mean the text.
            Value::Bool(_) | Value::Number(_) => self.wrong(&format!("text: write \"{}\"", self.value)),
            _ => self.wrong("text"),
        }
    }

    pub(super) fn integer(&self) -> Option<i64> {
        self.value.as_i64().or_else(|| self.wrong("a whole number"))
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        self.value.as_bool().or_else(|| self.wrong("true or false"))
    }

    fn wrong<T>(&self, right: &str) -> Option<T> {
        let is = match self.value {
            Value::Null => "empty".to_owned(),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "a mapping".to_owned(),
            scalar => scalar.to_string(),
        };
        self.note(&format!("is {is}; it must be {right}"))
    }

    fn below(&self, step: &str, value: &'v Value) -> Self {
        let dot = if self.path.is_empty() || step.starts_with('[') { "" } else { "." };
        let path = format!("{}{dot}{step}", self.path);
        Self { path, value, notes: self.notes }
    }
}

/// The fields of a mapping.
#[derive(Debug)]
pub(super) struct Fields<'v> {
    place: Place<'v>,
    map: &'v Map<String, Value>,
}

impl<'v> Fields<'v> {
    pub(super) fn has(&self, key: &str) -> bool {
        self.map.contains_key(key)
    }

    /// The field, if it is given.
    pub(super) fn optional(&self, key: &str) -> Option<Place<'v>> {
        self.at(key)
    }

    /// The field; its absence is a mistake.
    pub(super) fn required(&self, key: &str, what: &str) -> Option<Place<'v>> {
        self.at(key).or_else(|| self.place.note(&format!("has no {key}; it is {what}")))
    }

    /// A field that must not be here.
    pub(super) fn unwanted(&self, key: &str, sentence: &str) {
        if let Some(place) = self.at(key) {
            place.note::<()>(sentence);
        }
    }

    fn at(&self, key: &str) -> Option<Place<'v>> {
        self.map.get(key).map(|value| self.place.below(key, value))
    }
}

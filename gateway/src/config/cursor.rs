//! A place in the tree that collects mistakes instead of stopping at the first: a [`Cursor`] is a value with
//! its path, a [`Section`] a mapping whose fields are known.
//!
//! What reads a value gives `None` exactly when it has left a mistake, or an earlier reader has.

use std::cell::RefCell;
use std::collections::HashMap;

use super::mistake::{ConfigErrors, Mistake, Place, echo};
use super::suggest;
use super::yaml::{Node, Value};

/// What was read; `None` if that left a mistake.
pub(super) type Read<T> = Option<T>;

/// Where all mistakes of one file come together.
#[derive(Default)]
pub(super) struct Mistakes(RefCell<Vec<Mistake>>);

impl Mistakes {
    fn add(&self, mistake: Mistake) {
        self.0.borrow_mut().push(mistake);
    }

    /// What was read, unless there were mistakes.
    pub(super) fn settle<T>(self, read: Option<T>) -> Result<T, ConfigErrors> {
        let mistakes = self.0.into_inner();
        if mistakes.is_empty() {
            return Ok(read.expect("what cannot be read leaves a mistake"));
        }
        Err(ConfigErrors::sorted(mistakes))
    }
}

/// The fields that a mapping may have.
pub(super) struct Fields {
    /// What a right mapping looks like.
    pub(super) right: &'static str,
    pub(super) known: &'static [&'static str],
    /// Fields of the design that this version does not serve, each with what to do instead.
    pub(super) unsupported: &'static [(&'static str, &'static str)],
}

/// A value, where it stands and how it is reached.
#[derive(Clone)]
pub(super) struct Cursor<'a> {
    node: &'a Node,
    path: String,
    mistakes: &'a Mistakes,
}

impl<'a> Cursor<'a> {
    /// The whole document.
    pub(super) fn root(node: &'a Node, mistakes: &'a Mistakes) -> Self {
        Self { node, path: String::new(), mistakes }
    }

    pub(super) fn value(&self) -> &'a Value {
        &self.node.value
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Leaves a mistake: `wrong` continues the path as a sentence would, `right` says what would do.
    pub(super) fn mistake(&self, wrong: impl Into<String>, right: &str) {
        self.mistake_at(self.node.place, &self.path, wrong.into(), right);
    }

    fn mistake_at(&self, place: Place, path: &str, wrong: String, right: &str) {
        self.mistakes.add(Mistake::at(place, path, wrong, right));
    }

    /// Leaves a mistake about the kind of value that is here.
    pub(super) fn wrong_kind(&self, right: &str) {
        self.mistake(found(self.value()), right);
    }

    /// The mapping that is here, its field names checked.
    pub(super) fn section(self, fields: &Fields) -> Option<Section<'a>> {
        let entries = self.entries(fields.right)?;
        for entry in &entries {
            entry.check_name(fields);
        }
        Some(Section { cursor: self, entries })
    }

    /// The entries of the mapping that is here, each key once.
    pub(super) fn entries(&self, right: &str) -> Option<Vec<Entry<'a>>> {
        let Value::Mapping(pairs) = self.value() else {
            self.wrong_kind(right);
            return None;
        };
        let mut places = HashMap::new();
        let mut entries = Vec::with_capacity(pairs.len());
        for entry in pairs.iter().filter_map(|(key, node)| self.entry(key, node)) {
            match places.insert(entry.name, entry.place) {
                Some(earlier) => entry.repeats(earlier),
                None => entries.push(entry),
            }
        }
        Some(entries)
    }

    fn entry(&self, key: &'a Node, node: &'a Node) -> Option<Entry<'a>> {
        let Value::Text(name) = &key.value else {
            let wrong = "has a key that is not text".to_owned();
            self.mistake_at(key.place, &self.path, wrong, "keys that are text, in quotes if need be");
            return None;
        };
        let cursor = Cursor { node, path: self.path_to(name), mistakes: self.mistakes };
        Some(Entry { name, place: key.place, cursor })
    }

    /// The path of a field of the mapping that is here.
    fn path_to(&self, name: &str) -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if name.is_empty() || !name.bytes().all(plain) {
            return format!("{}[{}]", self.path, echo(name));
        }
        let separator = if self.path.is_empty() { "" } else { "." };
        format!("{}{separator}{name}", self.path)
    }

    /// The keys and values of the mapping that is here, whatever the keys.
    pub(super) fn pairs(&self, right: &str) -> Option<Vec<(&'a str, Cursor<'a>)>> {
        let entries = self.entries(right)?;
        Some(entries.into_iter().map(|entry| (entry.name, entry.cursor)).collect())
    }

    /// The items of the list that is here.
    pub(super) fn items(&self, right: &str) -> Option<Vec<Cursor<'a>>> {
        let Value::List(nodes) = self.value() else {
            self.wrong_kind(right);
            return None;
        };
        let item = |(position, node)| Cursor {
            node,
            path: format!("{}[{position}]", self.path),
            mistakes: self.mistakes,
        };
        Some(nodes.iter().enumerate().map(item).collect())
    }

    /// The text that is here.
    fn text(&self, right: &str) -> Option<&'a str> {
        match self.value() {
            Value::Text(text) => return Some(text),
            Value::Boolean(value) => self.mistake(format!("{value} without quotes is a boolean"), right),
            Value::Integer(number) => self.mistake(format!("{number} without quotes is a number"), right),
            Value::Fraction(number) => self.mistake(format!("{number:?} without quotes is a number"), right),
            Value::Null | Value::List(_) | Value::Mapping(_) => self.wrong_kind(right),
        }
        None
    }

    /// What a text that is here means. `parse` says what is wrong, as the predicate of a sentence.
    pub(super) fn parsed<T>(&self, right: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        self.accepted(parse(self.text(right)?), right)
    }

    /// A result whose error becomes a mistake.
    pub(super) fn accepted<T>(&self, result: Result<T, String>, right: &str) -> Option<T> {
        result.map_err(|wrong| self.mistake(wrong, right)).ok()
    }

    /// True or false.
    pub(super) fn boolean(&self) -> Option<bool> {
        let Value::Boolean(value) = self.value() else {
            self.wrong_kind("true or false");
            return None;
        };
        Some(*value)
    }
}

/// A key of a mapping and its value.
#[derive(Clone)]
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    place: Place,
    pub(super) cursor: Cursor<'a>,
}

impl Entry<'_> {
    fn mistake(&self, wrong: String, right: &str) {
        self.cursor.mistake_at(self.place, &self.cursor.path, wrong, right);
    }

    fn repeats(&self, earlier: Place) {
        self.mistake(format!("is given again, before on line {}", earlier.line), "give it once");
    }

    fn check_name(&self, fields: &Fields) {
        if let Some((_, remedy)) = fields.unsupported.iter().find(|(name, _)| *name == self.name) {
            self.mistake("is not supported by this version".to_owned(), remedy);
        } else if !fields.known.contains(&self.name) {
            self.mistake("is not a known field".to_owned(), &known_fields(self.name, fields.known));
        }
    }
}

/// A mapping whose field names have been checked.
pub(super) struct Section<'a> {
    cursor: Cursor<'a>,
    entries: Vec<Entry<'a>>,
}

impl<'a> Section<'a> {
    /// A field that may be left out.
    pub(super) fn optional(&self, name: &str) -> Option<Cursor<'a>> {
        self.entries.iter().find(|entry| entry.name == name).map(|entry| entry.cursor.clone())
    }

    /// A field that may not be left out.
    pub(super) fn required(&self, name: &str, right: &str) -> Option<Cursor<'a>> {
        let field = self.optional(name);
        if field.is_none() {
            self.mistake_of(name, "is missing", right);
        }
        field
    }

    /// Leaves a mistake of a field, whether it is there or not.
    pub(super) fn mistake_of(&self, name: &str, wrong: impl Into<String>, right: &str) {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        let place = entry.map_or(self.cursor.node.place, |entry| entry.place);
        self.cursor.mistake_at(place, &self.cursor.path_to(name), wrong.into(), right);
    }

    /// A mapping that may be left out: then it is as if it were `{}`.
    pub(super) fn subsection(&self, name: &str, fields: &Fields) -> Option<Section<'a>> {
        match self.optional(name) {
            Some(cursor) => cursor.section(fields),
            None => Some(self.absent(name)),
        }
    }

    /// A section without fields, at the place of the one that it is missing from.
    fn absent(&self, name: &str) -> Section<'a> {
        let Cursor { node, mistakes, .. } = self.cursor;
        Section { cursor: Cursor { node, path: self.cursor.path_to(name), mistakes }, entries: Vec::new() }
    }

    /// Leaves a mistake of the section as a whole.
    pub(super) fn mistake(&self, wrong: &str, right: &str) {
        self.cursor.mistake(wrong, right);
    }
}

fn known_fields(unknown: &str, known: &[&str]) -> String {
    let known_names = known.join(", ");
    match suggest::nearest(unknown, known) {
        Some(name) => format!("did you mean {name}? Known are {known_names}"),
        None => format!("known are {known_names}"),
    }
}

/// What a value of the wrong kind is, as the predicate of a sentence.
fn found(value: &Value) -> String {
    match value {
        Value::Null => "is empty".to_owned(),
        Value::Boolean(value) => format!("{value} is a boolean"),
        Value::Integer(number) => format!("{number} is a number"),
        Value::Fraction(number) => format!("{number:?} is a number"),
        Value::Text(text) => format!("{} is text", echo(text)),
        Value::List(_) => "is a list".to_owned(),
        Value::Mapping(_) => "is a mapping".to_owned(),
    }
}

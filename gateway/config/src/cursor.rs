//! Reads the tree of a file and collects all mistakes instead of stopping at the first: a [`Cursor`] is a value
//! with its path, a [`Section`] a mapping whose field names have been checked.
//!
//! A reader returns `None` exactly when it has recorded a mistake, or an earlier reader has.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::mistake::{ConfigErrors, Mistake, Place, Remedy, echo};
use crate::names;
use crate::yaml::{Node, Value};

/// The mistakes of one file, and the folder that its relative paths are relative to.
#[derive(Debug, Default)]
pub struct Mistakes {
    folder: PathBuf,
    found: RefCell<Vec<Mistake>>,
}

impl Mistakes {
    /// No mistakes yet, for a file in this folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), found: RefCell::default() }
    }

    fn add(&self, mistake: Mistake) {
        self.found.borrow_mut().push(mistake);
    }

    /// The value that was read, unless there were mistakes.
    ///
    /// # Errors
    /// All mistakes, sorted by place.
    ///
    /// # Panics
    /// If there is no value although no mistake was recorded, which the readers of this crate exclude.
    pub fn settle<T>(&self, read: Option<T>) -> Result<T, ConfigErrors> {
        let mistakes = self.found.take();
        if mistakes.is_empty() {
            return Ok(read.expect("a reader that returns None has recorded a mistake"));
        }
        Err(ConfigErrors::sorted(mistakes))
    }
}

/// The fields that a mapping may have.
#[derive(Debug)]
pub struct Fields {
    /// Describes a valid mapping, with an example.
    pub right: &'static str,
    /// The names.
    pub known: &'static [&'static str],
    /// Names that are not supported, each with what to do instead.
    pub unsupported: &'static [(&'static str, &'static str)],
    /// The mappings among the known fields, each with its fields: where an unknown name may belong.
    pub nested: &'static [(&'static str, &'static [&'static str])],
}

impl Fields {
    /// A mapping with these fields. `right` describes a valid one, with an example.
    pub const fn new(right: &'static str, known: &'static [&'static str]) -> Self {
        Self { right, known, unsupported: &[], nested: &[] }
    }

    /// What to do with a field that this mapping does not have.
    fn remedy(&self, unknown: &str) -> String {
        let has_it = self.nested.iter().filter(|(_, fields)| fields.contains(&unknown));
        let places: Vec<_> = has_it.map(|(mapping, _)| *mapping).collect();
        match places[..] {
            [] => known_fields(unknown, self.known),
            [place] => format!("set it in {place}"),
            [ref others @ .., last] => format!("set it in {} or {last}", others.join(", ")),
        }
    }
}

/// A value with its place in the text and its path, such as `backends[1].score.weight`.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    node: &'a Node,
    path: String,
    mistakes: &'a Mistakes,
}

impl<'a> Cursor<'a> {
    /// The whole document.
    pub fn root(node: &'a Node, mistakes: &'a Mistakes) -> Self {
        Self { node, path: String::new(), mistakes }
    }

    /// The value.
    pub fn value(&self) -> &'a Value {
        &self.node.value
    }

    /// Its path.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its place in the text.
    pub(crate) fn place(&self) -> Place {
        self.node.place
    }

    /// Records a mistake. `wrong` is the predicate of a sentence about the path.
    pub fn mistake<'r>(&self, wrong: impl Into<String>, remedy: impl Into<Remedy<'r>>) {
        self.mistake_at(self.node.place, &self.path, wrong.into(), remedy.into());
    }

    fn mistake_at(&self, place: Place, path: &str, wrong: String, remedy: Remedy<'_>) {
        self.mistakes.add(Mistake::at(place, path, wrong, remedy));
    }

    /// Records a mistake about the type of this value.
    pub fn wrong_kind(&self, right: &str) {
        self.mistake(found(self.value()), right);
    }

    /// This mapping, its field names checked.
    pub fn section(self, fields: &Fields) -> Option<Section<'a>> {
        let entries = self.entries(fields.right)?;
        for entry in &entries {
            entry.check_name(fields);
        }
        Some(Section { cursor: self, entries })
    }

    /// The entries of this mapping, each key once.
    pub fn entries(&self, right: &str) -> Option<Vec<Entry<'a>>> {
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
            let wrong = "has a key that is not a string".to_owned();
            self.mistake_at(key.place, &self.path, wrong, "strings as keys, in quotes if necessary".into());
            return None;
        };
        let cursor = Cursor { node, path: self.path_to(name), mistakes: self.mistakes };
        Some(Entry { name, place: key.place, cursor })
    }

    /// The path of a field of this mapping.
    fn path_to(&self, name: &str) -> String {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if name.is_empty() || !name.bytes().all(plain) {
            return format!("{}[{}]", self.path, echo(name));
        }
        let separator = if self.path.is_empty() { "" } else { "." };
        format!("{}{separator}{name}", self.path)
    }

    /// The keys and values of this mapping, which may have any keys.
    pub fn pairs(&self, right: &str) -> Option<Vec<(&'a str, Cursor<'a>)>> {
        let entries = self.entries(right)?;
        Some(entries.into_iter().map(|entry| (entry.name, entry.cursor)).collect())
    }

    /// The items of this list.
    pub fn items(&self, right: &str) -> Option<Vec<Cursor<'a>>> {
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

    /// A list of values that are all read in the same way; each that cannot be read records its own mistake.
    pub fn list<T>(&self, right: &str, read: impl FnMut(Self) -> Option<T>) -> Option<Vec<T>> {
        let values: Vec<Option<T>> = self.items(right)?.into_iter().map(read).collect();
        values.into_iter().collect()
    }

    /// The items of this list; `None` if it is not a list. Records no mistake.
    pub fn items_if_list(&self) -> Option<Vec<Self>> {
        matches!(self.value(), Value::List(_)).then(|| self.items(""))?
    }

    /// This string; `None` if it is not a string. Records no mistake.
    pub fn text_if_any(&self) -> Option<&'a str> {
        let Value::Text(text) = self.value() else { return None };
        Some(text)
    }

    /// The value at the end of these field names and list positions, if there is one. Records no mistake.
    pub fn descend(&self, steps: &[&str]) -> Option<Self> {
        steps.iter().try_fold(self.clone(), |cursor, step| {
            let (node, path) = match cursor.value() {
                Value::List(nodes) => {
                    (nodes.get(step.parse::<usize>().ok()?)?, format!("{}[{step}]", cursor.path))
                }
                Value::Mapping(pairs) => {
                    let named =
                        |(key, _): &&(Node, Node)| matches!(&key.value, Value::Text(name) if name == step);
                    (&pairs.iter().find(named)?.1, cursor.path_to(step))
                }
                _ => return None,
            };
            Some(Self { node, path, mistakes: self.mistakes })
        })
    }

    /// A path of a file; a relative one is relative to the folder of the configuration.
    pub fn file(&self) -> Option<PathBuf> {
        self.parsed("the path of a file", names::not_empty).map(|text| self.mistakes.folder.join(text))
    }

    /// This string.
    pub fn text(&self, right: &str) -> Option<&'a str> {
        match self.value() {
            Value::Text(text) => return Some(text),
            Value::Boolean(value) => self.mistake(format!("{value} without quotes is a boolean"), right),
            Value::Integer(number) => self.mistake(format!("{number} without quotes is a number"), right),
            Value::Fraction(number) => self.mistake(format!("{number:?} without quotes is a number"), right),
            Value::Null | Value::List(_) | Value::Mapping(_) => self.wrong_kind(right),
        }
        None
    }

    /// The parsed value of this string. `parse` returns what is wrong as the predicate of a sentence.
    pub fn parsed<T>(&self, right: &str, parse: impl FnOnce(&str) -> Result<T, String>) -> Option<T> {
        self.accepted(parse(self.text(right)?), right)
    }

    /// A result whose error becomes a mistake.
    pub fn accepted<T>(&self, result: Result<T, String>, right: &str) -> Option<T> {
        result.map_err(|wrong| self.mistake(wrong, right)).ok()
    }

    /// True or false.
    pub fn boolean(&self) -> Option<bool> {
        let Value::Boolean(value) = self.value() else {
            self.wrong_kind("true or false");
            return None;
        };
        Some(*value)
    }
}

/// A key of a mapping and its value.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The key.
    pub name: &'a str,
    place: Place,
    /// The value.
    pub cursor: Cursor<'a>,
}

impl Entry<'_> {
    fn mistake(&self, wrong: String, remedy: &str) {
        self.cursor.mistake_at(self.place, &self.cursor.path, wrong, Remedy::Do(remedy));
    }

    fn repeats(&self, earlier: Place) {
        self.mistake(format!("is defined twice, first on line {}", earlier.line), "remove one of them");
    }

    fn check_name(&self, fields: &Fields) {
        if let Some((_, remedy)) = fields.unsupported.iter().find(|(name, _)| *name == self.name) {
            self.mistake("is not supported by this version".to_owned(), remedy);
        } else if !fields.known.contains(&self.name) {
            self.mistake("unknown field".to_owned(), &fields.remedy(self.name));
        }
    }
}

/// A mapping whose field names have been checked.
#[derive(Debug)]
pub struct Section<'a> {
    cursor: Cursor<'a>,
    entries: Vec<Entry<'a>>,
}

impl<'a> Section<'a> {
    /// An optional field.
    pub fn optional(&self, name: &str) -> Option<Cursor<'a>> {
        self.entries.iter().find(|entry| entry.name == name).map(|entry| entry.cursor.clone())
    }

    /// The field's value, or `absent` if the field is not set.
    pub fn or<T>(&self, name: &str, absent: T, read: impl FnOnce(&Cursor<'a>) -> Option<T>) -> Option<T> {
        match self.optional(name) {
            None => Some(absent),
            Some(cursor) => read(&cursor),
        }
    }

    /// Whether the field is set.
    pub fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| entry.name == name)
    }

    /// A required field.
    pub fn required(&self, name: &str, right: &str) -> Option<Cursor<'a>> {
        let field = self.optional(name);
        if field.is_none() {
            self.mistake_of(name, "is missing", right);
        }
        field
    }

    /// Records a mistake of a field, whether it is set or not.
    pub fn mistake_of<'r>(&self, name: &str, wrong: impl Into<String>, remedy: impl Into<Remedy<'r>>) {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        let place = entry.map_or(self.cursor.node.place, |entry| entry.place);
        self.cursor.mistake_at(place, &self.cursor.path_to(name), wrong.into(), remedy.into());
    }

    /// Records a mistake of a nested field, whether it is set or not.
    pub fn mistake_below<'r>(&self, steps: &[&str], wrong: impl Into<String>, remedy: impl Into<Remedy<'r>>) {
        let deepest = (0..=steps.len()).rev().find_map(|depth| self.cursor.descend(&steps[..depth]));
        let place = deepest.map_or(self.cursor.node.place, |cursor| cursor.node.place);
        let path = steps
            .iter()
            .fold(self.cursor.clone(), |cursor, step| Cursor { path: cursor.path_to(step), ..cursor });
        self.cursor.mistake_at(place, &path.path, wrong.into(), remedy.into());
    }

    /// An optional mapping; if it is absent, as if it were `{}`.
    pub fn subsection(&self, name: &str, fields: &Fields) -> Option<Section<'a>> {
        match self.optional(name) {
            Some(cursor) => cursor.section(fields),
            None => Some(self.absent(name)),
        }
    }

    /// A section without fields, at the place of the mapping that lacks it.
    fn absent(&self, name: &str) -> Section<'a> {
        let Cursor { node, mistakes, .. } = self.cursor;
        Section { cursor: Cursor { node, path: self.cursor.path_to(name), mistakes }, entries: Vec::new() }
    }

    /// Records a mistake of the section as a whole.
    pub fn mistake<'r>(&self, wrong: &str, remedy: impl Into<Remedy<'r>>) {
        self.cursor.mistake(wrong, remedy);
    }
}

fn known_fields(unknown: &str, known: &[&str]) -> String {
    let known_names = known.join(", ");
    match nearest(unknown, known) {
        Some(name) => format!("did you mean {name}? Known fields: {known_names}"),
        None => format!("known fields: {known_names}"),
    }
}

/// With more edits it is another word.
const MOST_EDITS: usize = 2;

/// The known name that was probably meant.
fn nearest<'n>(unknown: &str, known: &[&'n str]) -> Option<&'n str> {
    let unknown = unknown.to_lowercase();
    let distances = known.iter().map(|name| (strsim::levenshtein(&unknown, &name.to_lowercase()), *name));
    // In a short name two edits change most of it.
    let near = distances.filter(|(edits, name)| *edits <= MOST_EDITS && *edits * 2 < name.len());
    near.min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// The type of a value, as the predicate of a sentence.
fn found(value: &Value) -> String {
    match value {
        Value::Null => "is empty".to_owned(),
        Value::Boolean(value) => format!("{value} is a boolean"),
        Value::Integer(number) => format!("{number} is a number"),
        Value::Fraction(number) => format!("{number:?} is a number"),
        Value::Text(text) => format!("{} is a string", echo(text)),
        Value::List(_) => "is a list".to_owned(),
        Value::Mapping(_) => "is a mapping".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested() {
        let known = ["name", "url", "filter", "failurePolicy"];
        let cases = [
            ("fliter", Some("filter")),
            ("filters", Some("filter")),
            ("failurepolicy", Some("failurePolicy")),
            ("failurePolcy", Some("failurePolicy")),
            ("nam", Some("name")),
            ("uri", Some("url")),
            ("id", None),
            ("score", None),
            ("", None),
        ];
        for (unknown, expected) in cases {
            assert_eq!(nearest(unknown, &known), expected, "{unknown}");
        }
    }
}

//! Parses YAML into a tree of values with their places. Only this file uses the YAML crate.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::{DuplicateKeyPolicy, MergeKeyPolicy, NonFiniteFloatPolicy};
use serde_saphyr::{Error, Location, Options, RenderOptions, SnippetMode, Spanned, UserMessageFormatter};

use crate::mistake::{Mistake, Place, Remedy};

/// The deepest nesting, aliases written out. The format itself has 8 levels of mappings and lists, the
/// deepest in `podSelector`; from the fourth on there is room for `args`. The parser is recursive and takes about
/// 35 KiB a level unoptimised: this fits a thread of 1 MiB.
const DEEPEST: usize = 24;
/// The most values in a file, aliases written out.
const MOST_VALUES: usize = 50_000;

/// A value and where it begins.
#[derive(Debug)]
pub struct Node {
    /// Where it begins.
    pub place: Place,
    /// The value.
    pub value: Value,
}

/// The types of YAML's core schema; mappings keep the file's order and repeated keys.
#[derive(Debug)]
pub enum Value {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// A whole number.
    Integer(i128),
    /// Another number.
    Fraction(f64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A mapping.
    Mapping(Vec<(Node, Node)>),
}

/// Reads one document.
///
/// # Errors
/// The text is not valid YAML, or is too large or nested too deeply.
pub fn parse(text: &str) -> Result<Node, Mistake> {
    // `<<` is reported as an unknown field.
    let options = options(MergeKeyPolicy::AsOrdinary);
    serde_saphyr::from_str_with_options(text, options).map_err(|error| syntax_mistake(&error))
}

/// Reads all documents of a text that Kubernetes reads, with merge keys.
///
/// # Errors
/// As [`parse`].
pub fn parse_all(text: &str) -> Result<Vec<Node>, Mistake> {
    let options = options(MergeKeyPolicy::Merge);
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| syntax_mistake(&error))
}

fn options(merge_keys: MergeKeyPolicy) -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEEPEST,
            max_nodes: MOST_VALUES,
        },
        // With this policy an untyped mapping arrives with every entry, so that repeated keys can be
        // reported together with all other mistakes.
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        merge_keys: merge_keys,
        // YAML 1.2: `no` is a word, not false.
        strict_booleans: true,
        reject_unsupported_tags: true,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    }
}

fn syntax_mistake(error: &Error) -> Mistake {
    let place = error.location().map(Place::from);
    match error {
        Error::Budget { .. } => Mistake::of_file(
            place,
            "is too large or nested too deeply".to_owned(),
            &format!("at most {MOST_VALUES} values in {DEEPEST} levels"),
        ),
        Error::MultipleDocuments { .. } => Mistake::of_value(
            place,
            String::new(),
            "the file has several YAML documents".to_owned(),
            Remedy::Do("keep one of them").to_string(),
        ),
        _ => Mistake::of_file(
            place,
            format!("invalid YAML: {}", message(error)),
            "a single valid YAML document",
        ),
    }
}

fn message(error: &Error) -> String {
    let mut rendering = RenderOptions::new(&UserMessageFormatter);
    rendering.snippets = SnippetMode::Off;
    error.render_with_options(rendering)
}

impl From<Location> for Place {
    fn from(location: Location) -> Self {
        Self { line: location.line(), column: location.column() }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        // Of an alias, the place where it is used: the path of a mistake leads there.
        Ok(Self { place: spanned.referenced.into(), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

/// Accepts any value.
struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Integer(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Fraction(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut mapping = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            mapping.push(entry);
        }
        Ok(Value::Mapping(mapping))
    }
}

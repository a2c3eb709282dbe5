//! What the fields of the configuration are, for what is generated from them: the tables of `docs/configuration.md`, and of the
//! chart the schema of its values and the list of fields that it passes on.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use super::backend::ALWAYS_IGNORE;
use super::matches::OPERATORS;
use super::setting::{Choice, Yaml};
use super::sources::NODE_SOURCES;
use super::{BackendName, BackendUrl, Binder, Percent, Ratio, Weight};

/// A field of a mapping.
#[derive(Debug)]
pub struct Field {
    /// Its name in the file.
    pub name: &'static str,
    /// What it means, in Markdown, with the links of `docs/configuration.md`.
    pub text: &'static str,
    /// What applies if it is absent.
    pub absent: Absent,
    /// What it may be.
    pub shape: Shape,
}

/// What applies if a field is absent.
#[derive(Debug, PartialEq)]
pub enum Absent {
    /// That is a mistake.
    Required,
    /// The defaults of its fields.
    Section,
    /// This value, as in the file.
    Default(String),
    /// This, in words.
    Instead(&'static str),
}

/// What a value may be.
#[derive(Debug)]
pub enum Shape {
    /// Neither a mapping nor a list of them: the members of a JSON Schema.
    Value(String),
    /// A mapping with these fields.
    Mapping(Vec<Field>),
    /// A list of such mappings.
    List(Vec<Field>),
}

/// A type of values of the file.
pub trait Shaped {
    /// What a value may be.
    fn shape() -> Shape;
}

type Words = LazyLock<String>;

fn one_of(words: &[&str]) -> String {
    format!(
        r#""type": "string", "enum": [{}]"#,
        words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ")
    )
}

/// A default value as in the file, on one line.
pub(crate) fn shown(write: impl FnOnce(&mut Yaml)) -> Absent {
    let mut out = Yaml::default();
    write(&mut out);
    Absent::Default(out.into_text().trim().trim_matches('"').to_owned())
}

pub(crate) const TEXT: &str = r#""type": "string""#;
pub(crate) const NOT_EMPTY: &str = r#""type": "string", "minLength": 1"#;
pub(crate) const SIZE: &str =
    r#""type": ["string", "integer"], "pattern": "^[0-9]+(\\.[0-9]+)?(e[0-9]+|E[0-9]+|Ki|Mi|Gi|k|M|G)?$""#;
pub(crate) const VERB_PATH: &str = r#""type": "string", "pattern": "^[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*$""#;
pub(crate) const SOCKET: &str = r#""type": "string", "pattern": "^/.*[^/]$", "maxLength": 107"#;
pub(crate) const URL: &str = r#""type": "string", "pattern": "^https?://""#;
pub(crate) const OBJECT: &str = r#""type": "object""#;
pub(crate) const LABELS: &str = r#""type": "object", "additionalProperties": {"type": "string"}"#;
pub(crate) static IGNORE: Words = Words::new(|| one_of(&[ALWAYS_IGNORE]));
pub(crate) static OPERATOR: Words = Words::new(|| one_of(&OPERATORS));
pub(crate) static NODE_SOURCE: Words = Words::new(|| one_of(&NODE_SOURCES));
pub(crate) const EXTENDED_RESOURCE: &str = r#""type": "string", "pattern": "^[^/]+/[^/]+$""#;
pub(crate) const TEXTS: &str = r#""type": "array", "items": {"type": "string"}"#;
pub(crate) const NAMESPACES: &str = r##""type": "array", "items": {"$ref": "#/$defs/namespace"}"##;
pub(crate) const SOME_NAMESPACES: &str =
    r##""type": "array", "minItems": 1, "items": {"$ref": "#/$defs/namespace"}"##;
pub(crate) const BACKENDS: &str =
    r#""type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 63}"#;
pub(crate) const HOSTS: &str =
    r#""type": "array", "items": {"type": "string", "pattern": "^[A-Za-z0-9._-]+$"}"#;

/// Implements [`Shaped`] with the members of a JSON Schema.
macro_rules! values {
    ($($type:ty: $members:expr;)+) => {
        $(impl Shaped for $type {
            fn shape() -> Shape {
                Shape::Value(String::from($members))
            }
        })+
    };
}

values! {
    bool: r#""type": "boolean""#;
    PathBuf: NOT_EMPTY;
    SocketAddr: r#""type": "string", "pattern": "^([0-9.]+|\\[[0-9a-fA-F:.]+\\]):[0-9]+$""#;
    Duration: r#""type": "string", "minLength": 2, "pattern": "^([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$""#;
    Ratio: r#""type": "number", "minimum": 0, "maximum": 1"#;
    Percent: r#""type": "integer", "minimum": 0, "maximum": 100"#;
    Weight: format!(r#""type": "integer", "minimum": 1, "maximum": {}"#, Weight::LARGEST);
    Binder: NOT_EMPTY;
    // The chart says more about these than a schema can.
    BackendName: TEXT;
    BackendUrl: TEXT;
}

impl<T: Choice> Shaped for T {
    fn shape() -> Shape {
        Shape::Value(one_of(&T::WORDS.iter().map(|(word, _)| *word).collect::<Vec<_>>()))
    }
}

impl<T: Shaped> Shaped for Vec<T> {
    fn shape() -> Shape {
        match T::shape() {
            Shape::Value(members) => Shape::Value(format!(r#""type": "array", "items": {{{members}}}"#)),
            Shape::Mapping(fields) | Shape::List(fields) => Shape::List(fields),
        }
    }
}

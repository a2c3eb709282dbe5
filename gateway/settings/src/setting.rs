//! Defines each field of the configuration once: its type, its name in the file, its meaning, and what applies when it
//! is absent. This determines how it is read, how `check-config` writes it, and what `make config-record` generates from it
//! for the documentation and the chart. [`settings!`] defines a struct of such fields, [`fields!`] those of a type that reads
//! and writes them itself, [`choices!`] an enum whose variants are words in the file.

use std::fmt::{self, Display, Write as _};

use extender_config::{Cursor, echo};

/// A value of the file.
pub(super) trait Setting: Sized {
    /// The names of its fields; none unless it is a mapping with certain fields.
    const KNOWN: &'static [&'static str] = &[];

    /// Reads it; `None` exactly if that recorded a mistake.
    fn read(field: &Cursor<'_>) -> Option<Self>;

    /// Writes it after its field's name.
    fn write(&self, out: &mut Yaml);
}

/// The text of a configuration under construction.
#[derive(Debug, Default)]
pub(super) struct Yaml {
    text: String,
    indent: usize,
    /// Whether the current mapping has a field, and not only comments.
    has_fields: bool,
}

impl Yaml {
    /// The text so far.
    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Writes a field and, with `write`, its value.
    pub(super) fn field(&mut self, name: &str, write: impl FnOnce(&mut Self)) {
        self.start_line();
        self.has_fields = true;
        self.text.push_str(name);
        self.text.push(':');
        write(self);
    }

    /// Writes an absent field as a comment, with what applies instead.
    pub(super) fn absent(&mut self, name: &str, instead: &str) {
        self.start_line();
        self.line(format_args!("# {name}: {instead}"));
    }

    /// Writes the rest of a field's line.
    pub(super) fn inline(&mut self, value: &str) {
        self.line(format_args!(" {value}"));
    }

    /// Writes a mapping as a field's value. One without fields is `{}`.
    pub(super) fn mapping(&mut self, write: impl FnOnce(&mut Self)) {
        let body = self.nested(write);
        self.text.push_str(if body.has_fields { "\n" } else { " {}\n" });
        self.text.push_str(&body.text);
    }

    /// Writes a mapping as an item of a list.
    pub(super) fn item(&mut self, write: impl FnOnce(&mut Self)) {
        let body = self.nested(write);
        let indent = " ".repeat(self.indent);
        self.text.push_str(&[&indent, "- ", body.text.trim_start()].concat());
    }

    /// Writes a list as a field's value, one item per line.
    pub(super) fn list(&mut self, items: impl Iterator<Item = String>) {
        let indent = " ".repeat(self.indent);
        self.text.push('\n');
        items.for_each(|item| self.line(format_args!("{indent}- {item}")));
    }

    fn nested(&self, write: impl FnOnce(&mut Self)) -> Self {
        let mut body = Self { indent: self.indent + 2, ..Self::default() };
        write(&mut body);
        body
    }

    fn line(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a `String` does not fail.
        let _ = writeln!(self.text, "{text}");
    }

    fn start_line(&mut self) {
        self.text.push_str(&" ".repeat(self.indent));
    }
}

/// A string as YAML: in quotes unless it is unambiguous.
pub fn scalar(text: &impl Display) -> String {
    let text = text.to_string();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
    let letter_first = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/');
    let other_meaning = ["true", "false", "null"].iter().any(|word| text.eq_ignore_ascii_case(word));
    if letter_first && text.bytes().all(plain) && !other_meaning {
        return text;
    }
    let quoted = serde_json::Value::String(text).to_string();
    quoted.chars().fold(String::with_capacity(quoted.len()), |mut yaml, c| {
        if is_printable(c) {
            yaml.push(c);
        } else {
            let _ = write!(yaml, "\\u{:04x}", u32::from(c));
        }
        yaml
    })
}

/// Whether a character may be in YAML unescaped. In JSON more may. The others have at most four digits.
fn is_printable(c: char) -> bool {
    !matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Writes a value whose text is a string in the file.
pub(super) fn write_scalar(value: &impl Display, out: &mut Yaml) {
    out.inline(&scalar(value));
}

/// Texts as a YAML list on one line.
pub(super) fn list<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let texts: Vec<String> = texts.into_iter().map(scalar).collect();
    format!("[{}]", texts.join(", "))
}

/// Reads one of at least two words.
pub(super) fn word(field: &Cursor<'_>, words: &[&'static str]) -> Option<&'static str> {
    let (last, others) = words.split_last().expect("there are two words at least");
    field.parsed(&format!("{} or {last}", others.join(", ")), |text| {
        let chosen = words.iter().find(|word| **word == text);
        chosen.copied().ok_or_else(|| format!("unknown value {}", echo(text)))
    })
}

/// An enum whose variants are words in the file.
pub trait Choice: Copy + PartialEq + 'static {
    /// Every variant and its word.
    const WORDS: &'static [(&'static str, Self)];

    /// This variant's word.
    fn word(self) -> &'static str {
        let entry = Self::WORDS.iter().find(|(_, choice)| *choice == self);
        entry.expect("every choice has a word").0
    }
}

impl<T: Choice> Setting for T {
    fn read(field: &Cursor<'_>) -> Option<Self> {
        let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
        let chosen = word(field, &words)?;
        T::WORDS.iter().find(|(word, _)| *word == chosen).map(|(_, choice)| *choice)
    }

    fn write(&self, out: &mut Yaml) {
        out.inline(self.word());
    }
}

/// Defines an enum whose variants are words in the file.
macro_rules! choices {
    ($($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ })+) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name { $($(#[$doc])* $variant,)+ }

        impl $crate::setting::Choice for $name {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$variant)),+];
        }
    )+};
}

/// Defines a mapping of the file as a struct. A field is
///
/// ```text
/// /// What it means.
/// name "nameInTheFile": Type, MODE;
/// ```
///
/// with `as (READ, WRITE, SHAPE)` before the colon if it is not read and written as a [`Setting`]; `SHAPE` is a constant of
/// the module `shape`. What it means is for operators, in Markdown with the links of `docs/configuration.md`. `MODE` is
///
/// - `default(VALUE)`: absent means this value, and `check-config` writes it;
/// - `section`: a mapping of optional fields, absent as if it were `{}`;
/// - `absent("WHAT APPLIES INSTEAD")`: an `Option<Type>`; `check-config` writes a comment if it is `None`;
/// - `hidden("WHAT APPLIES INSTEAD")`: an `Option<Type>`, not written if it is `None`;
/// - `required("WHAT IS EXPECTED")`.
///
/// `check FUNCTION => PARTS` names a function that gets the section and the value of each field, in a struct of that
/// name, and records invalid combinations.
macro_rules! settings {
    (
        $(#[$meta:meta])* pub struct $name:ident: $right:expr
        $(, unsupported $unsupported:expr)? $(, check $check:path => $parts:ident)? ;
        $(
            $(#[doc = $doc:literal])* $field:ident $yaml:literal $(as ($read:expr, $write:expr, $shape:ident))?: $type:ty,
            $mode:ident $(($argument:expr))?;
        )+
    ) => {
        $(#[$meta])*
        pub struct $name { $($(#[doc = $doc])* pub $field: settings!(@type $mode, $type),)+ }

        settings!(@parts $($parts)?; $($field: settings!(@type $mode, $type),)+);

        $crate::setting::fields! {
            $name: $right, unsupported settings!(@or &[] $(, $unsupported)?),
                nested &[$(($yaml, settings!(@known $type $(, $read)?))),+];
            $($(#[doc = $doc])* $yaml $(as ($shape, $write))?: $type, $mode $(($argument))?;)+
        }

        impl $name {
            pub(crate) fn read_section(section: &extender_config::Section<'_>) -> Option<Self> {
                $(let $field: Option<settings!(@type $mode, $type)> = settings!(
                    @read section, $yaml, $type,
                    settings!(@or $crate::setting::Setting::read $(, $read)?), $mode $(($argument))?
                );)+
                settings!(@check $name, section, $($check => $parts,)? $($field)+)
            }

            pub(crate) fn write_fields(&self, out: &mut $crate::setting::Yaml) {
                let Self { $($field),+ } = self;
                $(settings!(
                    @write out, $yaml, $field,
                    settings!(@or $crate::setting::Setting::write $(, $write)?), $mode $(($argument))?
                );)+
            }
        }

        impl $crate::setting::Setting for $name {
            const KNOWN: &'static [&'static str] = Self::FIELDS.known;

            fn read(field: &extender_config::Cursor<'_>) -> Option<Self> {
                Self::read_section(&field.clone().section(&Self::FIELDS)?)
            }

            fn write(&self, out: &mut $crate::setting::Yaml) {
                out.mapping(|out| self.write_fields(out));
            }
        }
    };

    (@type absent, $type:ty) => { Option<$type> };
    (@type hidden, $type:ty) => { Option<$type> };
    (@type $mode:ident, $type:ty) => { $type };

    (@parts; $($field:ident: $type:ty,)+) => {};
    (@parts $parts:ident; $($field:ident: $type:ty,)+) => {
        /// The value of each field; `None` if reading it recorded a mistake.
        pub(crate) struct $parts { $(pub(crate) $field: Option<$type>,)+ }
    };

    (@or $default:expr) => { $default };
    (@or $default:expr, $other:expr) => { $other };

    (@read $section:ident, $yaml:literal, $type:ty, $read:expr, default($default:expr)) => {
        $section.or($yaml, $default, $read)
    };
    (@read $section:ident, $yaml:literal, $type:ty, $read:expr, section) => {
        $section.subsection($yaml, &<$type>::FIELDS).and_then(|section| <$type>::read_section(&section))
    };
    (@read $section:ident, $yaml:literal, $type:ty, $read:expr, required($right:expr)) => {
        $section.required($yaml, $right).and_then(|field| $read(&field))
    };
    (@read $section:ident, $yaml:literal, $type:ty, $read:expr, $optional:ident $(($instead:expr))?) => {
        $section.or($yaml, None, |field| $read(field).map(Some))
    };

    (@check $name:ident, $section:ident, $($field:ident)+) => { Some($name { $($field: $field?),+ }) };
    (@check $name:ident, $section:ident, $check:path => $parts:ident, $($field:ident)+) => {{
        let mut parts = $parts { $($field),+ };
        $check($section, &mut parts);
        Some($name { $($field: parts.$field?),+ })
    }};

    (@write $out:ident, $yaml:literal, $field:ident, $write:expr, absent($instead:expr)) => {
        match $field {
            Some(value) => $out.field($yaml, |out| $write(value, out)),
            None => $out.absent($yaml, $instead),
        }
    };
    (@write $out:ident, $yaml:literal, $field:ident, $write:expr, hidden($instead:expr)) => {
        if let Some(value) = $field {
            $out.field($yaml, |out| $write(value, out));
        }
    };
    (@write $out:ident, $yaml:literal, $field:ident, $write:expr, $mode:ident $(($argument:expr))?) => {
        $out.field($yaml, |out| $write($field, out))
    };

    (@known $type:ty) => { <$type as $crate::setting::Setting>::KNOWN };
    (@known $type:ty, $read:expr) => { &[] };
}

/// Defines the names of the fields of a type as its `FIELDS`, and its shape. A field is as in [`settings!`], without
/// the name in the struct, and with `as (SHAPE)`, and `required` alone.
macro_rules! fields {
    (
        $name:ty: $right:expr, unsupported $unsupported:expr, nested $nested:expr;
        $(
            $(#[doc = $doc:literal])* $yaml:literal $(as ($shape:ident $(, $write:expr)?))?: $type:ty,
            $mode:ident $(($argument:expr))?;
        )+
    ) => {
        impl $name {
            /// The fields of this mapping.
            pub(crate) const FIELDS: extender_config::Fields = extender_config::Fields {
                right: $right,
                known: &[$($yaml),+],
                unsupported: $unsupported,
                nested: $nested,
            };
        }

        #[cfg(feature = "testing")]
        impl $crate::shape::Shaped for $name {
            fn shape() -> $crate::shape::Shape {
                $crate::shape::Shape::Mapping(vec![$($crate::shape::Field {
                    name: $yaml,
                    text: concat!($($doc, "\n"),*),
                    absent: $crate::setting::fields!(
                        @absent $crate::setting::settings!(@or $crate::setting::Setting::write $($(, $write)?)?),
                        $mode $(($argument))?
                    ),
                    shape: $crate::setting::fields!(@shape $type $(, $shape)?),
                }),+])
            }
        }
    };
    ($name:ty: $right:expr; $($fields:tt)+) => {
        $crate::setting::fields! { $name: $right, unsupported &[], nested &[]; $($fields)+ }
    };
    ($name:ty: $right:expr, unsupported $unsupported:expr; $($fields:tt)+) => {
        $crate::setting::fields! { $name: $right, unsupported $unsupported, nested &[]; $($fields)+ }
    };

    (@absent $write:expr, default($default:expr)) => { $crate::shape::shown(|out| $write(&$default, out)) };
    (@absent $write:expr, section) => { $crate::shape::Absent::Section };
    (@absent $write:expr, required $(($right:expr))?) => { $crate::shape::Absent::Required };
    (@absent $write:expr, $optional:ident($instead:expr)) => { $crate::shape::Absent::Instead($instead) };

    (@shape $type:ty) => { <$type as $crate::shape::Shaped>::shape() };
    (@shape $type:ty, $shape:ident) => { $crate::shape::Shape::Value($crate::shape::$shape.to_string()) };
}

pub(super) use {choices, fields, settings};

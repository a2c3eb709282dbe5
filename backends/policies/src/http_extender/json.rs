//! Reads JSON as Go's `encoding/json` reads it into a struct: keys in any case, the last of equal keys counts, `null`
//! changes nothing, what follows the first value is ignored. Broken UTF-8 and half surrogates are replaced.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// The fields of an object, in order.
#[derive(Debug, Default)]
pub(super) struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    /// The fields with their names in lower case.
    pub(super) fn fields(self) -> impl Iterator<Item = (String, &'a RawValue)> {
        self.0.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value))
    }

    /// The fields with their names as they are.
    pub(super) fn entries(self) -> impl Iterator<Item = (Cow<'a, str>, &'a RawValue)> {
        self.0.into_iter()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;

        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(Name(name)) = map.next_key()? {
                    fields.push((name, map.next_value()?));
                }
                Ok(Object(fields))
            }
        }

        deserializer.deserialize_map(ObjectVisitor)
    }
}

/// A key, borrowed unless it has escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

/// The text of a body, without what Go accepts and JSON does not.
pub(super) fn text(body: &[u8]) -> Cow<'_, str> {
    match String::from_utf8_lossy(body) {
        Cow::Borrowed(text) => without_half_surrogates(text),
        Cow::Owned(text) => Cow::Owned(without_half_surrogates(&text).into_owned()),
    }
}

/// The first value of a text; `None` for `null`.
pub(super) fn first<'a, T: Deserialize<'a>>(text: &'a str) -> Result<Option<T>, String> {
    let mut json = serde_json::Deserializer::from_str(text);
    Option::deserialize(&mut json).map_err(|error| error.to_string())
}

/// A field's value; `None` for `null`. The error names the field.
pub(super) fn value<'a, T: Deserialize<'a>>(field: &str, raw: &'a RawValue) -> Result<Option<T>, String> {
    serde_json::from_str(raw.get()).map_err(|error| {
        let text = error.to_string();
        // A position within the field means nothing to anybody.
        let text = text.split(" at line ").next().unwrap_or_default();
        format!("{field}: {text}")
    })
}

/// A number as `strconv.ParseInt` reads it: without a fraction or an exponent, in 64 bits; 0 for `null`.
pub(super) fn whole(field: &str, raw: &RawValue) -> Result<i64, String> {
    match raw.get() {
        "null" => Ok(0),
        text => text.parse().map_err(|_| format!("{field}: {text} is not a whole number of 64 bits")),
    }
}

/// Replaces `\uD800` to `\uDFFF` without their other half, which JSON allows and Rust's strings do not.
fn without_half_surrogates(text: &str) -> Cow<'_, str> {
    const ESCAPE: usize = 6;
    let unit = |at: usize| {
        let digits = text.get(at..at + ESCAPE)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let is_high = |unit: u16| (0xD800..0xDC00).contains(&unit);
    let is_low = |unit: u16| (0xDC00..0xE000).contains(&unit);
    let (mut mended, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(escape) = text[at..].find('\\').map(|found| at + found) {
        at = match unit(escape) {
            Some(high) if is_high(high) && unit(escape + ESCAPE).is_some_and(is_low) => escape + 2 * ESCAPE,
            Some(half) if is_high(half) || is_low(half) => {
                mended.push_str(&text[copied..escape]);
                mended.push_str("\\ufffd");
                copied = escape + ESCAPE;
                copied
            }
            Some(_) => escape + ESCAPE,
            // A backslash and what it escapes, whole characters.
            None => text[escape + 1..].chars().next().map_or(text.len(), |next| escape + 1 + next.len_utf8()),
        };
    }
    if copied == 0 { Cow::Borrowed(text) } else { Cow::Owned(mended + &text[copied..]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_surrogates_are_replaced() {
        for (given, expected) in [
            (r#""plain \n \\ud800""#, r#""plain \n \\ud800""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""a\uDE00b\ud83dc""#, r#""a\ufffdb\ufffdc""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            ("\"\\", "\"\\"),
            ("\"\\u12", "\"\\u12"),
            ("\"\\uä\"", "\"\\uä\""),
        ] {
            assert_eq!(without_half_surrogates(given), expected, "{given}");
        }
        assert_eq!(text(b"\"\xff\""), "\"\u{fffd}\"");
    }
}

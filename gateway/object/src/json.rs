//! JSON values as Go's `encoding/json` parses them into Kubernetes types: `null` is the zero value of a string, a
//! list, an entry of a list, a map or an object; keys of objects match in any letter case; what is not UTF-8 is replaced.
//! Strings are borrowed if possible.

use std::{borrow::Cow, cell::Cell, fmt, marker::PhantomData, ops::Deref};

use extender_apiserver::text::utf8;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor},
    forward_to_deserialize_any,
};

use super::limits::count_entry;

/// A string; a slice of the input unless it contains an escape. `null` is the empty string. In a struct, one
/// `#[serde(borrow)]` serves all fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text<'a>(Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<&Text<'_>> for String {
    fn from(text: &Text<'_>) -> Self {
        text.0.as_ref().to_owned()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(TextVisitor)
    }
}

/// Borrows or owns the string; `serde_json` determines which strings are slices of the input.
struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    /// As bytes: a string is refused if it is not UTF-8, or has half of a surrogate pair.
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_bytes(self)
    }

    fn visit_borrowed_bytes<E: Error>(self, text: &'de [u8]) -> Result<Self::Value, E> {
        Ok(Text(utf8(text.into())))
    }

    fn visit_bytes<E: Error>(self, text: &[u8]) -> Result<Self::Value, E> {
        Ok(Text(utf8(text.to_vec().into())))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Text::default())
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Text::default())
    }
}

thread_local! {
    // The path of an error has only keys that are read as texts.
    static KEYS_ARE_TRACKED: Cell<bool> = const { Cell::new(false) };
}

/// Reads keys on this thread so that the path of an error has them. One that is not UTF-8 is then an error.
pub(super) fn with_tracked_keys<T>(read: impl FnOnce() -> T) -> T {
    let before = TrackedKeys(KEYS_ARE_TRACKED.replace(true));
    let read = read();
    drop(before);
    read
}

/// How keys were read before, and are again also after a panic.
struct TrackedKeys(bool);

impl Drop for TrackedKeys {
    fn drop(&mut self) {
        KEYS_ARE_TRACKED.set(self.0);
    }
}

/// A key of an object.
struct Key<'a>(Text<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if KEYS_ARE_TRACKED.get() {
            deserializer.deserialize_str(TextVisitor).map(Key)
        } else {
            deserializer.deserialize_bytes(TextVisitor).map(Key)
        }
    }
}

/// A list of objects. `null` is the empty list; an entry that is `null` is the entry's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct List<T>(Vec<T>);

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Entries go through `ObjectVisitor`, so that `null` and lists among them are treated consistently.
        deserializer.deserialize_any(ListVisitor(|| ObjectVisitor::<T>(PhantomData))).map(List)
    }
}

/// For a list of strings: `null` is the empty list, and an entry that is `null` the empty string.
pub(super) fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Text<'de>>, D::Error> {
    deserializer.deserialize_any(ListVisitor(|| PhantomData::<Text<'de>>))
}

/// Reads each entry with a new seed.
struct ListVisitor<N>(N);

impl<'de, S: DeserializeSeed<'de>, N: Fn() -> S> Visitor<'de> for ListVisitor<N> {
    type Value = Vec<S::Value>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = entries.next_element_seed((self.0)())? {
            count_entry(list.len())?;
            list.push(entry);
        }
        Ok(list)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }
}

/// A map as pairs in the order of the text, including repeated keys: in Go the last one counts, which the user of
/// the pairs must apply. `null` is the empty map; a value that is `null` is the value's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Map<'a, T>(Vec<(Text<'a>, T)>);

impl<T> Map<'_, T> {
    /// The number of pairs, including repeated keys.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The pairs, in the order of the text.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de> + Default> Deserialize<'de> for Map<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MapVisitor(PhantomData))
    }
}

struct MapVisitor<'a, T>(PhantomData<(&'a str, T)>);

impl<'de: 'a, 'a, T: Deserialize<'de> + Default> Visitor<'de> for MapVisitor<'a, T> {
    type Value = Map<'a, T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        while let Some((Key(key), value)) = entries.next_entry::<Key<'a>, Option<T>>()? {
            count_entry(pairs.len())?;
            pairs.push((key, value.unwrap_or_default()));
        }
        Ok(Map(pairs))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Map::default())
    }
}

/// For a scalar: `null` is the default.
pub(super) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// For an object: `null` is the default. A list is rejected, which serde would parse as the fields in order.
pub(super) fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    ObjectVisitor(PhantomData).deserialize(deserializer)
}

/// Accepts only a map or `null`.
struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Default> DeserializeSeed<'de> for ObjectVisitor<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
        T::deserialize(Fields { entries: fields, names: &[] })
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(T::default())
    }
}

/// The entries of an object as the fields of a struct.
struct Fields<A> {
    entries: A,
    names: &'static [&'static str],
}

impl<'de, A: MapAccess<'de>> Deserializer<'de> for Fields<A> {
    type Error = A::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        visitor.visit_map(Self { names, ..self })
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, A::Error> {
        visitor.visit_map(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let Some(Key(key)) = self.entries.next_key::<Key<'de>>()? else { return Ok(None) };
        let name = if key.is_ascii() {
            self.names.iter().find(|name| name.eq_ignore_ascii_case(&key))
        } else {
            self.names.iter().find(|name| folds_to(key.as_bytes(), name))
        };
        seed.deserialize(name.copied().unwrap_or(&key).into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.entries.next_value_seed(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        self.entries.size_hint()
    }
}

/// Whether Go takes a key for this name in ASCII: letter case is ignored, and two other characters are letters for it.
#[inline]
pub fn folds_to(key: &[u8], name: &str) -> bool {
    key.eq_ignore_ascii_case(name.as_bytes()) || (!key.is_ascii() && folded(key, name))
}

#[cold]
fn folded(key: &[u8], name: &str) -> bool {
    let Ok(key) = str::from_utf8(key) else { return false };
    key.replace('\u{17f}', "s").replace('\u{212a}', "k").eq_ignore_ascii_case(name)
}

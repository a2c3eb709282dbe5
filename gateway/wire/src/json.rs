//! A cursor over JSON text that finds where values begin and end without decoding them.
//!
//! Skipped values are checked only as far as necessary to find their end: quotes, brackets, and the commas and
//! colons of the current level. They may be nested as deeply as Go reads, and need not be UTF-8. Values that are used
//! are parsed, and so checked, by their users. Strings are skipped with `memchr`, and are read as Go reads them.

use std::{borrow::Cow, ops::Range, str};

use extender_apiserver::text::utf8;
use extender_gateway_object::{
    json::{Text, folds_to},
    limits::LONGEST_NAME,
};
use memchr::memchr2;

use super::WireError;

/// The deepest nesting of a skipped value: at least the 10,000 levels that Go reads. Kubernetes objects stay below 30,
/// except for the managed fields that their writers choose.
pub const DEEPEST: usize = 10_240;
/// The levels of which one word has the kinds.
const LEVELS_OF_A_WORD: u32 = u128::BITS;

/// A position in a JSON text.
#[derive(Debug)]
pub struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

/// The position of a string in the text. 32-bit offsets: texts are smaller than 4 GiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawString {
    start: u32,
    end: u32,
    /// Whether it contains a backslash.
    escaped: bool,
}

impl RawString {
    /// The range between the quotes.
    pub fn inner(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The range including the quotes.
    pub fn quoted(self) -> Range<usize> {
        self.start as usize - 1..self.end as usize + 1
    }
}

impl<'a> Cursor<'a> {
    /// A cursor at the beginning of `text`.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// The position, as an index into the text.
    pub fn place(&self) -> usize {
        self.at
    }

    /// The bytes from here to the end of the text.
    pub fn rest(&self) -> usize {
        self.text.len() - self.at
    }

    /// The next byte that is not white space, without consuming it.
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Skips `null`, if it comes next.
    pub fn take_null(&mut self) -> bool {
        let null = self.peek() == Some(b'n') && self.text[self.at..].starts_with(b"null");
        if null {
            self.at += 4;
        }
        null
    }

    /// Visits the entries of an object: `each` is called with the cursor before every value, and must consume the
    /// value.
    pub fn object(
        &mut self,
        mut each: impl FnMut(&mut Self, &[u8]) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        self.pass(b'{', "an object")?;
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            let key = self.string("a key")?;
            self.pass(b':', "':' after a key")?;
            each(self, &self.unescaped(key)?)?;
            if !self.take(b',') {
                return self.pass(b'}', "',' or '}' in an object");
            }
        }
    }

    /// Reads the member of an object with this name, the last of several; `None` if there is none.
    pub fn member<T>(
        &mut self,
        name: &str,
        mut read: impl FnMut(&mut Self) -> Result<T, WireError>,
    ) -> Result<Option<T>, WireError> {
        let mut found = None;
        self.object(|cursor, key| {
            if key_is(key, name) {
                found = Some(read(cursor)?);
                return Ok(());
            }
            cursor.value().map(drop)
        })?;
        Ok(found)
    }

    /// Reads a value; `None` if it is `null`.
    pub fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, WireError>,
    ) -> Result<Option<T>, WireError> {
        if self.take_null() { Ok(None) } else { read(self).map(Some) }
    }

    /// Visits the elements of an array, like [`Cursor::object`].
    pub fn array(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        self.pass(b'[', "an array")?;
        if self.take(b']') {
            return Ok(());
        }
        loop {
            each(self)?;
            if !self.take(b',') {
                return self.pass(b']', "',' or ']' in an array");
            }
        }
    }

    /// Reads a string. `what` describes it in the error.
    pub fn string(&mut self, what: &str) -> Result<RawString, WireError> {
        if !self.take(b'"') {
            return Err(self.no_string(what));
        }
        let start = self.place_in_32_bits()?;
        let escaped = self.pass_string()?;
        Ok(RawString { start, end: self.place_in_32_bits()? - 1, escaped })
    }

    /// Reads a string that is a name or a UID. `what` describes it in errors.
    #[inline]
    pub fn name(&mut self, what: &str) -> Result<RawString, WireError> {
        let name = self.string(what)?;
        name_fits(what, name.quoted().start, name.inner().len()).map(|()| name)
    }

    /// Skips a value of any kind; returns its range.
    pub fn value(&mut self) -> Result<Range<usize>, WireError> {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'{' | b'[') => self.pass_nested()?,
            Some(b'"') => {
                self.at += 1;
                self.pass_string()?;
            }
            Some(b't' | b'f' | b'n' | b'-' | b'0'..=b'9') => self.pass_scalar(),
            _ => return Err(self.error("a value")),
        }
        Ok(start..self.at)
    }

    /// Skips an object that begins with `before`, a name and a quote, if it is the known object of this name: the same
    /// text has the same end. Returns the name.
    pub fn known_object<'k>(
        &mut self,
        before: &str,
        known: impl FnOnce(&str) -> Option<&'k [u8]>,
    ) -> Result<Option<RawString>, WireError> {
        let text = &self.text[self.at..];
        let lengths = text.strip_prefix(before.as_bytes()).and_then(|rest| {
            let near = &rest[..rest.len().min(LONGEST_NAME + 1)];
            let name = &rest[..memchr2(b'"', b'\\', near)?];
            let object = known(str::from_utf8(name).ok()?)?;
            text.starts_with(object).then_some((name.len(), object.len()))
        });
        let Some((name, object)) = lengths else { return Ok(None) };
        let start = self.at + before.len();
        self.at += object;
        let (start, end) = (self.in_32_bits(start)?, self.in_32_bits(start + name)?);
        Ok(Some(RawString { start, end, escaped: false }))
    }

    /// Fails if text follows the value that ends here.
    pub fn end(&mut self) -> Result<(), WireError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(WireError::at(self.at, "unexpected text after the JSON value")),
        }
    }

    /// The bytes of a string after unescaping.
    #[inline]
    pub fn unescaped(&self, string: RawString) -> Result<Cow<'a, [u8]>, WireError> {
        if !string.escaped {
            return Ok(Cow::Borrowed(&self.text[string.inner()]));
        }
        self.unescape(string)
    }

    #[cold]
    fn unescape(&self, string: RawString) -> Result<Cow<'a, [u8]>, WireError> {
        match serde_json::from_slice::<Text<'_>>(&self.text[string.quoted()]) {
            Ok(text) => Ok(Cow::Owned(String::from(&text).into_bytes())),
            Err(error) => Err(WireError::at(string.inner().start, format!("malformed string ({error})"))),
        }
    }

    /// The text of a string after unescaping.
    pub fn text(&self, string: RawString) -> Result<Cow<'a, str>, WireError> {
        self.unescaped(string).map(utf8)
    }

    /// The whole number at this range; `None` for anything else.
    pub fn number(&self, range: Range<usize>) -> Option<i64> {
        serde_json::from_slice(self.text.get(range)?).ok()
    }

    fn place_in_32_bits(&self) -> Result<u32, WireError> {
        self.in_32_bits(self.at)
    }

    fn in_32_bits(&self, place: usize) -> Result<u32, WireError> {
        u32::try_from(place).map_err(|_| WireError::at(self.at, "the text is too long"))
    }

    fn take(&mut self, byte: u8) -> bool {
        let here = self.peek() == Some(byte);
        self.at += usize::from(here);
        here
    }

    fn pass(&mut self, byte: u8, wanted: &str) -> Result<(), WireError> {
        if self.take(byte) { Ok(()) } else { Err(self.error(wanted)) }
    }

    #[cold]
    fn no_string(&self, what: &str) -> WireError {
        self.error(&format!("{what} in quotes"))
    }

    #[cold]
    fn error(&self, wanted: &str) -> WireError {
        let found = match self.text.get(self.at) {
            None => "the end of the text".to_owned(),
            Some(byte) => format!("'{}'", byte.escape_ascii()),
        };
        WireError::at(self.at, format!("malformed JSON: expected {wanted}, found {found}"))
    }

    /// Skips from after the opening quote to after the closing one; returns whether there was a backslash.
    fn pass_string(&mut self) -> Result<bool, WireError> {
        let opened = self.at - 1;
        let mut escaped = false;
        loop {
            let Some(found) = memchr2(b'"', b'\\', &self.text[self.at..]) else {
                return Err(WireError::at(opened, "malformed JSON: a string that does not end"));
            };
            self.at += found + 1;
            if self.text[self.at - 1] == b'"' {
                return Ok(escaped);
            }
            escaped = true;
            self.at = (self.at + 1).min(self.text.len());
        }
    }

    /// Skips from an opening bracket to after its closing bracket.
    fn pass_nested(&mut self) -> Result<(), WireError> {
        let opened = self.at;
        // One bit for each level: whether it is an object.
        let (mut objects, mut depth) = (0_u128, 0);
        while let Some(&byte) = self.text.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => {
                    self.pass_string()?;
                }
                b'{' | b'[' if depth == LEVELS_OF_A_WORD => self.pass_deeper(byte)?,
                b'{' | b'[' => {
                    objects = objects << 1 | u128::from(byte == b'{');
                    depth += 1;
                }
                b'}' | b']' if (objects & 1 == 1) != (byte == b'}') => {
                    self.at -= 1;
                    return Err(self.error("the bracket that closes the last opened one"));
                }
                b'}' | b']' if depth == 1 => return Ok(()),
                b'}' | b']' => {
                    objects >>= 1;
                    depth -= 1;
                }
                _ => {}
            }
        }
        Err(WireError::at(opened, "malformed JSON: an array or object that does not end"))
    }

    /// Skips from after this opening bracket, which is below as many levels as fit into a word, to after its closing
    /// bracket.
    #[cold]
    fn pass_deeper(&mut self, first: u8) -> Result<(), WireError> {
        let (opened, mut open) = (self.at, vec![first]);
        while let Some(&byte) = self.text.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => {
                    self.pass_string()?;
                }
                b'{' | b'[' if open.len() + LEVELS_OF_A_WORD as usize == DEEPEST => {
                    return Err(WireError::at(self.at, format!("nested deeper than {DEEPEST} levels")));
                }
                b'{' | b'[' => open.push(byte),
                b'}' | b']' if open.last().is_some_and(|open| (*open == b'{') != (byte == b'}')) => {
                    self.at -= 1;
                    return Err(self.error("the bracket that closes the last opened one"));
                }
                b'}' | b']' => {
                    open.pop();
                    if open.is_empty() {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
        Err(WireError::at(opened, "malformed JSON: an array or object that does not end"))
    }

    fn pass_scalar(&mut self) {
        let rest = &self.text[self.at..];
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
        self.at += rest.iter().position(|byte| !word(byte)).unwrap_or(rest.len());
    }
}

/// Fails if a name or UID at this position is longer than any in Kubernetes: names are copied into records,
/// requests to backends and errors.
#[inline]
pub fn name_fits(what: &str, at: usize, bytes: usize) -> Result<(), WireError> {
    if bytes <= LONGEST_NAME { Ok(()) } else { Err(name_too_long(what, at, bytes)) }
}

#[cold]
fn name_too_long(what: &str, at: usize, bytes: usize) -> WireError {
    WireError::at(at, format!("{what} has {bytes} bytes, and the gateway accepts at most {LONGEST_NAME}"))
}

/// Whether an object's key is `name` for Go's `encoding/json`: letter case is ignored.
#[inline]
pub fn key_is(key: &[u8], name: &str) -> bool {
    folds_to(key, name)
}

/// Appends `text` as a JSON string with quotes.
pub fn push_string(out: &mut Vec<u8>, text: &str) {
    let plain = text.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\');
    if plain {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        // Writing a string into a `Vec` cannot fail.
        serde_json::to_writer(out, text).expect("a string can be written to memory");
    }
}

#[cfg(test)]
mod tests;

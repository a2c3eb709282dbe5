//! Texts as Go's `encoding/json` reads them: what is not UTF-8 is replaced, byte by byte.
//!
//! Kubernetes keeps raw JSON in `managedFields`, whose bytes nobody checks: kube-apiserver stores and serves what a client
//! wrote.

use std::borrow::Cow;

use bytes::Bytes;

/// The text. Like Go, replaces each byte that is not part of a character by U+FFFD.
pub fn utf8(bytes: Cow<'_, [u8]>) -> Cow<'_, str> {
    match bytes {
        Cow::Borrowed(bytes) => str::from_utf8(bytes).map_or_else(|_| replaced(bytes).into(), Cow::Borrowed),
        Cow::Owned(bytes) => {
            String::from_utf8(bytes).unwrap_or_else(|error| replaced(error.as_bytes())).into()
        }
    }
}

/// The same for the answer of an apiserver.
pub fn utf8_body(bytes: Bytes) -> Bytes {
    match str::from_utf8(&bytes) {
        Ok(_) => bytes,
        Err(_) => replaced(&bytes).into(),
    }
}

#[cold]
fn replaced(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    // Of a surrogate without its other half, which `serde_json` writes as three bytes.
    let mut left = 0;
    for chunk in bytes.utf8_chunks() {
        if !chunk.valid().is_empty() {
            left = 0;
            text.push_str(chunk.valid());
        }
        for byte in chunk.invalid() {
            match byte {
                0x80..=0xbf if left > 0 => left -= 1,
                _ => {
                    left = if *byte == 0xed { 2 } else { 0 };
                    text.push(char::REPLACEMENT_CHARACTER);
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_that_is_no_character_is_replaced() {
        for (bytes, text) in [
            (&b"plain \xc3\xa4"[..], "plain ä"),
            (b"a\xffb", "a\u{fffd}b"),
            // The beginning of a character: Rust would replace it once.
            (b"\xe2\x82", "\u{fffd}\u{fffd}"),
            (b"\xf0\x9f\x98\x80\x80", "😀\u{fffd}"),
            (b"\xed\xa0\x80.", "\u{fffd}."),
        ] {
            assert_eq!(utf8(bytes.into()), text);
            assert_eq!(utf8(bytes.to_vec().into()), text);
            assert_eq!(utf8_body(Bytes::from_static(bytes)), text.as_bytes());
        }
    }
}

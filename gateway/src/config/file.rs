//! A configuration file's text.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::mistake::Mistake;

/// The largest file in bytes: what a `ConfigMap` can hold.
const LARGEST: u64 = 1 << 20;

/// The text of a configuration file.
pub(super) fn text(path: &Path) -> Result<String, Mistake> {
    let mistake = |wrong: String, right: &str| Mistake::of_file(None, wrong, right);
    let bytes = bytes_of(path)
        .map_err(|error| mistake(format!("cannot be read: {error}"), "the path of a readable file"))?;
    if bytes.len() as u64 > LARGEST {
        return Err(mistake("is too large".to_owned(), "at most 1 MiB, as much as a ConfigMap holds"));
    }
    String::from_utf8(bytes).map_err(|_| mistake("is not text in UTF-8".to_owned(), "a YAML file in UTF-8"))
}

/// The bytes of a file, at most one more than it may have.
fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

//! A configuration file's text.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::mistake::{ConfigErrors, Mistake};

/// The largest file in bytes: what a `ConfigMap` can hold.
const LARGEST: u64 = 1 << 20;

/// What a configuration file holds. Of one that is too large only the beginning, which is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content(Vec<u8>);

impl Content {
    /// Reads a file; blocks while it does.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(path: &Path) -> Result<Self, ConfigErrors> {
        bytes_of(path).map(Self).map_err(|error| {
            let mistake = mistake(format!("cannot be read: {error}"), "the path of a readable file");
            ConfigErrors::one(mistake).in_file(path)
        })
    }

    /// The text, if it is one that may be read.
    pub(super) fn text(&self) -> Result<&str, Mistake> {
        if self.0.len() as u64 > LARGEST {
            return Err(mistake("is too large".to_owned(), "at most 1 MiB, as much as a ConfigMap holds"));
        }
        str::from_utf8(&self.0)
            .map_err(|_| mistake("is not text in UTF-8".to_owned(), "a YAML file in UTF-8"))
    }
}

fn mistake(wrong: String, right: &str) -> Mistake {
    Mistake::of_file(None, wrong, right)
}

/// The bytes of a file, at most one more than it may have.
fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

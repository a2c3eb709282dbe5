//! The text of a configuration file.

use std::io::{self, ErrorKind, Read};
use std::path::Path;

use extender_files::read_regular_file;

use crate::mistake::{ConfigErrors, Mistake, is_standard_input};

/// The largest file in bytes: the limit of a `ConfigMap`.
const LARGEST: u64 = 1 << 20;

/// The bytes of a configuration file. A file that is too large is cut and later rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content(Vec<u8>);

impl Content {
    /// Reads a file, or standard input where the path is `-`; blocks while it does.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(path: &Path) -> Result<Self, ConfigErrors> {
        bytes_of(path).map(Self).map_err(|error| ConfigErrors::one(unreadable(&error)).in_file(path))
    }

    /// The text.
    ///
    /// # Errors
    /// It is too large or not UTF-8.
    pub fn text(&self) -> Result<&str, Mistake> {
        if self.0.len() as u64 > LARGEST {
            return Err(mistake("is too large".to_owned(), "at most 1 MiB, the limit of a ConfigMap"));
        }
        str::from_utf8(&self.0).map_err(|_| mistake("is not valid UTF-8".to_owned(), "a YAML file in UTF-8"))
    }
}

fn unreadable(error: &io::Error) -> Mistake {
    match error.kind() {
        ErrorKind::IsADirectory => {
            mistake("is a directory".to_owned(), "the path of a file in it such as gateway.yaml")
        }
        _ => mistake(format!("cannot be read: {error}"), "the path of a readable file"),
    }
}

fn mistake(wrong: String, expected: &str) -> Mistake {
    Mistake::of_file(None, wrong, expected)
}

/// The bytes of a file, at most one more than the limit.
fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    if !is_standard_input(path) {
        return read_regular_file(path, LARGEST + 1);
    }
    let mut bytes = Vec::new();
    io::stdin().lock().take(LARGEST + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

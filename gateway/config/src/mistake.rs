//! A mistake in a configuration and its message: `FILE line N: PATH: what is wrong; how to correct it`.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

/// The longest text that a message repeats, in characters.
const LONGEST_ECHO: usize = 80;

/// A place in the text, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

/// One mistake. Displayed as `line N: PATH: what is wrong; how to correct it`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// `None`: the file as a whole.
    place: Option<Place>,
    /// Such as `backends[1].score.weight`; empty for the file as a whole.
    path: String,
    wrong: String,
    remedy: String,
}

/// How to correct a mistake. A plain text is what is expected.
#[derive(Clone, Copy, Debug)]
pub enum Remedy<'a> {
    /// A value, such as `a list of namespaces`.
    Expected(&'a str),
    /// What to do, such as `remove it`.
    Do(&'a str),
}

impl<'a> From<&'a str> for Remedy<'a> {
    fn from(value: &'a str) -> Self {
        Self::Expected(value)
    }
}

impl<'a> From<&'a String> for Remedy<'a> {
    fn from(value: &'a String) -> Self {
        Self::Expected(value)
    }
}

impl fmt::Display for Remedy<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expected(value) => write!(out, "expected {value}"),
            Self::Do(action) => out.write_str(action),
        }
    }
}

impl Mistake {
    /// A mistake of one value. `wrong` is the predicate of a sentence about the path.
    pub(crate) fn at(place: Place, path: &str, wrong: String, remedy: Remedy<'_>) -> Self {
        Self { place: Some(place), path: path.to_owned(), wrong, remedy: remedy.to_string() }
    }

    /// A mistake of one value; `None` if its place is unknown.
    pub(crate) fn of_value(place: Option<Place>, path: String, wrong: String, remedy: String) -> Self {
        Self { place, path, wrong, remedy }
    }

    /// A mistake of the file as a whole.
    pub(crate) fn of_file(place: Option<Place>, wrong: String, expected: &str) -> Self {
        let remedy = Remedy::Expected(expected).to_string();
        Self { place, path: String::new(), wrong, remedy }
    }

    /// The same mistake with a remedy that fits better.
    #[must_use]
    pub fn with_remedy(self, remedy: Remedy<'_>) -> Self {
        Self { remedy: remedy.to_string(), ..self }
    }

    /// Its line, counted from 1. `None`: the file as a whole.
    pub fn line(&self) -> Option<u64> {
        self.place.map(|place| place.line)
    }

    /// `PATH: what is wrong; how to correct it`, without the line.
    pub fn sentence(&self) -> String {
        let separator = if self.path.is_empty() { "" } else { ": " };
        format!("{}{separator}{}; {}", self.path, self.wrong, self.remedy)
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line() {
            write!(out, "line {line}: ")?;
        }
        out.write_str(&self.sentence())
    }
}

/// Every mistake of a configuration, at least one, sorted by place. Displayed one per line, each with the
/// file's name if it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors {
    file: Option<PathBuf>,
    mistakes: Vec<Mistake>,
}

impl ConfigErrors {
    /// One mistake.
    pub fn one(mistake: Mistake) -> Self {
        Self { file: None, mistakes: vec![mistake] }
    }

    pub(crate) fn sorted(mut mistakes: Vec<Mistake>) -> Self {
        // Stable: mistakes of one place stay in the order in which they were found.
        mistakes.sort_by_key(|mistake| mistake.place);
        Self { file: None, mistakes }
    }

    /// The same, with the name of the file.
    #[must_use]
    pub fn in_file(self, file: &Path) -> Self {
        Self { file: Some(file.to_owned()), ..self }
    }

    /// The same, of a text that is a value of a file: `path` is that of the value, and `line` makes lines of the text to
    /// those of the file.
    #[must_use]
    pub fn below(self, path: &str, line: impl Fn(u64) -> u64) -> Self {
        let below = |mistake: Mistake| {
            let separator = if mistake.path.is_empty() { "" } else { "." };
            let place = mistake.place.map(|place| Place { line: line(place.line), ..place });
            Mistake { path: format!("{path}{separator}{}", mistake.path), place, ..mistake }
        };
        Self { mistakes: self.mistakes.into_iter().map(below).collect(), ..self }
    }

    /// All mistakes on one line, for a log.
    pub fn on_one_line(&self) -> String {
        self.mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    /// The mistakes, sorted by place.
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }

    fn write_line(&self, out: &mut fmt::Formatter<'_>, mistake: &Mistake) -> fmt::Result {
        match (&self.file, mistake.line()) {
            (None, _) => write!(out, "{mistake}"),
            (Some(file), Some(_)) => write!(out, "{} {mistake}", shown_path(file)),
            (Some(file), None) => write!(out, "{}: {mistake}", shown_path(file)),
        }
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, mistake) in self.mistakes.iter().enumerate() {
            if position > 0 {
                out.write_str("\n")?;
            }
            self.write_line(out, mistake)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// A text in quotes, without line breaks and control characters, cut if long.
pub fn echo(text: &str) -> String {
    match text.char_indices().nth(LONGEST_ECHO) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}

/// Whether this path means standard input, which can be read only once. A file of that name is `./-`.
pub fn is_standard_input(path: &Path) -> bool {
    path == Path::new("-")
}

/// The path for messages.
pub fn shown_path(path: &Path) -> Cow<'_, str> {
    if is_standard_input(path) { "standard input".into() } else { path.to_string_lossy() }
}

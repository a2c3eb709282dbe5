//! Reads configuration files: YAML whose values know their places, so that every mistake of a file is reported at
//! once, with its line, its path and what is expected instead. A file passes through [`Content`] (bounded text) and
//! [`parse`] (text → [`Node`]s with places) to a [`Cursor`], with which the owner of the format reads its fields.
//! [`Mistakes`] collects the mistakes.

mod content;
mod cursor;
mod findings;
pub mod go_duration;
mod mistake;
pub mod names;
mod yaml;

pub use content::Content;
pub use cursor::{Cursor, Entry, Fields, Mistakes, Section};
pub use findings::Finding;
pub use mistake::{ConfigErrors, Mistake, Place, Remedy, echo, is_standard_input, shown_path};
pub use yaml::{Node, Value, parse, parse_all};

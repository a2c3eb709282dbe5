//! Reads configuration files: YAML whose values know their places, so that every mistake of a file is reported at once,
//! with its line, its path and what is expected instead.
//!
//! A file goes through [`Content`] (bounded text) and [`parse`] (text → [`Node`]s with places) to a [`Cursor`], which the
//! owner of the format moves over its fields. [`Mistakes`] collects what is wrong on the way. [`Follower`] reports when a
//! file changes.

mod content;
mod cursor;
mod findings;
mod follower;
mod mistake;
pub mod names;
mod regular_file;
mod yaml;

pub use content::{Content, is_standard_input, spoken};
pub use cursor::{Cursor, Entry, Fields, Mistakes, Section};
pub use findings::Finding;
pub use follower::Follower;
pub use mistake::{ConfigErrors, Mistake, Place, echo};
pub use regular_file::read_regular_file;
pub use yaml::{Node, Value, parse};

//! Texts for people: numbers, times and names as they stand in sentences and tables.
//!
//! Names and reasons come from strangers: nothing gets to a terminal that is not [`clean()`].

mod amounts;
mod clean;
mod table;

pub(super) use self::{
    amounts::{ago, bytes, counted, duration, moment, number, share, trimmed},
    clean::clean,
    table::{Table, TextColumn},
};

/// What stands where there is nothing to say.
pub(super) const NOTHING: &str = "-";

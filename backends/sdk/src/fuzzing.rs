//! What holds for all bytes that this crate reads from outside: functions that panic if it does not. The targets of
//! cargo-fuzz (the folder `fuzz`) call them, and ordinary tests with each file of `fuzz/corpus`. Programs get them only with
//! the feature `fuzzing`.

pub use crate::table::messages::sync_nodes;

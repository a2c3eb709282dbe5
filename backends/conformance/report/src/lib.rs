//! What the conformance suites of backends and of gateways have in common: the sentences of the contract ([`sentence`]), the
//! options that select cases ([`Selection`]), and what people and CI systems read ([`progress`], [`junit()`], [`markdown`]).

mod finding;
mod junit;
mod selection;
mod spec;
mod text;

pub use self::{
    finding::{CaseInfo, Finding, Level, Outcome, counts, results},
    junit::junit,
    selection::{ListFormat, Selection, print},
    spec::{numbers, place, sentence},
    text::{list, markdown, printable, progress},
};

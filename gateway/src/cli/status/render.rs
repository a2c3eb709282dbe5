//! All replicas as text: what is wrong first, then each replica.
//!
//! Pure: the same report gives the same text.

mod backends;
mod problems;
mod replica;

use std::fmt;

use super::report::Report;

/// A report, displayed for people.
#[derive(Debug)]
pub(super) struct Rendered<'a>(pub(super) &'a Report);

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(report) = self;
        problems::write(report, out)?;
        report.replicas.iter().try_for_each(|status| replica::write(status, report.time, out))
    }
}

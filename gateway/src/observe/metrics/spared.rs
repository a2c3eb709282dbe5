//! What backends were spared, for who has no handle of the backend: answers that were known, and nodes that they hold.

use std::sync::Arc;

use super::backends::Backends;

/// Counters of questions that were not put, or not in full.
#[derive(Debug)]
pub(crate) struct Spared(pub(super) Arc<Backends>);

impl Spared {
    /// A backend did not hold the nodes that were named.
    pub(crate) fn missed(&self, backend: &str) {
        self.0.of(backend, "filter").missed();
    }

    /// A verb that a backend declares pure is not.
    pub(crate) fn disagreed(&self, backend: &str, verb: &'static str) {
        self.0.of(backend, verb).disagreed();
    }
}

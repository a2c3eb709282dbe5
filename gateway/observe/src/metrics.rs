//! The metrics of `/metrics`, in OpenMetrics' text format.
//!
//! A metric is one field and one line with its name and help, in the file that has its labels, and the code that
//! records it. Handles ([`Metrics::verb`], [`Metrics::backend`]) are fetched once and share their values with the
//! page.
//!
//! Labels are bounded: verbs, kinds and outcomes are fixed words, backends are those of the configuration, and each
//! backend has at most 20 reasons.

mod backend;
mod backends;
mod os;
mod page;
mod process;
mod rejecting;
mod series;
mod verb;

use std::{fmt, sync::Arc};

use extender_gateway_core::Verb;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, text},
    registry::Registry,
};

pub use self::series::percentile;
pub use self::{
    backend::{BackendMetrics, BackendVerbMetrics},
    process::{BackendState, ProcessMetrics, Source},
    rejecting::Turn,
    series::{RecentSummary, Trace},
    verb::{InFlight, VerbMetrics},
};
use self::{backends::Backends, page::Page, verb::VerbSeries};

/// The `Content-Type` of the page. Prometheus requests it since 2.5, and accepts it in any case.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    families: Arc<Families>,
}

/// The families of the page.
#[derive(Debug, Default)]
struct Families {
    verbs: VerbSeries,
    backends: Backends,
    process: ProcessMetrics,
}

impl Collector for Families {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let page = &mut Page(encoder);
        self.verbs.write(page)?;
        self.backends.write(page)?;
        self.process.write(page)?;
        os::write(page)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let (mut registry, families) = (Registry::default(), Arc::new(Families::default()));
        registry.register_collector(Box::new(Arc::clone(&families)));
        // An alert asks for an increase, and Prometheus sees none in a series that begins with 1.
        for outcome in ["ok", "refused"] {
            families.process.configuration_reloads.add([outcome], 0);
        }
        Self { registry, families }
    }

    /// The metrics of the process.
    pub fn process(&self) -> &ProcessMetrics {
        &self.families.process
    }

    /// The calls of a verb; `None` for requests without a verb in their path.
    pub fn verb(&self, verb: Option<Verb>) -> Arc<VerbMetrics> {
        let verbs = &self.families.verbs;
        Arc::clone(verb.map_or(&verbs.none, |verb| &verbs.verbs[verb]))
    }

    /// Counts a panic in a call.
    pub fn panicked(&self) {
        self.process().panics.inc();
    }

    /// All metrics in OpenMetrics' text format.
    pub fn text(&self) -> String {
        let mut page = String::new();
        // Writing to a string cannot fail, and neither can the families.
        let written = text::encode(&mut page, &self.registry);
        debug_assert!(written.is_ok());
        page
    }
}

#[cfg(test)]
mod tests;

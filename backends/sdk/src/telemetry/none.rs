//! Built without the feature `otlp`: nothing is sent.

#![expect(clippy::unused_async, clippy::unused_self, reason = "with the feature they have something to do")]

use std::env;

use tonic::codegen::http;

use super::{Telemetry, TelemetryError, Variables};
use crate::{Backend, service::Answered};

/// Each names a collector.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

const MISSING: &str = "this program was built without OTLP; turn on the feature `otlp` of extender-policy-sdk in its Cargo.toml";

/// Traces no call.
#[derive(Clone, Debug)]
pub(crate) struct NoTracer;

impl NoTracer {
    /// # Errors
    ///
    /// The program names a collector in its code.
    pub(crate) fn start(telemetry: &Telemetry, _: &Backend) -> Result<Self, TelemetryError> {
        match &telemetry.source {
            Variables::Given(variables) if ENDPOINTS.iter().any(|name| variables.contains_key(*name)) => {
                return Err(TelemetryError(MISSING.to_owned()));
            }
            Variables::Environment if ENDPOINTS.iter().any(|name| env::var_os(name).is_some()) => {
                tracing::warn!("no spans are sent: {MISSING}");
            }
            _ => {}
        }
        Ok(Self)
    }

    pub(crate) fn follow<B>(&self, _: &http::Request<B>) -> Option<NotFollowed> {
        None
    }

    pub(crate) async fn end(&self) {}
}

/// Does not exist.
pub(crate) enum NotFollowed {}

impl NotFollowed {
    pub(crate) fn through(self, _: Answered) -> Answered {
        match self {}
    }
}

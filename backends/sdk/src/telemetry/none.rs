//! Built without the feature `otlp`: nothing is sent.

#![expect(
    clippy::unnecessary_wraps,
    clippy::unused_async,
    clippy::unused_self,
    reason = "with the feature they have something to do"
)]

use tonic::codegen::http;

use super::{Telemetry, TelemetryError};
use crate::{Backend, service::Answered};

/// Traces no call.
#[derive(Clone, Debug)]
pub(crate) struct Tracer;

impl Tracer {
    pub(crate) fn start(_: &Telemetry, _: &Backend) -> Result<Self, TelemetryError> {
        Ok(Self)
    }

    pub(crate) fn follow<B>(&self, _: &http::Request<B>) -> Option<Followed> {
        None
    }

    pub(crate) async fn end(&self) {}
}

/// Does not exist.
pub(crate) enum Followed {}

impl Followed {
    pub(crate) fn through(self, _: Answered) -> Answered {
        match self {}
    }
}

//! Traces calls that the gateway traces, and sends a span of each to a collector.

mod followed;

use std::{fmt, sync::Arc, time::Duration};

use extender_otlp::{Explicit, Exporters, Program, Sampler, Settings, Spans, TRACESTATE, TraceContext};
use opentelemetry::{InstrumentationScope, trace::TraceState};
use tokio::runtime::Handle;
use tonic::codegen::http::{HeaderMap, Request};

use self::followed::Followed;
use super::{Telemetry, TelemetryError, Variables};
use crate::Backend;

/// How long the last spans may take when the process ends: Kubernetes allows 30 s, including draining.
const FLUSH: Duration = Duration::from_secs(5);

/// Traces calls, if spans are sent.
#[derive(Clone)]
pub(crate) struct Tracer {
    sending: Option<Arc<Sending>>,
}

struct Sending {
    exporters: Exporters,
    spans: Spans,
    sampler: Sampler,
}

impl Tracer {
    /// In a runtime, which runs the connection to the collector.
    pub(crate) fn start(telemetry: &Telemetry, backend: &Backend) -> Result<Self, TelemetryError> {
        let settings = Settings::resolve(program(backend, telemetry), &Explicit::default(), |name| {
            telemetry.variable(name)
        });
        for warning in &settings.warnings {
            tracing::warn!("{warning}");
        }
        if settings.traces.is_none() {
            return Ok(Self { sending: None });
        }
        let exporters = Exporters::start(&settings, &Handle::current());
        let exporters = exporters.map_err(|error| TelemetryError(error.to_string()))?;
        let sending =
            exporters.spans().cloned().map(|spans| Sending { exporters, spans, sampler: settings.sampler });
        Ok(Self { sending: sending.map(Arc::new) })
    }

    /// The span of a traced call. For others only one header is read.
    pub(crate) fn follow<B>(&self, request: &Request<B>) -> Option<Followed> {
        let sending = self.sending.as_ref()?;
        let caller = TraceContext::of_caller(request.headers())?;
        let verb = verb(request.uri().path())?;
        let sampled = sending.sampler.continues(&caller);
        sampled.then(|| Followed::begin(sending.spans.clone(), verb, caller, state(request.headers())))
    }

    /// Sends the queued spans.
    pub(crate) async fn end(&self) {
        if let Some(sending) = &self.sending {
            sending.exporters.shutdown(FLUSH).await;
        }
    }
}

impl fmt::Debug for Tracer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tracer").field(&self.sending.as_ref().map(|sending| &sending.spans)).finish()
    }
}

impl Telemetry {
    fn variable(&self, name: &str) -> Option<String> {
        match &self.source {
            Variables::Environment => std::env::var(name).ok(),
            Variables::Given(variables) => variables.get(name).cloned(),
        }
    }
}

/// The service name, unless a variable sets it. A backend built from args has no name before its first call, and
/// may have several then: the name of [`Telemetry::service_name`] or the program's name is used.
fn program(backend: &Backend, telemetry: &Telemetry) -> Program {
    let scope = InstrumentationScope::builder(env!("CARGO_PKG_NAME")).with_version(env!("CARGO_PKG_VERSION"));
    let (service, version) = backend
        .name_and_version()
        .unwrap_or_else(|| (telemetry.service.clone().unwrap_or_else(executable), String::new()));
    Program { service, version, scope: scope.build() }
}

fn executable() -> String {
    let path = std::env::current_exe().ok();
    let name =
        path.as_deref().and_then(|path| path.file_stem()).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "extender-policy".to_owned())
}

fn state(headers: &HeaderMap) -> TraceState {
    let given: Vec<_> = headers.get_all(TRACESTATE).iter().filter_map(|state| state.to_str().ok()).collect();
    given.join(",").parse().unwrap_or_default()
}

/// The methods that spans are named after. The handshake is not a part of a decision.
const VERBS: [&str; 5] = [
    "extender.policy.v1beta1.PolicyService/Filter",
    "extender.policy.v1beta1.PolicyService/Score",
    "extender.policy.v1beta1.PolicyService/Preempt",
    "extender.policy.v1beta1.PolicyService/Bind",
    "extender.policy.v1beta1.HookService/Change",
];

/// The verb at this path.
fn verb(path: &str) -> Option<&'static str> {
    let asked = path.strip_prefix('/')?;
    VERBS.into_iter().find(|verb| *verb == asked)
}

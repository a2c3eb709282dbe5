//! Applies the telemetry settings of the configuration, at the start and when they change.

use extender_otlp::{
    Explicit, Exporters, Program, Protocol, Ratio, Sampler, Settings, SettingsError, StartError,
};
use opentelemetry::InstrumentationScope;
use tokio::runtime::Handle;

use std::{convert::Infallible, sync::Arc, time::Duration};

use crate::{
    admin::status::GatewayStatus,
    config::{Config, Exporter, OtlpProtocol},
    observe::{Health, Metrics, Observer, Tracer, log, metrics::Gauge, traces::TraceSettings},
};

/// The interval for counting spans and lost log lines.
const COUNT: Duration = Duration::from_secs(1);
/// The gateway's service name.
const SERVICE: &str = "extender-gateway";

/// Why telemetry cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The variables or the configuration have mistakes.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// An exporter cannot be created.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Sends spans and selects them.
pub(super) struct Telemetry {
    pub(super) exporters: Exporters,
    pub(super) observer: Arc<Observer>,
    /// The sampler if the file does not configure one.
    sampler: Sampler,
}

impl Telemetry {
    /// Starts telemetry by the configuration and the `OTEL_*` variables. Connections belong to the runtime.
    pub(super) fn start(config: &Config, runtime: &Handle) -> Result<Self, TelemetryError> {
        let scope = InstrumentationScope::builder(SERVICE).with_version(env!("CARGO_PKG_VERSION")).build();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let program = Program { service: SERVICE.to_owned(), version, scope };
        let settings = Settings::resolve(program, &explicit(config), |name| std::env::var(name).ok())?;
        let exporters = Exporters::start(&settings, runtime)?;
        tracing::info!("OTLP: {settings}");
        let sampler = settings.sampler;
        let tracer = exporters.spans().map(|spans| Tracer::new(spans.clone(), choice(config, sampler)));
        let observer =
            Observer::new(Arc::new(Metrics::new()), config.decisions.max_bytes).with_tracer(tracer);
        Ok(Self { exporters, observer: Arc::new(observer), sampler })
    }

    /// The part that can change while the gateway runs.
    pub(super) fn changes(&self) -> TelemetryReload {
        TelemetryReload { observer: Arc::clone(&self.observer), sampler: self.sampler }
    }
}

/// Changes what is exported and kept.
#[derive(Debug)]
pub(super) struct TelemetryReload {
    observer: Arc<Observer>,
    sampler: Sampler,
}

impl TelemetryReload {
    /// Applies this configuration.
    pub(super) fn apply(&self, config: &Config, before: &Config) {
        let evicted = self.observer.decisions.resize(config.decisions.max_bytes);
        self.observer.metrics.evicted(evicted);
        if let Some(tracer) = &self.observer.tracer {
            tracer.choose(choice(config, self.sampler));
        }
        // A level set through the admin address stays until the file has another one.
        if config.log.level != before.log.level {
            log::configure(config.log.level);
        }
        let names: Vec<&str> = config.backends.iter().map(|backend| backend.name.as_str()).collect();
        self.observer.metrics.retain_backends(&names);
        self.observer.failures.retain(&names);
    }
}

/// Copies the exporter's counts of spans to the metrics, indefinitely.
pub(super) async fn count_spans(observer: Arc<Observer>) -> Infallible {
    let Some(tracer) = &observer.tracer else { return std::future::pending().await };
    let mut before = tracer.delivery();
    loop {
        tokio::time::sleep(COUNT).await;
        let now = tracer.delivery();
        observer.metrics.spans_exported(now.delivered - before.delivered);
        observer.metrics.spans_dropped(now.failed + now.dropped - before.failed - before.dropped);
        before = now;
    }
}

/// Copies the log's count of lost lines to the metrics, indefinitely: the log exists before the metrics.
pub(super) async fn count_lost_lines(metrics: Arc<Metrics>) -> Infallible {
    let mut before = 0;
    loop {
        let now = log::lost();
        metrics.log_lines_lost(now - before);
        before = now;
        tokio::time::sleep(COUNT).await;
    }
}

/// Registers gauges for values that are not counted.
pub(super) fn gauges(observer: &Arc<Observer>, gateway_status: &Arc<GatewayStatus>, health: &Arc<Health>) {
    let metrics = &observer.metrics;
    gateway_status.gauges(metrics);
    let health = Arc::clone(health);
    metrics.gauge(Gauge::CallThreadSilence, move || Some(health.silence().as_secs_f64()));
    let of_log =
        [Gauge::DecisionLogLimit, Gauge::DecisionLogBytes, Gauge::DecisionLogCalls, Gauge::DecisionLogPods];
    for (at, gauge) in of_log.into_iter().enumerate() {
        let observer = Arc::downgrade(observer);
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        metrics.gauge(gauge, move || Some(observer.upgrade()?.decisions.size()[at] as f64));
    }
}

fn choice(config: &Config, sampler: Sampler) -> TraceSettings {
    let ratio = config.traces.ratio.and_then(|ratio| Ratio::new(ratio.share()).ok());
    TraceSettings {
        sampler: ratio.map_or(sampler, Sampler::Parent),
        slow: config.traces.keep_slower_than,
        annotation: config.traces.pod_annotation.clone(),
    }
}

fn explicit(config: &Config) -> Explicit {
    Explicit {
        endpoint: config.otlp.endpoint.clone(),
        protocol: config.otlp.protocol.map(|protocol| match protocol {
            OtlpProtocol::Grpc => Protocol::Grpc,
            OtlpProtocol::HttpProtobuf => Protocol::Http,
        }),
        timeout: config.otlp.timeout,
        traces: config.traces.exporter.map(|exporter| match exporter {
            Exporter::None => extender_otlp::Exporter::None,
            Exporter::Otlp => extender_otlp::Exporter::Otlp,
        }),
        // Each configuration is merged into it, so that one without this field falls back to the variables.
        ratio: None,
    }
}

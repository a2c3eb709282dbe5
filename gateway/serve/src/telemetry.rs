//! Applies the telemetry settings of the configuration, at the start and when they change.

use std::{convert::Infallible, sync::Arc, time::Duration};

use extender_gateway_admin::status::GatewayStatus;
use extender_gateway_observe::{
    Health, Metrics, Observer, Tracer, debug::DebugTables, log, traces::TraceSettings,
};
use extender_gateway_settings::{Config, Exporter, OtlpProtocol};
use extender_otlp::{Explicit, Exporters, Program, Protocol, Ratio, Sampler, Settings};
use opentelemetry::InstrumentationScope;
use tokio::{runtime::Handle, time::sleep};

use super::ServeError;

/// The interval for counting spans and lost log lines.
const COUNT: Duration = Duration::from_secs(1);
/// The gateway's service name.
const SERVICE: &str = "extender-gateway";

/// Sends spans and selects them.
pub(super) struct Telemetry {
    pub(super) exporters: Exporters,
    pub(super) observer: Arc<Observer>,
    /// The sampler if the file does not configure one.
    pub(super) sampler: Sampler,
}

impl Telemetry {
    /// Starts telemetry by the configuration and the `OTEL_*` variables. Connections belong to the runtime.
    pub(super) fn start(config: &Config, debug: DebugTables, runtime: &Handle) -> Result<Self, ServeError> {
        let version = env!("CARGO_PKG_VERSION");
        let scope = InstrumentationScope::builder(SERVICE).with_version(version).build();
        let program = Program { service: SERVICE.to_owned(), version: version.to_owned(), scope };
        let settings = Settings::resolve(program, &explicit(config), |name| std::env::var(name).ok());
        for warning in &settings.warnings {
            tracing::warn!("{warning}");
        }
        let exporters = Exporters::start(&settings, runtime)?;
        tracing::info!("OTLP: {settings}");
        let sampler = settings.sampler;
        let tracer = exporters.spans().map(|spans| Tracer::new(spans.clone(), choice(config, sampler)));
        let mut observer = Observer::new(Arc::new(Metrics::new()), config.decisions.max_bytes);
        (observer.tracer, observer.debug) = (tracer, debug);
        Ok(Self { exporters, observer: Arc::new(observer), sampler })
    }
}

/// Applies the part of a configuration that can change while the gateway runs. `sampler` applies if the file does not
/// configure one.
pub(super) fn apply(observer: &Observer, sampler: Sampler, config: &Config, before: &Config) {
    observer.decisions.resize(config.decisions.max_bytes);
    if let Some(tracer) = &observer.tracer {
        tracer.set(choice(config, sampler));
    }
    // A level set through the admin address stays until the file has another one.
    if config.log.level != before.log.level {
        log::configure(config.log.level);
    }
    let names: Vec<&str> = config.backends.iter().map(|backend| backend.name.as_str()).collect();
    observer.metrics.retain_backends(&names);
}

/// Copies the log's count of lost lines and the exporter's counts of spans to the metrics, indefinitely.
pub(super) async fn count(observer: &Observer) -> Infallible {
    let Observer { metrics, tracer, .. } = observer;
    let counters = metrics.process();
    let (mut lost, mut spans) = (0, tracer.as_ref().map(Tracer::delivery));
    loop {
        let now = log::lost();
        counters.lost_log_lines.inc_by(now - lost);
        lost = now;
        sleep(COUNT).await;
        if let (Some(tracer), Some(before)) = (tracer, &mut spans) {
            let now = tracer.delivery();
            counters.exported_spans.inc_by(now.delivered - before.delivered);
            counters.dropped_spans.inc_by(now.failed + now.dropped - before.failed - before.dropped);
            *before = now;
        }
    }
}

/// Registers gauges for values that are not counted.
pub(super) fn register_gauges(
    observer: &Arc<Observer>,
    gateway_status: &Arc<GatewayStatus>,
    health: &Arc<Health>,
) {
    gateway_status.register_gauges(&observer.metrics);
    let metrics = observer.metrics.process();
    let health = Arc::clone(health);
    metrics.call_thread_silence.set(move || Some(health.silence().as_secs_f64()));
    let of_log = [
        &metrics.decision_log_limit,
        &metrics.decision_log_bytes,
        &metrics.decision_log_calls,
        &metrics.decision_log_pods,
    ];
    for (at, gauge) in of_log.into_iter().enumerate() {
        let observer = Arc::downgrade(observer);
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        gauge.set(move || Some(observer.upgrade()?.decisions.size()[at] as f64));
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

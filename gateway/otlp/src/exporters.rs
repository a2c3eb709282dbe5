//! What sends spans and metrics: an exporter each, with a thread each that collects and waits. The threads have no
//! reactor; connections live on the runtime that is given.

mod grpc;
mod http;
mod tls;

use std::{io, path::PathBuf, thread, time::Duration};

use opentelemetry_otlp::{ExporterBuildError, MetricExporter, SpanExporter};
use opentelemetry_sdk::{
    Resource,
    metrics::{PeriodicReader, SdkMeterProvider, Temporality},
    resource::TelemetryResourceDetector,
};
use tokio::{runtime::Handle, sync::oneshot, time::timeout};

use crate::{Export, Protocol, Settings, Spans};

/// How requests name their sender.
const USER_AGENT: &str = concat!("extender-otlp/", env!("CARGO_PKG_VERSION"));

/// What sends spans and metrics, as the [`Settings`] say. Connecting begins with the first batch, and a collector that
/// is away costs nothing but what is lost: `extender_otlp` tells the log when spans stop and when they start again to
/// get through. The OpenTelemetry crates log nothing by themselves, since their feature for it is off.
///
/// Dropped without [`shutdown`](Self::shutdown), what still waits is lost.
#[derive(Debug)]
pub struct Exporters {
    spans: Option<Spans>,
    meters: Option<SdkMeterProvider>,
}

/// Why nothing is sent.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The file with the collector's certificates.
    #[error("the certificates in {} for the OTLP endpoint cannot be used: {source}", path.display())]
    Certificate {
        /// As it was given.
        path: PathBuf,
        /// What is wrong with it.
        source: rustls::pki_types::pem::Error,
    },
    /// An https endpoint, and nothing to check it against.
    #[error(
        "no certificates of the system for the OTLP endpoint: {0}; OTEL_EXPORTER_OTLP_CERTIFICATE names a file"
    )]
    NoRoots(io::Error),
    /// A certificate that is none, or a TLS library that lacks what is needed.
    #[error("TLS to the OTLP endpoint: {0}")]
    Tls(#[from] rustls::Error),
    /// An exporter refuses its settings.
    #[error("the OTLP exporter cannot be built: {0}")]
    Exporter(#[from] ExporterBuildError),
}

impl Exporters {
    /// Starts what is wanted. Connections are made and kept by tasks of the runtime, which must have time and I/O.
    ///
    /// # Errors
    ///
    /// [`StartError`]; not that the collector is away.
    pub fn start(settings: &Settings, runtime: &Handle) -> Result<Self, StartError> {
        let spans = settings.traces.as_ref().map(|export| spans(export, settings, runtime));
        let meters = settings.metrics.as_ref().map(|export| meters(export, settings, runtime));
        Ok(Self { spans: spans.transpose()?, meters: meters.transpose()? })
    }

    /// Where finished spans go; `None` when they are not sent.
    #[must_use]
    pub fn spans(&self) -> Option<&Spans> {
        self.spans.as_ref()
    }

    /// Where instruments come from; `None` when metrics are not sent. What they measure is cumulative.
    #[must_use]
    pub fn meter_provider(&self) -> Option<&SdkMeterProvider> {
        self.meters.as_ref()
    }

    /// Sends what waits, and ends. Returns when all is sent, and at the latest after this time; the runtime must go on
    /// meanwhile.
    pub async fn shutdown(&self, within: Duration) {
        let spans = self.spans.clone().map(|spans| aside(move || spans.shutdown(within)));
        let meters =
            self.meters.clone().map(|meters| aside(move || drop(meters.shutdown_with_timeout(within))));
        let ended = async {
            for ended in [spans, meters].into_iter().flatten() {
                drop(ended.await);
            }
        };
        drop(timeout(within, ended).await);
    }
}

fn spans(export: &Export, settings: &Settings, runtime: &Handle) -> Result<Spans, StartError> {
    let export = Export { timeout: export.timeout.min(settings.batch.timeout), ..export.clone() };
    let exporter = span_exporter(&export, runtime)?;
    Ok(Spans::new(exporter, settings.scope.clone(), &resource(settings), settings.batch))
}

fn meters(export: &Export, settings: &Settings, runtime: &Handle) -> Result<SdkMeterProvider, StartError> {
    let reader = PeriodicReader::builder(metric_exporter(export, runtime)?);
    let reader = reader.with_interval(settings.interval).build();
    Ok(SdkMeterProvider::builder().with_resource(resource(settings)).with_reader(reader).build())
}

/// Without what the crate would read from the environment: the settings have it.
fn resource(settings: &Settings) -> Resource {
    let resource = Resource::builder_empty().with_detector(Box::new(TelemetryResourceDetector));
    resource.with_attributes(settings.resource.clone()).build()
}

impl Drop for Exporters {
    /// The last owner of a meter provider waits for its last export, which a thread of the runtime must not.
    fn drop(&mut self) {
        if let Some(meters) = self.meters.take() {
            drop(aside(move || drop(meters)));
        }
    }
}

/// Does what waits on a thread of its own, since it waits for tasks of the runtime. Without a thread it is not done.
fn aside(work: impl FnOnce() + Send + 'static) -> oneshot::Receiver<()> {
    let (done, ended) = oneshot::channel();
    let run = move || {
        work();
        drop(done);
    };
    drop(thread::Builder::new().name("otlp-shutdown".to_owned()).spawn(run));
    ended
}

fn span_exporter(export: &Export, runtime: &Handle) -> Result<SpanExporter, StartError> {
    let builder = SpanExporter::builder();
    Ok(match export.protocol {
        Protocol::Grpc => grpc::set(builder.with_tonic(), export, runtime)?.build()?,
        Protocol::Http => http::set(builder.with_http(), export, runtime)?.build()?,
    })
}

fn metric_exporter(export: &Export, runtime: &Handle) -> Result<MetricExporter, StartError> {
    let builder = MetricExporter::builder().with_temporality(Temporality::Cumulative);
    Ok(match export.protocol {
        Protocol::Grpc => grpc::set(builder.with_tonic(), export, runtime)?.build()?,
        Protocol::Http => http::set(builder.with_http(), export, runtime)?.build()?,
    })
}

//! Sends spans: an exporter with a thread that batches them and blocks. The thread has no reactor; connections live
//! on the given runtime.

mod transport;

use std::{io, path::PathBuf, thread, time::Duration};

use opentelemetry_otlp::{ExporterBuildError, SpanExporter};
use opentelemetry_sdk::{Resource, resource::TelemetryResourceDetector};
use tokio::{runtime::Handle, sync::oneshot, time::timeout};

use crate::{Export, Protocol, Settings, Spans};

/// The user agent of requests.
const OUR_USER_AGENT: &str = concat!("extender-otlp/", env!("CARGO_PKG_VERSION"));

/// Sends spans according to the [`Settings`]. Connects with the first batch; an unavailable collector costs only
/// the lost spans: `extender_otlp` logs when exports begin to fail and when they work again. The logging feature of
/// the OpenTelemetry crates is off. If dropped without [`shutdown`](Self::shutdown), queued spans are lost.
#[derive(Debug)]
pub struct Exporters {
    spans: Option<Spans>,
}

/// Why the exporter cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The file with the collector's certificates.
    #[error("invalid certificates in {} for the OTLP endpoint: {source}", path.display())]
    Certificate {
        /// The configured path.
        path: PathBuf,
        /// What is wrong with it.
        source: rustls::pki_types::pem::Error,
    },
    /// An https endpoint without CA certificates.
    #[error(
        "no certificates of the system for the OTLP endpoint: {0}; OTEL_EXPORTER_OTLP_CERTIFICATE names a file"
    )]
    NoRoots(io::Error),
    /// An invalid certificate, or a TLS library without a required feature.
    #[error("TLS to the OTLP endpoint: {0}")]
    Tls(#[from] rustls::Error),
    /// An exporter rejects its settings.
    #[error("the OTLP exporter cannot be built: {0}")]
    Exporter(#[from] ExporterBuildError),
}

impl Exporters {
    /// Starts the exporter. Connections are tasks of the runtime, which must have time and I/O enabled.
    ///
    /// # Errors
    /// [`StartError`]; not if the collector is unavailable.
    pub fn start(settings: &Settings, runtime: &Handle) -> Result<Self, StartError> {
        let spans = settings.traces.as_ref().map(|export| spans(export, settings, runtime));
        Ok(Self { spans: spans.transpose()? })
    }

    /// The queue for finished spans; `None` if they are not sent.
    #[must_use]
    pub fn spans(&self) -> Option<&Spans> {
        self.spans.as_ref()
    }

    /// Sends the queued spans and stops. Returns when all are sent, or after this time; the runtime must keep
    /// running.
    pub async fn shutdown(&self, within: Duration) {
        let Some(spans) = self.spans.clone() else { return };
        drop(timeout(within, on_a_thread(move || spans.shutdown(within))).await);
    }
}

fn spans(export: &Export, settings: &Settings, runtime: &Handle) -> Result<Spans, StartError> {
    let export = Export { timeout: export.timeout.min(settings.batch.timeout), ..export.clone() };
    let exporter = span_exporter(&export, runtime)?;
    Ok(Spans::new(exporter, settings.scope.clone(), &resource(settings), settings.batch))
}

/// Without the environment variables that the crate would read: the settings contain them.
fn resource(settings: &Settings) -> Resource {
    let resource = Resource::builder_empty().with_detector(Box::new(TelemetryResourceDetector));
    resource.with_attributes(settings.resource.clone()).build()
}

/// Runs a blocking function on a separate thread, since it waits for tasks of the runtime. Skipped if no thread can
/// start.
fn on_a_thread(work: impl FnOnce() + Send + 'static) -> oneshot::Receiver<()> {
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
        Protocol::Grpc => transport::grpc(builder.with_tonic(), export, runtime)?.build()?,
        Protocol::Http => transport::http(builder.with_http(), export, runtime)?.build()?,
    })
}

//! Sends spans: an exporter with a thread that collects them and waits. The thread has no reactor; connections live on
//! the runtime that is given.

mod grpc;
mod http;
mod tls;

use std::{io, path::PathBuf, thread, time::Duration};

use opentelemetry_otlp::{ExporterBuildError, SpanExporter};
use opentelemetry_sdk::{Resource, resource::TelemetryResourceDetector};
use tokio::{runtime::Handle, sync::oneshot, time::timeout};

use crate::{Export, Protocol, Settings, Spans};

/// How requests name their sender.
const USER_AGENT: &str = concat!("extender-otlp/", env!("CARGO_PKG_VERSION"));

/// Sends spans as the [`Settings`] say. Connecting begins with the first batch, and a collector that
/// is away costs nothing but what is lost: `extender_otlp` tells the log when spans stop and when they start again to
/// get through. The OpenTelemetry crates log nothing by themselves, since their feature for it is off.
///
/// Dropped without [`shutdown`](Self::shutdown), what still waits is lost.
#[derive(Debug)]
pub struct Exporters {
    spans: Option<Spans>,
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
        Ok(Self { spans: spans.transpose()? })
    }

    /// Where finished spans go; `None` when they are not sent.
    #[must_use]
    pub fn spans(&self) -> Option<&Spans> {
        self.spans.as_ref()
    }

    /// Sends what waits, and ends. Returns when all is sent, and at the latest after this time; the runtime must go on
    /// meanwhile.
    pub async fn shutdown(&self, within: Duration) {
        let Some(spans) = self.spans.clone() else { return };
        drop(timeout(within, aside(move || spans.shutdown(within))).await);
    }
}

fn spans(export: &Export, settings: &Settings, runtime: &Handle) -> Result<Spans, StartError> {
    let export = Export { timeout: export.timeout.min(settings.batch.timeout), ..export.clone() };
    let exporter = span_exporter(&export, runtime)?;
    Ok(Spans::new(exporter, settings.scope.clone(), &resource(settings), settings.batch))
}

/// Without what the crate would read from the environment: the settings have it.
fn resource(settings: &Settings) -> Resource {
    let resource = Resource::builder_empty().with_detector(Box::new(TelemetryResourceDetector));
    resource.with_attributes(settings.resource.clone()).build()
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

//! An exporter that counts spans, and logs when exports begin to fail and when they work again.

use std::{
    any::Any,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use futures_util::FutureExt;
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    trace::{SpanData, SpanExporter},
};
use parking_lot::Mutex;

use super::Delivery;

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) waiting: AtomicUsize,
    pub(super) dropped: AtomicU64,
    delivered: AtomicU64,
    failed: AtomicU64,
    fault: Mutex<Option<String>>,
}

impl Counts {
    pub(super) fn delivery(&self) -> Delivery {
        Delivery {
            waiting: self.waiting.load(Relaxed) as u64,
            delivered: self.delivered.load(Relaxed),
            failed: self.failed.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            fault: self.fault.lock().clone(),
        }
    }

    /// Logs two lines per outage, regardless of its length.
    fn note(&self, spans: u64, result: &OTelSdkResult) {
        let count = if result.is_ok() { &self.delivered } else { &self.failed };
        count.fetch_add(spans, Relaxed);
        let fault = result.as_ref().err().map(ToString::to_string);
        let before = std::mem::replace(&mut *self.fault.lock(), fault.clone());
        match (before, fault) {
            (None, Some(error)) => {
                tracing::warn!(%error, "cannot export spans to the collector; they are lost");
            }
            (Some(_), None) => tracing::info!("exporting spans to the collector works again"),
            _ => {}
        }
    }
}

#[derive(Debug)]
pub(super) struct Counted<E> {
    exporter: E,
    counts: Arc<Counts>,
}

impl<E> Counted<E> {
    pub(super) fn new(exporter: E, counts: Arc<Counts>) -> Self {
        Self { exporter, counts }
    }
}

impl<E: SpanExporter> SpanExporter for Counted<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        self.counts.waiting.fetch_sub(spans, Relaxed);
        // tonic panics when a collector sends trailers that it does not expect. The panic would end the processor's
        // thread, and no more spans would be sent. The exporter shares no state that a panic leaves inconsistent.
        let export = AssertUnwindSafe(self.exporter.export(batch)).catch_unwind().await;
        let result = export.unwrap_or_else(|panic| Err(panicked(&*panic)));
        self.counts.note(spans as u64, &result);
        result
    }

    fn shutdown(&self) -> OTelSdkResult {
        self.exporter.shutdown()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

fn panicked(panic: &(dyn Any + Send)) -> OTelSdkError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    OTelSdkError::InternalFailure(format!("the answer of the collector cannot be read: {text}"))
}

//! A bounded queue of finished spans for the exporter, and counts of their delivery.

use std::{any::Any, fmt, mem, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use opentelemetry::InstrumentationScope;
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    trace::{BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanExporter, SpanProcessor as _},
};
use parking_lot::Mutex;

use crate::{Batch, Span};

/// Takes finished spans. Clones are the same queue.
#[derive(Clone)]
pub struct Spans {
    queue: Arc<Queue>,
}

struct Queue {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
    size: u64,
    delivery: Arc<Mutex<Delivery>>,
}

/// Delivery of spans since the start. Those that are neither delivered, failed nor dropped are queued.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Queued, without those of the request in progress.
    pub waiting: u64,
    /// Accepted by the collector.
    pub delivered: u64,
    /// Lost because the export failed or timed out.
    pub failed: u64,
    /// Lost because the queue was full.
    pub dropped: u64,
    /// Why the last request failed; `None` after a success.
    pub fault: Option<String>,
}

impl Spans {
    /// A queue in front of an exporter, with a thread that empties it.
    pub(crate) fn new(
        exporter: impl SpanExporter + 'static,
        scope: InstrumentationScope,
        resource: &Resource,
        batch: Batch,
    ) -> Self {
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(batch.queue.get())
            .with_max_export_batch_size(batch.size.get())
            .with_scheduled_delay(batch.delay);
        let delivery = Arc::new(Mutex::new(Delivery::default()));
        let exporter = CountingExporter { exporter, delivery: Arc::clone(&delivery) };
        let mut processor = BatchSpanProcessor::builder(exporter).with_batch_config(config.build()).build();
        processor.set_resource(resource);
        Self { queue: Arc::new(Queue { processor, scope, size: batch.queue.get() as u64, delivery }) }
    }

    /// Queues a finished span. Never blocks: if the queue is full the span is dropped and counted. Does not check
    /// whether the context is sampled.
    pub fn send(&self, span: Span) {
        let Queue { processor, scope, size, delivery } = &*self.queue;
        let mut counts = delivery.lock();
        // Counted here, because the processor does not report how many it dropped. Its queue is never shorter.
        if counts.waiting >= *size {
            counts.dropped += 1;
        } else {
            counts.waiting += 1;
            drop(counts);
            processor.on_end(span.into_data(scope.clone()));
        }
    }

    /// Delivery of the spans so far.
    #[must_use]
    pub fn delivery(&self) -> Delivery {
        self.queue.delivery.lock().clone()
    }

    /// Sends the queued spans and blocks until done; not for a thread of a runtime.
    pub(crate) fn shutdown(&self, within: Duration) {
        // Spans that were not sent in time are counted; no further report is possible.
        drop(self.queue.processor.shutdown_with_timeout(within));
    }
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Spans").field(&self.delivery()).finish()
    }
}

/// Counts spans, and logs when exports begin to fail and when they work again.
#[derive(Debug)]
struct CountingExporter<E> {
    exporter: E,
    delivery: Arc<Mutex<Delivery>>,
}

impl<E> CountingExporter<E> {
    /// Logs two lines per outage, regardless of its length.
    fn count(&self, spans: u64, result: &OTelSdkResult) {
        let fault = result.as_ref().err().map(ToString::to_string);
        let before = {
            let mut delivery = self.delivery.lock();
            *(if fault.is_none() { &mut delivery.delivered } else { &mut delivery.failed }) += spans;
            mem::replace(&mut delivery.fault, fault.clone())
        };
        match (before, fault) {
            (None, Some(error)) => {
                tracing::warn!(%error, "cannot export spans to the collector; they are lost");
            }
            (Some(_), None) => tracing::info!("exporting spans to the collector works again"),
            _ => {}
        }
    }
}

impl<E: SpanExporter> SpanExporter for CountingExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len() as u64;
        self.delivery.lock().waiting -= spans;
        // tonic panics when a collector sends trailers that it does not expect. The panic would end the processor's
        // thread, and no more spans would be sent. The exporter shares no state that a panic leaves inconsistent.
        let export = AssertUnwindSafe(self.exporter.export(batch)).catch_unwind().await;
        let result = export.unwrap_or_else(|panic| Err(panicked(&*panic)));
        self.count(spans, &result);
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

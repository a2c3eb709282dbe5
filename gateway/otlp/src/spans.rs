//! A bounded queue of finished spans for the exporter, and counts of their delivery.

mod counted;

use std::{
    fmt,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use opentelemetry::InstrumentationScope;
use opentelemetry_sdk::{
    Resource,
    trace::{BatchConfigBuilder, BatchSpanProcessor, SpanExporter, SpanProcessor as _},
};

use self::counted::{Counted, Counts};
use crate::{Batch, Span};

/// Takes finished spans. Clones are the same queue.
#[derive(Clone)]
pub struct Spans {
    queue: Arc<Queue>,
}

struct Queue {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
    most: usize,
    counts: Arc<Counts>,
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
        let counts = Arc::new(Counts::default());
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(batch.queue.get())
            .with_max_export_batch_size(batch.size.get())
            .with_scheduled_delay(batch.delay);
        let exporter = Counted::new(exporter, Arc::clone(&counts));
        let mut processor = BatchSpanProcessor::builder(exporter).with_batch_config(config.build()).build();
        processor.set_resource(resource);
        Self { queue: Arc::new(Queue { processor, scope, most: batch.queue.get(), counts }) }
    }

    /// Queues a finished span. Never blocks: if the queue is full the span is dropped and counted. Does not check
    /// whether the context is sampled.
    pub fn send(&self, span: Span) {
        let Queue { processor, scope, most, counts } = &*self.queue;
        // Counted here, because the processor does not report how many it dropped. Its queue is never shorter.
        if counts.waiting.fetch_add(1, Relaxed) >= *most {
            counts.waiting.fetch_sub(1, Relaxed);
            counts.dropped.fetch_add(1, Relaxed);
        } else {
            processor.on_end(span.into_data(scope.clone()));
        }
    }

    /// Delivery of the spans so far.
    #[must_use]
    pub fn delivery(&self) -> Delivery {
        self.queue.counts.delivery()
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

//! The way of finished spans from those who write them to the exporter: a bounded queue, and a count of what became
//! of them.

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

/// What became of the spans since the start. Those that are neither delivered, failed nor dropped wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// Waiting, without those in the request under way.
    pub waiting: u64,
    /// Taken by the collector.
    pub delivered: u64,
    /// Lost because the collector did not take them in time.
    pub failed: u64,
    /// Lost because too many were waiting.
    pub dropped: u64,
    /// Why the last request failed; `None` once one succeeds.
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

    /// Takes a finished span. Never waits: with a full queue the span is dropped and counted. Whether its context is
    /// sampled is not asked; who does not want a span does not send it.
    pub fn send(&self, span: Span) {
        let Queue { processor, scope, most, counts } = &*self.queue;
        // Counted here and not by the processor, which tells nobody how many it dropped. Its queue is never shorter.
        if counts.waiting.fetch_add(1, Relaxed) >= *most {
            counts.waiting.fetch_sub(1, Relaxed);
            counts.dropped.fetch_add(1, Relaxed);
        } else {
            processor.on_end(span.into_data(scope.clone()));
        }
    }

    /// What became of the spans so far.
    #[must_use]
    pub fn delivery(&self) -> Delivery {
        self.queue.counts.delivery()
    }

    /// Sends what waits, and takes as long as that takes; not for the thread of a runtime.
    pub(crate) fn shutdown(&self, within: Duration) {
        // What did not get out in time is counted, and there is nobody left to tell.
        drop(self.queue.processor.shutdown_with_timeout(within));
    }
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Spans").field(&self.delivery()).finish()
    }
}

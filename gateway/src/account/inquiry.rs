//! What one backend was asked in one call, put down as it happens.

use std::{
    mem,
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use extender_gateway_core::{BackendFailure, FailureKind};
use extender_otlp::TraceContext;
use tokio::time::Instant;

use crate::backend::question::Form;

/// Finding out what a backend says: from what is known, and for the rest by asking it.
#[derive(Debug)]
pub struct Inquiry {
    /// When it began.
    pub began: Instant,
    /// How long it took.
    pub took: Duration,
    /// How many nodes the backend was asked about.
    pub asked: u32,
    /// For how many its answer was known.
    pub known: u32,
    /// From where.
    pub source: Source,
    /// The questions that went to it.
    pub exchanges: Exchanges,
    /// Why there is no answer.
    pub failure: Option<FailureKind>,
    /// Nobody waited for the answer any more.
    pub given_up: bool,
    /// How often the backend did not hold the nodes that a question named.
    pub missed: u32,
    /// Answers showed that a verb that is declared pure is not.
    pub disagreed: bool,
}

/// From where answers are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// They are remembered from other pods.
    Memory,
    /// They came with the answer to filter.
    Filter,
}

impl Inquiry {
    fn begin(trace: Option<TraceContext>) -> Self {
        Self {
            began: Instant::now(),
            took: Duration::ZERO,
            asked: 0,
            known: 0,
            source: Source::Memory,
            exchanges: Exchanges { trace, open: None, all: Vec::new() },
            failure: None,
            given_up: false,
            missed: 0,
            disagreed: false,
        }
    }

    /// Of so many nodes the backend's answer is known.
    pub fn knows(&mut self, nodes: usize) {
        self.known = u32::try_from(nodes).unwrap_or(u32::MAX);
    }

    /// The backend is asked about so many nodes.
    pub fn asks_about(&mut self, nodes: usize) {
        self.asked = u32::try_from(nodes).unwrap_or(u32::MAX);
    }

    fn ended<T>(self, answer: &Result<T, BackendFailure>) -> Self {
        let failure = answer.as_ref().err().map(|failure| failure.kind);
        Self { took: self.began.elapsed(), failure, ..self }
    }

    fn given_up(mut self) -> Self {
        self.exchanges.give_up();
        Self { took: self.began.elapsed(), given_up: true, ..self }
    }
}

/// Where inquiries come together, by the place of the backend's part in the account.
#[derive(Debug, Clone, Default)]
pub struct Desk(Arc<Mutex<Vec<(usize, Inquiry)>>>);

impl Desk {
    /// Begins an inquiry, as a part of this span.
    pub fn open(&self, part: usize, trace: Option<TraceContext>) -> Open {
        Open { desk: self.clone(), part, inquiry: Some(Inquiry::begin(trace)) }
    }

    fn put(&self, part: usize, inquiry: Inquiry) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((part, inquiry));
    }

    pub(super) fn take(&self) -> Vec<(usize, Inquiry)> {
        mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An inquiry that is under way. It gets to its desk however it ends: one that is dropped was given up.
#[derive(Debug)]
pub struct Open {
    desk: Desk,
    part: usize,
    /// There until then.
    inquiry: Option<Inquiry>,
}

impl Open {
    /// Ends it, with an answer or without.
    pub fn close<T>(mut self, answer: &Result<T, BackendFailure>) {
        if let Some(inquiry) = self.inquiry.take() {
            self.desk.put(self.part, inquiry.ended(answer));
        }
    }
}

impl Deref for Open {
    type Target = Inquiry;

    fn deref(&self) -> &Inquiry {
        self.inquiry.as_ref().expect("it is taken when this is closed or dropped")
    }
}

impl DerefMut for Open {
    fn deref_mut(&mut self) -> &mut Inquiry {
        self.inquiry.as_mut().expect("it is taken when this is closed or dropped")
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(inquiry) = self.inquiry.take() {
            self.desk.put(self.part, inquiry.given_up());
        }
    }
}

/// The questions that went to a backend.
#[derive(Debug, Default)]
pub struct Exchanges {
    /// The span that they are parts of, where traces are made.
    trace: Option<TraceContext>,
    /// One that has no answer yet.
    open: Option<Exchange>,
    all: Vec<Exchange>,
}

/// One question that went to a backend.
#[derive(Debug)]
pub struct Exchange {
    /// Its span, where traces are made.
    pub span: Option<TraceContext>,
    /// When it was sent.
    pub began: Instant,
    /// How long the answer took.
    pub took: Duration,
    /// About how many nodes.
    pub nodes: u32,
    /// How these were named.
    pub form: Form,
    /// Bytes of the question.
    pub sent: usize,
    /// Bytes of the answer.
    pub received: usize,
    /// Why there is no answer.
    pub failure: Option<FailureKind>,
    /// The gRPC status.
    pub code: &'static str,
}

/// How a question ended.
#[derive(Debug)]
pub struct Ending {
    /// Bytes of the answer.
    pub received: usize,
    /// Why there is none.
    pub failure: Option<FailureKind>,
    /// The gRPC status.
    pub code: &'static str,
}

impl Exchanges {
    /// A question of so many bytes goes out now. Returns its span.
    pub fn ask(&mut self, (nodes, form): (u32, Form), sent: usize) -> Option<TraceContext> {
        let span = self.trace.as_ref().map(TraceContext::child);
        self.open = Some(Exchange {
            span,
            began: Instant::now(),
            took: Duration::ZERO,
            nodes,
            form,
            sent,
            received: 0,
            failure: None,
            code: "CANCELLED",
        });
        span
    }

    /// It ended.
    pub fn end(&mut self, Ending { received, failure, code }: Ending) {
        let Some(open) = self.open.take() else { return };
        self.all.push(Exchange { took: open.began.elapsed(), received, failure, code, ..open });
    }

    fn give_up(&mut self) {
        let Some(open) = self.open.take() else { return };
        self.all.push(Exchange { took: open.began.elapsed(), ..open });
    }

    /// Those that have ended.
    pub fn all(&self) -> &[Exchange] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_given_up_is_put_down_too() {
        let desk = Desk::default();
        let mut answered = desk.open(1, None);
        answered.exchanges.ask((7, Form::Ids), 100);
        answered.exchanges.end(Ending { received: 3, failure: None, code: "OK" });
        let mut dropped = desk.open(0, Some(TraceContext::root()));
        let span = dropped.exchanges.ask((7, Form::Rows), 50);
        tokio::time::advance(Duration::from_millis(5)).await;
        answered.close(&Ok::<(), _>(()));
        drop(dropped);
        let put = desk.take();
        let [(1, one), (0, other)] = put.as_slice() else { panic!("{put:?}") };
        assert_eq!((one.given_up, one.exchanges.all()[0].code), (false, "OK"));
        let asked = &other.exchanges.all()[0];
        assert_eq!((other.given_up, asked.code, asked.sent), (true, "CANCELLED", 50));
        assert_eq!((asked.took, asked.span), (Duration::from_millis(5), span));
        assert!(desk.take().is_empty());
    }
}

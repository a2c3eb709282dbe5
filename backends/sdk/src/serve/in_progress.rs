//! Bounds the bytes of requests that are in memory at a time, over all connections. A message is limited by itself, and
//! so is the time in which one of a call has to arrive, but many that are begun and not ended add up. Beyond the
//! limit the largest unfinished message is given up: that of a gateway is complete in milliseconds.

mod body;

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use futures_util::task::AtomicWaker;
use tonic::{
    body::Body,
    codegen::{BoxFuture, Service, http},
    server::NamedService,
};

use self::body::CountedBody;

/// The bytes of all messages in progress.
#[derive(Debug)]
pub(super) struct Total {
    limit: usize,
    held: Mutex<HeldMessages>,
}

#[derive(Debug, Default)]
struct HeldMessages {
    bytes: usize,
    latest: u64,
    messages: HashMap<u64, Message>,
}

/// A message of which a part has arrived, or that is at work.
#[derive(Debug)]
struct Message {
    bytes: usize,
    progress: Progress,
    end: Arc<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Arriving,
    Arrived,
}

/// Tells a body that its message is given up.
#[derive(Debug, Default)]
struct End {
    is_given_up: AtomicBool,
    waker: AtomicWaker,
}

impl End {
    fn give_up(&self) {
        self.is_given_up.store(true, Relaxed);
        self.waker.wake();
    }
}

impl Total {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, held: Mutex::default() })
    }

    /// Gives up the largest message that is arriving if there are too many bytes.
    fn enforce(&self) {
        let mut held = self.held();
        if held.bytes > self.limit {
            held.give_up_largest();
        }
    }

    fn held(&self) -> MutexGuard<'_, HeldMessages> {
        // Only sums are changed under the lock.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldMessages {
    fn add(&mut self, id: u64, more: usize) {
        if let Some(message) = self.messages.get_mut(&id) {
            message.bytes += more;
            self.bytes += more;
        }
    }

    fn release(&mut self, id: u64) {
        if let Some(message) = self.messages.get_mut(&id) {
            self.bytes -= std::mem::take(&mut message.bytes);
        }
    }

    fn give_up_largest(&mut self) {
        let arriving = self.messages.iter().filter(|(_, message)| message.progress == Progress::Arriving);
        let Some((&id, message)) = arriving.max_by_key(|(_, message)| message.bytes) else { return };
        message.end.give_up();
        self.release(id);
    }
}

/// The part of one call in the total; ends with it.
#[derive(Debug)]
struct Share {
    total: Arc<Total>,
    id: u64,
    holds: Holds,
    end: Arc<End>,
}

impl Share {
    fn new(total: &Arc<Total>, holds: Holds) -> Self {
        let end = Arc::<End>::default();
        let mut held = total.held();
        held.latest += 1;
        let id = held.latest;
        let message = Message { bytes: 0, progress: Progress::Arriving, end: Arc::clone(&end) };
        held.messages.insert(id, message);
        drop(held);
        Self { total: Arc::clone(total), id, holds, end }
    }

    /// More of the message has arrived.
    fn arrived(&self, bytes: usize) {
        self.total.held().add(self.id, bytes);
    }

    /// A message is complete. That of a call is not at work before the stream has ended: until then, the client may keep it.
    fn completed(&self) {
        if let Holds::UntilArrived = self.holds {
            self.total.held().release(self.id);
        }
    }

    /// The stream has ended.
    fn ended(&self) {
        if let Some(message) = self.total.held().messages.get_mut(&self.id) {
            message.progress = Progress::Arrived;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.total.held();
        held.release(self.id);
        held.messages.remove(&self.id);
    }
}

/// For how long a message counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Holds {
    /// A stream of messages, each of which is taken over or dropped when it is complete.
    UntilArrived,
    /// The only message of a call.
    UntilAnswered,
}

/// A service whose requests count.
#[derive(Clone, Debug)]
pub(super) struct Counting<S> {
    service: S,
    holds: Holds,
    total: Arc<Total>,
}

impl<S> Counting<S> {
    pub(super) fn new(service: S, holds: Holds, total: &Arc<Total>) -> Self {
        Self { service, holds, total: Arc::clone(total) }
    }
}

impl<S: NamedService> NamedService for Counting<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Counting<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let share = Arc::new(Share::new(&self.total, self.holds));
        let counted = Arc::clone(&share);
        let answered = self.service.call(request.map(|body| Body::new(CountedBody::new(body, counted))));
        Box::pin(async move {
            let _share = share;
            answered.await
        })
    }
}

#[cfg(test)]
mod tests;

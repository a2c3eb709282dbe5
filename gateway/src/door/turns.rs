//! Calls that wait for the thread that decides them: fair between callers, and refused when they would wait too long.
//!
//! One thread decides all calls. Those that arrive while it is busy wait here, and it takes them one by one, so that it
//! reads and refuses others in between: without this, each would begin as soon as its request is read, and under
//! overload all would be late, and their work in vain. A refusal is made when the call arrives, from the time that calls
//! take: it costs its caller no waiting.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    task::yield_now,
};

use crate::fair_queue::{AverageTime, FairQueue, Flow, Position};

/// The most that one call counts in the average: the machine may have done other work.
const LONGEST_WORK: Duration = Duration::from_millis(250);

/// Whether the thread that decides calls has begun one since it was idle.
#[derive(Debug, Clone, Default)]
pub struct Busy(Arc<AtomicBool>);

impl Busy {
    /// The thread has nothing to do. For [`tokio::runtime::Builder::on_thread_park`]: without it each call but the first
    /// takes the way through the queue, which costs it a wake-up.
    pub fn is_idle(&self) {
        self.0.store(false, Relaxed);
    }
}

/// The turns of calls on the thread that decides them.
#[derive(Debug, Default)]
pub(super) struct Turns {
    busy: Busy,
    waiting: Mutex<FairQueue<oneshot::Sender<()>>>,
    /// A call waits.
    arrived: Notify,
    /// How long the thread works for a call.
    work: AverageTime,
}

/// The call would wait too long.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Turns {
    pub(super) fn new(busy: Busy) -> Self {
        Self { busy, ..Self::default() }
    }

    /// An error if a call that arrives now would wait for longer than this.
    pub(super) fn admits(&self, flow: Flow, longest: Duration) -> Result<(), TooLong> {
        let ahead = self.waiting.lock().ahead_of(flow);
        let wait = self.work.get().saturating_mul(u32::try_from(ahead).unwrap_or(u32::MAX));
        if wait > longest { Err(TooLong) } else { Ok(()) }
    }

    /// Waits until it is this call's turn, and returns how long that took: no time while the thread has nothing else to
    /// do. An error if the call would wait for longer than this.
    pub(super) async fn turn(&self, flow: Flow, longest: Duration) -> Result<Duration, TooLong> {
        if !self.busy.0.swap(true, Relaxed) {
            return Ok(Duration::ZERO);
        }
        self.admits(flow, longest)?;
        let arrived = Instant::now();
        let (begins, begun) = oneshot::channel();
        let position = self.waiting.lock().add(flow, begins);
        // Also if its caller disconnects.
        let _place = Place { turns: self, position };
        self.arrived.notify_one();
        // The sender is dropped only with the queue.
        let _ = begun.await;
        Ok(arrived.elapsed())
    }

    /// Begins the waiting calls, each when the thread has looked for other work.
    pub(super) async fn begin_calls(&self) -> Infallible {
        loop {
            self.arrived.notified().await;
            loop {
                let Some(begins) = self.waiting.lock().take() else { break };
                self.busy.0.store(true, Relaxed);
                let _ = begins.send(());
                yield_now().await;
            }
        }
    }

    /// Measures how long the thread works for a call.
    pub(super) async fn measured<T>(&self, call: impl Future<Output = T> + Unpin) -> T {
        let (answer, worked) = Measured { call, worked: Duration::ZERO }.await;
        self.work.add(worked.min(LONGEST_WORK));
        answer
    }

    /// The number of calls that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.lock().waiting()
    }
}

/// The place of a waiting call, left when this is dropped.
struct Place<'t> {
    turns: &'t Turns,
    position: Position,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.turns.waiting.lock().remove(self.position);
    }
}

/// A future with the time of its polls.
struct Measured<F> {
    call: F,
    worked: Duration,
}

impl<F: Future + Unpin> Future for Measured<F> {
    type Output = (F::Output, Duration);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let begun = Instant::now();
        let polled = Pin::new(&mut self.call).poll(context);
        self.worked += begun.elapsed();
        polled.map(|answer| (answer, self.worked))
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const LONG: Duration = Duration::from_hours(1);
    const GREEDY: Flow = Flow::Address(IpAddr::V4(Ipv4Addr::LOCALHOST));
    const MODEST: Flow = Flow::Certificate(1);

    #[tokio::test]
    async fn one_call_after_the_other_begins_at_once() {
        let busy = Busy::default();
        let turns = Turns::new(busy.clone());
        for _ in 0..3 {
            assert_eq!(turns.turn(MODEST, Duration::ZERO).await, Ok(Duration::ZERO));
            busy.is_idle();
        }
        assert_eq!(turns.waiting(), 0);
    }

    #[tokio::test]
    async fn calls_that_meet_take_turns() {
        let turns = Arc::new(Turns::default());
        assert_eq!(turns.turn(GREEDY, LONG).await, Ok(Duration::ZERO));
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut calls = Vec::new();
        for flow in [GREEDY, GREEDY, GREEDY, MODEST] {
            let (turns, order) = (Arc::clone(&turns), Arc::clone(&order));
            calls.push(tokio::spawn(async move {
                turns.turn(flow, LONG).await.unwrap();
                order.lock().push(flow);
            }));
        }
        // One that goes before its turn.
        let gone = tokio::spawn({
            let turns = Arc::clone(&turns);
            async move { turns.turn(GREEDY, LONG).await }
        });
        while turns.waiting() < 5 {
            yield_now().await;
        }
        gone.abort();
        assert!(gone.await.is_err());
        let beginning = tokio::spawn({
            let turns = Arc::clone(&turns);
            async move { match turns.begin_calls().await {} }
        });
        for call in calls {
            call.await.unwrap();
        }
        assert_eq!(*order.lock(), [GREEDY, MODEST, GREEDY, GREEDY]);
        assert_eq!(turns.waiting(), 0);
        beginning.abort();
    }

    #[tokio::test]
    async fn a_call_that_would_wait_too_long_is_refused_and_that_of_another_caller_is_not() {
        let turns = Turns::default();
        for _ in 0..100 {
            turns.work.add(Duration::from_millis(10));
        }
        assert!(turns.work.get() > Duration::from_millis(9));
        for _ in 0..12 {
            turns.waiting.lock().add(GREEDY, oneshot::channel().0);
        }
        let longest = Duration::from_millis(50);
        turns.busy.0.store(true, Relaxed);
        assert_eq!(turns.turn(GREEDY, longest).await, Err(TooLong));
        assert_eq!(turns.admits(GREEDY, longest), Err(TooLong));
        assert_eq!(turns.admits(GREEDY, LONG), Ok(()));
        assert_eq!(turns.admits(MODEST, longest), Ok(()));
        assert_eq!(turns.waiting(), 12);
    }

    #[tokio::test]
    async fn only_work_counts_and_not_waiting() {
        const OTHER_WORK: Duration = Duration::from_millis(20);
        let (sender, receiver) = oneshot::channel::<()>();
        let call = Measured { call: receiver, worked: Duration::ZERO };
        let other = async {
            let begun = Instant::now();
            while begun.elapsed() < OTHER_WORK {}
            drop(sender);
        };
        let begun = Instant::now();
        let ((_, worked), ()) = tokio::join!(call, other);
        assert!(worked > Duration::ZERO && worked + OTHER_WORK <= begun.elapsed(), "{worked:?}");
    }
}

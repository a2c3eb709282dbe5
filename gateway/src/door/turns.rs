//! Calls that wait for the thread that decides them: fair between callers, and refused when they would wait too long.
//!
//! One thread decides all calls. Those that arrive while it is busy wait here, and it takes them one by one, so that it
//! reads and refuses others in between: without this, each would begin as soon as its request is read, and under
//! overload all would be late, and their work in vain. A refusal is made when the call arrives, from the time between
//! two turns, which includes all other work of the thread: it costs its caller no waiting.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    task::yield_now,
};

use crate::fair_queue::{AverageTime, FairQueue, Flow, Place};

/// The most that the time between two turns counts in the average: the machine may have done other work.
const LONGEST_TURN: Duration = Duration::from_millis(250);

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
    /// The time between two turns while calls wait.
    turn_time: AverageTime,
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
        let wait = self.turn_time.get().saturating_mul(u32::try_from(ahead).unwrap_or(u32::MAX));
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
        let _place = Place::new(&self.waiting, |waiting| waiting, position);
        self.arrived.notify_one();
        // The sender is dropped only with the queue.
        let _ = begun.await;
        Ok(arrived.elapsed())
    }

    /// Begins the waiting calls, each when the thread has looked for other work.
    pub(super) async fn begin_calls(&self) -> Infallible {
        loop {
            self.arrived.notified().await;
            let mut turn = Instant::now();
            loop {
                let Some(begins) = self.waiting.lock().take() else { break };
                self.busy.0.store(true, Relaxed);
                let _ = begins.send(());
                yield_now().await;
                let next = Instant::now();
                self.turn_time.add((next - turn).min(LONGEST_TURN));
                turn = next;
            }
        }
    }

    /// The number of calls that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.lock().waiting()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tokio::task::JoinSet;
    use tokio_util::task::AbortOnDropHandle;

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
            turns.turn_time.add(Duration::from_millis(10));
        }
        assert!(turns.turn_time.get() > Duration::from_millis(9));
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

    /// Calls that each keep the thread for this long take turns, while another task, too, does something in between.
    #[tokio::test]
    async fn a_turn_takes_as_long_as_all_that_the_thread_does_in_it() {
        const WORK: Duration = Duration::from_millis(2);
        let work = || {
            let begun = Instant::now();
            while begun.elapsed() < WORK {}
        };
        let turns = Arc::new(Turns::default());
        turns.turn(GREEDY, LONG).await.unwrap();
        let mut calls = JoinSet::new();
        for _ in 0..100 {
            let turns = Arc::clone(&turns);
            calls.spawn(async move {
                turns.turn(GREEDY, LONG).await.unwrap();
                work();
            });
        }
        while turns.waiting() < 100 {
            yield_now().await;
        }
        let beginning = AbortOnDropHandle::new(tokio::spawn({
            let turns = Arc::clone(&turns);
            async move { match turns.begin_calls().await {} }
        }));
        while calls.join_next().await.is_some() {
            work();
        }
        // The average has come near the time of a call and of the work after it.
        let known = turns.turn_time.get();
        assert!(known >= WORK * 3 / 2, "{known:?}");
        drop(beginning);
    }
}

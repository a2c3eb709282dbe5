//! Calls in progress: those of a backend have a limit, beyond which calls wait, and those of an address say how loaded it
//! is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use extender_gateway_core::{BackendFailure, FailureKind};
use parking_lot::Mutex;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};

use crate::fair_queue::{AverageTime, FairQueue, Flow, Position};

/// The most concurrent calls to a backend. kube-scheduler has a few at a time; more are waiting because the backend is
/// slow.
pub(super) const MOST_CALLS: usize = 256;

/// The number of calls in progress.
#[derive(Debug, Default)]
pub(super) struct InFlight(AtomicUsize);

/// A call in progress, until it is dropped.
#[derive(Debug)]
pub(super) struct Entered<'c>(&'c InFlight);

impl InFlight {
    /// Counts a call.
    pub(super) fn enter(&self) -> Entered<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Entered(self)
    }

    /// The number of calls in progress.
    pub(super) fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The slots for concurrent calls to a backend.
#[derive(Debug, Default)]
pub(super) struct Slots {
    state: Mutex<State>,
    /// How long a call has its slot.
    duration: AverageTime,
}

#[derive(Debug, Default)]
struct State {
    taken: usize,
    waiting: FairQueue<oneshot::Sender<Slot>>,
}

/// A slot, until it is dropped. Then the next call that waits has it.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    since: Instant,
}

impl Slots {
    /// Takes a slot, within this time. Returns how long that took, too: no time while fewer than [`MOST_CALLS`] calls are
    /// in progress.
    ///
    /// # Errors
    /// There would be none for more than half of this time, or there was none.
    pub(super) async fn enter(
        self: &Arc<Self>,
        flow: Flow,
        within: Duration,
    ) -> Result<(Slot, Duration), BackendFailure> {
        let arrived = Instant::now();
        let (given, taken) = oneshot::channel();
        let position = {
            let mut state = self.state.lock();
            if state.taken < MOST_CALLS {
                state.taken += 1;
                return Ok((Slot { slots: Arc::clone(self), since: arrived }, Duration::ZERO));
            }
            if self.wait(state.waiting.ahead_of(flow)) > within / 2 {
                return Err(full());
            }
            state.waiting.add(flow, given)
        };
        // Also if the caller disconnects.
        let _place = Place { slots: self, position };
        match timeout(within, taken).await {
            Ok(Ok(slot)) => Ok((slot, arrived.elapsed())),
            // The sender is dropped only with the queue.
            _ => Err(full()),
        }
    }

    /// How long a call waits behind so many others.
    fn wait(&self, ahead: usize) -> Duration {
        let ahead = u32::try_from(ahead + 1).unwrap_or(u32::MAX);
        // MOST_CALLS slots become free within the duration of a call.
        self.duration.get().saturating_mul(ahead) / u32::try_from(MOST_CALLS).unwrap_or(u32::MAX)
    }
}

fn full() -> BackendFailure {
    let detail = format!("not called: {MOST_CALLS} calls to it are in progress");
    BackendFailure::new(FailureKind::CircuitOpen, detail)
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.duration.add(self.since.elapsed());
        let mut state = self.slots.state.lock();
        let next = state.waiting.take();
        if next.is_none() {
            state.taken -= 1;
        }
        // Not held: a call that has just gone returns the slot, which takes this lock again.
        drop(state);
        if let Some(next) = next {
            let slot = Slot { slots: Arc::clone(&self.slots), since: Instant::now() };
            drop(next.send(slot));
        }
    }
}

/// The place of a waiting call, left when this is dropped.
struct Place<'s> {
    slots: &'s Slots,
    position: Position,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.slots.state.lock().waiting.remove(self.position);
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::{JoinHandle, yield_now};

    use super::*;

    const LONG: Duration = Duration::from_hours(1);
    const GREEDY: Flow = Flow::Certificate(1);
    const MODEST: Flow = Flow::Certificate(2);

    /// All slots are taken.
    async fn full() -> (Arc<Slots>, Vec<Slot>) {
        let (slots, mut taken) = (Arc::<Slots>::default(), Vec::new());
        for _ in 0..MOST_CALLS {
            let (slot, waited) = slots.enter(GREEDY, Duration::ZERO).await.unwrap();
            assert_eq!(waited, Duration::ZERO);
            taken.push(slot);
        }
        (slots, taken)
    }

    async fn waits(slots: &Arc<Slots>, flow: Flow) -> JoinHandle<Result<(Slot, Duration), BackendFailure>> {
        let before = slots.state.lock().waiting.waiting();
        let waiting = tokio::spawn({
            let slots = Arc::clone(slots);
            async move { slots.enter(flow, LONG).await }
        });
        while slots.state.lock().waiting.waiting() == before {
            yield_now().await;
        }
        waiting
    }

    #[tokio::test(start_paused = true)]
    async fn calls_beyond_the_limit_take_the_next_slots_in_turn() {
        let (slots, mut taken) = full().await;
        let calls = [waits(&slots, GREEDY).await, waits(&slots, GREEDY).await, waits(&slots, MODEST).await];
        tokio::time::advance(Duration::from_secs(3)).await;
        for next in [0, 2, 1] {
            assert!(!calls[next].is_finished());
            drop(taken.pop());
            while !calls[next].is_finished() {
                yield_now().await;
            }
        }
        for call in calls {
            assert_eq!(call.await.unwrap().unwrap().1, Duration::from_secs(3));
        }
        drop(taken);
        assert_eq!(slots.state.lock().taken, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_has_gone_leaves_its_slot_to_the_next() {
        let (slots, mut taken) = full().await;
        let (gone, late, next) =
            (waits(&slots, GREEDY).await, waits(&slots, GREEDY).await, waits(&slots, GREEDY).await);
        gone.abort();
        assert!(gone.await.is_err());
        // It goes after it was given a slot, and before it has noticed.
        drop(taken.pop());
        late.abort();
        assert!(late.await.is_err());
        assert!(next.await.unwrap().is_ok());
        drop(taken);
        assert_eq!(slots.state.lock().taken, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_fails_at_once_when_it_would_wait_too_long_and_in_time_when_it_did() {
        let (slots, taken) = full().await;
        let began = Instant::now();
        let failure = slots.enter(GREEDY, Duration::from_secs(2)).await.unwrap_err();
        assert_eq!((failure.kind, began.elapsed()), (FailureKind::CircuitOpen, Duration::from_secs(2)));
        assert_eq!(failure.detail, "not called: 256 calls to it are in progress");
        // A call has its slot for 64 seconds: one becomes free each quarter of a second.
        for _ in 0..400 {
            slots.duration.add(Duration::from_secs(64));
        }
        let _waiting = [waits(&slots, GREEDY).await, waits(&slots, GREEDY).await];
        let began = Instant::now();
        assert!(slots.enter(GREEDY, Duration::from_secs(1)).await.is_err());
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(slots.state.lock().waiting.waiting(), 2);
        drop(taken);
    }
}

//! A limit of concurrent calls. Calls beyond it wait in an order that is fair between callers.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};

use super::{AverageTime, FairQueue, Flow, Place};

/// The slots for concurrent calls.
#[derive(Debug)]
pub struct Slots {
    most: u32,
    state: Mutex<State>,
    /// How long a call works in its slot.
    work: AverageTime,
}

#[derive(Debug, Default)]
struct State {
    taken: u32,
    waiting: FairQueue<oneshot::Sender<Slot>>,
}

/// A slot, until it is dropped. Then the next call that waits has it.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    /// `None`: it was not used.
    works_since: Option<Instant>,
}

/// No slot became free in time, or none would.
#[derive(Debug)]
pub struct NoSlot;

impl Slots {
    /// For so many concurrent calls, at least one.
    pub fn new(most: u32) -> Arc<Self> {
        Arc::new(Self { most, state: Mutex::default(), work: AverageTime::default() })
    }

    /// Takes a slot, and returns how long it waited for that: at most this time, and no time while there are free slots.
    ///
    /// # Errors
    /// There is none within this time. At once, if the calls of late took so long that there would be none.
    pub async fn enter(self: &Arc<Self>, flow: Flow, longest: Duration) -> Result<(Slot, Duration), NoSlot> {
        let arrived = Instant::now();
        let (given, taken) = oneshot::channel();
        let position = {
            let mut state = self.state.lock();
            if state.taken < self.most {
                state.taken += 1;
                return Ok((self.slot(), Duration::ZERO));
            }
            if self.wait_behind(state.waiting.ahead_of(flow)) > longest {
                return Err(NoSlot);
            }
            state.waiting.add(flow, given)
        };
        let _place = Place::new(&self.state, |state| &mut state.waiting, position);
        match timeout(longest, taken).await {
            Ok(Ok(slot)) => Ok((slot, arrived.elapsed())),
            // The sender is dropped only with the queue.
            _ => Err(NoSlot),
        }
    }

    fn slot(self: &Arc<Self>) -> Slot {
        Slot { slots: Arc::clone(self), works_since: None }
    }

    /// How long a call waits behind so many others: all slots become free within the time that calls work.
    fn wait_behind(&self, ahead: usize) -> Duration {
        let ahead = u32::try_from(ahead + 1).unwrap_or(u32::MAX);
        self.work.get().saturating_mul(ahead) / self.most.max(1)
    }

    /// The number of calls that wait.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting.waiting()
    }
}

impl Slot {
    /// The call works from now on. The time of one that never does says nothing about others.
    pub fn works(&mut self) {
        self.works_since = Some(Instant::now());
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(since) = self.works_since {
            self.slots.work.add(since.elapsed());
        }
        let mut state = self.slots.state.lock();
        let next = state.waiting.take();
        if next.is_none() {
            state.taken -= 1;
        }
        // Not held: a call that has just gone returns the slot, which takes this lock again.
        drop(state);
        if let Some(next) = next {
            drop(next.send(self.slots.slot()));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::{JoinHandle, yield_now};

    use super::*;

    const MOST: u32 = 4;
    const LONG: Duration = Duration::from_hours(1);
    const GREEDY: Flow = Flow::Certificate(1);
    const MODEST: Flow = Flow::Certificate(2);

    /// All slots are taken.
    async fn full() -> (Arc<Slots>, Vec<Slot>) {
        let (slots, mut taken) = (Slots::new(MOST), Vec::new());
        for _ in 0..MOST {
            let (slot, waited) = slots.enter(GREEDY, Duration::ZERO).await.unwrap();
            assert_eq!(waited, Duration::ZERO);
            taken.push(slot);
        }
        (slots, taken)
    }

    async fn waits(slots: &Arc<Slots>, flow: Flow) -> JoinHandle<Result<(Slot, Duration), NoSlot>> {
        let before = slots.waiting();
        let waiting = tokio::spawn({
            let slots = Arc::clone(slots);
            async move { slots.enter(flow, LONG).await }
        });
        while slots.waiting() == before {
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
        assert!(slots.enter(GREEDY, Duration::from_secs(2)).await.is_err());
        assert_eq!(began.elapsed(), Duration::from_secs(2));
        // A slot becomes free each quarter of a second.
        for _ in 0..400 {
            slots.work.add(Duration::from_secs(1));
        }
        let _waiting = [waits(&slots, GREEDY).await, waits(&slots, GREEDY).await];
        let began = Instant::now();
        assert!(slots.enter(GREEDY, Duration::from_millis(500)).await.is_err());
        assert_eq!((began.elapsed(), slots.waiting()), (Duration::ZERO, 2));
        drop(taken);
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_time_of_calls_that_work_counts() {
        let slots = Slots::new(1);
        for works in [false, true] {
            let (mut slot, _) = slots.enter(GREEDY, LONG).await.unwrap();
            if works {
                slot.works();
            }
            tokio::time::advance(Duration::from_secs(32)).await;
            drop(slot);
            assert_eq!(slots.work.get(), Duration::from_secs(u64::from(works)));
        }
    }
}

//! An adaptive limit of concurrent calls to a server. Calls beyond it wait in an order that is fair between callers.
//!
//! A server with more calls than it can work on queues them itself, where no caller has its turn, and where all are late at
//! the same time: the work for them is in vain. So it has as many calls as it answers within a part of their time (Little's
//! law), and the others wait here, or are refused at once. The limit is that of one kind of calls with one timeout: slow
//! ones of another kind say nothing about them.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout},
};

use super::{AverageTime, FairQueue, Flow, Place};

/// The limit of a server of which no answer is known.
const FIRST: u32 = 16;
/// The least limit. With a single call there would be pauses between its answers.
const LEAST: u32 = 2;

/// The slots for concurrent calls.
#[derive(Debug)]
pub struct Slots {
    most: u32,
    /// Whether the limit follows the server.
    adapts: bool,
    state: Mutex<State>,
    /// The time of a call.
    time: AverageTime<3>,
    /// The time of a call that is alone.
    time_alone: AverageTime<3>,
    /// The time between two answers while calls are in progress: that of a call, divided by the calls in progress.
    interval: AverageTime<3>,
}

#[derive(Debug, Default)]
struct State {
    taken: u32,
    /// How long calls may work, that of the latest one.
    work: Duration,
    waiting: FairQueue<oneshot::Sender<Slot>>,
}

/// A slot, until it is dropped. Then the next call that waits has it.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    /// The calls in progress when it was taken, with its own.
    calls: u32,
    /// `None`: it was not used.
    works_since: Option<Instant>,
    is_answered: bool,
}

/// No slot became free in time, or none would.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSlot;

impl Slots {
    /// For at most so many concurrent calls, at least one.
    pub fn new(most: u32) -> Arc<Self> {
        Self::with(most, true)
    }

    /// For exactly so many concurrent calls, however long they take.
    pub fn fixed(most: u32) -> Arc<Self> {
        Self::with(most, false)
    }

    fn with(most: u32, adapts: bool) -> Arc<Self> {
        Arc::new(Self {
            most: most.max(1),
            adapts,
            state: Mutex::default(),
            time: AverageTime::default(),
            time_alone: AverageTime::default(),
            interval: AverageTime::default(),
        })
    }

    /// Takes a slot, and returns how long it waited for that: at most this time, and no time while there are free slots.
    /// The call may then work for two thirds of this time and be in time, in most cases.
    ///
    /// # Errors
    /// There is none within this time. At once, if the calls of late took so long that there would be none.
    pub async fn enter(self: &Arc<Self>, flow: Flow, longest: Duration) -> Result<(Slot, Duration), NoSlot> {
        let arrived = Instant::now();
        let (position, taken) = {
            let mut state = self.state.lock();
            state.work = longest * 2 / 3;
            if state.waiting.waiting() == 0 && state.taken < self.limit(&state) {
                return Ok((self.slot(&mut state), Duration::ZERO));
            }
            // A part of the time is left for calls that take longer than those of late: who is refused should know at once.
            if self.wait_behind(state.waiting.ahead_of(flow)) > longest * 3 / 4 {
                return Err(NoSlot);
            }
            let (given, taken) = oneshot::channel();
            (state.waiting.add(flow, given), taken)
        };
        let _place = Place::new(&self.state, |state| &mut state.waiting, position);
        match timeout(longest, taken).await {
            Ok(Ok(slot)) => Ok((slot, arrived.elapsed())),
            // The sender is dropped only with the queue.
            _ => Err(NoSlot),
        }
    }

    /// How many calls the server answers within the time that they may work; more than it has now if they take about as long as
    /// one that is alone.
    fn limit(&self, state: &State) -> u32 {
        if !self.adapts {
            return self.most;
        }
        let calls_in = |time: Duration| time.as_nanos().checked_div(self.interval.get().as_nanos());
        let Some(answered) = calls_in(state.work) else { return FIRST.min(self.most) };
        let time = self.time.get();
        let answered = if time * 2 <= self.time_alone.get() * 3 {
            answered.max(calls_in(time * 5 / 4).unwrap_or_default() + 1)
        } else {
            answered
        };
        u32::try_from(answered).unwrap_or(u32::MAX).max(LEAST).min(self.most)
    }

    fn slot(self: &Arc<Self>, state: &mut State) -> Slot {
        state.taken += 1;
        Slot { slots: Arc::clone(self), calls: state.taken, works_since: None, is_answered: false }
    }

    /// How long a call waits behind so many others.
    fn wait_behind(&self, ahead: usize) -> Duration {
        let ahead = u32::try_from(ahead + 1).unwrap_or(u32::MAX);
        self.interval.get().saturating_mul(ahead)
    }

    /// The number of calls that wait.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting.waiting()
    }

    /// What a call took that was one of so many. Far below the limit this says how long a call takes, and nothing about how
    /// many the server answers, unless that is more than what is known.
    fn answered(&self, state: &State, time: Duration, calls: u32) {
        let (interval, known) = (time / calls, self.interval.get());
        let is_loaded = calls.saturating_mul(2) >= self.limit(state);
        if is_loaded || (!known.is_zero() && interval < known) {
            add(&self.interval, interval);
        }
        add(&self.time, time);
        // Nobody has joined it.
        if calls == 1 && state.taken == 1 {
            add(&self.time_alone, time);
        }
    }

    /// A call that was not answered would have taken longer.
    fn unanswered(&self, time: Duration, calls: u32) {
        let known = self.interval.get();
        add(&self.interval, known.max(time * 2 / calls));
    }
}

/// Adds a time to an average, of which the first one is all that is known.
fn add(average: &AverageTime<3>, time: Duration) {
    if average.get().is_zero() { average.set(time) } else { average.add(time) }
}

impl Slot {
    /// Records that the call works from now on. The time of one that never does says nothing about others.
    pub fn begin(&mut self) {
        self.works_since = Some(Instant::now());
    }

    /// Records that the call was answered.
    pub fn note_answer(&mut self) {
        self.is_answered = true;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.state.lock();
        if let Some(since) = self.works_since {
            let (slots, time) = (&self.slots, since.elapsed());
            if self.is_answered {
                slots.answered(&state, time, self.calls);
            } else {
                slots.unanswered(time, self.calls);
            }
        }
        state.taken -= 1;
        let mut next = Vec::new();
        while state.taken < self.slots.limit(&state)
            && let Some(call) = state.waiting.take()
        {
            next.push((call, self.slots.slot(&mut state)));
        }
        // Not held: a call that has just gone returns the slot, which takes this lock again.
        drop(state);
        for (call, slot) in next {
            drop(call.send(slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use tokio::{
        sync::Semaphore,
        task::{JoinHandle, JoinSet, yield_now},
    };

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
        slots.interval.set(Duration::from_millis(250));
        let _waiting = [waits(&slots, GREEDY).await, waits(&slots, GREEDY).await];
        let began = Instant::now();
        let refused = slots.enter(GREEDY, Duration::from_millis(500)).await;
        assert_eq!(refused.unwrap_err(), NoSlot);
        assert_eq!((began.elapsed(), slots.waiting()), (Duration::ZERO, 2));
        drop(taken);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_counts_by_the_time_of_its_work_and_at_least_twice_if_it_was_not_answered() {
        let slots = Slots::new(1);
        // The first time is all that is known, later ones count by 1/8.
        for (works, is_answered, known) in
            [(false, false, 0), (true, true, 32), (true, false, 36), (false, false, 36), (true, true, 35)]
        {
            let (mut slot, _) = slots.enter(GREEDY, LONG).await.unwrap();
            if works {
                slot.begin();
            }
            if is_answered {
                slot.note_answer();
            }
            tokio::time::advance(Duration::from_secs(32)).await;
            drop(slot);
            assert_eq!(slots.interval.get().as_secs(), known);
        }
    }

    /// A server that works on so many calls at a time, each for about this long.
    #[derive(Debug)]
    struct Server {
        free: Semaphore,
        work: Duration,
        /// Of the first call.
        first: Duration,
        calls: AtomicU32,
    }

    impl Server {
        fn new((at_a_time, work): (usize, Duration)) -> Arc<Self> {
            Arc::new(Self { free: Semaphore::new(at_a_time), work, first: work, calls: AtomicU32::new(0) })
        }

        /// One whose first call takes this long.
        fn cold(first: Duration, work: Duration) -> Arc<Self> {
            Arc::new(Self { free: Semaphore::new(1), work, first, calls: AtomicU32::new(0) })
        }

        async fn answers(&self) {
            let _works = self.free.acquire().await;
            // From three quarters to five, spread evenly by the golden ratio.
            let number = self.calls.fetch_add(1, Relaxed);
            let share = (f64::from(number) * 0.618_034).fract();
            let work = if number == 0 { self.first } else { self.work };
            tokio::time::sleep(work.mul_f64(0.75 + share / 2.0)).await;
        }
    }

    /// How long a call has.
    const BUDGET: Duration = Duration::from_secs(1);
    /// How long calls are sent without being counted, and then with: at first it is not known how long they take.
    const UNCOUNTED: Duration = Duration::from_secs(10);
    const COUNTED: Duration = Duration::from_secs(50);

    #[derive(Debug, PartialEq, Eq)]
    enum Ended {
        Answered,
        Refused(Duration),
        Late,
    }

    async fn called((slots, server): (Arc<Slots>, Arc<Server>), flow: Flow, budget: Duration) -> Ended {
        let began = Instant::now();
        let Ok((mut slot, queued)) = slots.enter(flow, budget / 2).await else {
            return Ended::Refused(began.elapsed());
        };
        slot.begin();
        if timeout(budget.saturating_sub(queued), server.answers()).await.is_err() {
            return Ended::Late;
        }
        slot.note_answer();
        Ended::Answered
    }

    /// Calls in these intervals.
    async fn sent(
        (slots, server, budget): (&Arc<Slots>, &Arc<Server>, Duration),
        flow: Flow,
        every: Duration,
    ) -> Vec<Ended> {
        let (mut unknown, mut calls) = (JoinSet::new(), JoinSet::new());
        let (mut ticks, began) = (tokio::time::interval(every), Instant::now());
        while began.elapsed() < UNCOUNTED + COUNTED {
            ticks.tick().await;
            let counts = began.elapsed() >= UNCOUNTED;
            let calls = if counts { &mut calls } else { &mut unknown };
            calls.spawn(called((Arc::clone(slots), Arc::clone(server)), flow, budget));
        }
        unknown.join_all().await;
        calls.join_all().await
    }

    fn answered(calls: &[Ended]) -> usize {
        calls.iter().filter(|call| **call == Ended::Answered).count()
    }

    #[tokio::test(start_paused = true)]
    async fn five_times_as_many_calls_as_a_server_answers_cost_none_of_its_capacity() {
        let ms = Duration::from_millis;
        for (at_a_time, work) in [(1, ms(20)), (1, ms(150)), (4, ms(40)), (40, ms(200)), (256, ms(300))] {
            let (slots, server) = (Slots::new(256), Server::new((at_a_time, work)));
            let each = work / u32::try_from(at_a_time).unwrap();
            let stage = (&slots, &server, BUDGET);
            let (greedy, modest) =
                tokio::join!(sent(stage, GREEDY, each / 5), sent(stage, MODEST, each * 10));
            let (most, decided) = (COUNTED.div_duration_f64(each), answered(&greedy) + answered(&modest));
            let share = f64::from(u32::try_from(decided).unwrap()) / most;
            assert!(share > 0.95, "{at_a_time} in {work:?}: {share}");
            assert_eq!(answered(&modest), modest.len(), "{modest:?}");
            let is_slow = |call: &&Ended| matches!(call, Ended::Refused(took) if *took > ms(10));
            assert_eq!(greedy.iter().filter(is_slow).count(), 0);
            assert!(!greedy.contains(&Ended::Late));
        }
    }

    /// What is known of calls that are alone says nothing about how many a server answers.
    #[tokio::test(start_paused = true)]
    async fn a_burst_after_light_load_is_answered() {
        const SHORT: Duration = Duration::from_millis(200);
        for work in [20, 40, 60, 80].map(Duration::from_millis) {
            let (slots, server) = (Slots::new(256), Server::new((1_000, work)));
            let call = |flow| called((Arc::clone(&slots), Arc::clone(&server)), flow, SHORT);
            for _ in 0..10 {
                for _ in 0..20 {
                    assert_eq!(call(GREEDY).await, Ended::Answered);
                }
                let burst: Vec<_> = (0..20).map(|_| tokio::spawn(call(GREEDY))).collect();
                for call in burst {
                    assert_eq!(call.await.unwrap(), Ended::Answered, "{work:?}");
                }
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_call_that_takes_long_is_forgotten() {
        const SHORT: Duration = Duration::from_millis(200);
        let work = Duration::from_millis(20);
        let (slots, server) = (Slots::new(256), Server::cold(SHORT * 3 / 4, work));
        let calls = sent((&slots, &server, SHORT), GREEDY, work / 5).await;
        let share = f64::from(u32::try_from(answered(&calls)).unwrap()) / COUNTED.div_duration_f64(work);
        assert!(share > 0.9, "{share}");
        assert!(!calls.contains(&Ended::Late));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_works_on_all_calls_at_once_has_all_of_them() {
        let (slots, server) = (Slots::new(256), Server::new((1_000, Duration::from_millis(100))));
        let calls = sent((&slots, &server, BUDGET), GREEDY, Duration::from_millis(1)).await;
        assert_eq!(answered(&calls), calls.len());
        assert_eq!(slots.waiting(), 0);
    }
}

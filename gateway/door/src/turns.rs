//! Calls that wait for the thread that decides them: fair between callers, and refused when they would wait too long.
//!
//! One thread decides all calls. Those that arrive while it is busy wait here, and it takes them one by one, so that it
//! reads and refuses others in between: without this, each would begin as soon as its request is read, and under
//! overload all would be late, and their work in vain. Whether a call is refused is known when it arrives, from the time
//! between two turns, which includes all other work of the thread.
//!
//! A refusal costs a part of a decision, and a caller that is refused sends the next call. Refusals therefore have a
//! share of the thread's time, or a flood of them would leave none for decisions. Within it they are answered at once.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use extender_gateway_pace::fair_queue::{AverageTime, FairQueue, Flow, Place};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, oneshot},
    task::yield_now,
    time::timeout,
};

/// The most that the time between two turns counts in the average: the machine may have done other work.
const LONGEST_TURN: Duration = Duration::from_millis(250);
/// About how long the thread works for a refusal: it reads the head of a request, and writes a response.
const REFUSAL: Duration = Duration::from_micros(80);
/// How long the time between two turns counts while no call waits: the load may be another one.
const REMEMBERED_FOR: Duration = Duration::from_secs(1);
/// Refusals have this part of the thread's time while calls wait.
const SHARE_OF_REFUSALS: u32 = 8;
/// The most of it that is saved for later.
const MOST_REFUSALS: Duration = Duration::from_micros(640);

/// Whether the thread that decides calls has begun one since it was idle.
#[derive(Debug, Clone, Default)]
pub struct Busy(Arc<AtomicBool>);

impl Busy {
    /// The thread has nothing to do. For [`tokio::runtime::Builder::on_thread_park`]: without it each call but the first
    /// takes the way through the queue, which costs it a wake-up.
    pub fn set_idle(&self) {
        self.0.store(false, Relaxed);
    }
}

type Queue = FairQueue<oneshot::Sender<()>>;

/// The turns that calls of one flow take.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlowTurns<'t> {
    pub(super) turns: &'t Arc<Turns>,
    pub(super) flow: Flow,
}

/// The turns of calls on the thread that decides them.
#[derive(Debug, Default)]
pub(super) struct Turns {
    busy: Busy,
    waiting: Mutex<Queue>,
    /// Calls that wait for their refusal.
    refusals: Mutex<Queue>,
    /// Large bodies of which more is to be read.
    bodies: Mutex<Queue>,
    /// Something waits in one of the queues.
    arrived: Notify,
    /// The number of large bodies that are being read.
    large_bodies: AtomicUsize,
    /// The call that has its turn was refused, so that the turn does not tell how long a decision takes.
    has_no_decision: AtomicBool,
    /// The time between two turns while calls wait.
    turn_time: AverageTime<5>,
}

/// The call would wait too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

impl Turns {
    /// With a quarter of the budget as the longest wait, the last quarter of it is left for the decision of a call whose body
    /// came at once.
    const LATEST: u32 = 3;

    pub(super) fn new(busy: Busy) -> Self {
        Self { busy, ..Self::default() }
    }

    /// An error if a call that arrives now would wait for longer than this: [`Turns::refusal`] is next.
    pub(super) fn admits(&self, flow: Flow, longest: Duration) -> Result<(), TooLong> {
        let ahead = self.waiting.lock().ahead_of(flow) + self.bodies.lock().ahead_of(flow);
        self.in_time(ahead, longest)
    }

    /// An error if so many turns take longer than this.
    fn in_time(&self, ahead: usize, longest: Duration) -> Result<(), TooLong> {
        let wait = self.turn_time.get().saturating_mul(u32::try_from(ahead).unwrap_or(u32::MAX));
        if wait > longest { Err(TooLong) } else { Ok(()) }
    }

    /// Waits until there is time to refuse a call, and not for longer than this.
    pub(super) async fn refusal(&self, flow: Flow, longest: Duration) {
        let _ = timeout(longest, self.begun(&self.refusals, flow)).await;
    }

    /// Waits until it is this call's turn, and returns how long that took: no time while the thread has nothing else to
    /// do. An error if the call would wait for longer than this, or has waited for [`Turns::LATEST`] times as long: how long
    /// a turn takes is not known at the beginning of a load.
    pub(super) async fn turn(&self, flow: Flow, longest: Duration) -> Result<Duration, TooLong> {
        if !self.busy.0.swap(true, Relaxed) {
            return Ok(Duration::ZERO);
        }
        // Its own body has been read.
        let ahead = self.waiting.lock().ahead_of(flow);
        self.in_time(ahead, longest)?;
        let arrived = Instant::now();
        self.begun(&self.waiting, flow).await;
        let waited = arrived.elapsed();
        if waited > longest * Self::LATEST {
            self.has_no_decision.store(true, Relaxed);
            return Err(TooLong);
        }
        Ok(waited)
    }

    /// The reading of a large body.
    pub(super) fn large_body(&self, flow: Flow) -> LargeBody<'_> {
        self.large_bodies.fetch_add(1, Relaxed);
        LargeBody { turns: self, flow }
    }

    /// Waits in a queue.
    async fn begun(&self, queue: &Mutex<Queue>, flow: Flow) {
        let (begins, begun) = oneshot::channel();
        let position = queue.lock().add(flow, begins);
        let _place = Place::new(queue, |queue| queue, position);
        self.arrived.notify_one();
        // The sender is dropped only with the queue.
        let _ = begun.await;
    }

    /// Begins the waiting calls, each when the thread has looked for other work; beside each reads more of a large body, and
    /// refuses calls in their share of its time.
    pub(super) async fn begin_calls(&self) -> Infallible {
        loop {
            let idle = Instant::now();
            self.arrived.notified().await;
            if idle.elapsed() > REMEMBERED_FOR {
                self.turn_time.clear();
            }
            let (mut turn, mut for_refusals) = (Instant::now(), Duration::ZERO);
            loop {
                let (reads, decides) = (begin_next(&self.bodies), begin_next(&self.waiting));
                if !self.refuse(&mut for_refusals, decides) && !decides && !reads {
                    break;
                }
                self.busy.0.fetch_or(decides, Relaxed);
                yield_now().await;
                let next = Instant::now();
                let took = next - turn;
                if decides && !self.has_no_decision.swap(false, Relaxed) {
                    self.turn_time.add(took.min(LONGEST_TURN));
                }
                let share = took / SHARE_OF_REFUSALS;
                for_refusals = (for_refusals + share).min(MOST_REFUSALS.max(share));
                turn = next;
            }
        }
    }

    /// Begins as many refusals as there is time for; some at least if no call waits. Returns whether there were any.
    fn refuse(&self, time: &mut Duration, calls_wait: bool) -> bool {
        if !calls_wait {
            *time = MOST_REFUSALS;
        }
        let mut any = false;
        while *time >= REFUSAL && begin_next(&self.refusals) {
            *time -= REFUSAL;
            any = true;
        }
        any
    }

    #[cfg(test)]
    pub(super) fn begin_body(&self) -> bool {
        begin_next(&self.bodies)
    }

    /// The number of calls that wait, also for their refusal.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.lock().waiting() + self.refusals.lock().waiting()
    }
}

/// A large body that is being read.
#[derive(Debug)]
pub(super) struct LargeBody<'t> {
    turns: &'t Turns,
    flow: Flow,
}

impl LargeBody<'_> {
    /// Waits for a turn if calls or other large bodies wait for the thread. Not with the calls: one that has been admitted
    /// would wait again and again.
    pub(super) async fn turn(&self) {
        if self.turns.large_bodies.load(Relaxed) > 1 || self.turns.waiting() > 0 {
            self.turns.begun(&self.turns.bodies, self.flow).await;
        }
    }
}

impl Drop for LargeBody<'_> {
    fn drop(&mut self) {
        self.turns.large_bodies.fetch_sub(1, Relaxed);
    }
}

/// Begins the next call of this queue. Returns whether there was one.
fn begin_next(queue: &Mutex<Queue>) -> bool {
    let next = queue.lock().take();
    // An error means that its caller has gone just now.
    next.map(|begins| begins.send(())).is_some()
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
            busy.set_idle();
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
        let _beginning = begin(&turns);
        for call in calls {
            call.await.unwrap();
        }
        assert_eq!(*order.lock(), [GREEDY, MODEST, GREEDY, GREEDY]);
        assert_eq!(turns.waiting(), 0);
    }

    #[tokio::test]
    async fn a_call_that_would_wait_too_long_is_refused_and_that_of_another_caller_is_not() {
        let turns = Turns::default();
        for _ in 0..100 {
            turns.turn_time.add(Duration::from_millis(10));
        }
        assert!(turns.turn_time.get() > Duration::from_millis(9));
        // Large bodies that wait to be read are ahead of it, too.
        for _ in 0..6 {
            turns.waiting.lock().add(GREEDY, oneshot::channel().0);
            turns.bodies.lock().add(GREEDY, oneshot::channel().0);
        }
        let longest = Duration::from_millis(50);
        turns.busy.0.store(true, Relaxed);
        assert_eq!(turns.turn(GREEDY, longest).await, Err(TooLong));
        assert_eq!(turns.admits(GREEDY, longest), Err(TooLong));
        assert_eq!(turns.admits(GREEDY, LONG), Ok(()));
        assert_eq!(turns.admits(MODEST, longest), Ok(()));
        assert_eq!(turns.waiting(), 6);
    }

    #[tokio::test]
    async fn a_call_that_has_waited_too_long_is_refused_at_its_turn() {
        for (longest, is_late) in [(Duration::from_nanos(1), true), (LONG, false)] {
            let turns = Turns::default();
            turns.busy.0.store(true, Relaxed);
            let mut call = std::pin::pin!(turns.turn(GREEDY, longest));
            assert!(futures_util::poll!(&mut call).is_pending());
            assert!(begin_next(&turns.waiting));
            assert_eq!(call.await.is_err(), is_late);
            assert_eq!(turns.has_no_decision.load(Relaxed), is_late);
        }
    }

    #[tokio::test]
    async fn a_turn_without_a_decision_does_not_tell_how_long_one_takes() {
        for has_no_decision in [true, false] {
            let turns = Arc::new(Turns::default());
            turns.turn_time.set(LONG);
            turns.has_no_decision.store(has_no_decision, Relaxed);
            turns.waiting.lock().add(GREEDY, oneshot::channel().0);
            turns.arrived.notify_one();
            let _beginning = begin(&turns);
            // The task has its turn as often.
            for _ in 0..10 {
                yield_now().await;
            }
            assert_eq!(turns.turn_time.get() < LONG, !has_no_decision);
            assert!(turns.waiting() == 0 && !turns.has_no_decision.load(Relaxed));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_waits_for_its_turn_and_not_for_longer_than_the_caller_does() {
        let turns = Turns::default();
        let mut refused = std::pin::pin!(turns.refusal(GREEDY, LONG));
        assert!(futures_util::poll!(&mut refused).is_pending());
        assert!(begin_next(&turns.refusals));
        refused.await;
        let begun = tokio::time::Instant::now();
        turns.refusal(GREEDY, LONG).await;
        assert_eq!((begun.elapsed(), turns.waiting()), (LONG, 0));
    }

    /// How many of so many refusals are begun at once, in so much time.
    fn refused(waiting: usize, time: Duration, calls_wait: bool) -> usize {
        let (turns, mut time) = (Turns::default(), time);
        let mut refusals = turns.refusals.lock();
        for _ in 0..waiting {
            refusals.add(GREEDY, oneshot::channel().0);
        }
        drop(refusals);
        let any = turns.refuse(&mut time, calls_wait);
        let refused = waiting - turns.refusals.lock().waiting();
        assert_eq!(any, refused > 0);
        refused
    }

    #[test]
    fn refusals_have_a_share_of_the_time_unless_no_call_waits() {
        let most = usize::try_from(MOST_REFUSALS.as_micros() / REFUSAL.as_micros()).unwrap();
        assert_eq!(refused(50, REFUSAL * 3 + REFUSAL / 2, true), 3);
        assert_eq!(refused(2, REFUSAL * 3, true), 2);
        assert_eq!(refused(50, REFUSAL / 2, true), 0);
        assert_eq!(refused(50, REFUSAL / 2, false), most);
    }

    /// Calls that take some time wait all the while.
    #[tokio::test]
    async fn refusals_are_begun_in_their_share_of_the_time_while_calls_wait() {
        const REFUSALS: u32 = 20;
        let turns = Arc::new(Turns::default());
        for _ in 0..100_000 {
            turns.waiting.lock().add(GREEDY, oneshot::channel().0);
        }
        let mut refused = JoinSet::new();
        for _ in 0..REFUSALS {
            let turns = Arc::clone(&turns);
            refused.spawn(async move { turns.refusal(GREEDY, LONG).await });
        }
        while turns.refusals.lock().waiting() < REFUSALS as usize {
            yield_now().await;
        }
        let begun = Instant::now();
        let _beginning = begin(&turns);
        while !refused.is_empty() && turns.waiting.lock().waiting() > 0 {
            work(Duration::from_micros(100));
            yield_now().await;
            while refused.try_join_next().is_some() {}
        }
        assert!(refused.is_empty() && turns.waiting.lock().waiting() > 0);
        assert!(begun.elapsed() >= REFUSAL * REFUSALS * (SHARE_OF_REFUSALS - 1), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn all_refusals_are_begun_when_no_call_waits() {
        let turns = Arc::new(Turns::default());
        let mut refused = JoinSet::new();
        for _ in 0..100 {
            let turns = Arc::clone(&turns);
            refused.spawn(async move { turns.refusal(GREEDY, LONG).await });
        }
        let _beginning = begin(&turns);
        refused.join_all().await;
        assert_eq!(turns.waiting(), 0);
    }

    fn work(time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time {}
    }

    fn begin(turns: &Arc<Turns>) -> AbortOnDropHandle<()> {
        let turns = Arc::clone(turns);
        AbortOnDropHandle::new(tokio::spawn(async move { match turns.begin_calls().await {} }))
    }

    /// Calls that each keep the thread for this long take turns, while another task, too, does something in between.
    #[tokio::test]
    async fn a_turn_takes_as_long_as_all_that_the_thread_does_in_it() {
        const WORK: Duration = Duration::from_millis(2);
        let turns = Arc::new(Turns::default());
        turns.turn(GREEDY, LONG).await.unwrap();
        let mut calls = JoinSet::new();
        for _ in 0..100 {
            let turns = Arc::clone(&turns);
            calls.spawn(async move {
                turns.turn(GREEDY, LONG).await.unwrap();
                work(WORK);
            });
        }
        while turns.waiting() < 100 {
            yield_now().await;
        }
        let _beginning = begin(&turns);
        while calls.join_next().await.is_some() {
            work(WORK);
        }
        // The average has come near the time of a call and of the work after it.
        let known = turns.turn_time.get();
        assert!(known >= WORK * 3 / 2, "{known:?}");
    }
}

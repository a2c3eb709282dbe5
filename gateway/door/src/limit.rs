//! Limits the connections of an address, and decides which connection makes room for a new one.
//!
//! All addresses share the file descriptors of the process with the connections to backends and the apiserver, so
//! each has a share, and some descriptors are reserved. At its limit an address closes a connection for each new
//! one, unless all have requests in progress that have fully arrived and answers that are being read. Connections that
//! never sent a complete request are closed first, the oldest first; then those that wait for the body of one, the
//! longest wait first; then those whose callers do not read their answers; then those idle for longest. So idle
//! connections, requests without their bodies and slow readers keep no caller out.
//!
//! An answer that is not read is closed with its connection after a while, because it stays in memory: flow control of
//! HTTP/2 holds it back while the connection lives, and no timer of the socket notices.

use std::{
    collections::HashMap,
    fs,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{task::AbortHandle, time::Instant};

/// The addresses of the gateway, as named in metrics and the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Address {
    /// `extender.address`.
    Extender,
    /// `metrics.address`.
    Metrics,
    /// `admin.address`.
    Admin,
}

/// The most connections of each address, however many descriptors the process has.
const MOST_CALLERS: u64 = 4096;
const MOST_SCRAPERS: u64 = 128;
const MOST_ADMINS: u64 = 64;
/// The limit of descriptors if the system does not report it: the usual one.
const USUAL_DESCRIPTORS: u64 = 1024;

impl Address {
    /// The name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Extender => "extender",
            Self::Metrics => "metrics",
            Self::Admin => "admin",
        }
    }

    /// How long a caller may take to read an answer: those of kube-scheduler give up after seconds, and the decision log
    /// may go to a workstation, through the apiserver.
    pub(super) fn answer_timeout(self) -> Duration {
        match self {
            Self::Extender | Self::Metrics => Duration::from_mins(1),
            Self::Admin => Duration::from_mins(2),
        }
    }

    /// The most connections in a process with this many descriptors: a quarter is reserved for everything else.
    fn share(self, descriptors: u64) -> usize {
        let share = match self {
            Self::Extender => MOST_CALLERS.min(descriptors / 2),
            Self::Metrics => MOST_SCRAPERS.min(descriptors / 8),
            Self::Admin => MOST_ADMINS.min(descriptors / 8),
        };
        usize::try_from(share.max(1)).unwrap_or(usize::MAX)
    }
}

/// The soft limit of this process's descriptors.
fn descriptors() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
    match soft {
        Some("unlimited") => u64::MAX,
        soft => soft.and_then(|soft| soft.parse().ok()).unwrap_or(USUAL_DESCRIPTORS),
    }
}

#[derive(Debug)]
pub(super) struct ConnectionLimit {
    pub(super) most: usize,
    open: Mutex<OpenConnections>,
    /// A counter that orders connections by the start and end of their requests.
    events: AtomicU64,
    /// How many ticks have passed, by which the age of answers is told.
    ticks: AtomicU64,
}

/// Answers are told apart by the tick of their start, for this many ticks.
const TOLD_APART: usize = 32;
/// An answer that was not read for this many ticks makes room for a new connection.
const UNREAD: u64 = 2;

#[derive(Debug, Default)]
struct OpenConnections {
    connections: HashMap<u64, Arc<OpenConnection>>,
    accepted: u64,
}

#[derive(Debug)]
pub(super) struct OpenConnection {
    since: Instant,
    requests: AtomicU32,
    /// Requests whose bodies are awaited.
    arriving: AtomicU32,
    /// The number of the event at which the latest of these began.
    waits_since: AtomicU64,
    /// The number of the event at which the latest request ended; 0 before the first.
    latest: AtomicU64,
    /// Answers that are being sent, by the tick of their start.
    answers: [AtomicU32; TOLD_APART],
    /// Ends the connection. Set once it is served.
    task: OnceLock<AbortHandle>,
}

/// The order in which connections are closed for new ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Usefulness {
    /// It never sent a complete request.
    Silent,
    /// It waits for the body of a request that began at this event.
    Waiting(u64),
    /// Its caller does not read its answers.
    Unread,
    /// Its latest request ended at this event.
    Idle(u64),
}

impl OpenConnection {
    /// `None` while a request that has fully arrived is in progress, and while its answer is read.
    fn usefulness(&self, tick: u64) -> Option<Usefulness> {
        let (requests, arriving) = (self.requests.load(Relaxed), self.arriving.load(Relaxed));
        match (arriving, self.latest.load(Relaxed)) {
            _ if requests > arriving => self.has_only_unread(tick).then_some(Usefulness::Unread),
            (1.., _) => Some(Usefulness::Waiting(self.waits_since.load(Relaxed))),
            (0, 0) => Some(Usefulness::Silent),
            (0, latest) => Some(Usefulness::Idle(latest)),
        }
    }

    /// Whether it never sent a complete request, and is not sending one.
    pub(super) fn is_silent(&self) -> bool {
        self.requests.load(Relaxed) == 0 && self.latest.load(Relaxed) == 0
    }

    /// Whether all its requests that have arrived are answered, and one of the answers is unread.
    fn has_only_unread(&self, tick: u64) -> bool {
        let answers: u32 = self.answers.iter().map(|answers| answers.load(Relaxed)).sum();
        let decided = self.requests.load(Relaxed).saturating_sub(self.arriving.load(Relaxed));
        answers >= decided && self.has_answers_of(UNREAD, tick)
    }

    /// Whether an answer began this many ticks ago, or earlier.
    fn has_answers_of(&self, ticks: u64, tick: u64) -> bool {
        // None is older, because connections with older ones are closed.
        let starts = (ticks..TOLD_APART as u64).filter_map(|ago| tick.checked_sub(ago));
        starts.into_iter().any(|start| self.answers_of(start).load(Relaxed) > 0)
    }

    fn answers_of(&self, tick: u64) -> &AtomicU32 {
        &self.answers[usize::try_from(tick).unwrap_or(0) % TOLD_APART]
    }

    /// Sets the task that serves the connection.
    pub(super) fn served_by(&self, task: AbortHandle) {
        // It is set only once.
        let _ = self.task.set(task);
    }

    fn close(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }
}

impl ConnectionLimit {
    pub(super) fn of(address: Address) -> Arc<Self> {
        Self::new(address.share(descriptors()))
    }

    fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, open: Mutex::default(), events: AtomicU64::new(0), ticks: AtomicU64::new(0) })
    }

    /// Admits a connection. Returns its slot, and whether another connection was closed for it; `None` if all have
    /// requests in progress.
    pub(super) fn admit(self: &Arc<Self>) -> Option<(ConnectionSlot, bool)> {
        let mut open = self.open.lock();
        let full = open.connections.len() >= self.most;
        if full {
            let number = open.least_useful(self.ticks.load(Relaxed))?;
            open.connections.remove(&number).inspect(|least| least.close());
        }
        let connection = Arc::new(OpenConnection {
            since: Instant::now(),
            requests: AtomicU32::new(0),
            arriving: AtomicU32::new(0),
            waits_since: AtomicU64::new(0),
            latest: AtomicU64::new(0),
            answers: Default::default(),
            task: OnceLock::new(),
        });
        let number = open.accepted;
        open.accepted += 1;
        open.connections.insert(number, Arc::clone(&connection));
        Some((ConnectionSlot { limit: Arc::clone(self), number, connection }, full))
    }

    /// Closes the connections of at least this age that never sent a request. Returns their number.
    pub(super) fn close_silent(&self, age: Duration) -> u64 {
        let open = self.open.lock();
        let silent = open.connections.values().filter(|each| each.is_silent() && each.since.elapsed() >= age);
        silent.map(|connection| connection.close()).count() as u64
    }

    /// Another tick has passed: closes the connections with an answer that was not read for this many of them. Returns
    /// their number.
    pub(super) fn close_unread(&self, ticks: u64) -> u64 {
        debug_assert!(ticks < TOLD_APART as u64, "older answers would count as new ones");
        let tick = self.ticks.fetch_add(1, Relaxed) + 1;
        let open = self.open.lock();
        let unread = open.connections.values().filter(|each| each.has_answers_of(ticks, tick));
        unread.map(|connection| connection.close()).count() as u64
    }

    fn next_event(&self) -> u64 {
        self.events.fetch_add(1, Relaxed) + 1
    }
}

impl OpenConnections {
    /// The number of the connection to close first.
    fn least_useful(&self, tick: u64) -> Option<u64> {
        let closable = self.connections.iter();
        let closable =
            closable.filter_map(|(number, connection)| Some((connection.usefulness(tick)?, *number)));
        closable.min().map(|(_, number)| number)
    }
}

/// The slot of a connection, released when it is dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    limit: Arc<ConnectionLimit>,
    number: u64,
    connection: Arc<OpenConnection>,
}

impl ConnectionSlot {
    /// The connection, which the task that takes the slot serves.
    pub(super) fn connection(&self) -> Arc<OpenConnection> {
        Arc::clone(&self.connection)
    }

    /// Starts a request, which is in progress until its response is dropped.
    pub(super) fn request(&self) -> RequestInProgress {
        self.connection.requests.fetch_add(1, Relaxed);
        RequestInProgress { limit: Arc::clone(&self.limit), connection: Arc::clone(&self.connection) }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.limit.open.lock().connections.remove(&self.number);
    }
}

/// A request in progress, until it is dropped with its response.
#[derive(Debug)]
pub(super) struct RequestInProgress {
    limit: Arc<ConnectionLimit>,
    connection: Arc<OpenConnection>,
}

impl RequestInProgress {
    /// Marks its body as awaited, until the returned value is dropped.
    pub(super) fn awaits_body(&self) -> AwaitedBody {
        self.connection.waits_since.store(self.limit.next_event(), Relaxed);
        self.connection.arriving.fetch_add(1, Relaxed);
        AwaitedBody(Arc::clone(&self.connection))
    }
}

impl RequestInProgress {
    /// Its answer begins, and is being sent until the returned value is dropped.
    pub(super) fn answers(self) -> AnswerInProgress {
        let tick = self.limit.ticks.load(Relaxed);
        self.connection.answers_of(tick).fetch_add(1, Relaxed);
        AnswerInProgress { request: self, tick }
    }
}

/// An answer that is being sent, until it is dropped with its last byte.
#[derive(Debug)]
pub(super) struct AnswerInProgress {
    request: RequestInProgress,
    tick: u64,
}

impl Drop for AnswerInProgress {
    fn drop(&mut self) {
        self.request.connection.answers_of(self.tick).fetch_sub(1, Relaxed);
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.connection.latest.store(self.limit.next_event(), Relaxed);
        self.connection.requests.fetch_sub(1, Relaxed);
    }
}

#[derive(Debug)]
pub(super) struct AwaitedBody(Arc<OpenConnection>);

impl Drop for AwaitedBody {
    fn drop(&mut self) {
        self.0.arriving.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::JoinHandle;

    use super::*;

    struct Connected {
        slot: ConnectionSlot,
        task: JoinHandle<()>,
    }

    impl Connected {
        async fn was_closed(self) -> bool {
            tokio::task::yield_now().await;
            self.task.is_finished()
        }
    }

    fn connect(limit: &Arc<ConnectionLimit>) -> Connected {
        let (slot, _) = limit.admit().expect("it is not full");
        let task = tokio::spawn(std::future::pending());
        slot.connection().served_by(task.abort_handle());
        Connected { slot, task }
    }

    /// Never ends.
    fn awaits_a_body(connected: &Connected) {
        let request = connected.slot.request();
        std::mem::forget(request.awaits_body());
        std::mem::forget(request);
    }

    #[tokio::test]
    async fn room_is_made_by_the_silent_then_by_the_idle_and_never_by_the_busy() {
        let limit = ConnectionLimit::new(4);
        let (idle, idler, busy) = (connect(&limit), connect(&limit), connect(&limit));
        drop(idler.slot.request());
        drop(idle.slot.request());
        let request = busy.slot.request();
        let silent = connect(&limit);
        for closed in [silent, idler, idle] {
            assert!(!closed.task.is_finished());
            let next = connect(&limit);
            assert!(closed.was_closed().await);
            // It has a request in progress from now on.
            std::mem::forget(next.slot.request());
            std::mem::forget(next);
        }
        assert!(limit.admit().is_none());
        drop(request);
        assert!(matches!(limit.admit(), Some((_, true))));
        assert!(busy.was_closed().await);
    }

    #[tokio::test]
    async fn requests_without_their_bodies_make_room_before_a_used_connection() {
        let limit = ConnectionLimit::new(4);
        let used = connect(&limit);
        drop(used.slot.request());
        for _ in 0..8 {
            let next = connect(&limit);
            awaits_a_body(&next);
            std::mem::forget(next);
        }
        assert_eq!(limit.open.lock().connections.len(), 4);
        assert!(!used.was_closed().await);
    }

    #[tokio::test]
    async fn of_bodies_the_one_that_is_awaited_longest_makes_room() {
        let limit = ConnectionLimit::new(2);
        let (first, second) = (connect(&limit), connect(&limit));
        awaits_a_body(&second);
        awaits_a_body(&first);
        let _third = connect(&limit);
        assert!(second.was_closed().await && !first.was_closed().await);
    }

    #[tokio::test]
    async fn a_request_that_has_arrived_makes_no_room_beside_one_that_has_not() {
        let limit = ConnectionLimit::new(1);
        let connected = connect(&limit);
        awaits_a_body(&connected);
        let _decided = connected.slot.request();
        assert!(limit.admit().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_is_closed_in_time() {
        let limit = ConnectionLimit::new(8);
        let (silent, used) = (connect(&limit), connect(&limit));
        drop(used.slot.request());
        let age = Duration::from_secs(9);
        assert_eq!(limit.close_silent(age), 0);
        tokio::time::advance(age).await;
        let young = connect(&limit);
        assert_eq!(limit.close_silent(age), 1);
        assert_eq!(
            [silent.was_closed().await, used.was_closed().await, young.was_closed().await],
            [true, false, false]
        );
    }

    #[tokio::test]
    async fn an_answer_that_nobody_reads_makes_room_and_is_closed_in_the_end() {
        let limit = ConnectionLimit::new(3);
        let (unread, decided, idle) = (connect(&limit), connect(&limit), connect(&limit));
        drop(idle.slot.request().answers());
        let _first = unread.slot.request().answers();
        assert_eq!(limit.close_unread(4), 0);
        let _second = unread.slot.request().answers();
        let request = decided.slot.request();
        for _ in 1..3 {
            assert_eq!(limit.close_unread(4), 0);
        }
        assert_eq!(limit.open.lock().least_useful(3), Some(unread.slot.number));
        assert_eq!(limit.close_unread(4), 1);
        assert!(unread.was_closed().await);
        drop(request);
        assert!(!decided.was_closed().await && !idle.was_closed().await);
    }

    #[tokio::test]
    async fn a_caller_that_reads_may_take_as_long_as_its_calls() {
        let limit = ConnectionLimit::new(1);
        let connected = connect(&limit);
        let deciding = connected.slot.request();
        for _ in 0..TOLD_APART * 2 {
            let answer = connected.slot.request().answers();
            assert_eq!(limit.close_unread(2), 0);
            assert!(limit.admit().is_none(), "a call is being decided");
            drop(answer);
        }
        drop(deciding);
        assert!(!connected.was_closed().await);
    }

    #[tokio::test]
    async fn a_connection_that_ends_leaves_its_place() {
        let limit = ConnectionLimit::new(1);
        drop(connect(&limit).slot);
        assert!(matches!(limit.admit(), Some((_, false))));
    }

    #[test]
    fn a_quarter_of_the_descriptors_is_left_for_all_else() {
        let all = [Address::Extender, Address::Metrics, Address::Admin];
        for limit in [64, 128, 1024, 65_536] {
            let connections: usize = all.iter().map(|address| address.share(limit)).sum();
            assert!(connections as u64 <= limit * 3 / 4, "{limit}: {connections}");
        }
        assert_eq!(all.map(|address| address.share(u64::MAX)), [4096, 128, 64]);
        assert!(descriptors() > 8);
    }
}

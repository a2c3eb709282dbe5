//! What a backend has answered and need not be asked again: the answers of verbs that it declares pure.
//!
//! An answer is filed under the exact bytes that were told about the pod, and for each node under the version of
//! the row that was told. A memory belongs to one handshake: another revision, other args or another configuration
//! of the backend is another [`Link`](super::link::Link), and begins with an empty one. Nothing is remembered of a
//! backend that does not name its revision.

mod sheet;

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU8, AtomicU32, Ordering},
};

use bytes::Bytes;
use extender_gateway_core::filter::Refusal;
use foldhash::{HashMap, HashMapExt};

pub use self::sheet::Sheet;
use crate::cluster::table::Line;

/// The most that answers of one verb of one backend may take, in bytes. The pods that were not asked about for
/// longest go first.
const MOST_BYTES: usize = 32 << 20;
/// The most different reasons that are remembered. A backend with more has reasons that are not constant.
const MOST_REASONS: usize = 4096;
/// One call in so many that would be answered from memory is asked all the same.
const CHECK_EVERY: u32 = 1000;

/// The remembered answers of a backend.
#[derive(Debug, Default)]
pub struct Memory {
    /// What it said of nodes in filter calls; `None` where filter is not pure.
    pub verdicts: Option<Verdicts>,
    /// Raw scores; `None` where score is not pure.
    pub scores: Option<Answers<i32>>,
    trust: AtomicU8,
}

/// Answers may be used and filed.
const TRUSTED: u8 = 0;
/// Not before a handshake says which revision answers.
const MIXED: u8 = 1;
/// Not for as long as this memory lives: a verb is not pure.
const IMPURE: u8 = 2;

/// Which verbs are remembered.
#[derive(Debug, Clone, Copy, Default)]
pub struct Remembered {
    /// Filter.
    pub filter: bool,
    /// Score.
    pub score: bool,
}

impl Memory {
    /// An empty memory for these verbs.
    pub fn new(verbs: Remembered) -> Self {
        Self {
            verdicts: verbs.filter.then(Verdicts::default),
            scores: verbs.score.then(Answers::default),
            ..Self::default()
        }
    }

    /// Whether answers may be used and filed.
    pub fn is_trusted(&self) -> bool {
        self.trust.load(Ordering::Relaxed) == TRUSTED
    }

    /// An answer was of another revision: until the next handshake nothing is remembered.
    pub fn doubt(&self) {
        let _ = self.trust.compare_exchange(TRUSTED, MIXED, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// From now on nothing is remembered; true the first time.
    pub fn distrust(&self) -> bool {
        self.trust.swap(IMPURE, Ordering::Relaxed) != IMPURE
    }

    /// A handshake has found the revision of this memory again: it begins anew if it was doubted.
    pub fn confirm(&self) {
        if self.trust.load(Ordering::Relaxed) != MIXED {
            return;
        }
        if let Some(verdicts) = &self.verdicts {
            verdicts.answers.forget();
        }
        if let Some(scores) = &self.scores {
            scores.forget();
        }
        let _ = self.trust.compare_exchange(MIXED, TRUSTED, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Remembered answers of one verb.
#[derive(Debug)]
pub struct Answers<A> {
    classes: Mutex<Classes<A>>,
    most: usize,
    /// Calls that could be answered from here. Of this verb alone: filter and prioritize take turns, so a count of both
    /// would always find the same one.
    calls: AtomicU32,
}

#[derive(Debug)]
struct Classes<A> {
    by_pod: HashMap<Bytes, Class<A>>,
    /// Counts uses.
    clock: u64,
    bytes: usize,
}

impl<A> Default for Classes<A> {
    fn default() -> Self {
        Self { by_pod: HashMap::new(), clock: 0, bytes: 0 }
    }
}

/// The pods about which the same was told.
#[derive(Debug)]
struct Class<A> {
    sheet: Sheet<A>,
    used: u64,
}

impl<A> Default for Answers<A> {
    fn default() -> Self {
        Self::bounded(MOST_BYTES)
    }
}

impl<A> Answers<A> {
    fn bounded(most: usize) -> Self {
        Self { classes: Mutex::default(), most, calls: AtomicU32::new(0) }
    }

    /// Whether a call that could be answered from memory is to be asked all the same.
    pub fn is_check_due(&self) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed) % CHECK_EVERY == CHECK_EVERY - 1
    }

    fn forget(&self) {
        *self.lock() = Classes::default();
    }

    fn lock(&self) -> MutexGuard<'_, Classes<A>> {
        // Nothing is left half done where it could panic.
        self.classes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Copy + Default> Answers<A> {
    /// The answers about these nodes for a pod of which this was told.
    pub fn recall<'l>(&self, pod: &[u8], lines: impl Iterator<Item = &'l Line>) -> Vec<Option<A>> {
        let mut classes = self.lock();
        classes.clock += 1;
        let now = classes.clock;
        match classes.by_pod.get_mut(pod) {
            None => lines.map(|_| None).collect(),
            Some(class) => {
                class.used = now;
                lines.map(|line| class.sheet.get(line)).collect()
            }
        }
    }

    /// Keeps answers.
    pub fn file<'l>(&self, pod: &Bytes, answers: impl Iterator<Item = (&'l Line, A)>) {
        let mut classes = self.lock();
        classes.clock += 1;
        let Classes { by_pod, clock, bytes } = &mut *classes;
        let class = by_pod.entry(pod.clone()).or_insert_with(|| {
            *bytes += pod.len();
            Class { sheet: Sheet::new(), used: 0 }
        });
        class.used = *clock;
        *bytes -= class.sheet.bytes();
        for (line, answer) in answers {
            class.sheet.put(line, answer);
        }
        *bytes += class.sheet.bytes();
        classes.shrink_to(self.most);
    }
}

impl<A: Copy + Default> Classes<A> {
    /// Forgets what was not used for longest until no more than `most` bytes are taken.
    fn shrink_to(&mut self, most: usize) {
        if self.bytes <= most {
            return;
        }
        // More than needed at once, so that this is not done for every new pod.
        let mut ages: Vec<u64> = self.by_pod.values().map(|class| class.used).collect();
        ages.sort_unstable();
        let keep_from = ages[ages.len() / 2];
        self.by_pod.retain(|_, class| class.used > keep_from);
        self.bytes = self.by_pod.iter().map(|(pod, class)| pod.len() + class.sheet.bytes()).sum();
    }
}

/// Remembered verdicts: accepted, or refused for a reason.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// 0 for accepted, else one more than the reason's place.
    answers: Answers<u32>,
    reasons: Mutex<Reasons>,
}

#[derive(Debug, Default)]
struct Reasons {
    known: Vec<(String, bool)>,
    places: HashMap<(String, bool), u32>,
}

impl Reasons {
    fn place(&mut self, reason: &str, preemption_may_help: bool) -> Option<u32> {
        let key = (reason.to_owned(), preemption_may_help);
        if let Some(place) = self.places.get(&key) {
            return Some(*place);
        }
        let place = u32::try_from(self.known.len()).ok().filter(|_| self.known.len() < MOST_REASONS)?;
        self.known.push(key.clone());
        self.places.insert(key, place);
        Some(place)
    }
}

impl Verdicts {
    /// As [`Answers::is_check_due`].
    pub fn is_check_due(&self) -> bool {
        self.answers.is_check_due()
    }

    /// What was said of these nodes: 0 for accepted, another number for each reason; `None` where nothing is
    /// remembered.
    pub fn recall<'l>(&self, pod: &[u8], lines: impl Iterator<Item = &'l Line>) -> Vec<Option<u32>> {
        self.answers.recall(pod, lines)
    }

    /// The refusals that these verdicts are. Positions are places in `verdicts`.
    pub fn refusals(&self, verdicts: &[Option<u32>]) -> Vec<Refusal> {
        let mut refusals: Vec<(u32, Refusal)> = Vec::new();
        let refused =
            (0_u32..).zip(verdicts).filter_map(|(at, verdict)| Some((at, verdict.filter(|v| *v > 0)?)));
        for (at, verdict) in refused {
            match refusals.iter_mut().find(|(known, _)| *known == verdict) {
                Some((_, refusal)) => refusal.positions.push(at),
                None => refusals.extend(self.refusal(verdict, at).map(|refusal| (verdict, refusal))),
            }
        }
        refusals.into_iter().map(|(_, refusal)| refusal).collect()
    }

    fn refusal(&self, verdict: u32, at: u32) -> Option<Refusal> {
        let reasons = self.lock();
        let (reason, preemption_may_help) = reasons.known.get(verdict.checked_sub(1)? as usize)?;
        Some(Refusal {
            reason: reason.clone(),
            preemption_may_help: *preemption_may_help,
            positions: vec![at],
        })
    }

    /// The verdicts that an answer is: as many as nodes were asked about. `None` for those whose reason cannot be
    /// remembered.
    pub fn read(&self, refusals: &[Refusal], count: usize) -> Vec<Option<u32>> {
        let mut verdicts = vec![Some(0); count];
        let mut reasons = self.lock();
        for refusal in refusals {
            let place = reasons.place(&refusal.reason, refusal.preemption_may_help).map(|place| place + 1);
            for at in &refusal.positions {
                verdicts[*at as usize] = place;
            }
        }
        verdicts
    }

    /// Keeps verdicts.
    pub fn file<'l>(&self, pod: &Bytes, verdicts: impl Iterator<Item = (&'l Line, Option<u32>)>) {
        let remembered = verdicts.filter_map(|(line, verdict)| Some((line, verdict?)));
        self.answers.file(pod, remembered);
    }

    fn lock(&self) -> MutexGuard<'_, Reasons> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;

//! The answer cache: answers of verbs that a backend declares pure, reused instead of calling it again. The key of
//! an answer is the exact encoding of the pod, and for each node the version of its row. A cache belongs to one
//! handshake: another revision, other args or another configuration of the backend is another
//! [`Session`](super::session::Session), and starts empty. Nothing is cached for a backend that does not report its
//! revision.

mod cached_answers;

use std::{
    cmp::Reverse,
    num::NonZeroU32,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicU32, Ordering},
    },
};

use bytes::Bytes;
use extender_gateway_core::filter::Refusal;
use foldhash::{HashMap, HashMapExt};

use self::cached_answers::CachedAnswers;
use crate::cluster::table::NodeRow;

/// The most that answers of one verb of one backend may take, in bytes. The pods that were not asked about for
/// longest go first. Three backends with two verbs each, all of it taken, leave two thirds of 150 MB to the rest.
const MOST_BYTES: usize = 8 << 20;
/// The most different reasons that are remembered. A backend with more has reasons that are not constant.
const MOST_REASONS: usize = 4096;
/// Longer reasons are not remembered, in bytes: more than kube-scheduler ever sees of one.
const LONGEST_REASON: usize = 1024;

/// The cached answers of a backend.
#[derive(Debug)]
pub struct AnswerCache {
    /// Verdicts of filter calls; `None` if filter is not pure.
    pub verdicts: Option<VerdictCache>,
    /// Raw scores; `None` where score is not pure.
    pub scores: Option<VerbCache<i32>>,
    trust: AtomicU8,
}

/// No reason to distrust cached answers.
const TRUSTED: u8 = 0;
/// A flag: an answer was of another revision than the handshake named. Until the next handshake.
const MIXED: u8 = 1;
/// A flag: the backend is not as pure as it declares. Until its next revision. Apart from the other, because scores
/// that came with filter are used under this one, and must not be combined with those of another revision either.
const REFUTED: u8 = 2;

/// Which verbs are cached.
#[derive(Debug, Clone, Copy, Default)]
pub struct CachedVerbs {
    /// Filter.
    pub filter: bool,
    /// Score.
    pub score: bool,
}

impl AnswerCache {
    /// An empty cache for these verbs. One call in `check_every` of each verb is sent to the backend anyway.
    pub fn new(verbs: CachedVerbs, check_every: NonZeroU32) -> Self {
        Self {
            verdicts: verbs.filter.then(|| VerdictCache::new(check_every)),
            scores: verbs.score.then(|| VerbCache::new(check_every)),
            trust: AtomicU8::new(TRUSTED),
        }
    }

    /// Whether answers may be used and filed.
    pub fn is_trusted(&self) -> bool {
        self.trust.load(Ordering::Relaxed) == TRUSTED
    }

    /// An answer was of another revision than the handshake told: nothing is remembered until a handshake.
    pub fn mark_mixed_revisions(&self) {
        self.trust.fetch_or(MIXED, Ordering::Relaxed);
    }

    /// Whether an answer was of another revision than the handshake told.
    pub fn has_mixed_revisions(&self) -> bool {
        self.trust.load(Ordering::Relaxed) & MIXED != 0
    }

    /// Whether the backend is not as pure as it declares.
    pub fn is_impure(&self) -> bool {
        self.trust.load(Ordering::Relaxed) & REFUTED != 0
    }

    /// The backend is not as pure as it declares: nothing is cached under this revision from now on. True the first
    /// time.
    pub fn mark_impure(&self) -> bool {
        self.trust.fetch_or(REFUTED, Ordering::Relaxed) & REFUTED == 0
    }
}

/// Cached answers of one verb.
#[derive(Debug)]
pub struct VerbCache<A> {
    classes: Mutex<Classes<A>>,
    most: usize,
    check_every: NonZeroU32,
    /// Calls that could be answered in part at least.
    calls: AtomicU32,
}

#[derive(Debug)]
struct Classes<A> {
    by_pod: HashMap<Bytes, Class<A>>,
    /// Counts uses.
    clock: u64,
    /// What all classes take.
    bytes: usize,
}

/// The pods with equal encodings.
#[derive(Debug)]
struct Class<A> {
    answers: CachedAnswers<A>,
    /// When it was used last, by the clock. No two are the same.
    used: u64,
}

impl<A: Copy + Default> Class<A> {
    /// What it takes, with the bytes that were told about the pod and its place in the map. Seven in eight places
    /// are taken before a map doubles, so that one can cost 16/7 of a place; each has a byte beside it.
    fn bytes(&self, pod: &Bytes) -> usize {
        let place = (size_of::<(Bytes, Self)>() + 1) * 16 / 7;
        place + pod.len() + self.answers.bytes()
    }
}

impl<A> VerbCache<A> {
    fn new(check_every: NonZeroU32) -> Self {
        Self::bounded(MOST_BYTES, check_every)
    }

    fn bounded(most: usize, check_every: NonZeroU32) -> Self {
        let classes = Classes { by_pod: HashMap::new(), clock: 0, bytes: 0 };
        Self { classes: Mutex::new(classes), most, check_every, calls: AtomicU32::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, Classes<A>> {
        // Nothing is left half done where it could panic.
        self.classes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Copy + Default> VerbCache<A> {
    /// Whether a call that the cache could answer is sent to the backend anyway.
    pub fn is_check_due(&self) -> bool {
        let every = self.check_every.get();
        self.calls.fetch_add(1, Ordering::Relaxed) % every == every - 1
    }

    /// The answers about these nodes for a pod of which this was told.
    pub fn recall<'l>(&self, pod: &[u8], lines: impl Iterator<Item = &'l NodeRow>) -> Vec<Option<A>> {
        let mut classes = self.lock();
        classes.clock += 1;
        let now = classes.clock;
        match classes.by_pod.get_mut(pod) {
            None => lines.map(|_| None).collect(),
            Some(class) => {
                class.used = now;
                lines.map(|line| class.answers.get(line)).collect()
            }
        }
    }

    /// Keeps answers.
    pub fn store<'l>(&self, pod: &Bytes, answers: impl Iterator<Item = (&'l NodeRow, A)>) {
        let mut classes = self.lock();
        classes.clock += 1;
        let Classes { by_pod, clock, bytes } = &mut *classes;
        let class = by_pod.entry(pod.clone()).or_insert_with(|| {
            let class = Class { answers: CachedAnswers::default(), used: 0 };
            *bytes += class.bytes(pod);
            class
        });
        class.used = *clock;
        *bytes -= class.answers.bytes();
        class.answers.put(answers);
        *bytes += class.answers.bytes();
        classes.shrink_to(self.most);
    }
}

impl<A: Copy + Default> Classes<A> {
    /// Makes sure that no more than `most` bytes are taken. What was used last is kept, up to half of `most`: more is
    /// forgotten than must be, so that this is not done for every new pod.
    fn shrink_to(&mut self, most: usize) {
        if self.bytes <= most {
            return;
        }
        let mut uses: Vec<_> =
            self.by_pod.iter().map(|(pod, class)| (class.used, class.bytes(pod))).collect();
        uses.sort_unstable_by_key(|(used, _)| Reverse(*used));
        self.bytes = 0;
        let mut keep_from = u64::MAX;
        for (used, bytes) in uses {
            if self.bytes + bytes > most / 2 {
                break;
            }
            self.bytes += bytes;
            keep_from = used;
        }
        self.by_pod.retain(|_, class| class.used >= keep_from);
        self.by_pod.shrink_to_fit();
    }
}

/// Remembered verdicts: accepted, or refused for a reason.
#[derive(Debug)]
pub struct VerdictCache {
    /// 0 for accepted, else one more than the reason's place.
    answers: VerbCache<u32>,
    reasons: Mutex<ReasonTable>,
}

#[derive(Debug, Default)]
struct ReasonTable {
    known: Vec<(String, bool)>,
    places: HashMap<(String, bool), u32>,
}

impl ReasonTable {
    fn place(&mut self, reason: &str, preemption_may_help: bool) -> Option<u32> {
        if reason.len() > LONGEST_REASON {
            return None;
        }
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

impl VerdictCache {
    fn new(check_every: NonZeroU32) -> Self {
        Self { answers: VerbCache::new(check_every), reasons: Mutex::default() }
    }

    /// As [`VerbCache::is_check_due`].
    pub fn is_check_due(&self) -> bool {
        self.answers.is_check_due()
    }

    /// The verdicts of these nodes: 0 for accepted, another number for each reason; `None` if not cached.
    pub fn recall<'l>(&self, pod: &[u8], lines: impl Iterator<Item = &'l NodeRow>) -> Vec<Option<u32>> {
        self.answers.recall(pod, lines)
    }

    /// The refusals that these verdicts are. Positions are places in `verdicts`.
    pub fn refusals(&self, verdicts: &[Option<u32>]) -> Vec<Refusal> {
        let mut refusals: Vec<Refusal> = Vec::new();
        let mut places = HashMap::new();
        let refused =
            (0_u32..).zip(verdicts).filter_map(|(at, verdict)| Some((at, (*verdict)?.checked_sub(1)?)));
        for (at, reason) in refused {
            let place = *places.entry(reason).or_insert_with(|| {
                refusals.push(self.refusal(reason));
                refusals.len() - 1
            });
            refusals[place].positions.push(at);
        }
        refusals
    }

    /// A refusal of no node yet, for the reason at this place.
    fn refusal(&self, place: u32) -> Refusal {
        let reasons = self.lock();
        let (reason, preemption_may_help) = &reasons.known[place as usize];
        Refusal { reason: reason.clone(), preemption_may_help: *preemption_may_help, positions: Vec::new() }
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
    pub fn store<'l>(&self, pod: &Bytes, verdicts: impl Iterator<Item = (&'l NodeRow, Option<u32>)>) {
        let remembered = verdicts.filter_map(|(line, verdict)| Some((line, verdict?)));
        self.answers.store(pod, remembered);
    }

    fn lock(&self) -> MutexGuard<'_, ReasonTable> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;

//! The answer cache: answers of verbs that a backend declares pure, reused instead of calling it again. An answer's
//! key is the exact encoding of the pod and, for each node, the version of its row. A cache belongs to one
//! [`Session`](super::session::Session): another answer to the handshake, or another configuration, starts with an
//! empty one. Nothing is cached for a backend that does not report its revision.

mod cached_answers;
mod changes;
mod interned;
mod shared;

use std::{
    cmp::Reverse,
    num::NonZeroU32,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use bytes::Bytes;
use extender_gateway_core::{PerPolicyVerb, PolicyVerb, filter::Refusal};
use foldhash::{HashMap, HashMapExt};
use parking_lot::Mutex;

use self::cached_answers::CachedAnswers;
pub use self::{changes::ChangeCache, interned::InternedCache, shared::SharedCaches};
use extender_gateway_cluster::table::RowKey;

/// The most that the cached answers of one verb of one backend may take, in bytes. The least recently used pods are
/// evicted first. Three backends with two verbs each, all full, leave two thirds of 150 MB for everything else.
const MOST_BYTES: usize = 8 << 20;
/// The cached answers of a backend.
#[derive(Debug)]
pub struct AnswerCache {
    /// Verdicts of filter calls; `None` if filter is not pure.
    pub verdicts: Option<InternedCache<Refusal>>,
    /// Raw scores; `None` where score is not pure.
    pub scores: Option<VerbCache<i32>>,
    /// Changes of hooks; `None` where the hook is not pure, and for verbs that are no hooks.
    pub changes: PerPolicyVerb<Option<ChangeCache>>,
    /// Whether the backend has changed since the handshake. The next one that is used starts another cache.
    outdated: AtomicBool,
    /// Whether the backend is not as pure as it declares, until its next revision. Scores that came with filter
    /// answers are still used then, but not combined with those of another revision.
    impure: AtomicBool,
}

/// Which verbs are cached.
pub type CachedVerbs = PerPolicyVerb<bool>;

impl AnswerCache {
    /// An empty cache for these verbs. One in `check_every` calls of each verb is sent to the backend even if the
    /// cache has all answers.
    pub fn new(verbs: &CachedVerbs, check_every: NonZeroU32) -> Self {
        Self {
            verdicts: verbs[PolicyVerb::Filter].then(|| InternedCache::new(check_every)),
            scores: verbs[PolicyVerb::Score].then(|| VerbCache::new(MOST_BYTES, check_every)),
            changes: PerPolicyVerb::from_fn(|verb| {
                (verb.is_hook() && verbs[verb]).then(|| ChangeCache::new(check_every))
            }),
            outdated: AtomicBool::new(false),
            impure: AtomicBool::new(false),
        }
    }

    /// Whether answers may be used and stored.
    pub fn is_trusted(&self) -> bool {
        !self.is_outdated() && !self.is_impure()
    }

    /// Records that the backend has changed since the handshake: an answer had another revision, or a later handshake
    /// is not used yet. Nothing is cached until the next one that is used.
    pub fn mark_outdated(&self) {
        self.outdated.store(true, Ordering::Relaxed);
    }

    /// Whether the backend has changed since the handshake.
    pub fn is_outdated(&self) -> bool {
        self.outdated.load(Ordering::Relaxed)
    }

    /// Whether the backend is not as pure as it declares.
    pub fn is_impure(&self) -> bool {
        self.impure.load(Ordering::Relaxed)
    }

    /// Records that the backend is not as pure as it declares: nothing more is cached under this revision. Returns
    /// true the first time.
    pub fn mark_impure(&self) -> bool {
        !self.impure.swap(true, Ordering::Relaxed)
    }
}

/// The known answers for some nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answers<A> {
    /// One for each node, the default for those without one.
    pub all: Vec<A>,
    /// The positions of the nodes without one, ascending.
    pub unknown: Vec<u32>,
}

impl<A: Copy + Default> Answers<A> {
    /// These answers.
    pub fn new(known: impl ExactSizeIterator<Item = Option<A>>) -> Self {
        let (mut all, mut unknown) = (Vec::with_capacity(known.len()), Vec::new());
        for (at, answer) in (0..).zip(known) {
            if answer.is_none() {
                unknown.push(at);
            }
            all.push(answer.unwrap_or_default());
        }
        Self { all, unknown }
    }

    /// Whether there is an answer for some node.
    pub fn are_some_known(&self) -> bool {
        self.unknown.len() < self.all.len()
    }
}

/// Cached answers of one verb.
#[derive(Debug)]
pub struct VerbCache<A> {
    classes: Mutex<Classes<A>>,
    /// The most bytes of all classes.
    most: usize,
    check_every: NonZeroU32,
    /// Calls that the cache could answer at least in part.
    calls: AtomicU32,
}

#[derive(Debug)]
struct Classes<A> {
    by_pod: HashMap<Bytes, Class<A>>,
    /// Counts uses.
    clock: u64,
    /// Bytes of all classes.
    bytes: usize,
}

/// The pods with equal encodings.
#[derive(Debug)]
struct Class<A> {
    answers: CachedAnswers<A>,
    /// When it was last used, by the clock. Unique.
    used: u64,
}

impl<A: Copy + Default> Class<A> {
    /// Its size in bytes, with the encoded pod and its slot in the map. A map doubles when seven of eight slots are
    /// taken, so an entry can cost 16/7 of a slot; each slot has a control byte.
    fn bytes(&self, pod: &Bytes) -> usize {
        let place = (size_of::<(Bytes, Self)>() + 1) * 16 / 7;
        place + pod.len() + self.answers.bytes()
    }
}

impl<A: Copy + Default> VerbCache<A> {
    fn new(most: usize, check_every: NonZeroU32) -> Self {
        let classes = Classes { by_pod: HashMap::new(), clock: 0, bytes: 0 };
        Self { classes: Mutex::new(classes), most, check_every, calls: AtomicU32::new(0) }
    }

    /// Counts a call that the cache could answer. Returns whether it is sent to the backend anyway.
    pub fn take_check(&self) -> bool {
        let every = self.check_every.get();
        self.calls.fetch_add(1, Ordering::Relaxed) % every == every - 1
    }

    /// The cached answers about these nodes for a pod with this encoding.
    pub fn recall(&self, pod: &[u8], rows: impl ExactSizeIterator<Item = RowKey>) -> Answers<A> {
        let mut classes = self.classes.lock();
        classes.clock += 1;
        let now = classes.clock;
        match classes.by_pod.get_mut(pod) {
            None => Answers::new(rows.map(|_| None)),
            Some(class) => {
                class.used = now;
                class.answers.get_all(rows)
            }
        }
    }

    /// Stores answers.
    pub fn store(&self, pod: &Bytes, answers: impl Iterator<Item = (RowKey, A)>) {
        let mut classes = self.classes.lock();
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
    /// Makes sure that at most `most` bytes are taken. The most recently used classes are kept, up to half of
    /// `most`: evicting more than necessary avoids doing so for every new pod.
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

#[cfg(test)]
mod tests;

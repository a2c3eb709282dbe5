//! Cached answers that say the same of many nodes: refusals for a reason, changes of a hook.

use std::num::NonZeroU32;

use extender_gateway_contract::hook::ChangedNodes;
use extender_gateway_core::filter::Refusal;
use foldhash::HashMap;
use parking_lot::Mutex;
use prost::Message;

use super::{MOST_BYTES, VerbCache};

/// The most different texts or changes of one verb that are cached. A backend with more of them does not give constant
/// reasons, or is no function of what it is asked.
pub(super) const MOST_DIFFERENT: usize = 4096;
/// Longer reasons are not cached, in bytes: more than kube-scheduler ever shows of one.
const LONGEST_REASON: usize = 1024;
/// The most bytes of different changes as messages.
pub(super) const MOST_CHANGE_BYTES: usize = 1 << 20;

/// Different values by number.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    pub(super) known: Vec<T>,
    /// By what distinguishes the values.
    numbers: HashMap<Vec<u8>, u32>,
    /// Bytes of these keys.
    bytes: usize,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { known: Vec::new(), numbers: HashMap::default(), bytes: 0 }
    }
}

impl<T> Numbered<T> {
    /// The number of the value with this key plus one; `None` if there are too many, or their keys have more than `most`
    /// bytes.
    pub(super) fn number(&mut self, key: Vec<u8>, most: usize, value: impl FnOnce() -> T) -> Option<u32> {
        if let Some(number) = self.numbers.get(&key) {
            return Some(*number);
        }
        let has_room = self.known.len() < MOST_DIFFERENT && self.bytes + key.len() <= most;
        let number = u32::try_from(self.known.len() + 1).ok().filter(|_| has_room)?;
        self.bytes += key.len();
        self.known.push(value());
        self.numbers.insert(key, number);
        Some(number)
    }
}

/// The nodes of an answer with the same verdict or change.
pub trait NodeGroup: Clone {
    /// The most bytes of different keys that are cached.
    const MOST_KEY_BYTES: usize;

    /// What distinguishes it from other groups; `None` if it is not cached.
    fn key(&self) -> Option<Vec<u8>>;

    /// The same without nodes.
    fn without_nodes(&self) -> Self;

    /// The positions of the nodes.
    fn positions(&self) -> &[u32];

    /// The same, to be changed.
    fn positions_mut(&mut self) -> &mut Vec<u32>;
}

impl NodeGroup for Refusal {
    /// `LONGEST_REASON` and `MOST_DIFFERENT` are the limit.
    const MOST_KEY_BYTES: usize = usize::MAX;

    fn key(&self) -> Option<Vec<u8>> {
        let Self { reason, rule, preemption_may_help, retry_after, positions: _ } = self;
        // No text has this byte.
        let key = || {
            let may_help = [u8::from(*preemption_may_help)];
            let retry_after = retry_after.map_or_else(Vec::new, |seconds| seconds.to_le_bytes().into());
            [reason.as_bytes(), rule.as_bytes(), &may_help, &retry_after].join(&0xff)
        };
        (reason.len() <= LONGEST_REASON).then(key)
    }

    fn without_nodes(&self) -> Self {
        let Self { reason, rule, preemption_may_help, retry_after, positions: _ } = self;
        Self {
            reason: reason.clone(),
            rule: rule.clone(),
            preemption_may_help: *preemption_may_help,
            retry_after: *retry_after,
            positions: Vec::new(),
        }
    }

    fn positions(&self) -> &[u32] {
        &self.positions
    }

    fn positions_mut(&mut self) -> &mut Vec<u32> {
        &mut self.positions
    }
}

impl NodeGroup for ChangedNodes {
    const MOST_KEY_BYTES: usize = MOST_CHANGE_BYTES;

    fn key(&self) -> Option<Vec<u8>> {
        Some(self.change.encode_to_vec())
    }

    fn without_nodes(&self) -> Self {
        Self { positions: Vec::new(), change: self.change.clone() }
    }

    fn positions(&self) -> &[u32] {
        &self.positions
    }

    fn positions_mut(&mut self) -> &mut Vec<u32> {
        &mut self.positions
    }
}

/// Cached answers by node: 0 for nodes in no group, otherwise the number of the group plus one.
#[derive(Debug)]
pub struct InternedCache<G: NodeGroup> {
    /// The numbers.
    pub answers: VerbCache<u32>,
    /// Without nodes.
    groups: Mutex<Numbered<G>>,
}

impl<G: NodeGroup> InternedCache<G> {
    pub(super) fn new(check_every: NonZeroU32) -> Self {
        Self { answers: VerbCache::new(MOST_BYTES, check_every), groups: Mutex::default() }
    }

    /// The groups with these numbers. Positions are indexes of `numbers`.
    pub fn groups(&self, numbers: &[u32]) -> Vec<G> {
        let known = &self.groups.lock().known;
        let mut groups: Vec<G> = Vec::new();
        // By number; there are at most `MOST_DIFFERENT`, usually a few.
        let mut places = vec![None; known.len()];
        let numbered = (0_u32..).zip(numbers).filter_map(|(at, number)| Some((at, number.checked_sub(1)?)));
        for (at, number) in numbered {
            let place: usize = *places[number as usize].get_or_insert_with(|| {
                groups.push(known[number as usize].clone());
                groups.len() - 1
            });
            groups[place].positions_mut().push(at);
        }
        groups
    }

    /// The groups with these numbers, but those of an answer about the nodes at the `missing` positions.
    pub fn spliced(&self, mut numbers: Vec<u32>, missing: Option<(&[u32], Vec<G>)>) -> Vec<G> {
        let (missing, answer) = missing.unwrap_or_default();
        // These are known only if this is a check: then the new answer counts.
        for at in missing {
            numbers[*at as usize] = 0;
        }
        let mut groups = self.groups(&numbers);
        for mut group in answer {
            group.positions_mut().iter_mut().for_each(|at| *at = missing[*at as usize]);
            groups.push(group);
        }
        groups
    }

    /// The numbers of the groups of an answer, one for each of `count` nodes. `None` for those that cannot be cached.
    pub fn read(&self, groups: &[G], count: usize) -> Vec<Option<u32>> {
        let mut numbers = vec![Some(0); count];
        let mut known = self.groups.lock();
        for group in groups {
            let key = group.key();
            let number = key.and_then(|key| known.number(key, G::MOST_KEY_BYTES, || group.without_nodes()));
            for at in group.positions() {
                numbers[*at as usize] = number;
            }
        }
        numbers
    }
}

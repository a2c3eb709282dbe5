//! The cached answers for one class of pods: one for each node, valid for one version of its row.

use extender_gateway_cluster::table::RowKey;

use super::Answers;

/// The answers become dense when they cover more than one in this many of the slots up to the highest one. Looking up
/// 420 of 5,000 nodes takes 5 to 8 µs in a sparse list and 0.6 µs in a dense one; 500 answers take 8 kB sparse and
/// 60 kB dense. With 200 nodes or more kube-scheduler names at most half of them in a call, so the answers of a unique
/// pod stay sparse, and those of pods from one template become dense.
const DENSE_FROM: usize = 2;

/// Answers by node.
#[derive(Debug)]
pub(super) enum CachedAnswers<A> {
    /// A few, ordered by slot.
    Sparse(Vec<SlotAnswer<A>>),
    /// Many, by slot.
    Dense(Vec<VersionedAnswer<A>>),
}

/// The answer for one node.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlotAnswer<A> {
    slot: u32,
    entry: VersionedAnswer<A>,
}

/// An answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct VersionedAnswer<A> {
    /// The version of the row in question; 0 for none. As bytes, because an integer would add four bytes of padding
    /// to each of thousands of entries.
    version: [u8; 8],
    answer: A,
}

impl<A> Default for CachedAnswers<A> {
    /// No answers yet.
    fn default() -> Self {
        Self::Sparse(Vec::new())
    }
}

impl<A: Copy + Default> CachedAnswers<A> {
    /// The answers for exactly these versions of the nodes' rows.
    pub(super) fn get_all(&self, rows: impl ExactSizeIterator<Item = RowKey>) -> Answers<A> {
        match self {
            Self::Sparse(known) => Answers::new(rows.map(|row| {
                let place = known.binary_search_by_key(&row.slot, |placed| placed.slot).ok()?;
                known[place].entry.get(row)
            })),
            Self::Dense(entries) => Answers::new(rows.map(|row| entries.get(row.slot as usize)?.get(row))),
        }
    }

    /// Stores answers, replacing those for earlier versions.
    pub(super) fn put(&mut self, answers: impl Iterator<Item = (RowKey, A)>) {
        let kept = answers.filter(|(row, _)| row.is_kept());
        let fresh: Vec<_> = kept.map(|(row, answer)| SlotAnswer::new(row, answer)).collect();
        match self {
            Self::Sparse(known) => {
                merge(known, fresh);
                if known.len() * DENSE_FROM > slots(known) {
                    let mut entries = Vec::new();
                    fill(&mut entries, known);
                    *self = Self::Dense(entries);
                }
            }
            Self::Dense(entries) => fill(entries, &fresh),
        }
    }

    /// The memory in use, in bytes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Sparse(known) => known.capacity() * size_of::<SlotAnswer<A>>(),
            Self::Dense(entries) => entries.capacity() * size_of::<VersionedAnswer<A>>(),
        }
    }
}

impl<A> SlotAnswer<A> {
    fn new(row: RowKey, answer: A) -> Self {
        Self { slot: row.slot, entry: VersionedAnswer { version: row.version.to_ne_bytes(), answer } }
    }
}

impl<A: Copy> VersionedAnswer<A> {
    /// The answer, if it is for this version of the row.
    fn get(&self, row: RowKey) -> Option<A> {
        (self.version == row.version.to_ne_bytes() && row.is_kept()).then_some(self.answer)
    }
}

/// Merges answers into `known`, replacing earlier ones for the same slot. Allocates no more than is needed.
fn merge<A: Copy>(known: &mut Vec<SlotAnswer<A>>, mut fresh: Vec<SlotAnswer<A>>) {
    known.reserve_exact(fresh.len());
    known.append(&mut fresh);
    // Usually two sorted runs. The latest answer for a slot stays last.
    known.sort_by_key(|placed| placed.slot);
    known.dedup_by(|later, earlier| {
        let replaces = later.slot == earlier.slot;
        if replaces {
            earlier.entry = later.entry;
        }
        replaces
    });
    known.shrink_to_fit();
}

/// Stores answers at their slots, in the given order.
fn fill<A: Copy + Default>(entries: &mut Vec<VersionedAnswer<A>>, answers: &[SlotAnswer<A>]) {
    let needed = slots(answers);
    if entries.len() < needed {
        entries.reserve_exact(needed - entries.len());
        entries.resize(needed, VersionedAnswer { version: [0; 8], answer: A::default() });
    }
    for placed in answers {
        entries[placed.slot as usize] = placed.entry;
    }
}

/// The number of slots up to the highest of these.
fn slots<A>(answers: &[SlotAnswer<A>]) -> usize {
    answers.iter().map(|placed| placed.slot as usize + 1).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use extender_gateway_cluster::table::RowKey;

    use super::{Answers, CachedAnswers, SlotAnswer, VersionedAnswer};

    fn row(slot: u32, version: u64) -> RowKey {
        RowKey { slot, version }
    }

    fn get(sheet: &CachedAnswers<u32>, row: RowKey) -> Option<u32> {
        let Answers { all, unknown } = sheet.get_all([row].into_iter());
        unknown.is_empty().then(|| all[0])
    }

    fn put(
        sheet: &mut CachedAnswers<u32>,
        slots: impl IntoIterator<Item = u32>,
        (version, answer): (u64, u32),
    ) {
        sheet.put(slots.into_iter().map(|slot| (row(slot, version), answer)));
    }

    #[test]
    fn an_answer_is_for_one_state_of_one_row() {
        for others in [0..0, 10..40] {
            let mut sheet = CachedAnswers::default();
            put(&mut sheet, others.chain([3]), (7, 1));
            assert_eq!(get(&sheet, row(3, 7)), Some(1));
            for other in [row(3, 8), row(3, 6), row(2, 7), row(4, 7), row(0, 0), row(50, 7)] {
                assert_eq!(get(&sheet, other), None, "{other:?}");
            }
            put(&mut sheet, [3], (8, 2));
            assert_eq!((get(&sheet, row(3, 7)), get(&sheet, row(3, 8))), (None, Some(2)));
        }
    }

    #[test]
    fn rows_that_are_in_no_table_are_not_kept() {
        let mut sheet = CachedAnswers::default();
        let outside = row(u32::MAX, 0);
        for filed in [0, 10] {
            put(&mut sheet, 0..filed, (1, 1));
            let before = sheet.bytes();
            sheet.put([(outside, 1)].into_iter());
            assert_eq!(sheet.bytes(), before);
            assert_eq!(get(&sheet, outside), None);
        }
    }

    #[test]
    fn of_two_answers_for_a_node_the_last_counts() {
        for highest in [9, 10_000] {
            let mut sheet = CachedAnswers::default();
            let rows = [row(highest, 2), row(5, 1), row(5, 3), row(highest, 1)];
            sheet.put(rows.into_iter().zip(1..));
            assert_eq!(rows.map(|row| get(&sheet, row)), [None, None, Some(3), Some(4)]);
        }
    }

    #[test]
    fn takes_what_the_answers_need_while_they_are_few() {
        assert_eq!((size_of::<SlotAnswer<u32>>(), size_of::<VersionedAnswer<u32>>()), (16, 12));
        let mut sheet = CachedAnswers::default();
        for (filed, bytes) in
            [(1..=500, 500 * 16), (400..=600, 600 * 16), (601..=2500, 2500 * 16), (0..=9, 5000 * 12)]
        {
            put(&mut sheet, filed.map(|place| 2 * place - place / 2500).collect::<Vec<_>>(), (1, 1));
            assert_eq!(sheet.bytes(), bytes);
        }
    }

    #[test]
    fn what_was_known_is_known_when_it_becomes_dense() {
        let mut sheet = CachedAnswers::default();
        put(&mut sheet, (0..100).map(|place| place * 10), (1, 1));
        assert!(matches!(sheet, CachedAnswers::Sparse(_)));
        put(&mut sheet, (0..1000).filter(|slot| slot % 10 > 0), (2, 2));
        assert!(matches!(sheet, CachedAnswers::Dense(_)));
        put(&mut sheet, [2000], (3, 3));
        for slot in 0..1000 {
            let (version, answer) = if slot % 10 > 0 { (2, 2) } else { (1, 1) };
            assert_eq!(get(&sheet, row(slot, version)), Some(answer), "slot {slot}");
        }
        assert_eq!((get(&sheet, row(2000, 3)), get(&sheet, row(1500, 0))), (Some(3), None));
    }
}

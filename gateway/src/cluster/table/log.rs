//! What has changed lately, so that who has seen the table before need not look at all of it.

use std::collections::VecDeque;

/// Which slots have changed, in the order of the table's versions. As long as the table at most: whoever missed more
/// is as well off with a look at every slot.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    /// The version with which a slot changed, and which it is. Versions never fall.
    changes: VecDeque<(u64, u32)>,
    /// Changes of this version and earlier ones may be missing.
    forgotten: u64,
}

impl ChangeLog {
    /// Nothing is known of how the table came to be at this version.
    pub(super) fn begin(version: u64) -> Self {
        Self { changes: VecDeque::new(), forgotten: version }
    }

    /// A slot changed, with this version, in a table of so many slots.
    pub(super) fn push(&mut self, version: u64, slot: u32, slots: usize) {
        self.changes.push_back((version, slot));
        while self.changes.len() > slots {
            self.forgotten = self.changes.pop_front().map_or(self.forgotten, |(version, _)| version);
        }
    }

    /// The slots that have changed after this version, some perhaps several times; `None` when that is not known any
    /// more.
    pub(super) fn since(&self, version: u64) -> Option<impl Iterator<Item = u32>> {
        let seen = self.changes.partition_point(|(changed, _)| *changed <= version);
        (version >= self.forgotten).then(|| self.changes.range(seen..).map(|(_, slot)| *slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(log: &ChangeLog, version: u64) -> Option<Vec<u32>> {
        log.since(version).map(Iterator::collect)
    }

    #[test]
    fn what_is_older_than_the_log_is_not_known() {
        let mut log = ChangeLog::begin(4);
        assert_eq!((since(&log, 3), since(&log, 4)), (None, Some(vec![])));
        // Several slots change with one version, and one does twice.
        for (version, slot) in [(5, 0), (5, 2), (7, 1), (8, 2)] {
            log.push(version, slot, 4);
        }
        assert_eq!((since(&log, 3), since(&log, 4)), (None, Some(vec![0, 2, 1, 2])));
        assert_eq!([5, 6, 7, 8].map(|version| since(&log, version).unwrap().len()), [2, 2, 1, 0]);
        // A part of the changes of version 5 is a part too few.
        log.push(9, 3, 4);
        assert_eq!((since(&log, 4), since(&log, 5)), (None, Some(vec![1, 2, 3])));
    }

    #[test]
    fn a_log_without_room_knows_nothing_but_the_present() {
        let mut log = ChangeLog::default();
        log.push(1, 0, 0);
        assert_eq!((since(&log, 0), since(&log, 1)), (None, Some(vec![])));
    }
}

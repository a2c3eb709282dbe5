//! The rows that were looked up last. Prioritize follows filter, for some of the same nodes in the same order, so one
//! walk over both lists of names finds their rows again: looking up a node takes several accesses to cold memory.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{NodeRow, ViewId};

/// Rows of nodes, in the order of the look-up. Clones share them.
#[derive(Debug, Clone)]
pub struct NodeRows {
    all: Arc<Vec<NodeRow>>,
    /// The positions of these rows, ascending; `None` for all.
    positions: Option<Vec<u32>>,
}

impl NodeRows {
    /// The number of rows.
    pub fn len(&self) -> usize {
        self.positions.as_ref().map_or(self.all.len(), Vec::len)
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row at an index below [`NodeRows::len`].
    pub fn at(&self, index: usize) -> &NodeRow {
        &self.all[self.positions.as_ref().map_or(index, |positions| positions[index] as usize)]
    }

    /// All rows, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &NodeRow> + Clone {
        (0..self.len()).map(|index| self.at(index))
    }
}

impl From<Vec<NodeRow>> for NodeRows {
    fn from(rows: Vec<NodeRow>) -> Self {
        Self { all: Arc::new(rows), positions: None }
    }
}

/// The latest look-up in each view.
#[derive(Debug, Default)]
pub(super) struct LatestLookups(Mutex<Vec<Lookup>>);

/// A look-up that found every node.
#[derive(Debug, Clone)]
struct Lookup {
    view: ViewId,
    /// The version of the table.
    version: u64,
    names: Arc<JoinedNames>,
    rows: Arc<Vec<NodeRow>>,
}

impl LatestLookups {
    /// The rows of these nodes, if the latest look-up found them in the same order and in this version of the table.
    pub(super) fn find<'n>(
        &self,
        names: impl ExactSizeIterator<Item = &'n str>,
        (view, version): (ViewId, u64),
    ) -> Option<NodeRows> {
        let is_same = |lookup: &&Lookup| lookup.view == view && lookup.version == version;
        let lookup = self.0.lock().iter().find(is_same).cloned()?;
        let positions = lookup.names.positions_of(names)?;
        Some(NodeRows { all: lookup.rows, positions: Some(positions) })
    }

    /// The nodes as they were looked up in another view, if these are the same ones in this version of the table. The
    /// views of a call follow each other.
    pub(super) fn in_another_view<'n>(
        &self,
        names: impl ExactSizeIterator<Item = &'n str>,
        version: u64,
    ) -> Option<LookedUp> {
        let is_same = |lookup: &&Lookup| lookup.version == version && lookup.rows.len() == names.len();
        let Lookup { names: known, rows, .. } = self.0.lock().iter().rfind(is_same).cloned()?;
        known.are(names).then_some(LookedUp { names: known, rows })
    }

    /// Stores a look-up in place of the previous one.
    pub(super) fn store(&self, names: Arc<JoinedNames>, (view, version): (ViewId, u64), rows: &NodeRows) {
        let lookup = Lookup { view, version, names, rows: Arc::clone(&rows.all) };
        let mut lookups = self.0.lock();
        let previous = lookups.iter().position(|previous| previous.view == view);
        let previous = previous.map(|index| lookups.swap_remove(index));
        lookups.push(lookup);
        drop(lookups);
        // Freed after the lock.
        drop(previous);
    }
}

/// Nodes that were looked up.
#[derive(Debug)]
pub(super) struct LookedUp {
    pub(super) names: Arc<JoinedNames>,
    rows: Arc<Vec<NodeRow>>,
}

impl LookedUp {
    /// Their slots.
    pub(super) fn slots(&self) -> impl ExactSizeIterator<Item = u32> {
        self.rows.iter().map(|row| row.slot)
    }
}

/// Names in one text.
#[derive(Debug, Default)]
pub(super) struct JoinedNames {
    text: String,
    ends: Vec<usize>,
}

impl JoinedNames {
    pub(super) fn new<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> Self {
        let mut all = Self { text: String::new(), ends: Vec::with_capacity(names.len()) };
        for name in names {
            all.text.push_str(name);
            all.ends.push(all.text.len());
        }
        all
    }

    /// Whether these are the same names in the same order.
    fn are<'n>(&self, names: impl ExactSizeIterator<Item = &'n str>) -> bool {
        let (text, mut begin) = (self.text.as_bytes(), 0);
        names.len() == self.ends.len()
            && names.zip(&self.ends).all(|(name, end)| {
                let known = &text[std::mem::replace(&mut begin, *end)..*end];
                known == name.as_bytes()
            })
    }

    /// The positions of these names; `None` if one is missing or the order differs.
    fn positions_of<'n>(&self, names: impl ExactSizeIterator<Item = &'n str>) -> Option<Vec<u32>> {
        let mut positions = Vec::with_capacity(names.len());
        let (text, mut begin) = (self.text.as_bytes(), 0);
        let mut ahead = (0..).zip(&self.ends);
        for name in names {
            let here =
                ahead.find(|(_, end)| &text[std::mem::replace(&mut begin, **end)..**end] == name.as_bytes());
            positions.push(here?.0);
        }
        Some(positions)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_are_found_only_in_their_order(
            known in prop::sample::subsequence(vec!["", "a", "b", "ab", "ba", "aab", "c"], 0..7).prop_shuffle(),
            names in prop::collection::vec(prop::sample::select(vec!["", "a", "b", "ab", "ba", "aab", "c"]), 0..5),
        ) {
            let mut ahead = (0_u32..).zip(&known);
            let positions: Option<Vec<u32>> =
                names.iter().map(|name| ahead.find(|(_, known)| *known == name).map(|(at, _)| at)).collect();
            let joined = JoinedNames::new(known.iter().copied());
            prop_assert_eq!(joined.positions_of(names.iter().copied()), positions);
            prop_assert_eq!(joined.are(names.iter().copied()), known == names);
            prop_assert!(joined.are(known.iter().copied()));
        }
    }
}

//! The nodes that were looked up last. Filter and prioritize of a pod follow each other, and the second is about
//! nodes of the first in the same order, so that one walk over both lists of names finds what is already there:
//! looking a node up is a few accesses to cold memory.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{NodeRow, ViewId};

/// Lines of nodes, in the order in which these were asked for. Copies share them.
#[derive(Debug, Clone)]
pub struct NodeRows {
    all: Arc<Vec<NodeRow>>,
    /// Which of them, ascending; `None` for all.
    places: Option<Vec<u32>>,
}

impl NodeRows {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.as_ref().map_or(self.all.len(), Vec::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The line at a place, which is below [`NodeRows::len`].
    pub fn at(&self, place: usize) -> &NodeRow {
        &self.all[self.places.as_ref().map_or(place, |places| places[place] as usize)]
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &NodeRow> + Clone {
        (0..self.len()).map(|place| self.at(place))
    }
}

impl From<Vec<NodeRow>> for NodeRows {
    fn from(lines: Vec<NodeRow>) -> Self {
        Self { all: Arc::new(lines), places: None }
    }
}

/// The latest look at a table in each view.
#[derive(Debug, Default)]
pub(super) struct LatestLookups {
    looks: Mutex<Vec<Lookup>>,
}

/// A look that found every node.
#[derive(Debug, Clone)]
struct Lookup {
    view: ViewId,
    /// The table's.
    version: u64,
    names: Arc<NamesHash>,
    lines: Arc<Vec<NodeRow>>,
}

/// Names, one after the other.
#[derive(Debug, Default)]
struct NamesHash {
    text: String,
    ends: Vec<usize>,
}

impl LatestLookups {
    /// The lines of these nodes, if they were found in the latest look, in their order, and the table has still this
    /// version.
    pub(super) fn find<'n>(
        &self,
        names: impl ExactSizeIterator<Item = &'n str>,
        (view, version): (ViewId, u64),
    ) -> Option<NodeRows> {
        let look =
            self.looks.lock().iter().find(|look| look.view == view && look.version == version).cloned()?;
        let places = look.names.places_of(names)?;
        Some(NodeRows { all: look.lines, places: Some(places) })
    }

    /// Takes a look in place of the one before.
    pub(super) fn keep<'n>(
        &self,
        names: impl ExactSizeIterator<Item = &'n str>,
        (view, version): (ViewId, u64),
        lines: &NodeRows,
    ) {
        let look =
            Lookup { view, version, names: Arc::new(NamesHash::of(names)), lines: Arc::clone(&lines.all) };
        let mut looks = self.looks.lock();
        let before = if let Some(before) = looks.iter_mut().find(|before| before.view == view) {
            Some(std::mem::replace(before, look))
        } else {
            looks.push(look);
            None
        };
        drop(looks);
        // Freed after the lock.
        drop(before);
    }
}

impl NamesHash {
    fn of<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> Self {
        let mut all = Self { text: String::new(), ends: Vec::with_capacity(names.len()) };
        for name in names {
            all.text.push_str(name);
            all.ends.push(all.text.len());
        }
        all
    }

    /// Where these names are; `None` when one is not, or they come in another order.
    fn places_of<'n>(&self, names: impl ExactSizeIterator<Item = &'n str>) -> Option<Vec<u32>> {
        let mut places = Vec::with_capacity(names.len());
        let (text, mut begin) = (self.text.as_bytes(), 0);
        let mut ahead = (0..).zip(&self.ends);
        for name in names {
            let here =
                ahead.find(|(_, end)| &text[std::mem::replace(&mut begin, **end)..**end] == name.as_bytes());
            places.push(here?.0);
        }
        Some(places)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_left_in_order_is_found_and_nothing_else(
            looked in prop::sample::subsequence(vec!["", "a", "b", "ab", "ba", "aab", "c"], 0..7).prop_shuffle(),
            asked in prop::collection::vec(prop::sample::select(vec!["", "a", "b", "ab", "ba", "aab", "c"]), 0..5),
        ) {
            let mut ahead = (0_u32..).zip(&looked);
            let places: Option<Vec<u32>> =
                asked.iter().map(|name| ahead.find(|(_, looked)| *looked == name).map(|(at, _)| at)).collect();
            prop_assert_eq!(NamesHash::of(looked.iter().copied()).places_of(asked.iter().copied()), places);
        }
    }
}

//! The contents of a table's rows: equal ones are stored once. Where a policy reads two labels of 15,000 nodes, there are
//! as many as pairs of values.

use std::{
    borrow::Borrow,
    collections::HashSet,
    hash::{Hash, Hasher},
    sync::Arc,
};

use foldhash::fast::RandomState;

use super::{mistake::Mistake, space::Space};
use crate::node::content::Content;

/// In bytes. Larger contents are nearly always different, so an equal one is not looked for.
const MAX_SHARED_BYTES: usize = 512;

/// At least this many changes of rows pass between two searches for contents without a row.
const FEW: usize = 64;

/// A content, and the memory that it takes.
pub(super) struct Stored {
    pub(super) content: Content<'static>,
    _space: Space,
}

/// The contents that rows may share.
#[derive(Default)]
pub(super) struct Contents {
    known: HashSet<Known, RandomState>,
    /// The number of contents that were left by the latest [`Contents::drop_unused`].
    used: usize,
    /// The number of rows that have changed since.
    changed: usize,
}

/// A content that is found by its bytes.
struct Known(Arc<Stored>);

impl Contents {
    /// This content in its own memory, shared with equal ones. `space` takes what a new one needs.
    pub(super) fn share(
        &mut self,
        content: Content<'_>,
        space: impl FnOnce(&mut Self) -> Result<Space, Mistake>,
    ) -> Result<Arc<Stored>, Mistake> {
        let is_small = content.bytes() <= MAX_SHARED_BYTES;
        if is_small && let Some(Known(known)) = self.known.get::<Content<'_>>(&content) {
            return Ok(Arc::clone(known));
        }
        let space = space(self)?;
        let stored = Arc::new(Stored { content: content.into_owned(), _space: space });
        if is_small {
            self.known.insert(Known(Arc::clone(&stored)));
        }
        Ok(stored)
    }

    /// To be called after `changed` of `rows` rows have changed. Drops the contents that are without a row, once as many
    /// rows have changed as there were contents, or if at least half of the contents are without one.
    pub(super) fn rows_changed(&mut self, changed: usize, rows: usize) {
        self.changed += changed;
        if self.changed >= self.used + FEW || self.known.len() >= 2 * rows + FEW {
            self.drop_unused();
        }
    }

    /// Drops the contents that are without a row.
    pub(super) fn drop_unused(&mut self) {
        self.known.retain(|Known(stored)| Arc::strong_count(stored) > 1);
        self.used = self.known.len();
        self.changed = 0;
        self.known.shrink_to(2 * self.used);
    }
}

impl<'a> Borrow<Content<'a>> for Known {
    fn borrow(&self) -> &Content<'a> {
        &self.0.content
    }
}

impl PartialEq for Known {
    fn eq(&self, other: &Self) -> bool {
        self.0.content == other.0.content
    }
}

impl Eq for Known {}

impl Hash for Known {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.content.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use extender_policy_api::v1beta1::{MapValues, NodeFacts, NodeRow, NodeUsage, PodCounts};
    use prost::Message as _;

    use super::{super::space::Budget, *};
    use crate::node::row::Row;

    fn shared(contents: &mut Contents, row: &NodeRow) -> Arc<Stored> {
        let encoded = row.encode_to_vec();
        let space = |_: &mut Contents| Ok(Budget::new(1).take(1).unwrap());
        contents.share(Row::read(&encoded).unwrap().into_parts().1, space).unwrap()
    }

    fn row(name: &str, value: &str) -> NodeRow {
        let labels = Some(MapValues { values: vec![value.into()], ..MapValues::default() });
        let facts = NodeFacts { labels, ..NodeFacts::default() };
        NodeRow { name: name.into(), facts: Some(facts), ..NodeRow::default() }
    }

    #[test]
    fn rows_that_differ_by_their_names_alone_share_one() {
        let mut contents = Contents::default();
        let first = shared(&mut contents, &row("a", "x"));
        assert!(Arc::ptr_eq(&first, &shared(&mut contents, &row("b", "x"))));
        let others = [
            row("a", "y"),
            NodeRow { facts: None, ..row("a", "x") },
            NodeRow { usage: Some(NodeUsage::default()), ..row("a", "x") },
            NodeRow { nominated: Some(NodeUsage::default()), ..row("a", "x") },
            NodeRow { raw_json: "{}".into(), ..row("a", "x") },
            NodeRow { pod_counts: vec![PodCounts::default()], ..row("a", "x") },
        ];
        for other in others {
            assert!(!Arc::ptr_eq(&first, &shared(&mut contents, &other)), "{other:?}");
        }
    }

    #[test]
    fn contents_without_rows_are_dropped() {
        let mut contents = Contents::default();
        let mut kept = Vec::new();
        for number in 0..10_000 {
            kept.push(shared(&mut contents, &row("a", &number.to_string())));
            contents.rows_changed(1, kept.len());
        }
        assert_eq!(contents.known.len(), 10_000);
        kept.truncate(10);
        contents.rows_changed(1, 10);
        assert_eq!(contents.known.len(), 10);
        assert!(contents.known.capacity() < 100, "{}", contents.known.capacity());
        assert!(Arc::ptr_eq(&kept[7], &shared(&mut contents, &row("b", "7"))));
    }

    #[test]
    fn contents_that_change_all_the_time_take_twice_their_memory() {
        let mut contents = Contents::default();
        let mut kept: Vec<_> =
            (0..1_000).map(|number| shared(&mut contents, &row("a", &number.to_string()))).collect();
        for number in 1_000..20_000 {
            kept[number % 1_000] = shared(&mut contents, &row("a", &number.to_string()));
            contents.rows_changed(1, kept.len());
            assert!(contents.known.len() <= 2 * kept.len() + FEW, "{}", contents.known.len());
        }
    }

    #[test]
    fn few_contents_of_many_rows_do_not_become_many() {
        let mut contents = Contents::default();
        for number in 0..20_000 {
            drop(shared(&mut contents, &row("a", &number.to_string())));
            contents.rows_changed(1, 15_000);
            assert!(contents.known.len() <= FEW, "{}", contents.known.len());
        }
    }

    #[test]
    fn large_contents_are_not_shared() {
        let mut contents = Contents::default();
        let large = row("a", &"x".repeat(MAX_SHARED_BYTES));
        let first = shared(&mut contents, &large);
        assert!(contents.known.is_empty() && !Arc::ptr_eq(&first, &shared(&mut contents, &large)));
    }
}

//! The annotations in a backend's view.

/// `GetInfoResponse.annotation_prefixes` in a canonical form: lists that select the same annotations, but differ in
/// order, repetitions or redundant prefixes, are equal and share their encodings. The default selects none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct AnnotationPrefixes(Vec<String>);

impl AnnotationPrefixes {
    /// Selects the annotations whose key begins with one of these; an empty prefix selects all.
    pub fn new(prefixes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut sorted: Vec<String> = prefixes.into_iter().map(Into::into).collect();
        sorted.sort_unstable();
        // In sorted order a prefix directly precedes everything that it covers.
        sorted.dedup_by(|next, kept| next.starts_with(kept.as_str()));
        Self(sorted)
    }

    /// Selects every annotation.
    pub fn all() -> Self {
        Self::new([""])
    }

    /// The prefixes, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether the annotation with this key is selected. A binary search: backends choose the number of prefixes,
    /// and every annotation of every node is looked up.
    pub fn want(&self, key: &str) -> bool {
        // No prefix covers another, so only the last one that is not greater than the key can cover it.
        let nearest = self.last_at_most(|prefix| prefix.as_str() <= key);
        nearest.is_some_and(|prefix| key.starts_with(prefix.as_str()))
    }

    /// The last prefix for which `at_most` holds.
    fn last_at_most(&self, at_most: impl FnMut(&String) -> bool) -> Option<&String> {
        self.0.partition_point(at_most).checked_sub(1).map(|last| &self.0[last])
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::AnnotationPrefixes;

    fn prefixes(of: &[&str]) -> AnnotationPrefixes {
        AnnotationPrefixes::new(of.iter().copied())
    }

    #[test]
    fn lists_that_want_the_same_are_equal() {
        let cases: [(&[&str], &[&str]); 5] = [
            (&["b", "a"], &["a", "b"]),
            (&["a", "a"], &["a"]),
            (&["a.io/x", "a.io/", "b"], &["a.io/", "b"]),
            (&["", "a"], &[""]),
            (&["a", "ab", "abc", "b"], &["b", "a"]),
        ];
        for (left, right) in cases {
            assert_eq!(prefixes(left), prefixes(right), "{left:?} {right:?}");
        }
        assert_ne!(prefixes(&["a"]), prefixes(&["a", "b"]));
    }

    proptest! {
        #[test]
        fn a_key_is_wanted_if_it_begins_with_one_of_the_prefixes(
            prefixes in prop::collection::vec("[ab/é]{0,3}", 0..12),
            key in "[ab/é]{0,6}",
        ) {
            let wanted = prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()));
            prop_assert_eq!(AnnotationPrefixes::new(prefixes).want(&key), wanted);
        }
    }

    #[test]
    fn a_key_is_compared_with_few_of_many_prefixes() {
        let many = AnnotationPrefixes::new((0..100_000).map(|number| format!("p{number:06}/")));
        let compared = Cell::new(0);
        let below = |prefix: &String| {
            compared.set(compared.get() + 1);
            prefix.as_str() <= "p054321/x"
        };
        assert_eq!(many.last_at_most(below).map(String::as_str), Some("p054321/"));
        assert!(compared.get() <= 18, "{} comparisons", compared.get());
    }

    #[test]
    fn wants_what_begins_with_a_prefix() {
        assert!(prefixes(&["acme.io/"]).want("acme.io/rack"));
        assert!(!prefixes(&["acme.io/"]).want("acme.iox"));
        assert!(!AnnotationPrefixes::default().want("acme.io/rack"));
        assert!(AnnotationPrefixes::all().want("acme.io/rack"));
    }
}

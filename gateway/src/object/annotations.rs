//! Which annotations a backend wants among the facts.

/// `GetInfoResponse.annotation_prefixes` in a canonical form: two lists that want the same annotations
/// because they differ in order, repetition or a prefix that another one covers are equal, and share their
/// encodings. The default wants none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct AnnotationPrefixes(Vec<String>);

impl AnnotationPrefixes {
    /// Wants the annotations whose key begins with one of these; an empty prefix wants all.
    pub fn new(prefixes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let mut sorted: Vec<String> = prefixes.into_iter().map(Into::into).collect();
        sorted.sort_unstable();
        // In sorted order a prefix stands right before everything that it covers.
        sorted.dedup_by(|next, kept| next.starts_with(kept.as_str()));
        Self(sorted)
    }

    /// Wants every annotation.
    pub fn all() -> Self {
        Self::new([""])
    }

    /// The prefixes, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Whether the annotation with this key is wanted.
    pub fn want(&self, key: &str) -> bool {
        self.0.iter().any(|prefix| key.starts_with(prefix.as_str()))
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn wants_what_begins_with_a_prefix() {
        assert!(prefixes(&["acme.io/"]).want("acme.io/rack"));
        assert!(!prefixes(&["acme.io/"]).want("acme.iox"));
        assert!(!AnnotationPrefixes::default().want("acme.io/rack"));
        assert!(AnnotationPrefixes::all().want("acme.io/rack"));
    }
}

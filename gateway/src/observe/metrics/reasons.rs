//! The reasons of one backend as values of a label: few, short and clean, regardless of what the backend sends.

use std::{borrow::Cow, collections::BTreeMap};

use extender_gateway_core::reason;
use parking_lot::Mutex;

/// The number of different texts of a backend with their own series.
const MOST: usize = 20;
/// The longest text, in bytes.
const LONGEST: usize = 100;
/// The label of all later texts.
const OTHER: &str = "other";

/// Nodes that one backend rejected, by reason.
#[derive(Debug, Default)]
pub(super) struct ReasonCounts(Mutex<BTreeMap<Box<str>, u64>>);

impl ReasonCounts {
    /// Counts nodes that were rejected for this reason. Allocates only if the text is new or needs cleaning.
    pub(super) fn rejected(&self, reason: &str, nodes: u64) {
        let label = cleaned(reason);
        let mut counts = self.0.lock();
        let others = usize::from(counts.contains_key(OTHER));
        let known = counts.contains_key(&*label) || counts.len() - others < MOST;
        let label = if known { &*label } else { OTHER };
        match counts.get_mut(label) {
            Some(count) => *count += nodes,
            None => drop(counts.insert(label.into(), nodes)),
        }
    }

    /// All reasons with their numbers of nodes.
    pub(super) fn all(&self) -> Vec<(String, u64)> {
        self.0.lock().iter().map(|(reason, nodes)| (reason.to_string(), *nodes)).collect()
    }
}

fn cleaned(text: &str) -> Cow<'_, str> {
    let words = text.split(' ');
    let clean = text.len() <= LONGEST
        && words.into_iter().all(|word| !word.is_empty())
        && !text.contains(|c: char| c == '%' || c.is_control() || c != ' ' && c.is_whitespace());
    if clean { Cow::Borrowed(text) } else { Cow::Owned(unclean(text)) }
}

fn unclean(text: &str) -> String {
    let line = reason::one_line(text, LONGEST);
    if line.is_empty() { reason::UNSAID.to_owned() } else { line }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_first_twenty_texts_are_told_apart() {
        let reasons = ReasonCounts::default();
        for round in 0..3 {
            (0..1_000).for_each(|number| reasons.rejected(&format!("{number:03} is full"), 1 + round));
        }
        let counts = reasons.all();
        assert_eq!(counts.len(), MOST + 1);
        assert_eq!(counts[19], ("019 is full".to_owned(), 6));
        assert_eq!(counts[20], (OTHER.to_owned(), 980 * 6));
    }

    #[test]
    fn texts_are_cleaned_before_they_are_compared() {
        let reasons = ReasonCounts::default();
        for text in ["in drain", "in\ndrain", " in  drain ", "", "\u{7}"] {
            reasons.rejected(text, 1);
        }
        assert_eq!(reasons.all(), [("in drain".to_owned(), 3), ("rejected".to_owned(), 2)]);
    }

    proptest! {
        #[test]
        fn whatever_is_said_becomes_a_short_line(text in any::<String>()) {
            let label = cleaned(&text);
            prop_assert!((1..=LONGEST).contains(&label.len()), "{label:?}");
            prop_assert!(!label.contains(|c: char| c.is_control() || c == '%'), "{label:?}");
            prop_assert_eq!(unclean(&text), label);
        }
    }
}

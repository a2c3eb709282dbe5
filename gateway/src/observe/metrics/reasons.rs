//! The reasons of one backend as values of a label: few, short, and clean, whatever it says.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
};

use extender_gateway_core::reason;

use super::{family::Family, few::Few, number::Counter};

/// So many different texts of a backend have a series of their own.
const MOST: usize = 20;
/// The longest text, in bytes.
const LONGEST: usize = 100;
/// What stands for all texts that came later.
const OTHER: &str = "other";

/// Nodes that one backend rejected, by reason.
#[derive(Debug)]
pub(super) struct Reasons {
    backend: String,
    rejected: Arc<Family<Counter>>,
    known: Few<Box<str>, MOST>,
    other: OnceLock<Arc<Counter>>,
}

impl Reasons {
    /// Of this backend, none yet.
    pub(super) fn new(backend: &str, rejected: &Arc<Family<Counter>>) -> Self {
        let rejected = Arc::clone(rejected);
        Self { backend: backend.to_owned(), rejected, known: Few::default(), other: OnceLock::new() }
    }

    /// So many nodes were rejected for this reason. Allocates only if the text is new, or not clean.
    pub(super) fn rejected(&self, reason: &str, nodes: u64) {
        let label = cleaned(reason);
        let own = self.known.of(&*label, || (label.as_ref().into(), self.series(&label)));
        own.unwrap_or_else(|| self.other.get_or_init(|| self.series(OTHER))).add(nodes);
    }

    fn series(&self, reason: &str) -> Arc<Counter> {
        self.rejected.of(&[&self.backend, reason])
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

    use super::{super::table, *};

    fn counted(reasons: &Reasons) -> Vec<(String, u64)> {
        let mut counts = Vec::new();
        reasons.rejected.each(|values, counter| counts.push((values[1].clone(), counter.read())));
        counts
    }

    fn reasons() -> Reasons {
        let family = Family::new(&table::BACKEND_REJECTED_NODES, |_| Counter::default());
        Reasons::new("zones", &Arc::new(family))
    }

    #[test]
    fn the_first_twenty_texts_are_told_apart() {
        let reasons = reasons();
        for round in 0..3 {
            (0..1_000).for_each(|number| reasons.rejected(&format!("{number:03} is full"), 1 + round));
        }
        let counts = counted(&reasons);
        assert_eq!(counts.len(), MOST + 1);
        assert_eq!(counts[19], ("019 is full".to_owned(), 6));
        assert_eq!(counts[20], (OTHER.to_owned(), 980 * 6));
    }

    #[test]
    fn texts_are_cleaned_before_they_are_compared() {
        let reasons = reasons();
        for text in ["in drain", "in\ndrain", " in  drain ", "", "\u{7}"] {
            reasons.rejected(text, 1);
        }
        assert_eq!(counted(&reasons), [("in drain".to_owned(), 3), ("rejected".to_owned(), 2)]);
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

//! The words that the file has for choices, both ways.

use super::{FailurePolicy, Normalize, Preemption, ReasonPrefix};

/// A choice that the file writes as one of several words.
pub trait Words: Copy + PartialEq + 'static {
    /// Every choice and its word.
    const WORDS: &'static [(&'static str, Self)];

    /// This choice's word.
    fn word(self) -> &'static str {
        let entry = Self::WORDS.iter().find(|(_, choice)| *choice == self);
        entry.expect("every choice has a word").0
    }
}

impl Words for ReasonPrefix {
    const WORDS: &'static [(&'static str, Self)] = &[("Backend", Self::Backend), ("None", Self::None)];
}

impl Words for FailurePolicy {
    const WORDS: &'static [(&'static str, Self)] = &[("Fail", Self::Fail), ("Ignore", Self::Ignore)];
}

impl Words for Preemption {
    const WORDS: &'static [(&'static str, Self)] = &[("Ignored", Self::Ignored), ("Honored", Self::Honored)];
}

impl Words for Normalize {
    const WORDS: &'static [(&'static str, Self)] =
        &[("None", Self::None), ("Range", Self::Range), ("Max", Self::Max), ("MinMax", Self::MinMax)];
}

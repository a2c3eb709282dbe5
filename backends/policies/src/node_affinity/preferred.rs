//! Preferred node affinity: scores nodes.

use extender_policy_sdk::{Node, PreferredSchedulingTerm};

use super::term::ParsedTerm;

/// Terms and their weights. Mirrors `PreferredSchedulingTerms` of k8s.io/component-helpers/scheduling.
#[derive(Debug)]
pub(super) struct Preferred<'a> {
    terms: Vec<(i32, ParsedTerm<'a>)>,
}

impl<'a> Preferred<'a> {
    /// Terms of weight 0 and empty ones are skipped without being read. The error names each of the others that
    /// cannot be read, by its position, with the cause.
    pub(super) fn of(terms: &'a [PreferredSchedulingTerm]) -> Result<Self, Vec<(usize, String)>> {
        let (mut read, mut mistakes) = (Vec::new(), Vec::new());
        for (at, PreferredSchedulingTerm { weight, preference }) in terms.iter().enumerate() {
            let Some(preference) = preference.as_ref().filter(|_| *weight != 0) else { continue };
            match ParsedTerm::read(preference) {
                Ok(term) => read.extend(term.map(|term| (*weight, term))),
                Err(mistake) => mistakes.push((at, mistake)),
            }
        }
        if mistakes.is_empty() { Ok(Self { terms: read }) } else { Err(mistakes) }
    }

    /// The sum of the weights of the terms that select the node.
    pub(super) fn score(&self, node: Node<'_>) -> i32 {
        let met = self.terms.iter().filter(|(_, term)| term.selects(node));
        met.fold(0, |sum: i32, (weight, _)| sum.saturating_add(*weight))
    }
}

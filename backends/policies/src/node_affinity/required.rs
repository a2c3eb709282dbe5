//! Required node affinity: filters nodes.

use std::collections::BTreeSet;

use extender_policy_sdk::{Node, NodeSelector, NodeSelectorTerm};

use super::term::{self, ParsedTerm};

/// Terms of which a node must match one. Mirrors `LazyErrorNodeSelector` of k8s.io/component-helpers/scheduling:
/// empty terms, and those that cannot be read, select nothing.
#[derive(Debug)]
pub(super) struct RequiredTerms<'a> {
    terms: Vec<ParsedTerm<'a>>,
}

impl<'a> RequiredTerms<'a> {
    pub(super) fn of(selector: &'a NodeSelector) -> Self {
        let read = |term| ParsedTerm::read(term).ok().flatten();
        Self { terms: selector.terms.iter().filter_map(read).collect() }
    }

    pub(super) fn admits(&self, node: Node<'_>) -> bool {
        self.terms.iter().any(|term| term.selects(node))
    }
}

/// Whether every term requires a node to have several names at once. Mirrors the plugin's `PreFilter`, which looks
/// at names only, also in terms that cannot be read.
pub(super) fn conflicts(selector: &NodeSelector) -> bool {
    let no_name = |term| names(term).is_some_and(|names| names.is_empty());
    !selector.terms.is_empty() && selector.terms.iter().all(no_name)
}

/// The names that a term allows; `None`: all.
fn names(term: &NodeSelectorTerm) -> Option<BTreeSet<&str>> {
    let by_name = term.match_fields.iter().filter(|field| field.key == term::NAME && field.operator == "In");
    let names = by_name.map(|field| field.values.iter().map(String::as_str).collect::<BTreeSet<_>>());
    names.reduce(|left, right| &left & &right)
}

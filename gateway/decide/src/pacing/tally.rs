//! What a pod's condition says about a refusal on all nodes.
//!
//! kube-scheduler writes each text once, with the number of nodes that have it (`FitError.Error`), and in the part about
//! preemption how many nodes preemption may help on. Two refusals with equal tallies lead to equal conditions.

use std::{
    cmp::Reverse,
    collections::HashMap,
    fmt::Write,
    hash::{BuildHasher, Hash},
};

use extender_gateway_core::filter::Rejected;
use extender_gateway_wire::reply::Reason;

/// The longest summary in bytes. It is sent once for each node.
pub(super) const LONGEST_SUMMARY: usize = 512;
/// The most bytes that the end of a shortened summary takes.
const LONGEST_END: usize = ", and 4294967295 other reasons (4294967295)".len();

/// The texts of a refusal on all nodes with their counts: the most frequent first, then by text.
#[derive(Debug)]
pub(super) struct Tally<'r> {
    lines: Vec<Line<'r>>,
}

/// One text.
#[derive(Debug, Default, Hash)]
struct Line<'r> {
    text: &'r str,
    /// The nodes with this text.
    nodes: u32,
    /// Those of them on which preemption may help.
    preemptible: u32,
}

impl<'r> Tally<'r> {
    /// Counts the nodes of each text.
    pub(super) fn of(rejected: &Rejected, reasons: &'r [Reason]) -> Self {
        let mut counts = vec![0; reasons.len()];
        for group in rejected.nodes.iter().flatten() {
            counts[*group as usize] += 1;
        }
        let mut by_text: HashMap<&str, Line<'r>> = HashMap::new();
        for (reason, nodes) in reasons.iter().zip(counts).filter(|(_, nodes)| *nodes > 0) {
            let line = by_text.entry(&reason.text).or_insert(Line { text: &reason.text, ..Line::default() });
            line.nodes += nodes;
            line.preemptible += if reason.preemption_may_help { nodes } else { 0 };
        }
        let mut lines: Vec<_> = by_text.into_values().collect();
        lines.sort_unstable_by_key(|line| (Reverse(line.nodes), line.text));
        Self { lines }
    }

    /// The same number for tallies that lead to the same condition.
    ///
    /// The count of the only text does not matter: a summary would not make that condition more stable.
    pub(super) fn condition(&self, hasher: &impl BuildHasher) -> u64 {
        match self.lines.as_slice() {
            [only] if only.preemptible == 0 => hasher.hash_one((only.text, false)),
            [only] if only.preemptible == only.nodes => hasher.hash_one((only.text, true)),
            lines => hasher.hash_one(lines),
        }
    }

    /// One line of at most [`LONGEST_SUMMARY`] bytes; safe for kube-scheduler, because the texts are.
    pub(super) fn summary(&self) -> String {
        let mut summary = "no node passes the policies: ".to_owned();
        for (at, Line { text, nodes, .. }) in self.lines.iter().enumerate() {
            let separator = if at > 0 { ", " } else { "" };
            let line = format!("{separator}{text} ({nodes})");
            let is_last = at + 1 == self.lines.len();
            let reserved = if is_last { 0 } else { LONGEST_END };
            if at > 0 && summary.len() + line.len() + reserved > LONGEST_SUMMARY {
                push_end(&mut summary, &self.lines[at..]);
                break;
            }
            summary.push_str(&line);
        }
        summary
    }
}

/// Ends a summary that has no room for these lines.
fn push_end(summary: &mut String, left: &[Line<'_>]) {
    let nodes: u32 = left.iter().map(|line| line.nodes).sum();
    let reasons = if left.len() == 1 { "other reason" } else { "other reasons" };
    // Writing to a `String` does not fail.
    let _ = write!(summary, ", and {} {reasons} ({nodes})", left.len());
}

#[cfg(test)]
mod tests {
    use std::hash::RandomState;

    use extender_gateway_core::filter::{By, Group};
    use proptest::prelude::*;

    use super::*;

    /// A refusal of this many nodes with each of these texts.
    fn refusal(groups: &[(&str, bool, u32)]) -> (Rejected, Vec<Reason>) {
        let group = Group { by: By::Seat(0), reason: String::new(), preemption_may_help: false };
        let nodes = (0_u32..).zip(groups).flat_map(|(at, group)| vec![Some(at); group.2 as usize]).collect();
        let reason = |(text, helps, _): &(&str, bool, u32)| Reason {
            text: (*text).to_owned(),
            preemption_may_help: *helps,
            ..Reason::default()
        };
        (Rejected { groups: vec![group; groups.len()], nodes }, groups.iter().map(reason).collect())
    }

    fn summary(groups: &[(&str, bool, u32)]) -> String {
        let (rejected, reasons) = refusal(groups);
        Tally::of(&rejected, &reasons).summary()
    }

    #[test]
    fn a_summary_lists_reasons_by_their_counts() {
        for (groups, expected) in [
            (&[("quota: full", false, 144)][..], "quota: full (144)"),
            (&[("b: y", false, 45), ("a: x", false, 99)], "a: x (99), b: y (45)"),
            (&[("b: y", false, 7), ("a: x", false, 7)], "a: x (7), b: y (7)"),
            (&[("a: x", false, 3), ("a: x", true, 4), ("b: y", false, 5)], "a: x (7), b: y (5)"),
            (&[("a: x", false, 3), ("b: y", false, 0)], "a: x (3)"),
        ] {
            assert_eq!(summary(groups), format!("no node passes the policies: {expected}"));
        }
    }

    #[test]
    fn a_summary_of_many_reasons_says_how_many_it_leaves_out() {
        let texts: Vec<String> =
            (0..144).map(|node| format!("usage: {node:03} of 200 units are free")).collect();
        let groups: Vec<_> = texts.iter().map(|text| (text.as_str(), false, 1)).collect();
        let summary = summary(&groups);
        assert!(summary.len() <= LONGEST_SUMMARY, "{summary}");
        assert!(summary.ends_with(", and 133 other reasons (133)"), "{summary}");
    }

    #[test]
    fn refusals_are_the_same_if_the_condition_is() {
        let hasher = RandomState::new();
        let condition = |groups: &[(&str, bool, u32)]| {
            let (rejected, reasons) = refusal(groups);
            Tally::of(&rejected, &reasons).condition(&hasher)
        };
        let first = condition(&[("a", false, 2), ("b", true, 1)]);
        assert_eq!(first, condition(&[("b", true, 1), ("a", false, 1), ("a", false, 1)]));
        assert_ne!(first, condition(&[("a", false, 1), ("b", true, 2)]), "other counts");
        assert_ne!(first, condition(&[("a", false, 2), ("c", true, 1)]), "another text");
        assert_ne!(first, condition(&[("a", true, 2), ("b", true, 1)]), "preemption may help on others");
        assert_eq!(
            condition(&[("a", false, 2)]),
            condition(&[("a", false, 3)]),
            "one text: the count is kube-scheduler's"
        );
        assert_ne!(condition(&[("a", false, 2)]), condition(&[("a", true, 2)]));
    }

    proptest! {
        #[test]
        fn a_summary_is_short_and_complete(
            counts in prop::collection::vec((1_u32..1000, 1_usize..200), 1..40),
        ) {
            let texts: Vec<String> =
                counts.iter().enumerate().map(|(at, (_, length))| format!("{at}{}", "x".repeat(*length))).collect();
            let groups: Vec<_> =
                texts.iter().zip(&counts).map(|(text, (nodes, _))| (text.as_str(), false, *nodes)).collect();
            let summary = summary(&groups);
            prop_assert!(summary.len() <= LONGEST_SUMMARY);
            let counted: u32 = summary
                .split(" (")
                .skip(1)
                .map(|rest| rest.split(')').next().unwrap().parse::<u32>().unwrap())
                .sum();
            prop_assert_eq!(counted, counts.iter().map(|(nodes, _)| nodes).sum::<u32>());
        }
    }
}

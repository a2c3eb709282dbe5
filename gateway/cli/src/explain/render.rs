//! Renders the evidence as text: first sentences, then a table of calls, then one of nodes.
//!
//! Pure: the same evidence gives the same text.

mod calls;
mod nodes;

use std::fmt;

use extender_gateway_api::explain::{Explanation, evidence::Evidence, notes, pod::PodState};
use extender_gateway_object::text::{clean, counted};

use super::{Printed, group};

impl fmt::Display for Printed<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { explanation: Explanation { evidence, summary, notes }, top, policy_pages } = self;
        for line in summary {
            writeln!(out, "{}", clean(line).trim_end())?;
        }
        for note in notes {
            writeln!(out, "- {}", clean(note).trim_end())?;
        }
        let max_rows = if *top == 0 { usize::MAX } else { *top };
        if let Some(group) = &evidence.target.group {
            group::write(group, max_rows, out)?;
        }
        let Some(attempt) = evidence.latest() else {
            return policy_pages.iter().try_for_each(|page| write!(out, "\n{page}"));
        };
        calls::write(attempt, out)?;
        if let Some(name) = &evidence.target.node {
            calls::write_of_node(evidence, name, max_rows, out)?;
            return policy_pages.iter().try_for_each(|page| write!(out, "\n{page}"));
        }
        nodes::write_changed(attempt, max_rows, out)?;
        nodes::write_scores(attempt, evidence.node_of_pod(), max_rows, out)?;
        nodes::write_rejected(attempt, max_rows, out)?;
        nodes::write_shadow(attempt, max_rows, out)
    }
}

/// Writes the number of hidden rows.
pub(super) fn write_hidden(out: &mut fmt::Formatter<'_>, hidden: usize, what: &str) -> fmt::Result {
    if hidden == 0 {
        return Ok(());
    }
    let hidden = counted(hidden as u64, &format!("more {what}"));
    writeln!(out, "{hidden}; --top 0 shows all")
}

/// Why there is no data, and a remedy.
pub(super) fn unknown(evidence: &Evidence) -> String {
    let (namespace, name) = (&evidence.target.namespace, &evidence.target.name);
    let text = match &evidence.cluster.pod {
        PodState::Gone { near, elsewhere } => {
            let remedy = match (elsewhere.as_slice(), near.as_slice()) {
                ([], []) => "`kubectl get pods --all-namespaces` lists all pods".to_owned(),
                ([], near) => format!("similar names there: {}", near.join(", ")),
                ([namespace], _) => format!("namespace {namespace} has one: set -n {namespace}"),
                (namespaces, _) => {
                    format!("{name} is in the namespaces {}: choose one with -n", namespaces.join(", "))
                }
            };
            format!(
                "pod {name} not found in namespace {namespace}, and no gateway has decisions for it; {remedy}"
            )
        }
        _ => format!(
            "no gateway has decisions for pod {name} in namespace {namespace}; check the namespace (-n)"
        ),
    };
    let notes = notes::of(evidence).into_iter().map(|note| format!("\n- {}", clean(&note)));
    text + &notes.collect::<String>()
}

//! Tables of nodes: total scores with the part of each backend, and rejected nodes with backend and reason.

use std::{cmp::Reverse, fmt};

use extender_gateway_core::Verb;

use super::write_hidden;
use crate::{
    api::{BackendPart, NodePart, NodeVerdict},
    cli::{
        explain::evidence::SchedulingAttempt,
        text::{NOTHING, Table, number, trimmed},
    },
};

/// How many names of a group are shown.
const MAX_NAMES: usize = 3;

/// Writes the total scores, always with the pod's node; nothing without scores.
pub(super) fn write_scores(
    attempt: &SchedulingAttempt,
    node_of_pod: Option<&str>,
    max_rows: usize,
    out: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let Some(call) = attempt.scored().filter(|call| !call.backends.is_empty()) else { return Ok(()) };
    let mut nodes: Vec<&NodePart> = call.nodes.iter().collect();
    // Stable: nodes with equal totals keep kube-scheduler's order.
    nodes.sort_by_key(|node| Reverse(node.total));
    let is_here = |node: &NodePart| Some(node.name.as_str()) == node_of_pod;
    let beyond = nodes.iter().skip(max_rows).filter(|node| is_here(node));
    let shown: Vec<&NodePart> = nodes.iter().take(max_rows).chain(beyond).copied().collect();
    let columns: Vec<ScoreColumn> = call.backends.iter().map(|part| ScoreColumn::new(part, &shown)).collect();
    let titles = ["", "NODE", "TOTAL"].map(str::to_owned);
    let mut table = Table::new(titles.into_iter().chain(columns.iter().map(ScoreColumn::title)), 2..3);
    for node in &shown {
        let total = node.total.map_or_else(|| NOTHING.to_owned(), |total| total.to_string());
        let mark = if is_here(node) { "*" } else { "" };
        let first = [mark.to_owned(), node.name.clone(), total];
        table.row(first.into_iter().chain(columns.iter().map(|column| column.cell(node))));
    }
    write!(out, "\n{table}")?;
    if shown.iter().any(|node| is_here(node)) {
        writeln!(out, "* the pod is here")?;
    }
    write_hidden(out, nodes.len() - shown.len(), "node")
}

/// The column of one backend, with its numbers aligned.
struct ScoreColumn<'a> {
    part: &'a BackendPart,
    raw_width: usize,
    normalized_width: usize,
}

impl<'a> ScoreColumn<'a> {
    fn new(part: &'a BackendPart, nodes: &[&NodePart]) -> Self {
        let verdicts = || nodes.iter().filter_map(|node| node.backends.get(&part.name));
        let raw_width = verdicts().filter_map(raw).map(|text| text.len()).max().unwrap_or_default();
        let normalized_width =
            verdicts().filter_map(normalized).map(|text| text.len()).max().unwrap_or_default();
        Self { part, raw_width, normalized_width }
    }

    fn title(&self) -> String {
        let shadow = if self.part.mode == "Shadow" { " (shadow)" } else { "" };
        format!("{}{shadow}", self.part.name)
    }

    fn cell(&self, node: &NodePart) -> String {
        let Self { part, raw_width, normalized_width } = *self;
        let verdict = node.backends.get(&part.name);
        let Some((raw, normalized)) = verdict.and_then(|verdict| raw(verdict).zip(normalized(verdict)))
        else {
            return NOTHING.to_owned();
        };
        let weight = part.weight.map(|weight| format!(" × {weight}")).unwrap_or_default();
        format!("{raw:>raw_width$} → {normalized:>normalized_width$}{weight}")
    }
}

fn raw(verdict: &NodeVerdict) -> Option<String> {
    verdict.raw.map(|raw| raw.to_string())
}

fn normalized(verdict: &NodeVerdict) -> Option<String> {
    verdict.normalized.map(trimmed)
}

/// Writes the nodes that filter and preempt rejected, in groups if there are many; nothing without rejections.
pub(super) fn write_rejected(
    attempt: &SchedulingAttempt,
    max_rows: usize,
    out: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for (verb, title) in [(Verb::Filter, "REJECTED"), (Verb::Preempt, "NOT PREEMPTED")] {
        let nodes = attempt.call(verb).into_iter().flat_map(|call| &call.nodes);
        let rejected: Vec<&NodePart> = nodes.filter(|node| node.rejected_by.is_some()).collect();
        if rejected.len() > max_rows {
            write_groups(title, &rejected, max_rows, out)?;
        } else if !rejected.is_empty() {
            let mut table = Table::new([title, "BY", "WHY"], 0..0);
            for node in rejected {
                table.row([node.name.as_str(), by(node), why(node)]);
            }
            write!(out, "\n{table}")?;
        }
    }
    Ok(())
}

/// Writes one line for the nodes that one backend rejected for one reason, the largest group first.
fn write_groups(
    title: &str,
    nodes: &[&NodePart],
    max_rows: usize,
    out: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let mut groups: Vec<Vec<&NodePart>> = Vec::new();
    for &node in nodes {
        match groups.iter_mut().find(|group| by(group[0]) == by(node) && why(group[0]) == why(node)) {
            Some(group) => group.push(node),
            None => groups.push(vec![node]),
        }
    }
    groups.sort_by_key(|group| Reverse(group.len()));
    let mut table = Table::new([title, "BY", "WHY", "NODES"], 0..1);
    for group in groups.iter().take(max_rows) {
        let count = number(group.len() as u64);
        table.row([count.as_str(), by(group[0]), why(group[0]), &first_names(group)]);
    }
    write!(out, "\n{table}")?;
    write_hidden(out, groups.len().saturating_sub(max_rows), "reason")
}

fn first_names(nodes: &[&NodePart]) -> String {
    let names: Vec<&str> = nodes.iter().take(MAX_NAMES).map(|node| node.name.as_str()).collect();
    match nodes.len().saturating_sub(MAX_NAMES) {
        0 => names.join(", "),
        more => format!("{} and {} more", names.join(", "), number(more as u64)),
    }
}

fn by(node: &NodePart) -> &str {
    node.rejected_by.as_deref().unwrap_or(NOTHING)
}

fn why(node: &NodePart) -> &str {
    node.reason.as_deref().unwrap_or(NOTHING)
}

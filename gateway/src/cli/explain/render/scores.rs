//! The table of total scores, with the share of each backend.

use std::{cmp::Reverse, fmt};

use super::{Top, rest};
use crate::{
    api::{BackendPart, Decision, NodePart, NodeVerdict},
    cli::{
        explain::attempt::SchedulingAttempt,
        text::{NOTHING, Table, TextColumn, trimmed},
    },
};

/// Writes the table, always with the pod's node; nothing without scores.
pub(super) fn write(
    attempt: &SchedulingAttempt,
    place: Option<&str>,
    top: Top,
    out: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let Some(call) = attempt.scored().filter(|call| !call.backends.is_empty()) else { return Ok(()) };
    let mut nodes: Vec<&NodePart> = call.nodes.iter().collect();
    // Stable: nodes with equal totals keep kube-scheduler's order.
    nodes.sort_by_key(|node| Reverse(node.total));
    let is_here = |node: &NodePart| Some(node.name.as_str()) == place;
    let beyond = nodes.iter().skip(top.rows()).filter(|node| is_here(node));
    let shown: Vec<&NodePart> = nodes.iter().take(top.rows()).chain(beyond).copied().collect();
    write!(out, "\n{}", table(call, &shown, &is_here))?;
    if shown.iter().any(|node| is_here(node)) {
        writeln!(out, "* the pod is here")?;
    }
    rest(out, nodes.len() - shown.len(), "node")
}

fn table(call: &Decision, nodes: &[&NodePart], is_here: &dyn Fn(&NodePart) -> bool) -> Table {
    let scores: Vec<ScoreTable> = call.backends.iter().map(|part| ScoreTable::new(part, nodes)).collect();
    let columns = [TextColumn::left(""), TextColumn::left("NODE"), TextColumn::right("TOTAL")];
    let mut table = Table::new(columns.into_iter().chain(scores.iter().map(ScoreTable::column)).collect());
    for node in nodes {
        let total = node.total.map_or_else(|| NOTHING.to_owned(), |total| total.to_string());
        let mark = if is_here(node) { "*" } else { "" };
        let first = [mark.to_owned(), node.name.clone(), total];
        table.row(first.into_iter().chain(scores.iter().map(|scores| scores.cell(node))));
    }
    table
}

/// The column of one backend, with its numbers aligned.
struct ScoreTable<'a> {
    part: &'a BackendPart,
    raw: usize,
    normalized: usize,
}

impl<'a> ScoreTable<'a> {
    fn new(part: &'a BackendPart, nodes: &[&NodePart]) -> Self {
        let verdicts = || nodes.iter().filter_map(|node| node.backends.get(&part.name));
        let raw = verdicts().filter_map(raw).map(|text| text.len()).max().unwrap_or_default();
        let normalized = verdicts().filter_map(normalized).map(|text| text.len()).max().unwrap_or_default();
        Self { part, raw, normalized }
    }

    fn column(&self) -> TextColumn {
        let shadow = if self.part.mode == "Shadow" { " (shadow)" } else { "" };
        TextColumn::left(&format!("{}{shadow}", self.part.name))
    }

    fn cell(&self, node: &NodePart) -> String {
        let verdict = node.backends.get(&self.part.name);
        let Some((raw, normalized)) = verdict.and_then(|verdict| raw(verdict).zip(normalized(verdict)))
        else {
            return NOTHING.to_owned();
        };
        let (raw_width, normalized_width) = (self.raw, self.normalized);
        let text = format!("{raw:>raw_width$} → {normalized:>normalized_width$}");
        self.part.weight.map_or_else(|| text.clone(), |weight| format!("{text} × {weight}"))
    }
}

fn raw(verdict: &NodeVerdict) -> Option<String> {
    verdict.raw.map(|raw| raw.to_string())
}

fn normalized(verdict: &NodeVerdict) -> Option<String> {
    verdict.normalized.map(trimmed)
}

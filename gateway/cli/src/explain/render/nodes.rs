//! Tables of nodes: total scores with the part of each backend, and rejected nodes with backend and reason.

use std::{borrow::Cow, cmp::Reverse, fmt, hash::Hash};

use extender_gateway_api::explain::evidence::SchedulingAttempt;
use extender_gateway_api::{BackendPart, NodePart, NodeVerdict};
use extender_gateway_core::Verb;
use extender_gateway_object::text::{NOTHING, Table, number, trimmed};
use foldhash::{HashMap, HashMapExt as _};

use super::write_hidden;

/// How many names of a group are shown.
const MAX_NAMES: usize = 3;
/// The fewest rows that differ only in their node and are shown as one.
const MIN_GROUP: usize = 4;

/// Writes the total scores, always with the pod's node; nothing without scores.
pub(super) fn write_scores(
    attempt: &SchedulingAttempt,
    node_of_pod: Option<&str>,
    max_rows: usize,
    out: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let Some(call) = attempt.scored() else { return Ok(()) };
    let scoring: Vec<&BackendPart> = call.backends.iter().filter(|part| part.hook.is_none()).collect();
    if scoring.is_empty() {
        return Ok(());
    }
    let mut nodes: Vec<&NodePart> = call.nodes.iter().collect();
    nodes.sort_by(|one, other| other.total.cmp(&one.total).then_with(|| one.name.cmp(&other.name)));
    let is_here = |node: &NodePart| Some(node.name.as_str()) == node_of_pod;
    // Without a limit, each node has its row.
    let min_group = if max_rows == usize::MAX { usize::MAX } else { MIN_GROUP };
    let rows = score_rows(&nodes, min_group, is_here);
    let beyond = rows.iter().skip(max_rows).filter(|row| is_here(row[0]));
    let shown: Vec<&Vec<&NodePart>> = rows.iter().take(max_rows).chain(beyond).collect();
    let firsts: Vec<&NodePart> = shown.iter().map(|row| row[0]).collect();
    let columns: Vec<ScoreColumn> = scoring.into_iter().map(|part| ScoreColumn::new(part, &firsts)).collect();
    let titles = ["", "NODE", "TOTAL"].map(str::to_owned);
    let mut table = Table::new(titles.into_iter().chain(columns.iter().map(ScoreColumn::title)), 2..3);
    for row in &shown {
        let node = row[0];
        let total = node.total.map_or_else(|| NOTHING.to_owned(), |total| total.to_string());
        let mark = if is_here(node) { "*" } else { "" };
        let first = [mark.to_owned(), first_names(row), total];
        table.row(first.into_iter().chain(columns.iter().map(|column| column.cell(node))));
    }
    write!(out, "\n{table}")?;
    if firsts.iter().any(|node| is_here(node)) {
        writeln!(out, "* the pod is here")?;
    }
    let hidden = nodes.len() - shown.iter().map(|row| row.len()).sum::<usize>();
    write_hidden(out, hidden, "node")
}

/// The rows of the scores: each node, or some that differ only in their name. The pod's node has its own row.
fn score_rows<'n>(
    nodes: &[&'n NodePart],
    min_group: usize,
    is_here: impl Fn(&NodePart) -> bool,
) -> Vec<Vec<&'n NodePart>> {
    let is_same = |one: &&NodePart, other: &&NodePart| {
        !is_here(one) && !is_here(other) && one.total == other.total && one.backends == other.backends
    };
    let groups = nodes.chunk_by(is_same);
    let rows = groups.flat_map(|group| {
        let size = if group.len() < min_group { 1 } else { group.len() };
        group.chunks(size).map(<[_]>::to_vec)
    });
    rows.collect()
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

/// Writes what hooks changed of nodes, in groups; nothing if they changed none.
pub(super) fn write_changed(
    attempt: &SchedulingAttempt,
    max_rows: usize,
    out: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for (verb, title) in [(Verb::Filter, "CHANGED"), (Verb::Prioritize, "CHANGED FOR SCORES")] {
        let nodes = attempt.call(verb).into_iter().flat_map(|call| &call.nodes);
        let groups = grouped(nodes.flat_map(|node| {
            let changes = node.changes.iter();
            changes.map(move |change| ((change.backend.as_str(), change.change.as_str()), node))
        }));
        let mut table = Table::new([title, "BY", "HOW", "NODES"], 0..1);
        for ((backend, change), nodes) in groups.iter().take(max_rows) {
            table.row([count(nodes).as_str(), backend, change, &first_names(nodes)]);
        }
        write_groups(&table, groups.len().saturating_sub(max_rows), "change", out)?;
    }
    Ok(())
}

/// Writes the nodes that filter and preempt rejected, in groups if there are many; nothing without rejections.
pub(super) fn write_rejected(
    attempt: &SchedulingAttempt,
    max_rows: usize,
    out: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    for (verb, title) in [(Verb::Filter, "REJECTED"), (Verb::Preempt, "NOT PREEMPTED")] {
        let nodes = attempt.call(verb).into_iter().flat_map(|call| &call.nodes);
        let mut rejected: Vec<&NodePart> = nodes.filter(|node| node.rejected_by.is_some()).collect();
        rejected.sort_by(|one, other| one.name.cmp(&other.name));
        let groups = rejected.iter().map(|&node| ((by(node), node.reason.as_deref(), rule(node)), node));
        let groups = grouped(groups);
        let largest = groups.first().map_or(0, |(_, nodes)| nodes.len());
        if rejected.len() > max_rows || (largest >= MIN_GROUP && max_rows != usize::MAX) {
            let mut table = Table::new([title, "BY", "WHY", "NODES"], 0..1);
            for (_, nodes) in groups.iter().take(max_rows) {
                let first = nodes[0];
                table.row([count(nodes).as_str(), by(first), &why(first), &first_names(nodes)]);
            }
            write_groups(&table, groups.len().saturating_sub(max_rows), "reason", out)?;
        } else if !rejected.is_empty() {
            let mut table = Table::new([title, "BY", "WHY"], 0..0);
            for node in rejected {
                table.row([node.name.as_str(), by(node), &why(node)]);
            }
            write!(out, "\n{table}")?;
        }
    }
    Ok(())
}

/// Writes the nodes that backends in shadow mode would reject, in groups; nothing if there are none.
pub(super) fn write_shadow(
    attempt: &SchedulingAttempt,
    max_rows: usize,
    out: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let Some(call) = attempt.call(Verb::Filter) else { return Ok(()) };
    let mut table = Table::new(["IN SHADOW", "BY", "WHY", "NODES"], 0..1);
    let mut hidden = 0;
    for part in call.backends.iter().filter(|part| part.mode == "Shadow" && part.rejected > 0) {
        let groups = grouped(call.nodes.iter().filter_map(|node| {
            let verdict = node.backends.get(&part.name)?;
            Some(((verdict.rejected.as_deref()?, verdict.rule.as_deref()), node))
        }));
        hidden += groups.len().saturating_sub(max_rows);
        for ((reason, rule), nodes) in groups.iter().take(max_rows) {
            let why = with_rule(reason, *rule);
            table.row([count(nodes).as_str(), &part.name, &why, &first_names(nodes)]);
        }
    }
    write_groups(&table, hidden, "reason", out)
}

/// What has the same key, the largest group first.
fn grouped<K: Copy + Eq + Hash, T>(items: impl Iterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let (mut groups, mut places) = (Vec::<(K, Vec<T>)>::new(), HashMap::new());
    for (key, item) in items {
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, items)) => items.push(item),
            None => groups.push((key, vec![item])),
        }
    }
    groups.sort_by_key(|(_, items)| Reverse(items.len()));
    groups
}

/// Writes a table of groups, and how many are hidden; nothing if there are none.
fn write_groups(table: &Table, hidden: usize, what: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if table.is_empty() {
        return Ok(());
    }
    write!(out, "\n{table}")?;
    write_hidden(out, hidden, what)
}

fn count(nodes: &[&NodePart]) -> String {
    number(nodes.len() as u64)
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

/// The reason, and the rule of the policy if it named one.
fn why(node: &NodePart) -> Cow<'_, str> {
    with_rule(node.reason.as_deref().unwrap_or(NOTHING), rule(node))
}

fn with_rule<'r>(reason: &'r str, rule: Option<&str>) -> Cow<'r, str> {
    match rule {
        Some(rule) => format!("{reason} (rule {rule})").into(),
        None => reason.into(),
    }
}

/// The rule by which it was rejected, if the policy named one.
fn rule(node: &NodePart) -> Option<&str> {
    node.backends.get(node.rejected_by.as_ref()?)?.rule.as_deref()
}

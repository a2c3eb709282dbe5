//! The rejected nodes with backend and reason: one by one, or in groups if there are many.

use extender_gateway_core::Verb;
use std::{cmp::Reverse, fmt};

use super::{Top, rest};
use crate::{
    api::{Decision, NodePart},
    cli::{
        explain::attempt::SchedulingAttempt,
        text::{NOTHING, Table, TextColumn, number},
    },
};

/// How many names of a group are shown.
const MOST_NAMES: usize = 3;

/// Nodes that one backend rejected for one reason.
struct Group<'a> {
    by: &'a str,
    why: &'a str,
    names: Vec<&'a str>,
}

/// Writes the nodes that filter and preempt rejected; nothing without rejections.
pub(super) fn write(attempt: &SchedulingAttempt, top: Top, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    for verb in [Verb::Filter, Verb::Preempt] {
        if let Some(call) = attempt.call(verb) {
            of_call(call, top, out)?;
        }
    }
    Ok(())
}

fn of_call(call: &Decision, top: Top, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let rejected: Vec<&NodePart> = call.nodes.iter().filter(|node| node.rejected_by.is_some()).collect();
    let title = if call.is(Verb::Filter) { "REJECTED" } else { "NOT PREEMPTED" };
    match rejected.as_slice() {
        [] => Ok(()),
        few if few.len() <= top.rows() => write!(out, "\n{}", each(title, few)),
        many => grouped(title, groups(many), top, out),
    }
}

fn each(title: &str, nodes: &[&NodePart]) -> Table {
    let mut table =
        Table::new(vec![TextColumn::left(title), TextColumn::left("BY"), TextColumn::left("WHY")]);
    for node in nodes {
        table.row([node.name.as_str(), by(node), why(node)]);
    }
    table
}

fn grouped(title: &str, groups: Vec<Group<'_>>, top: Top, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let columns = [
        TextColumn::right(title),
        TextColumn::left("BY"),
        TextColumn::left("WHY"),
        TextColumn::left("NODES"),
    ];
    let mut table = Table::new(columns.to_vec());
    let hidden = groups.len().saturating_sub(top.rows());
    for group in groups.into_iter().take(top.rows()) {
        let count = number(group.names.len() as u64);
        table.row([count.as_str(), group.by, group.why, &group.first_names()]);
    }
    write!(out, "\n{table}")?;
    rest(out, hidden, "reason")
}

/// The groups, the largest first.
fn groups<'a>(nodes: &[&'a NodePart]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for &node in nodes {
        match groups.iter_mut().find(|group| group.by == by(node) && group.why == why(node)) {
            Some(group) => group.names.push(&node.name),
            None => groups.push(Group { by: by(node), why: why(node), names: vec![&node.name] }),
        }
    }
    groups.sort_by_key(|group| Reverse(group.names.len()));
    groups
}

impl Group<'_> {
    fn first_names(&self) -> String {
        let shown = self.names.iter().take(MOST_NAMES).copied().collect::<Vec<_>>().join(", ");
        match self.names.len().saturating_sub(MOST_NAMES) {
            0 => shown,
            more => format!("{shown} and {} more", number(more as u64)),
        }
    }
}

fn by(node: &NodePart) -> &str {
    node.rejected_by.as_deref().unwrap_or(NOTHING)
}

fn why(node: &NodePart) -> &str {
    node.reason.as_deref().unwrap_or(NOTHING)
}

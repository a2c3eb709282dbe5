//! Logs the best nodes of each prioritize call and the rejected nodes of each filter call as Markdown tables.
//! Format and switches match Koordinator's scheduler (`frameworkext`, `debugTopNScores` and `debugFilterFailure`).

use std::{
    cmp::Reverse,
    sync::atomic::{AtomicU32, Ordering},
};

use extender_gateway_core::{
    Verb,
    score::{self, Ballot},
};
use extender_gateway_object::text::{NOTHING, trimmed};
use extender_gateway_record::{CallRecord, Outcome, RequestedNodes};

/// The most rows of a table.
pub const MAX_ROWS: u32 = 1000;

/// The number of rows per call; 0 for no table.
#[derive(Debug, Default)]
pub struct DebugTables {
    /// The best nodes.
    pub scores: AtomicU32,
    /// Rejected nodes.
    pub rejections: AtomicU32,
}

impl DebugTables {
    /// Logs the enabled tables of a call.
    pub(super) fn log(&self, verb: Verb, record: &CallRecord) {
        let rows = |switch: &AtomicU32| switch.load(Ordering::Relaxed) as usize;
        let table = match verb {
            Verb::Prioritize if rows(&self.scores) > 0 => scores(record, rows(&self.scores)),
            Verb::Filter if rows(&self.rejections) > 0 => rejections(record, rows(&self.rejections)),
            _ => None,
        };
        if let Some(table) = table {
            tracing::info!(target: "extender_gateway::debug", "{}\n{table}", verb.name());
        }
    }
}

/// `# | Pod | Node | Score`, and one column per backend with its share of the score.
fn scores(record: &CallRecord, rows: usize) -> Option<String> {
    let scored = record.backends.iter().filter_map(|part| Some((part.backend.name.as_str(), part.ballot()?)));
    let (names, ballots): (Vec<&str>, Vec<&Ballot>) = scored.unzip();
    let totals = score::totals(record.nodes.count() as usize, &ballots);
    let mut order: Vec<(u32, i64)> =
        (0..).zip(totals).filter_map(|(node, total)| Some((node, total?))).collect();
    order.sort_by_key(|(_, total)| Reverse(*total));
    if order.is_empty() {
        return None;
    }
    let shares: Vec<_> = ballots.into_iter().map(share).collect();
    let mut table = head(&["#", "Pod", "Node", "Score"], &names);
    for (rank, (node, total)) in order.iter().take(rows).enumerate() {
        let cells = shares.iter().map(|share| share(*node));
        table += &row(rank, record, *node, [total.to_string()].into_iter().chain(cells));
    }
    Some(table)
}

/// The share of a ballot in the score of each node.
fn share(ballot: &Ballot) -> impl Fn(u32) -> String {
    let normalized = score::normalized(ballot);
    move |node| {
        let rank = match &ballot.nodes {
            None => Some(node as usize),
            Some(nodes) => nodes.binary_search(&node).ok(),
        };
        let raw = rank.and_then(|rank| ballot.scores.get(rank));
        raw.map_or_else(|| NOTHING.to_owned(), |raw| trimmed(normalized(*raw) * f64::from(ballot.weight)))
    }
}

/// `# | Pod | Node`, and one column per backend with its reason.
fn rejections(record: &CallRecord, rows: usize) -> Option<String> {
    let (mut by_node, mut names) = (Vec::<(u32, usize, &str)>::new(), Vec::new());
    for part in &record.backends {
        let Outcome::Filtered(filtered) = &part.outcome else { continue };
        for refusal in &filtered.refusals {
            let nodes = filtered.in_call(refusal);
            by_node.extend(nodes.map(|node| (node, names.len(), refusal.reason.as_str())));
        }
        names.push(part.backend.name.as_str());
    }
    by_node.sort_unstable();
    let mut table = head(&["#", "Pod", "Node"], &names);
    let nodes = by_node.chunk_by(|one, other| one.0 == other.0);
    for (rank, reasons) in nodes.take(rows).enumerate() {
        let reason = |column| reasons.iter().find(|(_, at, _)| *at == column).map_or("", |reason| reason.2);
        let cells = (0..names.len()).map(|column| cell(reason(column)));
        table += &row(rank, record, reasons[0].0, cells);
    }
    (!by_node.is_empty()).then_some(table)
}

fn head(columns: &[&str], backends: &[&str]) -> String {
    let all: Vec<&str> = columns.iter().chain(backends).copied().collect();
    format!("| {} |\n|{}\n", all.join(" | "), " --- |".repeat(all.len()))
}

/// Untrusted text as a table cell on one line.
fn cell(text: &str) -> String {
    text.replace(|c: char| c == '|' || c.is_control(), " ")
}

/// A row: rank, pod, node, and a cell for each backend.
fn row(rank: usize, record: &CallRecord, node: u32, cells: impl Iterator<Item = String>) -> String {
    // Only filter and prioritize have tables.
    let RequestedNodes::Offered(request) = &record.nodes else { return String::new() };
    let pod = cell(&format!("{}/{}", record.pod.namespace, record.pod.name));
    let mut row = format!("| {rank} | {pod} | {} |", cell(request.names.name(node)));
    for cell in cells {
        row = row + " " + &cell + " |";
    }
    row + "\n"
}

#[cfg(test)]
mod tests;

//! Compares the scores of the latest attempt with the pod's node.

use crate::{
    api::Decision,
    cli::{
        explain::{
            attempt::{best, node},
            case::Evidence,
        },
        text::number,
    },
};

/// More names than this are only counted.
const MOST_NAMES: usize = 3;

const UNSEEN: &str = "Scores of kube-scheduler's own plugins and of other extenders are added to these, and the gateway does not \
                      see them.";

pub(super) fn note(case: &Evidence, notes: &mut Vec<String>) {
    let (Some(place), Some(attempt)) = (case.place(), case.latest()) else { return };
    if let Some(scored) = attempt.scored() {
        notes.extend(against(place, scored));
    } else if let Some(filter) = attempt.filter() {
        notes.extend(outside(place, filter));
    }
}

fn against(place: &str, scored: &Decision) -> Option<String> {
    let Some(here) = node(scored, place) else { return Some(elsewhere(place)) };
    let (highest, nodes) = best(scored)?;
    let total = here.total.unwrap_or_default();
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    if total < highest {
        let has = listed(&names);
        return Some(format!(
            "The pod is on {place} (total {total}), although {has} a higher total ({highest}). {UNSEEN}"
        ));
    }
    let count = number(names.len() as u64);
    (names.len() > 1).then(|| format!("{count} nodes share the highest total, {highest}. {UNSEEN}"))
}

/// `node-1 has`, `node-1 and node-2 have`, or how many have.
fn listed(names: &[&str]) -> String {
    match names {
        [name] => format!("{name} has"),
        [first @ .., last] if names.len() <= MOST_NAMES => format!("{} and {last} have", first.join(", ")),
        _ => format!("{} nodes have", number(names.len() as u64)),
    }
}

/// The pod is on a node that the attempt had rejected.
fn outside(place: &str, filter: &Decision) -> Option<String> {
    let stays = node(filter, place).is_some_and(|node| node.rejected_by.is_none());
    (!stays).then(|| elsewhere(place))
}

fn elsewhere(place: &str) -> String {
    format!(
        "The pod is on {place}, which was rejected in the latest known attempt: a later attempt or another scheduler placed it there."
    )
}

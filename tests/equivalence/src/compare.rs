//! Compares the reference's decision with the gateway's answers.

mod questions;

use extender_reference::{
    filter::{self, Verdict},
    model::{Extender, Node},
    preempt::{self, Ending, Room},
    prioritize,
};

pub(crate) use self::questions::due;
use crate::{
    case::{self, Calls, Case, Placing},
    subject::{Filtered, Observed, Preempted, Prioritized},
};

/// The reference's decision about a case.
#[derive(Debug)]
pub struct Expected {
    /// About each of its pods.
    pub placed: Vec<Wanted>,
    /// About the pods of concurrent callers: each as if it were alone.
    pub crowded: Vec<Wanted>,
    /// About preempt, for the first one.
    pub preempted: preempt::Preempted,
}

/// The reference's decision about a pod. It calls every extender again.
#[derive(Debug)]
pub struct Wanted {
    /// The extenders that it called.
    pub extenders: Vec<Extender>,
    /// About filter; `None` if there is no such call.
    pub filtered: Option<filter::Filtered>,
    /// The nodes of the prioritize call: those that are left, as in kube-scheduler; all offered nodes if none is
    /// left, so that the call is made.
    pub ranked: Vec<Node>,
    /// About prioritize.
    pub prioritized: prioritize::Prioritized,
}

impl Expected {
    /// About the first pod.
    ///
    /// # Panics
    /// Never: a case has one.
    pub fn first(&self) -> &Wanted {
        &self.placed[0]
    }
}

/// Runs the reference.
pub fn expected(case: &Case) -> Expected {
    let placings = case.placings();
    let extenders = case.extenders(&placings[0]);
    let room = Room { candidates: &case.candidates, running: &case::running() };
    let preempted = extender_reference::preempt(&extenders, (&case.pod, &case.differences), room);
    let crowded = case.crowded().iter().map(|placing| wanted(case, placing)).collect();
    Expected { placed: placings.iter().map(|placing| wanted(case, placing)).collect(), crowded, preempted }
}

fn wanted(case: &Case, placing: &Placing<'_>) -> Wanted {
    let extenders = case.extenders(placing);
    let (about, offered) = ((&placing.pod, &case.differences), placing.offered);
    let filters = placing.round.is_none_or(|round| round.calls == Calls::FilterThenPrioritize);
    let filtered = filters.then(|| extender_reference::filter(&extenders, about, offered));
    let ranked = match filtered.as_ref().map(|filtered| &filtered.verdict) {
        Some(Verdict::Decided { feasible, .. }) if !feasible.is_empty() => feasible.clone(),
        _ => offered.to_vec(),
    };
    let prioritized = prioritize(&extenders, about, &ranked);
    Wanted { extenders, filtered, ranked, prioritized }
}

/// The differences, in words; empty if there are none.
pub fn differences(case: &Case, expected: &Expected, observed: &Observed) -> Vec<String> {
    let mut found = observed.complaints.clone();
    let wanted = expected.placed.iter().chain(&expected.crowded);
    let placed = observed.placed.iter().chain(&observed.crowded);
    for (number, (wanted, placed)) in wanted.zip(placed).enumerate() {
        if let (Some(wanted), Some(filtered)) = (&wanted.filtered, &placed.filtered) {
            let difference = filter_difference(case, &wanted.verdict, filtered);
            found.extend(difference.map(|difference| format!("pod {number}: {difference}")));
        }
        let list = Prioritized::List(wanted.prioritized.list.clone());
        if placed.prioritized != list {
            found.push(format!("pod {number}: prioritize: expected {list:?}, got {:?}", placed.prioritized));
        }
    }
    found.extend(preempt_difference(case, &expected.preempted.ending, &observed.preempted));
    found.extend(questions::problems(case, expected, observed));
    found
}

fn filter_difference(case: &Case, expected: &Verdict, observed: &Filtered) -> Option<String> {
    let same = match (expected, observed) {
        (
            Verdict::Decided { feasible, statuses },
            Filtered::Decided { feasible: left, statuses: reasons },
        ) => (feasible, statuses) == (left, reasons),
        (Verdict::Failed(position), Filtered::Failed(text)) => is_failure(case, (*position, "filter"), text),
        (Verdict::NotYetKnown(nodes), Filtered::Failed(text)) => is_not_yet_known(*nodes, text),
        _ => false,
    };
    (!same).then(|| format!("filter: expected {expected:?}, got {observed:?}"))
}

fn preempt_difference(case: &Case, expected: &Ending, observed: &Preempted) -> Option<String> {
    let same = match (expected, observed) {
        // In the reply candidates are a map: only their victims have an order.
        (Ending::Left(candidates), Preempted::Left(left)) => {
            let mut candidates = candidates.clone();
            candidates.sort_unstable();
            candidates == *left
        }
        (Ending::Failed(position), Preempted::Failed(text)) => is_failure(case, (*position, "preempt"), text),
        (Ending::NotYetKnown(nodes), Preempted::Failed(text)) => is_not_yet_known(*nodes, text),
        _ => false,
    };
    (!same).then(|| format!("preempt: expected {expected:?}, got {observed:?}"))
}

/// Whether a text reports that this backend failed this verb.
fn is_failure(case: &Case, (position, verb): (usize, &str), text: &str) -> bool {
    let name = &case.backends[position].extender.name;
    text.starts_with(&format!("extender-gateway: backend {name} failed {verb}: ")) && is_safe(text)
}

fn is_not_yet_known(nodes: usize, text: &str) -> bool {
    let nodes = if nodes == 1 { "1 node is".to_owned() } else { format!("{nodes} nodes are") };
    text == format!("extender-gateway: no node is left, and {nodes} not yet known to the gateway")
}

/// kube-scheduler uses the text as a format, and shows it as one line.
fn is_safe(text: &str) -> bool {
    !text.contains(['%', '\n'])
}

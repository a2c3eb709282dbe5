//! The answers in shadow that would have changed a decision, by what is done about them: backend, workload, reason and rule.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    dictionary::Texts,
    entry::{LogEntry, OutcomeEntry, PartEntry, RefusalEntry},
};
use crate::{api::DisagreementGroup, config::Mode, observe::timestamp, record::Agreement};

/// The most groups in a response.
const MAX_GROUPS: usize = 50;

/// Collects disagreements, the oldest call first.
pub(super) struct Disagreements<'e> {
    /// The calls by id: a shadow call has an entry of its own.
    calls: HashMap<&'e str, &'e LogEntry>,
    groups: HashMap<GroupKey, Group<'e>>,
}

#[derive(PartialEq, Eq, Hash)]
struct GroupKey {
    backend: String,
    verb: &'static str,
    workload: String,
    reason: Option<String>,
    rule: Option<String>,
}

#[derive(Default)]
struct Group<'e> {
    calls: u64,
    pods: HashSet<&'e str>,
    latest: Option<(&'e LogEntry, u64)>,
}

impl<'e> Disagreements<'e> {
    /// Those in these entries, of which none is added yet.
    pub(super) fn new(entries: &'e [Arc<LogEntry>]) -> Self {
        let calls = entries.iter().filter(|entry| !entry.shadow).map(|entry| (&*entry.id, &**entry));
        Self { calls: calls.collect(), groups: HashMap::new() }
    }

    /// Adds a part of an entry if it disagrees.
    pub(super) fn add(&mut self, entry: &'e LogEntry, part: &PartEntry, texts: &Texts) {
        if part.agreement != Some(Agreement::Disagrees) {
            return;
        }
        let refusal = main_refusal(part, self.calls.get(&*entry.id).copied());
        let text = |number| texts.at(number).to_owned();
        let key = GroupKey {
            backend: text(part.name),
            verb: part.verb.name(),
            workload: entry.pod.workload(),
            reason: refusal.map(|(refusal, _)| text(refusal.reason)),
            rule: refusal.and_then(|(refusal, _)| refusal.rule).map(text),
        };
        let group = self.groups.entry(key).or_default();
        group.calls += 1;
        group.pods.insert(&entry.pod.uid);
        group.latest = Some((entry, refusal.map_or(0, |(_, nodes)| nodes)));
    }

    /// The largest groups, the largest first.
    pub(super) fn groups(self) -> Vec<DisagreementGroup> {
        let Self { calls, groups } = self;
        let mut groups: Vec<_> =
            groups.into_iter().filter_map(|(key, group)| shown(key, &group, &calls)).collect();
        groups.sort_by_key(|group| (Reverse(group.calls), Reverse(group.time)));
        groups.truncate(MAX_GROUPS);
        groups
    }
}

fn shown(key: GroupKey, group: &Group<'_>, calls: &HashMap<&str, &LogEntry>) -> Option<DisagreementGroup> {
    let GroupKey { backend, verb, workload, reason, rule } = key;
    let (latest, nodes) = group.latest?;
    Some(DisagreementGroup {
        backend,
        verb: verb.to_owned(),
        workload,
        reason,
        rule,
        calls: group.calls,
        pods: group.pods.len() as u64,
        nodes,
        left: calls.get(&*latest.id).and_then(|call| call.left),
        time: timestamp(latest.time),
        id: latest.id.to_string(),
        namespace: latest.pod.namespace.clone(),
        pod: latest.pod.name.clone(),
    })
}

/// For filter: the refusal of most of the nodes that the decision left, and their number. It may also be about nodes that the
/// decision rejected, on which the two agree.
fn main_refusal<'p>(part: &'p PartEntry, call: Option<&LogEntry>) -> Option<(&'p RefusalEntry, u64)> {
    let enforced = call.into_iter().flat_map(|call| &call.parts).filter(|part| part.mode == Mode::Enforce);
    let rejected: HashSet<u32> =
        enforced.flat_map(refusals).flat_map(|refusal| refusal.nodes.iter()).collect();
    let counted = refusals(part).iter().map(|refusal| {
        let left = refusal.nodes.iter().filter(|node| !rejected.contains(node));
        (refusal, left.count() as u64)
    });
    counted.max_by_key(|(_, nodes)| *nodes)
}

fn refusals(part: &PartEntry) -> &[RefusalEntry] {
    match &part.outcome {
        OutcomeEntry::Filtered { refusals, .. } => refusals,
        _ => &[],
    }
}

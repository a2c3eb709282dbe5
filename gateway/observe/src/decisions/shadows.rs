//! What backends in shadow mode would have changed for the pods of the log. That one rejects some nodes is no news: what
//! counts is whether it rejects the node that the pod got, or all.

use std::collections::{BTreeMap, HashMap};

use extender_gateway_api::{ShadowEffect, ShadowGroup, ShadowStatus};
use extender_gateway_core::PolicyVerb;

use super::{
    DecisionLog,
    entry::{LogEntry, OutcomeEntry, PartEntry, RefusalEntry},
};

/// The most groups of a backend.
const MOST_GROUPS: usize = 100;

/// By what pods are grouped: the effect, the workload, the rule and the reason.
type GroupKey = (ShadowEffect, String, Option<String>, String);

impl DecisionLog {
    /// The effects of each backend by its latest answer about each pod. `node_of` knows the node of the pod with a UID.
    pub fn shadows(&self, node_of: impl Fn(&str) -> Option<String>) -> Vec<ShadowStatus> {
        let entries = self.in_order(|_| true);
        let calls: HashMap<&str, &LogEntry> =
            entries.iter().filter(|entry| !entry.shadow).map(|entry| (&*entry.id, &**entry)).collect();
        let mut latest: HashMap<(String, &str), (&LogEntry, &PartEntry)> = HashMap::new();
        for entry in entries.iter().filter(|entry| entry.shadow) {
            let texts = entry.texts_without_nodes();
            for part in entry.parts.iter().filter(|part| part.verb == PolicyVerb::Filter) {
                if matches!(part.outcome, OutcomeEntry::Filtered { .. }) {
                    latest.insert((texts.at(part.name).to_owned(), &entry.pod.uid), (entry, part));
                }
            }
        }
        let mut backends: BTreeMap<String, (ShadowStatus, BTreeMap<GroupKey, ShadowGroup>)> = BTreeMap::new();
        for ((name, uid), (entry, part)) in latest {
            let (status, groups) = backends.entry(name).or_default();
            status.pods += 1;
            let position = || calls.get(&*entry.id)?.position(&node_of(uid)?);
            let Some((effect, refusal)) = effect(entry, part, position) else { continue };
            match effect {
                ShadowEffect::Nowhere => status.nowhere += 1,
                ShadowEffect::Elsewhere => status.elsewhere += 1,
            }
            let group = group(entry, effect, refusal);
            let key = (effect, group.workload.clone(), group.rule.clone(), group.reason.clone());
            groups.entry(key).or_insert(group).pods += 1;
        }
        let shown = |(backend, (status, groups)): (String, (ShadowStatus, BTreeMap<_, ShadowGroup>))| {
            let mut groups: Vec<ShadowGroup> = groups.into_values().collect();
            groups.sort_by_key(|group| std::cmp::Reverse(group.pods));
            groups.truncate(MOST_GROUPS);
            ShadowStatus { backend, groups, ..status }
        };
        backends.into_iter().map(shown).collect()
    }
}

/// What the answer would have changed, and the rejection because of which; `None`: nothing, as far as the position of the pod's
/// node is known.
fn effect<'e>(
    entry: &LogEntry,
    part: &'e PartEntry,
    position: impl FnOnce() -> Option<u32>,
) -> Option<(ShadowEffect, &'e RefusalEntry)> {
    let OutcomeEntry::Filtered { refusals, .. } = &part.outcome else { return None };
    let (asked, rejected) = part.filtered(entry.offered)?;
    let largest = refusals.iter().max_by_key(|refusal| refusal.nodes.count())?;
    if rejected >= asked {
        return Some((ShadowEffect::Nowhere, largest));
    }
    let position = position()?;
    let refusal = refusals.iter().find(|refusal| refusal.nodes.iter().any(|node| node == position))?;
    Some((ShadowEffect::Elsewhere, refusal))
}

/// The group of a pod, before pods are counted.
fn group(entry: &LogEntry, effect: ShadowEffect, refusal: &RefusalEntry) -> ShadowGroup {
    let texts = entry.texts_without_nodes();
    ShadowGroup {
        effect,
        workload: entry.pod.workload(),
        rule: refusal.rule.map(|rule| texts.at(rule).to_owned()),
        reason: texts.at(refusal.reason).to_owned(),
        pods: 0,
        namespace: entry.pod.namespace.clone(),
        pod: entry.pod.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use extender_gateway_core::Verb;
    use extender_gateway_record::{Agreement, PodRef};
    use prometheus_client::metrics::counter::Counter;

    use super::*;

    use crate::samples::{part, record, refused};

    /// A filter call for a pod of this owner with the nodes `a`, `b` and `c`, and the rejections of a backend in shadow.
    fn put(log: &DecisionLog, pod: &str, owner: &str, refusals: &[(&str, &[u32])]) {
        let mut call = record(pod, &["a", "b", "c"], Vec::new());
        call.id = format!("call-{pod}");
        call.pod = PodRef { owner: owner.to_owned(), ..call.pod };
        {
            let mut kept = log.kept.lock();
            let known = kept.pod(&call.pod);
            let entry = LogEntry::new(Verb::Filter, &call, None, known, kept.prepare_dictionary());
            kept.put(LogEntry { shadow: false, ..entry });
        }
        let backend = part("zones", refused(&[])).backend;
        let mut shadow = call.of_shadow(&backend, PolicyVerb::Filter, None);
        shadow.backends[0].outcome = refused(refusals);
        shadow.backends[0].agreement = Some(Agreement::Disagrees);
        log.put(Verb::Filter, &shadow, None);
    }

    #[tokio::test]
    async fn only_pods_that_would_be_elsewhere_or_nowhere_count() {
        let log = DecisionLog::new(1 << 20, Counter::default());
        let some: &[(&str, &[u32])] = &[("no disk", &[1]), ("full", &[2])];
        let all: &[(&str, &[u32])] = &[("full", &[0, 1, 2])];
        put(&log, "on-a", "ReplicaSet web", some);
        put(&log, "on-b", "ReplicaSet web", some);
        put(&log, "on-c", "ReplicaSet web", some);
        put(&log, "on-b-too", "ReplicaSet web", some);
        put(&log, "waits", "", some);
        put(&log, "on-a-of-all", "Job load", all);
        put(&log, "on-b-and-agreed", "Job load", &[]);
        let node_of = |uid: &str| {
            let node = uid.strip_prefix("uid-on-")?.get(..1)?;
            Some(node.to_owned())
        };
        let shadows = log.shadows(node_of);
        let [zones] = &shadows[..] else { panic!("{shadows:?}") };
        assert_eq!((zones.backend.as_str(), zones.pods, zones.elsewhere, zones.nowhere), ("zones", 7, 3, 1));
        let mut groups: Vec<_> = zones
            .groups
            .iter()
            .map(|group| (group.effect, group.workload.as_str(), group.reason.as_str(), group.pods))
            .collect();
        groups[1..].sort_unstable();
        assert_eq!(
            groups,
            [
                (ShadowEffect::Elsewhere, "ReplicaSet shop/web", "no disk", 2),
                (ShadowEffect::Nowhere, "Job shop/load", "full", 1),
                (ShadowEffect::Elsewhere, "ReplicaSet shop/web", "full", 1),
            ]
        );
        // A later answer counts instead of an earlier one.
        put(&log, "on-c", "ReplicaSet web", &[]);
        assert_eq!(log.shadows(node_of)[0].elsewhere, 2);
    }
}

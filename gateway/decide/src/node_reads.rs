//! On what of nodes rejections depend, for a caller that tries pods again when it changes.

use std::collections::BTreeSet;

use extender_gateway_contract::row::RowView;
use extender_gateway_core::{
    PolicyVerb,
    filter::{By, Group},
};
use extender_policy_api::v1beta1::{MapReads, NodePart};

use super::{Decider, ask::Participant};

/// The most keys that are named: a plugin remembers them for each pod that waits, and compares them in each changed node.
const MOST_KEYS: usize = 64;
/// What nodes have of whose changes kube-scheduler does not tell plugins: they may come with others, and may have come before.
const UNTOLD: [NodePart; 4] =
    [NodePart::Images, NodePart::SystemInfo, NodePart::Addresses, NodePart::ProviderId];

/// Parts of nodes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct NodeReads {
    /// Labels.
    pub labels: KeyReads,
    /// Annotations.
    pub annotations: KeyReads,
    /// `spec.taints` and `spec.unschedulable`.
    pub taints: bool,
    /// `status.conditions`.
    pub conditions: bool,
    /// `status.capacity` and `status.allocatable`.
    pub resources: bool,
}

/// Entries of a map.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct KeyReads {
    /// Those with these keys.
    pub keys: BTreeSet<String>,
    /// All.
    pub all: bool,
}

impl KeyReads {
    fn add(&mut self, reads: Option<&MapReads>) {
        self.keys.extend(reads.iter().flat_map(|reads| reads.keys.iter().cloned()));
        self.all |= reads.is_some_and(|reads| !reads.prefixes.is_empty()) || self.keys.len() > MOST_KEYS;
        if self.all {
            self.keys.clear();
        }
    }
}

impl NodeReads {
    /// `None` if the view has anything else.
    fn add(&mut self, view: &RowView) -> Option<()> {
        let reads = view.reads();
        let has = |part: NodePart| reads.parts.contains(&part.into());
        if reads.everything || UNTOLD.into_iter().any(has) {
            return None;
        }
        self.labels.add(reads.labels.as_ref());
        self.annotations.add(reads.annotations.as_ref());
        self.taints |= has(NodePart::Taints) || has(NodePart::Unschedulable);
        self.conditions |= has(NodePart::Conditions);
        self.resources |= has(NodePart::Capacity) || has(NodePart::Allocatable);
        Some(())
    }
}

impl Decider {
    /// What the filters behind these rejections read of nodes. `None` if they may depend on anything: a filter is not pure, or it has
    /// pods of other nodes counted, or reads what changes unseen, or a hook has changed what it was told, or the gateway itself rejects.
    pub(super) fn node_reads(
        &self,
        participants: &[Participant<'_>],
        rejections: &[Group],
    ) -> Option<NodeReads> {
        if !self.hooks.is_empty() || rejections.is_empty() {
            return None;
        }
        let mut all = NodeReads::default();
        for rejection in rejections {
            let By::Seat(seat) = rejection.by else { return None };
            let session = &participants[seat].ready.as_ref().ok()?.session;
            let plan = session.info.about_nodes(PolicyVerb::Filter).ok()?;
            if !plan.pure || !plan.pod.topology.is_empty() || !session.cache.is_trusted() {
                return None;
            }
            all.add(&plan.nodes.rows)?;
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use extender_policy_api::v1beta1 as api;

    use super::*;
    use extender_gateway_contract::api::ApiVersion;

    #[test]
    fn reads_of_several_backends_are_added() {
        let keys = |keys: &[&str], prefixes: &[&str]| {
            let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
            Some(MapReads { keys: owned(keys), prefixes: owned(prefixes) })
        };
        let view = |reads: &api::NodeReads| RowView::new(reads, ApiVersion::NEWEST);
        let mut reads = NodeReads::default();
        let labels = api::NodeReads { labels: keys(&["rack", "tier"], &[]), ..Default::default() };
        reads.add(&view(&labels)).unwrap();
        let parts = vec![NodePart::Unschedulable.into(), NodePart::Usage.into(), NodePart::Name.into()];
        reads
            .add(&view(&api::NodeReads { parts, labels: keys(&["rack"], &[]), ..Default::default() }))
            .unwrap();
        let expected = NodeReads {
            labels: KeyReads { keys: ["rack".to_owned(), "tier".to_owned()].into(), all: false },
            taints: true,
            ..NodeReads::default()
        };
        assert_eq!(reads, expected);
        reads
            .add(&view(&api::NodeReads { annotations: keys(&["a"], &["b/"]), ..Default::default() }))
            .unwrap();
        assert_eq!(reads.annotations, KeyReads { keys: BTreeSet::new(), all: true });
        let many: Vec<_> = (0..=MOST_KEYS).map(|at| format!("key-{at:02}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        reads.add(&view(&api::NodeReads { labels: keys(&many, &[]), ..Default::default() })).unwrap();
        assert_eq!(reads.labels, KeyReads { keys: BTreeSet::new(), all: true });
    }

    #[test]
    fn what_changes_unseen_may_change_at_any_event() {
        let untold = UNTOLD.map(|part| api::NodeReads { parts: vec![part.into()], ..Default::default() });
        let all = api::NodeReads { everything: true, ..Default::default() };
        for declared in untold.iter().chain([&all]) {
            let view = RowView::new(declared, ApiVersion::NEWEST);
            assert_eq!(NodeReads::default().add(&view), None, "{declared:?}");
        }
    }
}

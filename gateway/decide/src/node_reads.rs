//! On what of nodes rejections depend, for a caller that tries pods again when it changes.

use std::collections::BTreeSet;

use extender_gateway_contract::row::RowView;
use extender_gateway_core::{
    PolicyVerb,
    filter::{By, Group},
};
use extender_policy_api::v1beta1::{MapReads, NodePart};

use super::{Decider, ask::Participant};

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
        self.all |= reads.is_some_and(|reads| !reads.prefixes.is_empty());
    }
}

impl NodeReads {
    fn add(&mut self, view: &RowView) {
        let reads = view.reads();
        let has = |part: NodePart| reads.everything || reads.parts.contains(&part.into());
        self.labels.add(reads.labels.as_ref());
        self.labels.all |= reads.everything;
        self.annotations.add(reads.annotations.as_ref());
        self.taints |= has(NodePart::Taints) || has(NodePart::Unschedulable);
        self.conditions |= has(NodePart::Conditions);
        self.resources |= has(NodePart::Capacity) || has(NodePart::Allocatable);
    }
}

impl Decider {
    /// What the filters behind these rejections read of nodes. `None` if they may depend on anything: a filter is not pure, or it has
    /// pods of other nodes counted, or a hook has changed what it was told, or the gateway itself rejects.
    pub(super) fn node_reads(
        &self,
        participants: &[Participant<'_>],
        rejections: &[Group],
    ) -> Option<NodeReads> {
        if !self.hooks.is_empty() {
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
            all.add(&plan.nodes.rows);
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
        reads.add(&view(&labels));
        let parts = vec![NodePart::Unschedulable.into(), NodePart::Usage.into(), NodePart::Name.into()];
        reads.add(&view(&api::NodeReads { parts, labels: keys(&["rack"], &[]), ..Default::default() }));
        let expected = NodeReads {
            labels: KeyReads { keys: ["rack".to_owned(), "tier".to_owned()].into(), all: false },
            taints: true,
            ..NodeReads::default()
        };
        assert_eq!(reads, expected);
        reads.add(&view(&api::NodeReads { annotations: keys(&["a"], &["b/"]), ..Default::default() }));
        assert!(reads.annotations.all && !reads.labels.all);
        reads.add(&view(&api::NodeReads { everything: true, ..Default::default() }));
        assert!(reads.labels.all && reads.conditions && reads.resources);
    }
}

//! On what of nodes rejections depend, in the terms in which kube-scheduler tells plugins of changes.

use extender_gateway_contract::row::RowView;
use extender_policy_api::v1beta1::{MapReads, NodePart};

use super::v1alpha1::{KeyReads, NodeReads};

/// The most keys that are named: a plugin remembers them for each pod that waits, and compares them in each changed node.
const MOST_KEYS: usize = 64;
/// What nodes have of whose changes kube-scheduler does not tell plugins: they may come with others, and may have come before.
const UNTOLD: [NodePart; 4] =
    [NodePart::Images, NodePart::SystemInfo, NodePart::Addresses, NodePart::ProviderId];

/// What these views have. `None` if kube-scheduler does not tell of all of that.
pub(super) fn node_reads(views: &[RowView]) -> Option<NodeReads> {
    let mut all = NodeReads::default();
    for reads in views.iter().map(RowView::reads) {
        let has = |part: NodePart| reads.parts.contains(&part.into());
        if reads.everything || UNTOLD.into_iter().any(has) {
            return None;
        }
        add(&mut all.labels, reads.labels.as_ref());
        add(&mut all.annotations, reads.annotations.as_ref());
        all.taints |= has(NodePart::Taints) || has(NodePart::Unschedulable);
        all.conditions |= has(NodePart::Conditions);
        all.resources |= has(NodePart::Capacity) || has(NodePart::Allocatable);
    }
    Some(all)
}

fn add(all: &mut Option<KeyReads>, reads: Option<&MapReads>) {
    let Some(reads) = reads else { return };
    let all = all.get_or_insert_default();
    all.keys.extend(reads.keys.iter().cloned());
    all.keys.sort_unstable();
    all.keys.dedup();
    all.all |= !reads.prefixes.is_empty() || all.keys.len() > MOST_KEYS;
    if all.all {
        all.keys.clear();
    }
}

#[cfg(test)]
mod tests {
    use extender_gateway_contract::api::ApiVersion;
    use extender_policy_api::v1beta1 as api;

    use super::*;

    fn view(reads: &api::NodeReads) -> RowView {
        RowView::new(reads, ApiVersion::NEWEST)
    }

    fn keys(keys: &[&str], prefixes: &[&str]) -> MapReads {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        MapReads { keys: owned(keys), prefixes: owned(prefixes) }
    }

    #[test]
    fn reads_of_several_backends_are_added() {
        let parts = vec![NodePart::Unschedulable.into(), NodePart::Usage.into(), NodePart::Name.into()];
        let views = [
            api::NodeReads { labels: Some(keys(&["rack", "tier"], &[])), ..Default::default() },
            api::NodeReads { parts, labels: Some(keys(&["rack"], &[])), ..Default::default() },
        ];
        let labels = Some(KeyReads { keys: vec!["rack".to_owned(), "tier".to_owned()], all: false });
        let expected = NodeReads { labels, taints: true, ..NodeReads::default() };
        assert_eq!(node_reads(&views.map(|reads| view(&reads))), Some(expected));
    }

    #[test]
    fn prefixes_and_many_keys_are_all_keys() {
        let many: Vec<_> = (0..=MOST_KEYS).map(|at| format!("key-{at:02}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        let declared = |labels, annotations| api::NodeReads { labels, annotations, ..Default::default() };
        let views = [declared(Some(keys(&many, &[])), None), declared(None, Some(keys(&["a"], &["b/"])))];
        let all = Some(KeyReads { keys: Vec::new(), all: true });
        let expected = NodeReads { labels: all.clone(), annotations: all, ..NodeReads::default() };
        assert_eq!(node_reads(&views.map(|reads| view(&reads))), Some(expected));
        assert_eq!(
            node_reads(&[view(&declared(Some(keys(&many[1..], &[])), None))]).unwrap().labels.unwrap().keys,
            many[1..]
        );
    }

    #[test]
    fn what_changes_unseen_may_change_at_any_event() {
        let untold = UNTOLD.map(|part| api::NodeReads { parts: vec![part.into()], ..Default::default() });
        let all = api::NodeReads { everything: true, ..Default::default() };
        for declared in untold.iter().chain([&all]) {
            assert_eq!(node_reads(&[view(declared)]), None, "{declared:?}");
        }
    }
}

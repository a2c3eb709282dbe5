//! What holds of hooks add to the usage of nodes: the room that is held less what its users use there.

use std::{borrow::Cow, cell::LazyCell, sync::Arc};

use extender_gateway_contract::{
    change::{parts_of_node, with_holds_added},
    hook::{ChangedNodes, Changes},
};
use extender_gateway_wire::Request;
use extender_policy_api::v1beta1::NodeChange;

use super::pods::PodTable;

/// What holds of a call are about.
#[derive(Debug, Clone, Copy)]
pub struct Held<'c> {
    /// The call.
    pub request: &'c Request,
    /// `None` if pods are not watched: then usage is in no row.
    pub pods: Option<&'c PodTable>,
    /// The number of the change of pods as of which usage is.
    pub number: u64,
    /// The UID of the pod of the call if it is taken out of the rows: it uses nothing there.
    pub own: Option<&'c str>,
}

impl Held<'_> {
    /// Changes of the nodes at these positions, with what they hold there. What users use is looked up in one state.
    pub fn added<'n>(
        self,
        changes: impl Iterator<Item = (u32, &'n NodeChange)>,
    ) -> Vec<(u32, Cow<'n, NodeChange>)> {
        // Most changes hold nothing, and take no lock.
        let requests = LazyCell::new(|| self.pods.map(|pods| pods.requests(self.number)));
        let added = |(position, change)| {
            let used = |uid: &str| {
                let requests = requests.as_ref().filter(|_| self.own != Some(uid))?;
                requests(self.request.names.name(position), uid)
            };
            (position, with_holds_added(change, used))
        };
        changes.map(added).collect()
    }

    /// These changes with what they hold, for people. Positions are those in the call.
    #[must_use]
    pub fn in_words(self, changes: Changes) -> Changes {
        let (holding, mut nodes): (Vec<_>, Vec<_>) =
            changes.nodes.into_iter().partition(|changed| !changed.change.holds.is_empty());
        let places = holding
            .iter()
            .flat_map(|changed| changed.positions.iter().map(|position| (*position, &*changed.change)));
        let added =
            self.added(places).into_iter().filter(|(_, change)| parts_of_node(change).next().is_some());
        nodes.extend(added.map(|(position, change)| ChangedNodes {
            positions: vec![position],
            change: Arc::new(change.into_owned()),
        }));
        Changes { nodes, ..changes }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use extender_gateway_wire::Names;
    use extender_policy_api::v1beta1::{Hold, HoldUser, Resources};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_that_is_taken_out_of_a_row_is_taken_off_no_hold() {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "shop", "uid": "u"},
            "spec": {"nodeName": "a", "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]},
        });
        let json = Bytes::from(pod.to_string());
        let request = Request::about(json.clone(), Arc::new(Names::of(&["a"]))).unwrap();
        let pods = PodTable::new();
        pods.apply(&json).unwrap();
        let users = vec![HoldUser { uid: "u".to_owned(), at_most: None }];
        let resources = Some(Resources { milli_cpu: 4_000, pods: 1, ..Resources::default() });
        let change = NodeChange {
            positions: vec![0],
            holds: vec![Hold { resources, users }],
            ..NodeChange::default()
        };
        for (own, held) in [(None, 1_000), (Some("other"), 1_000), (Some("u"), 4_000)] {
            let of_call = Held { request: &request, pods: Some(&pods), number: u64::MAX, own };
            let [(0, added)] = &of_call.added([(0, &change)].into_iter())[..] else { panic!("one node") };
            let requested = added.add_usage.clone().and_then(|usage| usage.requested).unwrap();
            assert_eq!(requested.milli_cpu, held, "{own:?}");
        }
    }
}

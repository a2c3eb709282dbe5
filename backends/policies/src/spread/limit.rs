//! Refuses nodes in domains that have reached a limit, and nodes in no domain.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use extender_policy_sdk::{Domains, Node, Pod, PodsLike, Reason, Refusal, RejectionKind, Resources};

use super::topology::{Topology, staying};
use crate::resource::Resource;

/// The most pods in one domain, and the most that they may request there together.
#[derive(Debug)]
pub(super) struct Limit {
    pub(super) topology: Topology,
    pub(super) max_pods: Option<u32>,
    pub(super) max_requests: Vec<MaxRequest>,
    /// The reason for a node in no domain.
    pub(super) missing: Arc<str>,
}

/// The most of one resource.
#[derive(Debug)]
pub(super) struct MaxRequest {
    pub(super) resource: Resource,
    /// As in the args.
    pub(super) name: String,
    pub(super) given: i64,
    /// In the units of [`Resources`].
    pub(super) amount: i64,
}

/// A limit and the pod of a call. The verdict about a domain is found once, for its first node.
pub(super) struct LimitQuestion<'a> {
    limit: &'a Limit,
    domains: Domains<'a>,
    /// A pod that requests nothing of a resource is not limited by it.
    needs: Vec<Need<'a>>,
    /// By the value of the label.
    known: HashMap<&'a str, Option<Reason>>,
}

/// What the pod requests of a limited resource.
struct Need<'a> {
    most: &'a MaxRequest,
    amount: i64,
}

impl Limit {
    /// `None` if the limit does not concern the pod, which has nothing in common with others.
    pub(super) fn question<'a>(&'a self, pod: &Pod<'a>) -> Option<LimitQuestion<'a>> {
        let domains = self.topology.domains(pod)?;
        let need = |most: &'a MaxRequest| Need { most, amount: most.resource.amount(pod.requests()) };
        let needs = self.max_requests.iter().map(need).filter(|need| need.amount > 0).collect();
        Some(LimitQuestion { limit: self, domains, needs, known: HashMap::new() })
    }

    /// The count is a part of the reason: it tells a limit that is reached from one that was lowered. It changes only
    /// with the pods of the domain, and the gateway keeps the first reason of a node for a while.
    fn too_many(&self, value: &str, like: &PodsLike<'_>) -> Option<Reason> {
        let (pods, most) = (staying(like), self.max_pods?);
        if pods < most {
            return None;
        }
        let up_to = if like.counted().is_some() { "" } else { "up to " };
        let (domain, alike) = (self.topology.domain(value), self.topology.alike(pods));
        let allowed = if most == 1 { "is" } else { "are" };
        Some(format!("{domain} has {up_to}{pods} {alike}; at most {most} {allowed} allowed").into())
    }
}

impl<'a> LimitQuestion<'a> {
    /// Why the pod may not run on this node, if it may not. As with `PodTopologySpread`, evicting pods could help, but
    /// gives no node a label.
    pub(super) fn refusal(&mut self, node: &Node<'a>) -> Option<Refusal> {
        let Some(value) = self.limit.topology.domain_of(node) else {
            let reason = Arc::clone(&self.limit.missing).into();
            return Some(Refusal {
                reason,
                kind: RejectionKind::Unresolvable,
                rule: None,
                retry_after: None,
            });
        };
        let reason = match self.known.entry(value) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let like = self.domains.of(node)?;
                place.insert(
                    self.limit
                        .too_many(value, &like)
                        .or_else(|| too_much(self.limit, &self.needs, value, &like)),
                )
            }
        };
        reason.clone().map(|reason| Refusal {
            reason,
            kind: RejectionKind::Unschedulable,
            rule: None,
            retry_after: None,
        })
    }
}

/// The reason if the pods of the domain would request too much with the pod. Without the sum, which changes with every
/// pod. Pods that are being deleted still hold what they
/// request.
fn too_much(limit: &Limit, needs: &[Need<'_>], value: &str, like: &PodsLike<'_>) -> Option<Reason> {
    if needs.is_empty() {
        return None;
    }
    let requested = like.counted().map(|count| count.requested());
    let MaxRequest { name, given, .. } = needs.iter().find(|need| need.exceeds(requested.as_ref()))?.most;
    let (domain, alike) = (limit.topology.domain(value), limit.topology.alike(0));
    Some(format!("{alike} may request at most {given} {name} in {domain}").into())
}

impl Need<'_> {
    /// Whether the limit is exceeded if this much is requested already. What is not known could be too much.
    fn exceeds(&self, requested: Option<&Resources>) -> bool {
        let requested = requested.map_or(i64::MAX, |requested| self.most.resource.amount(requested));
        requested.saturating_add(self.amount) > self.most.amount
    }
}

//! Preemption as a policy sees it: the candidates and its answers.

use extender_policy_api::v1alpha1 as api;

use crate::{Node, Pod, reads::access::Access};

/// The evictions that would make room for the pod on one node.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    node: Node<'a>,
    evictions: &'a api::Candidate,
    /// To the pods of the victims.
    access: Access<'a>,
}

impl<'a> Candidate<'a> {
    pub(crate) fn new(node: Node<'a>, evictions: &'a api::Candidate, access: Access<'a>) -> Self {
        Self { node, evictions, access }
    }

    /// The node.
    pub fn node(&self) -> Node<'a> {
        self.node
    }

    /// The pods that would be evicted, in kube-scheduler's order: the most important pod first. At least one.
    pub fn victims(&self) -> impl ExactSizeIterator<Item = Victim<'a>> + use<'a> {
        let access = self.access;
        self.evictions.victims.iter().map(move |victim| Victim { victim, access })
    }

    /// How many of the evictions would violate a `PodDisruptionBudget`.
    pub fn pdb_violations(&self) -> u32 {
        self.evictions.pdb_violations
    }
}

/// A pod that would be evicted.
#[derive(Clone, Copy, Debug)]
pub struct Victim<'a> {
    victim: &'a api::Victim,
    access: Access<'a>,
}

impl<'a> Victim<'a> {
    /// metadata.uid.
    pub fn uid(&self) -> &'a str {
        &self.victim.uid
    }

    /// The pod; `None` if only its UID is known: kube-scheduler sends no more with `nodeCacheCapable: true`, and
    /// the gateway watches no pods, or has not seen this one yet.
    pub fn pod(&self) -> Option<Pod<'a>> {
        self.victim.pod.as_deref().and_then(|pod| Pod::with_access(pod, self.access))
    }
}

/// A policy's answer about one candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Evict the victims as they are, if this node is taken.
    All,
    /// Evict these, by their positions among the victims, each once. Nothing checks afterwards whether the pod fits when
    /// the others stay. None of them contradicts itself, as a node that needs no eviction is no candidate: a failure if
    /// the operator's failure policy is Fail, and as [`Eviction::Spare`] if it is Ignore.
    Only(Vec<u32>),
    /// Evict no pod here: the node is no longer a candidate.
    Spare,
}

impl Eviction {
    /// Evicts the victims for which `evict` returns true; [`Eviction::Spare`] if there are none.
    pub fn of(candidate: &Candidate<'_>, evict: impl Fn(Victim<'_>) -> bool) -> Self {
        let victims = (0..).zip(candidate.victims()).filter(|(_, victim)| evict(*victim));
        let positions: Vec<u32> = victims.map(|(position, _)| position).collect();
        match positions.len() {
            0 => Self::Spare,
            all if all == candidate.victims().len() => Self::All,
            _ => Self::Only(positions),
        }
    }
}

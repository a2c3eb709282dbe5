//! Preemption as a policy sees it: the candidates and its answers.

use extender_policy_api::v1beta1 as api;

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
    #[doc(hidden)]
    pub fn new(node: Node<'a>, evictions: &'a api::Candidate, access: Access<'a>) -> Self {
        Self { node, evictions, access }
    }

    /// The node.
    pub fn node(&self) -> Node<'a> {
        self.node
    }

    /// The pods that would be evicted, in kube-scheduler's order: the most important pod first. None if the pod fits on
    /// the node without evictions for all but an extender: [`Eviction::All`] leaves the node to the next policy, and
    /// [`Eviction::Changed`] names victims.
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
        self.victim.pod.as_deref().and_then(|pod| Pod::new(pod, self.access))
    }
}

/// A policy's answer about one candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Evict the victims as they are, if this node is taken.
    All,
    /// Evict these, by their positions among the victims, each once. Nothing checks afterwards whether the pod fits when
    /// the others stay. None of them is a failure if the operator's failure policy is Fail, and as [`Eviction::Spare`] if
    /// it is Ignore, unless no victims were offered.
    Only(Vec<u32>),
    /// Evict other pods than those that were offered. A failure unless the operator's configuration has
    /// `preempt.addedVictims: Allowed` for this policy, and each added pod is on the node and has a lower priority.
    Changed {
        /// Those of the victims to evict, by position, each once.
        victims: Vec<u32>,
        /// `metadata.uid` of further pods to evict.
        added: Vec<String>,
        /// How many of all these evictions violate a `PodDisruptionBudget`: kube-scheduler prefers nodes with fewer.
        pdb_violations: u32,
    },
    /// Evict no pod here: the node is no longer a candidate.
    Spare,
}

impl Eviction {
    /// Evicts the victims for which `evict` returns true; [`Eviction::Spare`] if there are none of those that were
    /// offered.
    pub fn of(candidate: &Candidate<'_>, evict: impl Fn(Victim<'_>) -> bool) -> Self {
        let victims = (0..).zip(candidate.victims()).filter(|(_, victim)| evict(*victim));
        let positions: Vec<u32> = victims.map(|(position, _)| position).collect();
        match positions.len() {
            all if all == candidate.victims().len() => Self::All,
            0 => Self::Spare,
            _ => Self::Only(positions),
        }
    }
}

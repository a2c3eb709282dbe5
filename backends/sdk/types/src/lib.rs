//! What a policy declares, is asked and answers, and how the policy API encodes it: without gRPC and without a runtime.
//!
//! `extender-policy-sdk` serves a [`Policy`] and re-exports what its author needs; the modules are for that crate alone and
//! change with it.

mod args;
mod bind;
mod candidate;
mod change;
#[doc(hidden)]
pub mod digest;
pub mod info;
mod introspect;
pub mod node;
mod outcome;
pub mod pod;
mod policy;
pub mod reads;
#[doc(hidden)]
pub mod request;
#[doc(hidden)]
pub mod size;
#[doc(hidden)]
pub mod testing;
mod verdict;
#[doc(hidden)]
pub mod wire;

pub use extender_policy_api::v1beta1::{
    Container, HoldUser, HostPort, LabelSelector, NodeAddress, NodeAffinity, NodeImage, NodeSelector,
    NodeSelectorRequirement, NodeSelectorTerm, NodeUsage, NonZero, OwnerReference, PodAffinity,
    PodAffinityTerm, PreferredSchedulingTerm, ResourceClaim, Resources, SystemInfo, Taint, Toleration,
    TopologySpreadConstraint, Volume, WeightedPodAffinityTerm,
};

pub use self::{
    args::{Args, ArgsError},
    bind::{Bind, BindAsk, BindFailed, BoxFuture},
    candidate::{Candidate, Eviction, Victim},
    change::{ChangedPart, NodeChange, PodChange},
    info::{Info, NO_OPINION, Normalization, Scale, Verb, declaration::DeclarationError, hook::Hook},
    introspect::{IntrospectAsk, IntrospectError},
    node::{Node, Nodes, PodCount, PodsLike},
    outcome::{Outcome, OutcomeKind},
    pod::{Domains, Pod},
    policy::Policy,
    reads::{NodeKey, NodePart, NodePrefix, PodKey, PodPart, PodPrefix, PodsBy, PodsKey, Reads, TopologyKey},
    verdict::{CannotAnswer, NotReady, Reason, Refusal, RejectionKind, Unanswered, Verdict},
};

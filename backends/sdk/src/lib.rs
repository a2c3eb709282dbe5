//! Write a policy, call [`run`](run()), and it is a backend of the extender gateway.
//!
//! kube-scheduler calls the gateway about a pod, and the gateway calls every policy: which nodes may the pod not
//! run on, and how good are the others? A policy is a [`Policy`]: [`filter`](Policy::filter) and
//! [`score`](Policy::score) judge one pod on one node, and [`preempt`](Policy::preempt) decides which pods may be
//! evicted to make room. This crate does the rest: the gRPC service with health, the handshake,
//! positions, counts, revisions, args, limits, draining. A policy needs no gRPC and no Kubernetes client.
//!
//! ```
//! use extender_policy_sdk::{Info, Node, Pod, Policy, Reads, Verb, Verdict};
//!
//! const ARCH: &str = "kubernetes.io/arch";
//!
//! struct NoArm;
//!
//! impl Policy for NoArm {
//!     fn info(&self) -> Info {
//!         let mut reads = Reads::new();
//!         reads.node_label(ARCH);
//!         Info::new("no-arm", env!("CARGO_PKG_VERSION")).filters(Verb::per_node().pure().reads(&reads))
//!     }
//!
//!     fn filter(&self, _pod: &Pod, node: &Node) -> Verdict {
//!         match node.label(ARCH) {
//!             Some("arm64") => Verdict::reject("arm64 nodes are not in use yet").unresolvable(),
//!             _ => Verdict::Accept,
//!         }
//!     }
//! }
//! ```
//!
//! - [`Info`] declares a policy, in one place: its verbs and its [`Scale`].
//! - [`Reads`] declares what a verb reads of pods and nodes; nothing else is sent, and nothing by default.
//! - [`Node::pods_like`] counts the pods on a node that are like the pod, by what [`Reads::pods_by`] declares.
//! - [`Pod::pods_like`] counts those in the cluster by topology, as [`Reads::pods_by_topology`] declares.
//! - [`Policy::bind`] is for binders: it may wait for an apiserver.
//! - [`Pod`] and [`Node`] are borrowed views; nothing is copied for a node.
//! - [`Candidate`] is a node on which [`Victim`]s would be evicted, [`Eviction`] the policy's answer.
//! - [`Hook`] declares that a policy changes what the policies of a call are told, with [`PodChange`] and
//!   [`NodeChange`].
//! - [`Backend`] is for policies built from the operator's args or replaced while running.
//! - [`Policy::observe`] is told how attempts to place pods ended, for a policy that changes something outside.
//! - [`Policy::introspect`] shows operators the policy's state, at the paths that [`Info::shows`] declares.
//! - [`RunControllers`] is for controllers beside the server; the crate `extender-policy-controllers` has them elected.
//! - [`Telemetry`] sends spans of the calls that the gateway traces; [`trace`] lets a policy add to them.
//! - [`testing`] tries a policy on nodes without a server.
//!
//! # Traces
//!
//! Each call says whether it is traced (the W3C `traceparent` in its metadata). If it is, and the standard `OTEL_*`
//! variables name a collector, a span of the policy's work is sent there over OTLP as a part of the gateway's
//! trace. The span lasts from reading the request to the end of the answer and has the policy's name and revision,
//! the number of nodes that it evaluated and refused, and the result. Without the variables, and for calls that are
//! not traced, only one header is read. Invalid variables end the start with an error. Queued spans are sent within
//! 5 s after a stop signal. All of this needs the feature `otlp`.
//!
//! # Features
//!
//! None is on by default; together they are most of what a first build compiles: `tls` for certificates, which the Helm
//! chart configures by default, `otlp` for traces, and `reflection` for tools such as grpcurl.

mod answer;
mod backend;
mod calls;
mod codec;
mod controllers;
mod deadline;
mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod introspection;
mod metrics;
mod run;
mod serve;
mod service;
mod stopping;
mod table;
mod telemetry;
pub mod testing;
pub mod trace;
mod watching;

/// What README.md shows is compiled, and its score is tested.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[doc(no_inline)]
pub use extender_policy_types::{
    Container, HoldUser, HostPort, LabelSelector, NodeAddress, NodeAffinity, NodeImage, NodeSelector,
    NodeSelectorRequirement, NodeSelectorTerm, NodeUsage, NonZero, OwnerReference, PodAffinity,
    PodAffinityTerm, PreferredSchedulingTerm, ResourceClaim, Resources, SystemInfo, Taint, Toleration,
    TopologySpreadConstraint, Volume, WeightedPodAffinityTerm,
};

/// What [`Policy::introspect`] returns is of this version: `extender_policy_sdk::serde_json::json!`.
pub use serde_json;

pub use self::{
    backend::{Backend, Replace},
    controllers::{ControllersFailed, ControllersReport, RunControllers},
    run::{UsageError, run, serve_blocking},
    serve::{Bound, Options, ServeError, TlsError, TlsFiles, serve},
    telemetry::{Telemetry, TelemetryError},
};
#[doc(inline)]
pub use extender_policy_types::{
    Args, ArgsError, Bind, BindAsk, BindFailed, BoxFuture, Candidate, CannotAnswer, ChangedPart,
    DeclarationError, Domains, Eviction, Hook, Info, IntrospectAsk, IntrospectError, NO_OPINION, Node,
    NodeChange, NodeKey, NodePart, NodePrefix, Nodes, Normalization, NotReady, Outcome, OutcomeKind, Pod,
    PodChange, PodCount, PodKey, PodPart, PodPrefix, PodsBy, PodsKey, PodsLike, Policy, Reads, Reason,
    Refusal, RejectionKind, Scale, TopologyKey, Unanswered, Verb, Verdict, Victim,
};
use extender_policy_types::{
    digest, info, node, pod, reads, request,
    size::{self, MAX_MESSAGE_BYTES},
};

#[cfg(test)]
mod tests {
    use crate::{Info, Policy, Verb};

    /// Declares a verb, and nothing else.
    pub(crate) struct Filters;

    impl Policy for Filters {
        fn info(&self) -> Info {
            Info::new("filters", "1").filters(Verb::per_node())
        }
    }
}

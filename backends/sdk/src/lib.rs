//! Write a policy, call [`run`], and it is a backend of the extender gateway.
//!
//! kube-scheduler asks the gateway about a pod, the gateway asks every policy which nodes the pod may not
//! run on and how good the others are. A policy is a [`Policy`]: [`filter`](Policy::filter) and
//! [`score`](Policy::score) see one pod and one node and say what they think, and
//! [`preempt`](Policy::preempt) says who may be evicted to make room. Everything else is here: the
//! gRPC service with health and reflection, the handshake, positions, counts, revisions, args, limits,
//! draining. A policy knows no gRPC and no Kubernetes client.
//!
//! ```
//! use extender_policy_sdk::{Info, Node, Pod, Policy, Verb, Verdict};
//!
//! struct NoArm;
//!
//! impl Policy for NoArm {
//!     fn info(&self) -> Info {
//!         Info::new("no-arm", env!("CARGO_PKG_VERSION")).filters(Verb::per_node().pure())
//!     }
//!
//!     fn filter(&self, _pod: &Pod, node: &Node) -> Verdict {
//!         match node.label("kubernetes.io/arch") {
//!             Some("arm64") => Verdict::reject("arm64 nodes are not in use yet"),
//!             _ => Verdict::Accept,
//!         }
//!     }
//! }
//! ```
//!
//! - [`Info`] says what a policy is, in one place: verbs, what it wants to see of a node, its [`Scale`].
//! - [`Policy::bind`] is for binders: it may wait for an apiserver.
//! - [`Pod`] and [`Node`] are borrowed views; nothing is copied for a node.
//! - [`Candidate`] is a node on which [`Victim`]s would be evicted, [`Eviction`] what the policy says to it.
//! - [`Backend`] is for policies built from the operator's args or replaced while running.
//! - [`Telemetry`] sends spans of the calls that the gateway traces; [`trace`] lets a policy add to them.
//! - [`testing`] tries a policy on nodes without a server.
//!
//! # Traces
//!
//! The gateway says with each call whether it is traced (the W3C `traceparent` in the call's metadata). For those that
//! are, and where the standard `OTEL_*` variables name a collector, a span of the policy's work is sent there over OTLP,
//! from reading the request to the policy's last word, as a part of the gateway's trace: with the policy's name and
//! revision, how many nodes it evaluated and refused, and how it ended. Without the variables, and for calls that are
//! not traced, that is a look at one header. Variables that cannot be used end the start with a sentence. What waits
//! at a stop signal is sent within 5 s. The feature `otlp`, on by default, is what all of it needs.

mod answer;
mod args;
mod backend;
mod bind;
mod candidate;
mod codec;
mod deadline;
mod error;
mod info;
mod node;
mod pod;
mod policy;
mod request;
mod run;
mod serve;
mod service;
mod size;
mod table;
mod telemetry;
pub mod testing;
pub mod trace;
mod verdict;
mod wire;

pub use extender_policy_api::v1alpha1::{
    NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, NodeUsage, NonZero,
    OwnerReference, PreferredSchedulingTerm, Resources, Taint, Toleration, Volume,
};

pub(crate) use self::serve::MAX_MESSAGE_BYTES;
pub use self::{
    args::{Args, ArgsError},
    backend::{Backend, Replace},
    bind::{Bind, BindAsk, BindFailed, BoxFuture},
    candidate::{Candidate, Eviction, Victim},
    info::{Info, Normalization, Scale, Verb, View, declaration::DeclarationError},
    node::{Node, Nodes},
    pod::Pod,
    policy::Policy,
    run::{run, serve_blocking},
    serve::{Bound, Options, ServeError, serve},
    telemetry::{Telemetry, TelemetryError},
    verdict::{NotReady, Preemption, Reason, Refusal, Verdict},
};

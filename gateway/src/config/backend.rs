//! One backend as the operator configured it: who it is, which verbs it is asked for and how much it counts.

use std::time::Duration;

use bytes::Bytes;
use extender_gateway_core::interest::Interest;
pub use extender_gateway_core::{FailurePolicy, filter::Preemption};

use super::{BackendName, BackendTls, BackendUrl, Weight};

/// A policy backend. It is asked for the verbs whose settings are present, at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// Unlike the name of every other backend.
    pub name: BackendName,
    /// Where it is reached.
    pub url: BackendUrl,
    /// How its TLS is spoken; present exactly when the URL is `https`.
    pub tls: Option<BackendTls>,
    /// Whether its answers count. Default Enforce.
    pub mode: Mode,
    /// Whether answers of verbs that it declares pure are remembered. Default Remembered.
    pub pure_answers: PureAnswers,
    /// One compact JSON object with sorted keys, as it goes out in the handshake and with each call.
    pub args: Option<Bytes>,
    /// The pods that it is asked about. Default: all.
    pub interest: Interest,
    /// Which of the resources in `interest` kube-scheduler does not count itself.
    pub ignored_by_scheduler: Vec<String>,
    /// How it is asked which nodes the pod may run on. `None`: it is not.
    pub filter: Option<FilterSettings>,
    /// How it is asked how good nodes are. `None`: it is not.
    pub score: Option<ScoreSettings>,
    /// How it is asked who may be evicted. `None`: it is not.
    pub preempt: Option<PreemptSettings>,
    /// How it is asked to bind. `None`: it is not.
    pub bind: Option<BindSettings>,
}

/// Whether a backend's answers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Yes.
    Enforce,
    /// It is asked beside the decision and its answers are recorded, never merged.
    Shadow,
    /// It is not asked.
    Disabled,
}

/// What becomes of the answers of a pure verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PureAnswers {
    /// They stand for the next pod of which the same is told, on nodes that are as they were.
    Remembered,
    /// The backend is asked for each pod, as if the verb were not pure.
    AskedEachTime,
}

/// How a backend is asked to filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterSettings {
    /// At most the decision's timeout. Default 200 ms, or the decision's timeout if that is shorter.
    pub timeout: Duration,
    /// What a failure means. Default Fail.
    pub failure_policy: FailurePolicy,
    /// Whether the backend's word on preemption counts. Default Ignored.
    pub preemption_may_help: Preemption,
}

/// How a backend is asked to score, and how much its scores count. A failure is always ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoreSettings {
    /// At most the decision's timeout. Default 200 ms, or the decision's timeout if that is shorter.
    pub timeout: Duration,
    /// The factor of its normalised scores. Default 1.
    pub weight: Weight,
    /// How raw scores become 0 to 10. `None`: as the backend declares.
    pub normalize: Option<Normalize>,
    /// Whether the least raw score is the best; never true with [`Normalize::None`]. `None`: as the backend
    /// declares.
    pub reversed: Option<bool>,
}

/// How a backend is asked who may be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreemptSettings {
    /// At most the decision's timeout. Default 200 ms, or the decision's timeout if that is shorter.
    pub timeout: Duration,
    /// What a failure means. Default Fail.
    pub failure_policy: FailurePolicy,
    /// Whether it may name victims of its own. Default Refused.
    pub added_victims: AddedVictims,
}

/// Whether a backend may name pods to evict that kube-scheduler did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddedVictims {
    /// No: it is a failure.
    Refused,
    /// Yes, if each is on that node and of lower priority than the pod.
    Allowed,
}

/// How a backend is asked to bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindSettings {
    /// At most the timeout of a bind. Default 5 s, or the timeout of a bind if that is shorter.
    pub timeout: Duration,
    /// What a definite failure means. Default Fail.
    pub failure_policy: BindFailurePolicy,
}

/// What a definite failure to bind means. After an unclear one the apiserver decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindFailurePolicy {
    /// The bind fails: the pod is tried again with backoff.
    Fail,
    /// The next binder is asked.
    Next,
}

/// How raw scores become 0 to 10, over the nodes of one prioritize request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Normalize {
    /// As they are.
    None,
    /// From the range that the backend declares.
    Range,
    /// The largest of the request becomes 10.
    Max,
    /// The least of the request becomes 0, the largest 10.
    MinMax,
}

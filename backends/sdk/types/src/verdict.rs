//! A policy's verdict on one node, and why a call is not answered.

use std::{borrow::Cow, sync::Arc, time::Duration};

use crate::BindFailed;

/// May the pod run on the node?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Yes, as far as this policy is concerned.
    Accept,
    /// No.
    Reject(Refusal),
}

/// Why a node is refused, and what could change that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For people: it appears in the pod's `PodScheduled` condition.
    pub reason: Reason,
    /// Whether evicting pods could help.
    pub kind: RejectionKind,
    /// The policy's rule that refuses, for people who look for the cause: `explain` and the gateway's decision log show
    /// it, the pod's condition does not. At most 63 bytes are sent.
    pub rule: Option<Reason>,
    /// In how much time from now the verdict can be another one at the earliest, if nothing but time passes: until a
    /// maintenance ends, for instance. A hint for people, which `explain` and the gateway's decision log show; sent in whole
    /// seconds, rounded up. From a cached answer of a pure verb it is as old as that answer. `None` if it is not known.
    pub retry_after: Option<Duration>,
}

/// What a refusal means for preemption: the two codes of kube-scheduler's plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RejectionKind {
    /// `Unschedulable`: without some of the pods on the node the verdict could be another one. kube-scheduler may evict
    /// pods there, if the operator allows that.
    Unschedulable,
    /// `UnschedulableAndUnresolvable`: no eviction on the node would help, as with every property of the node, such as its
    /// labels. kube-scheduler does not try any.
    Unresolvable,
}

impl Verdict {
    /// Refuses the node. Evicting pods from it could change that, unless it is [`unresolvable`](Self::unresolvable).
    ///
    /// The reason must depend on the verdict alone. A text that differs from one attempt to the next (a time, a
    /// free amount) makes kube-scheduler retry the pod without end. An empty reason becomes "rejected".
    pub fn reject(reason: impl Into<Reason>) -> Self {
        Self::Reject(Refusal {
            reason: reason.into(),
            kind: RejectionKind::Unschedulable,
            rule: None,
            retry_after: None,
        })
    }

    /// Names the rule of the policy that refuses, as its author or operator calls it. An accepted node stays accepted.
    ///
    /// ```
    /// use extender_policy_sdk::Verdict;
    ///
    /// let verdict = Verdict::reject("node is in no rack").by_rule("racks only");
    /// # assert!(matches!(verdict, Verdict::Reject(refusal) if refusal.rule == Some("racks only".into())));
    /// ```
    #[must_use]
    pub fn by_rule(self, name: impl Into<Reason>) -> Self {
        match self {
            Self::Accept => Self::Accept,
            Self::Reject(refusal) => Self::Reject(Refusal { rule: Some(name.into()), ..refusal }),
        }
    }

    /// Says in how much time from now the verdict can be another one at the earliest, as [`Refusal::retry_after`] explains. An
    /// accepted node stays accepted.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use extender_policy_sdk::Verdict;
    ///
    /// let hour = Duration::from_secs(3_600);
    /// let verdict = Verdict::reject("zone is in maintenance").unresolvable().retry_after(hour);
    /// # assert!(matches!(verdict, Verdict::Reject(refusal) if refusal.retry_after == Some(hour)));
    /// ```
    #[must_use]
    pub fn retry_after(self, time: Duration) -> Self {
        match self {
            Self::Accept => Self::Accept,
            Self::Reject(refusal) => Self::Reject(Refusal { retry_after: Some(time), ..refusal }),
        }
    }

    /// Declares that no eviction of pods from this node would change the verdict, so that kube-scheduler tries none: for
    /// whatever does not depend on the pods on the node, such as its labels. An accepted node stays accepted.
    #[must_use]
    pub fn unresolvable(self) -> Self {
        match self {
            Self::Accept => Self::Accept,
            Self::Reject(refusal) => Self::Reject(Refusal { kind: RejectionKind::Unresolvable, ..refusal }),
        }
    }
}

/// The text of a refusal. Constant texts cost nothing per node; texts made at run time (from a rule file) are best
/// kept as `Arc<str>`, so that refusing a thousand nodes copies no text.
#[derive(Clone, Debug)]
pub enum Reason {
    /// A text of the program.
    Constant(&'static str),
    /// A text made at run time.
    Shared(Arc<str>),
}

impl Reason {
    /// The text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Constant(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl PartialEq for Reason {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Reason {}

impl From<&'static str> for Reason {
    fn from(text: &'static str) -> Self {
        Self::Constant(text)
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self::Shared(text.into())
    }
}

impl From<Arc<str>> for Reason {
    fn from(text: Arc<str>) -> Self {
        Self::Shared(text)
    }
}

impl From<Cow<'static, str>> for Reason {
    fn from(text: Cow<'static, str>) -> Self {
        match text {
            Cow::Borrowed(text) => text.into(),
            Cow::Owned(text) => text.into(),
        }
    }
}

/// Why the policy cannot decide now, whichever pod it is asked about: one sentence for operators. The call fails with
/// UNAVAILABLE, and the policy is called again for the next pod.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotReady(pub String);

/// Why the policy cannot answer about this pod, although it can about others: one sentence for operators. The call fails
/// with ABORTED, which says nothing about the calls about other pods, however long it took.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CannotAnswer(pub String);

/// Why a call is not answered. In each case the failure policy that the operator chose decides; made from one of the three
/// by `?` or `into`.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Unanswered {
    /// The policy cannot decide now.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// It cannot answer about this pod.
    #[error(transparent)]
    CannotAnswer(#[from] CannotAnswer),
    /// The pod could not be bound, or it is not known whether it was. For bind alone.
    #[error(transparent)]
    BindFailed(#[from] BindFailed),
}

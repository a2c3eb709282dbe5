//! The failure of a call to a backend.

use std::fmt;

use crate::reason;

/// The operator's choice for a backend's failure in a verb that can end the call.
///
/// Mirrors `ignorable` of kube-scheduler's `Extender` configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The call fails: kube-scheduler retries the pod with backoff (`ignorable: false`).
    Fail,
    /// The backend is ignored in this decision (`ignorable: true`).
    Ignore,
}

/// The kind of a failure, for metrics and people; the decision is the same for all kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// No connection: refused, unresolved name, unreachable, not yet attempted.
    Unreachable,
    /// No complete response within the call's timeout.
    Late,
    /// The connection or the stream ended before the response was complete.
    Reset,
    /// The request is larger than the backend accepts, or the response larger than the gateway accepts.
    Oversize,
    /// A gRPC status other than OK.
    Status,
    /// A response that violates the API: not protobuf, wrong count, a position out of range.
    Malformed,
    /// According to its handshake, the backend does not serve what the configuration requires.
    Unsuitable,
    /// Not called: too many consecutive calls had no usable response.
    CircuitOpen,
    /// Not called: it has as many calls as it answers in time.
    Overloaded,
    /// A binder that has certainly not bound the pod, and says so.
    NotBound,
    /// A bug of the gateway, hit while it read the backend's response.
    Internal,
}

impl FailureKind {
    /// The kind as a metric label and in log lines: lower-case words joined by `_`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Late => "late",
            Self::Reset => "reset",
            Self::Oversize => "oversize",
            Self::Status => "status",
            Self::Malformed => "malformed",
            Self::Unsuitable => "unsuitable",
            Self::CircuitOpen => "circuit_open",
            Self::Overloaded => "overloaded",
            Self::NotBound => "not_bound",
            Self::Internal => "internal",
        }
    }
}

/// A call to a backend without a usable response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendFailure {
    /// The kind.
    pub kind: FailureKind,
    /// A short description for people, without the backend's name.
    pub detail: String,
}

impl BackendFailure {
    /// A failure of this kind. The text may come from a backend: it is reduced to one short line.
    pub fn new(kind: FailureKind, detail: impl AsRef<str>) -> Self {
        const LONGEST: usize = 300;
        Self { kind, detail: reason::one_line(detail.as_ref(), LONGEST) }
    }
}

impl From<&Self> for BackendFailure {
    fn from(failure: &Self) -> Self {
        failure.clone()
    }
}

impl fmt::Display for BackendFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for BackendFailure {}

//! What goes wrong with a call to a backend, as one type.

use std::fmt;

use crate::reason;

/// What the operator wants when a backend fails a verb that can end the call.
///
/// Mirrors `ignorable` of kube-scheduler's `Extender` configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The call fails: the pod is tried again with backoff (`ignorable: false`).
    Fail,
    /// The backend is left out of this decision (`ignorable: true`).
    Ignore,
}

/// In which way a call to a backend failed. The kind is for counting and for people; the decision is the
/// same for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// No connection: refused, unresolved name, unreachable, not yet tried.
    Unreachable,
    /// No complete answer in the time that the call had.
    Late,
    /// The connection or the stream ended before the answer was complete.
    Reset,
    /// The request is larger than the backend accepts, or the answer larger than the gateway does.
    Oversize,
    /// A gRPC status other than OK.
    Status,
    /// An answer that breaks the contract: not protobuf, wrong count, a position out of range.
    Malformed,
    /// The backend does not serve what the configuration asks of it, as its handshake says.
    Unsuitable,
    /// The backend was not asked: it had left too many calls in a row unanswered.
    CircuitOpen,
    /// A bug of the gateway, met while it read what the backend had sent.
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
            Self::Internal => "internal",
        }
    }
}

/// A call to a backend that brought no usable answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendFailure {
    /// In which way.
    pub kind: FailureKind,
    /// What happened, for people, in a few words and without the backend's name.
    pub detail: String,
}

impl BackendFailure {
    /// A failure of this kind. The text may hold what a backend said: it is made one short line.
    pub fn new(kind: FailureKind, detail: impl AsRef<str>) -> Self {
        const LONGEST: usize = 300;
        Self { kind, detail: reason::one_line(detail.as_ref(), LONGEST) }
    }
}

impl fmt::Display for BackendFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for BackendFailure {}

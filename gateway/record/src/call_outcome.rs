//! How calls end.

/// How a call has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallOutcome {
    /// It has a decision.
    Ok,
    /// The caller disconnected before the response.
    Gone,
    /// The path has no verb.
    Path,
    /// The method is not POST.
    Method,
    /// It is a request of a web page.
    Browser,
    /// The body is larger than what is accepted.
    TooLarge,
    /// There are more calls than the gateway can take.
    Overload,
    /// The decision panicked.
    Panic,
    /// The body cannot be parsed.
    Request,
    /// A backend failed whose failure policy is Fail.
    Backend,
    /// No node is left, and some were rejected because they are not yet known.
    UnknownNodes,
    /// The pod was rejected on all nodes too often in a short time.
    Repeated,
    /// The pod no longer fits the node that it should be bound to.
    NoLongerFits,
    /// The gateway is not configured to bind.
    NoBinder,
    /// The apiserver did not tell whether the pod is bound.
    Apiserver,
    /// The pod cannot be bound: it is gone, another one, or bound elsewhere.
    Pod,
}

impl CallOutcome {
    /// The label in metrics, logs, traces and the decision log: one lower-case word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Gone => "gone",
            Self::Path => "path",
            Self::Method => "method",
            Self::Browser => "browser",
            Self::TooLarge => "too_large",
            Self::Overload => "overload",
            Self::Panic => "panic",
            Self::Request => "request",
            Self::Backend => "backend",
            Self::UnknownNodes => "unknown_nodes",
            Self::Repeated => "repeated",
            Self::NoLongerFits => "no_longer_fits",
            Self::NoBinder => "no_binder",
            Self::Apiserver => "apiserver",
            Self::Pod => "pod",
        }
    }
}

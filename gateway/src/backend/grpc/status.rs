//! How calls end that have no answer: gRPC statuses, and which failures they are.

use std::fmt;

use extender_gateway_core::{BackendFailure, FailureKind, reason};
use extender_otlp::grpc::name;
use http::HeaderMap;
use tonic::{Code, Status};

use super::reset;

/// How a call ended that has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// With a gRPC status other than OK.
    Status(Code, BackendFailure),
    /// Without a status: the connection was lost, it took too long, or what came was not gRPC.
    Otherwise(BackendFailure),
}

impl Ended {
    /// Whether the backend does not serve what was called.
    pub fn is_unimplemented(&self) -> bool {
        matches!(self, Self::Status(Code::Unimplemented, _))
    }

    /// Whether the backend does not take what it was told.
    pub fn is_invalid_argument(&self) -> bool {
        matches!(self, Self::Status(Code::InvalidArgument, _))
    }

    /// The status as the gRPC specification names it: the one that was answered, or the one that stands for what
    /// happened instead of an answer.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Status(code, _) => name(*code),
            Self::Otherwise(failure) => name(match failure.kind {
                FailureKind::Unreachable | FailureKind::Reset => Code::Unavailable,
                FailureKind::Late => Code::DeadlineExceeded,
                FailureKind::Oversize => Code::ResourceExhausted,
                FailureKind::Status => Code::Unknown,
                FailureKind::Malformed => Code::Internal,
                FailureKind::Unsuitable => Code::Unimplemented,
            }),
        }
    }

    /// The same, said of what it was about.
    #[must_use]
    pub fn about(self, what: &str) -> Self {
        let about = |failure: BackendFailure| {
            BackendFailure::new(failure.kind, format!("{what}: {}", failure.detail))
        };
        match self {
            Self::Status(code, failure) => Self::Status(code, about(failure)),
            Self::Otherwise(failure) => Self::Otherwise(about(failure)),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Status(_, failure) | Self::Otherwise(failure)) = self;
        failure.fmt(f)
    }
}

impl From<BackendFailure> for Ended {
    fn from(failure: BackendFailure) -> Self {
        Self::Otherwise(failure)
    }
}

impl From<Ended> for BackendFailure {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Status(_, failure) | Ended::Otherwise(failure) => failure,
        }
    }
}

/// Nothing, where these headers or trailers end a call with OK.
pub(super) fn ok(headers: &HeaderMap) -> Result<(), Ended> {
    let Some(status) = Status::from_header_map(headers) else {
        return Err(reset("the answer ended without a gRPC status").into());
    };
    let kind = match status.code() {
        Code::Ok => return Ok(()),
        Code::DeadlineExceeded => FailureKind::Late,
        Code::ResourceExhausted if says_too_large(status.message()) => FailureKind::Oversize,
        _ => FailureKind::Status,
    };
    Err(Ended::Status(status.code(), BackendFailure::new(kind, said(&status))))
}

/// How gRPC libraries word that a message is over their limit.
fn says_too_large(message: &str) -> bool {
    ["too large", "larger than max"].iter().any(|words| message.contains(words))
}

/// A status as `CODE: message`, on one line and not endless: it may reach a pod's condition.
fn said(status: &Status) -> String {
    let message = reason::one_line(status.message(), reason::LONGEST);
    if message.is_empty() {
        name(status.code()).to_owned()
    } else {
        format!("{}: {message}", name(status.code()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_becomes_a_failure_of_its_kind() {
        for (status, kind, detail) in [
            (Status::unavailable("not\nnow, 5%"), FailureKind::Status, "UNAVAILABLE: not now, 5 percent"),
            (Status::deadline_exceeded(""), FailureKind::Late, "DEADLINE_EXCEEDED"),
            (Status::unimplemented(""), FailureKind::Status, "UNIMPLEMENTED"),
        ] {
            let mut headers = HeaderMap::new();
            status.add_header(&mut headers).unwrap();
            let ended = Ended::Status(status.code(), BackendFailure::new(kind, detail));
            assert_eq!(ok(&headers), Err(ended.clone()));
            assert_eq!(
                (ended.to_string(), BackendFailure::from(ended).detail),
                (detail.into(), detail.into())
            );
        }
        let none = BackendFailure::from(ok(&HeaderMap::new()).unwrap_err());
        assert_eq!(none.kind, FailureKind::Reset);
    }

    #[test]
    fn unimplemented_is_told_by_its_code_alone() {
        let detail = BackendFailure::new(FailureKind::Status, "UNIMPLEMENTED: says the text");
        assert!(Ended::Status(Code::Unimplemented, detail.clone()).is_unimplemented());
        assert!(!Ended::Status(Code::Internal, detail.clone()).is_unimplemented());
        assert!(!Ended::Otherwise(detail).is_unimplemented());
    }
}

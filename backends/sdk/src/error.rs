//! The errors of a call and their status codes: the contract's error table.

use std::any::Any;

use extender_policy_api::{limits::STATUS_MESSAGE_BYTES, v1beta1::ErrorReason};
use prost::DecodeError;
use tonic::{Code, Status, metadata::MetadataValue};

use crate::{
    ArgsError, BindFailed, CannotAnswer, DeclarationError, IntrospectError, NotReady, Unanswered,
    backend::Exposed,
    node::row::Unreadable,
    reads::access,
    reads::values::{Mismatch, RowMismatch, TopologyMismatch},
    size::Refused,
};

/// Why a call is not answered.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Refused(Refused),
    #[error("the message cannot be decoded: {0}")]
    Undecodable(DecodeError),
    #[error("{0} is missing; every request has it")]
    Missing(&'static str),
    #[error("{0} is that of another pod than the one to bind")]
    OtherPod(&'static str),
    #[error("call.purpose is missing")]
    NoPurpose,
    #[error(
        "outcomes[{position}].{field} is missing; every outcome has call, namespace, name, uid and kind, and that of a pod that is \
         bound has node"
    )]
    Outcome { position: usize, field: &'static str },
    #[error("this policy does not observe outcomes; its GetInfo does not list the service")]
    NotObserved,
    #[error(
        "nodes.count is {count} and there are {rows} rows; both count the nodes of the request, at least 1"
    )]
    Count { count: u32, rows: usize },
    #[error("nodes.table.ids has {zeros} zeros and there are {rows} rows; each zero stands for a row")]
    Zeros { zeros: usize, rows: usize },
    #[error("nodes.{form}.rows[{position}].{field} is missing; this policy declares that it reads it")]
    Row { form: &'static str, position: usize, field: &'static str },
    #[error("nodes.{form}.rows[{position}].{source}")]
    RowValues { form: &'static str, position: usize, source: RowMismatch },
    #[error("pod.facts.{0}")]
    PodValues(Mismatch),
    #[error("pod.topology_counts{0}")]
    TopologyCounts(TopologyMismatch),
    #[error("candidates[{candidate}].victims[{victim}].pod.facts.{source}")]
    VictimValues { candidate: usize, victim: usize, source: Mismatch },
    #[error("call.reads is not the SHA-256 of what this policy now declares to read; repeat the handshake")]
    OtherReads,
    #[error("nodes.{form}.rows[{position}] is not a NodeRow: {source}")]
    Broken { form: &'static str, position: usize, source: Unreadable },
    #[error("nodes.count is {count} and there are {candidates} candidates; each node has one")]
    Candidates { count: u32, candidates: usize },
    #[error("candidates[{0}] has no victims and is no placeholder; expected one of them")]
    NoVictims(usize),
    #[error(transparent)]
    Args(#[from] ArgsError),
    #[error("the args of this call are not known here; send them")]
    ArgsUnknown,
    #[error("call.args_sha256 {0}")]
    ArgsSha256(&'static str),
    #[error("hook is {0}; expected VERB_BEFORE_FILTER, VERB_BEFORE_FILTER_NODES or VERB_BEFORE_SCORE")]
    NoHook(i32),
    #[error("nodes is set; VERB_BEFORE_FILTER is about the pod alone")]
    NodesOfPodHook,
    #[error("this policy has side effects and only answers PURPOSE_DECIDE")]
    OnlyDecides,
    #[error("this policy does not serve {0}; its GetInfo does not list it")]
    NotServed(&'static str),
    #[error("{0}")]
    NotReady(String),
    #[error(transparent)]
    CannotAnswer(#[from] CannotAnswer),
    #[error(transparent)]
    NotBound(#[from] BindFailed),
    #[error("{method} returned {given} answers for {asked} nodes; expected one per node")]
    WrongCount { method: &'static str, given: usize, asked: usize },
    #[error(
        "preempt returned victims {victims:?} for position {position}, which has {there}; expected each at most once"
    )]
    WrongVictims { position: u32, victims: Vec<u32>, there: usize },
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    #[error("this policy does not show the path {0:?}; its GetInfo lists those it shows")]
    NoPath(String),
    #[error("parameters has no {name:?}; a request for {path:?} has each parameter of the path")]
    NoParameter { path: String, name: String },
    #[error(transparent)]
    NotShown(#[from] IntrospectError),
    #[error("failed to show {0}; the backend's log says why")]
    ShowFailed(String),
    #[error("more is to be shown than this backend has time for; ask again later")]
    ManyShown,
    #[error(
        "the policy shows {bytes} bytes of JSON at {path:?}; at most 4 MiB are allowed, show less or add a parameter"
    )]
    LargeJson { path: String, bytes: usize },
    #[error("this backend is shutting down: {0}")]
    Stopping(String),
    #[error(transparent)]
    Exposed(#[from] Exposed),
    #[error("{} failed: {text}", in_sentence(.method))]
    Undeclared { method: &'static str, text: String },
    /// In a call of this method of the contract. The text of the panic is in the policy's log alone: it may hold anything,
    /// and this one reaches people outside.
    #[error("{} failed; see the policy's log", in_sentence(.0))]
    Panicked(&'static str),
    /// What the policy API forbids a policy to answer: in tests alone, because a gateway copes with it.
    #[error("{0}")]
    Forbidden(String),
}

/// A method of the contract as texts name it, such as beforeFilter.
pub(crate) fn in_sentence(method: &str) -> String {
    method[..1].to_ascii_lowercase() + &method[1..]
}

impl CallError {
    /// From the payload that `catch_unwind` returned.
    pub(crate) fn panicked(method: &'static str, panic: &(dyn Any + Send)) -> Self {
        match access::misuse(panic) {
            Some(text) => Self::Undeclared { method, text },
            None => Self::Panicked(method),
        }
    }

    fn code(&self) -> Code {
        match self {
            Self::Refused(Refused::TooLarge { .. }) | Self::LargeJson { .. } => Code::ResourceExhausted,
            Self::Refused(_)
            | Self::Undecodable(_)
            | Self::Missing(_)
            | Self::OtherPod(_)
            | Self::NoPurpose
            | Self::Outcome { .. }
            | Self::Count { .. }
            | Self::Zeros { .. }
            | Self::Row { .. }
            | Self::RowValues { .. }
            | Self::PodValues(_)
            | Self::TopologyCounts(_)
            | Self::VictimValues { .. }
            | Self::Broken { .. }
            | Self::Candidates { .. }
            | Self::NoVictims(_)
            | Self::ArgsSha256(_)
            | Self::NoHook(_)
            | Self::NodesOfPodHook
            | Self::NoParameter { .. }
            | Self::NotShown(IntrospectError::InvalidParameter(_))
            | Self::Args(_) => Code::InvalidArgument,
            Self::OnlyDecides | Self::OtherReads | Self::ArgsUnknown | Self::Exposed(_) => {
                Code::FailedPrecondition
            }
            Self::NoPath(_) | Self::NotShown(IntrospectError::NotFound(_)) => Code::NotFound,
            Self::NotServed(_) | Self::NotObserved | Self::NotShown(IntrospectError::NotImplemented) => {
                Code::Unimplemented
            }
            Self::NotReady(_)
            | Self::NotBound(_)
            | Self::Stopping(_)
            | Self::ManyShown
            | Self::NotShown(IntrospectError::NotReady(_)) => Code::Unavailable,
            Self::CannotAnswer(_) => Code::Aborted,
            Self::WrongCount { .. }
            | Self::WrongVictims { .. }
            | Self::Declaration(_)
            | Self::ShowFailed(_)
            | Self::NotShown(_)
            | Self::Undeclared { .. }
            | Self::Panicked(_)
            | Self::Forbidden(_) => Code::Internal,
        }
    }
}

/// A status that says which of the errors of its code it is.
pub(crate) fn with_reason(mut status: Status, reason: ErrorReason) -> Status {
    status.metadata_mut().insert("extender-reason", MetadataValue::from_static(reason.as_str_name()));
    status
}

/// Which of the errors of its code an error is.
fn reason(error: &CallError) -> Option<ErrorReason> {
    Some(match error.code() {
        _ if matches!(error, CallError::Refused(Refused::TooLarge { .. })) => ErrorReason::TooLarge,
        _ if matches!(error, CallError::ArgsUnknown) => ErrorReason::ArgsUnknown,
        _ if matches!(error, CallError::Args(_)) => ErrorReason::InvalidArgs,
        _ if matches!(error, CallError::OtherReads) => ErrorReason::OtherReads,
        _ if matches!(error, CallError::OnlyDecides) => ErrorReason::Purpose,
        Code::InvalidArgument => ErrorReason::InvalidRequest,
        Code::Unavailable => ErrorReason::NotReady,
        Code::Aborted => ErrorReason::CannotAnswer,
        Code::Internal => ErrorReason::PolicyFailed,
        _ => return None,
    })
}

impl From<NotReady> for CallError {
    fn from(NotReady(sentence): NotReady) -> Self {
        Self::NotReady(sentence)
    }
}

impl From<Unanswered> for CallError {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::NotReady(error) => error.into(),
            Unanswered::CannotAnswer(error) => error.into(),
            Unanswered::BindFailed(error) => error.into(),
        }
    }
}

impl From<CallError> for Status {
    fn from(error: CallError) -> Self {
        let mut message = error.to_string();
        // A client that limits the size of trailers closes the connection with all its calls.
        message.truncate(message.floor_char_boundary(STATUS_MESSAGE_BYTES));
        let status = Self::new(error.code(), message);
        match reason(&error) {
            Some(reason) => with_reason(status, reason),
            None => status,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_message_is_cut_to_a_kibibyte() {
        for error in [
            CallError::Undeclared { method: "Filter", text: "ä".repeat(70_000) },
            CallError::NotReady("ä".repeat(70_000)),
            CallError::Args(ArgsError::new("ä".repeat(70_000))),
            CallError::NotBound(BindFailed("ä".repeat(70_000))),
            CallError::CannotAnswer(CannotAnswer("ä".repeat(70_000))),
            CallError::WrongVictims { position: 0, victims: vec![7; 70_000], there: 1 },
        ] {
            let code = error.code();
            let status = Status::from(error);
            assert_eq!(status.code(), code);
            assert!((1_000..=1_024).contains(&status.message().len()), "{} bytes", status.message().len());
        }
    }

    #[test]
    fn errors_of_one_code_have_different_reasons() {
        for (error, code, reason) in [
            (CallError::Args(ArgsError::new("none")), Code::InvalidArgument, Some("INVALID_ARGS")),
            (CallError::Missing("pod"), Code::InvalidArgument, Some("INVALID_REQUEST")),
            (CallError::ArgsSha256("is wrong"), Code::InvalidArgument, Some("INVALID_REQUEST")),
            (CallError::ArgsUnknown, Code::FailedPrecondition, Some("ARGS_UNKNOWN")),
            (CallError::OtherReads, Code::FailedPrecondition, Some("OTHER_READS")),
            (CallError::OnlyDecides, Code::FailedPrecondition, Some("PURPOSE")),
            (CallError::NotReady("old".into()), Code::Unavailable, Some("NOT_READY")),
            (CallError::CannotAnswer(CannotAnswer("no".into())), Code::Aborted, Some("CANNOT_ANSWER")),
            (CallError::Panicked("filter"), Code::Internal, Some("POLICY_FAILED")),
            (CallError::NotServed("Score"), Code::Unimplemented, None),
        ] {
            let status = Status::from(error);
            let given = status.metadata().get("extender-reason").map(|name| name.to_str().unwrap());
            let expected = reason.map(|reason| format!("ERROR_REASON_{reason}"));
            assert_eq!((status.code(), given), (code, expected.as_deref()));
        }
    }
}

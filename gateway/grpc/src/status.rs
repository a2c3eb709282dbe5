//! How calls without an answer end: gRPC statuses, and the failures that they stand for.

use std::fmt;

use extender_gateway_contract::protobuf::malformed;
use extender_gateway_core::{BackendFailure, FailureKind, reason};
use extender_otlp::grpc::name;
use extender_policy_api::{limits::STATUS_MESSAGE_BYTES, v1beta1::ErrorReason};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode;
use tonic::Code;

use super::reset;

/// Why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// The gRPC status, which is not OK; `None` without a status: the connection was lost, the call timed out, or the
    /// response was not gRPC. A canceled stream is `CANCELLED`, and HTTP 404 is `UNIMPLEMENTED`, as in the gRPC specification.
    pub status: Option<Code>,
    /// The failure that it stands for.
    pub failure: BackendFailure,
    /// How much of the call the failure ended.
    pub scope: FailureScope,
    /// Whether the backend may have processed the call.
    pub processed: Processed,
    /// Which of the errors of its status it is, if the backend says so.
    pub reason: Option<ErrorReason>,
}

/// Whether a backend may have processed a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processed {
    /// It may.
    Perhaps,
    /// It has not: the call was not sent, or refused (`REFUSED_STREAM`, or a GOAWAY with a lower last stream).
    Never,
}

/// How much ended with a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureScope {
    /// The call, or its stream.
    Call,
    /// The connection, with all calls on it.
    Connection,
}

impl RpcError {
    /// Whether the backend does not implement the method.
    pub fn is_unimplemented(&self) -> bool {
        self.status == Some(Code::Unimplemented)
    }

    /// Whether the backend does not hold the args that the call names.
    pub fn lacks_args(&self) -> bool {
        self.status == Some(Code::FailedPrecondition) && self.reason == Some(ErrorReason::ArgsUnknown)
    }

    /// Whether the call certainly had no effect: it was not processed, or was refused as a request before the policy saw it.
    pub fn excludes_an_effect(&self) -> bool {
        let is_refusal =
            |code| matches!(code, Code::InvalidArgument | Code::FailedPrecondition | Code::Unimplemented);
        self.processed == Processed::Never || self.status.is_some_and(is_refusal)
    }

    /// The failure of a call that was not sent.
    pub fn not_sent(error: h2::Error) -> Self {
        Self { processed: Processed::Never, ..error.into() }
    }

    /// Whether the backend has worked on the call and says how that ended.
    pub fn is_an_answer(&self) -> bool {
        let is_early = |code| {
            matches!(
                code,
                Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::ResourceExhausted
            )
        };
        self.status.is_some_and(|code| !is_early(code))
    }

    /// Whether the call timed out here. `DEADLINE_EXCEEDED` from the backend is a response.
    pub fn is_late(&self) -> bool {
        self.status.is_none() && self.failure.kind == FailureKind::Late
    }

    /// The status as the gRPC specification names it: the received one, or the one that stands for a failure
    /// without a response.
    pub fn code(&self) -> &'static str {
        name(self.status.unwrap_or(match self.failure.kind {
            FailureKind::Unreachable
            | FailureKind::Reset
            | FailureKind::CircuitOpen
            | FailureKind::Overloaded => Code::Unavailable,
            FailureKind::Late => Code::DeadlineExceeded,
            FailureKind::Oversize => Code::ResourceExhausted,
            FailureKind::Status => Code::Unknown,
            FailureKind::Malformed | FailureKind::Internal => Code::Internal,
            FailureKind::Unsuitable => Code::Unimplemented,
            FailureKind::NotBound => Code::Ok,
        }))
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)
    }
}

impl From<BackendFailure> for RpcError {
    fn from(failure: BackendFailure) -> Self {
        Self { status: None, failure, scope: FailureScope::Call, processed: Processed::Perhaps, reason: None }
    }
}

impl From<h2::Error> for RpcError {
    fn from(error: h2::Error) -> Self {
        let failure = match error.reason() {
            Some(reason) if error.is_reset() => reset(&format!("the stream was reset: {reason}")),
            Some(reason) if error.is_go_away() => reset(&format!("the connection was closed: {reason}")),
            _ => reset("the connection was lost"),
        };
        let is_canceled = error.is_reset() && error.reason() == Some(h2::Reason::CANCEL);
        let scope = if error.is_reset() { FailureScope::Call } else { FailureScope::Connection };
        // h2 reports a GOAWAY of the peer to the streams that it excludes, and to those that are not opened any more.
        let is_refused = error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM);
        let processed = if error.is_remote() && is_refused { Processed::Never } else { Processed::Perhaps };
        let status = is_canceled.then_some(Code::Cancelled);
        Self { status, failure, scope, processed, reason: None }
    }
}

impl From<RpcError> for BackendFailure {
    fn from(error: RpcError) -> Self {
        error.failure
    }
}

/// The trailer that ends each gRPC call.
pub(crate) const STATUS: HeaderName = HeaderName::from_static("grpc-status");
/// Which of the errors of one code it is: the name of an [`ErrorReason`].
const REASON: HeaderName = HeaderName::from_static("extender-reason");
/// The message of a status, percent-encoded.
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Succeeds if these headers or trailers end a call with OK.
///
/// Every byte comes from the backend. By the specification, a status is one field of digits. A repeated status,
/// several joined by a comma, or one that is not a number is malformed: a call never counts as answered because one
/// of several statuses is OK. An unknown code is `UNKNOWN`. Of several messages the first counts; what cannot be
/// decoded in it stays unchanged. `grpc-status-details-bin` is ignored, and so is a reason that is unknown or repeated.
pub fn ended_ok(headers: &HeaderMap) -> Result<(), RpcError> {
    let mut fields = headers.get_all(STATUS).iter();
    let Some(field) = fields.next() else {
        return Err(reset("response ended without a gRPC status").into());
    };
    let number = match fields.next() {
        None => number(field.as_bytes()).ok_or_else(|| invalid(&quoted(field.as_bytes())))?,
        Some(_) => return Err(invalid("there is more than one").into()),
    };
    let known = i32::try_from(number).map_or(Code::Unknown, Code::from_i32);
    if known == Code::Ok {
        return Ok(());
    }
    let mut message = message(headers);
    if known == Code::Unknown && number != Code::Unknown as u32 {
        message = format!("{STATUS} {number}, which is not a gRPC code {message}");
    }
    let kind = match known {
        Code::DeadlineExceeded => FailureKind::Late,
        Code::ResourceExhausted if is_about_size(headers) => FailureKind::Oversize,
        _ => FailureKind::Status,
    };
    let failure = BackendFailure::new(kind, described(known, &message));
    Err(RpcError { status: Some(known), reason: reason_of(headers), ..failure.into() })
}

/// A number of digits only, no longer than the largest number.
fn number(field: &[u8]) -> Option<u32> {
    let is_number = field.len() <= 10 && field.iter().all(u8::is_ascii_digit);
    str::from_utf8(field).ok().filter(|_| is_number)?.parse().ok()
}

fn invalid(what: &str) -> BackendFailure {
    malformed(format!("invalid gRPC status: {what}"))
}

/// The beginning of a field from the backend, as text for people.
fn quoted(field: &[u8]) -> String {
    const LONGEST: usize = 40;
    format!("\"{}\"", field[..field.len().min(LONGEST)].escape_ascii())
}

fn message(headers: &HeaderMap) -> String {
    let encoded = headers.get(MESSAGE).map_or(&b""[..], HeaderValue::as_bytes);
    let decoded: Vec<u8> = percent_decode(encoded).take(STATUS_MESSAGE_BYTES).collect();
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Whether a resource is exhausted because of a size: gRPC libraries say so without a reason.
fn is_about_size(headers: &HeaderMap) -> bool {
    reason_of(headers) != Some(ErrorReason::Overloaded)
}

fn reason_of(headers: &HeaderMap) -> Option<ErrorReason> {
    let mut fields = headers.get_all(REASON).iter();
    let name = fields.next().filter(|_| fields.next().is_none())?;
    ErrorReason::from_str_name(name.to_str().ok()?)
}

/// A status as `CODE: message`, on one line and of limited length: it may reach a pod's condition.
fn described(code: Code, message: &str) -> String {
    let message = reason::one_line(message, reason::LONGEST);
    if message.is_empty() { name(code).to_owned() } else { format!("{}: {message}", name(code)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields(fields: &[(HeaderName, &[u8])]) -> HeaderMap {
        let field =
            |(name, value): &(HeaderName, &[u8])| (name.clone(), HeaderValue::from_bytes(value).unwrap());
        let mut map = HeaderMap::new();
        for (name, value) in fields.iter().map(field) {
            map.append(name, value);
        }
        map
    }

    #[test]
    fn a_status_becomes_a_failure_of_its_kind() {
        for (status, message, kind, detail) in [
            ("14", "not%0Anow, 5%25", FailureKind::Status, "UNAVAILABLE: not now, 5 percent"),
            ("4", "", FailureKind::Late, "DEADLINE_EXCEEDED"),
            ("12", "", FailureKind::Status, "UNIMPLEMENTED"),
            ("8", "5 MiB", FailureKind::Oversize, "RESOURCE_EXHAUSTED: 5 MiB"),
            ("2", "", FailureKind::Status, "UNKNOWN"),
            ("99", "", FailureKind::Status, "UNKNOWN: grpc-status 99, which is not a gRPC code"),
        ] {
            let headers = fields(&[(STATUS, status.as_bytes()), (MESSAGE, message.as_bytes())]);
            let code = Code::from_bytes(status.as_bytes());
            let ended = RpcError { status: Some(code), ..BackendFailure::new(kind, detail).into() };
            assert_eq!(ended_ok(&headers), Err(ended.clone()));
            assert_eq!(
                (ended.to_string(), BackendFailure::from(ended).detail),
                (detail.into(), detail.into())
            );
        }
        let none = BackendFailure::from(ended_ok(&HeaderMap::new()).unwrap_err());
        assert_eq!(none.kind, FailureKind::Reset);
    }

    #[test]
    fn a_reason_tells_what_is_exhausted() {
        let kind = |reasons: &[&str]| {
            let mut headers = fields(&[(STATUS, b"8"), (MESSAGE, b"the message is too large")]);
            for reason in reasons {
                headers.append(REASON, HeaderValue::from_str(reason).unwrap());
            }
            BackendFailure::from(ended_ok(&headers).unwrap_err()).kind
        };
        assert_eq!(kind(&[]), FailureKind::Oversize);
        assert_eq!(kind(&["ERROR_REASON_TOO_LARGE"]), FailureKind::Oversize);
        assert_eq!(kind(&["ERROR_REASON_OVERLOADED"]), FailureKind::Status);
        // Of another code.
        assert_eq!(kind(&["ERROR_REASON_UNSPECIFIED"]), FailureKind::Oversize);
        // Of a later version, and none.
        assert_eq!(kind(&["ERROR_REASON_LATER"]), FailureKind::Oversize);
        assert_eq!(kind(&["ERROR_REASON_OVERLOADED", "ERROR_REASON_OVERLOADED"]), FailureKind::Oversize);
    }

    #[test]
    fn unimplemented_is_told_by_its_code_alone() {
        let failure = BackendFailure::new(FailureKind::Status, "UNIMPLEMENTED: says the text");
        let with = |status| RpcError { status, ..failure.clone().into() };
        assert!(with(Some(Code::Unimplemented)).is_unimplemented());
        assert!(!with(Some(Code::Internal)).is_unimplemented());
        assert!(!with(None).is_unimplemented());
    }

    #[test]
    fn a_status_is_one_number_or_malformed() {
        let details: (HeaderName, &[u8]) = (HeaderName::from_static("grpc-status-details-bin"), b"!!!!");
        assert_eq!(ended_ok(&fields(&[(STATUS, b"0"), details.clone(), details])), Ok(()));
        for wrong in [
            &[(STATUS, &b"0"[..]), (STATUS, b"0")][..],
            &[(STATUS, b"0,0")],
            &[(STATUS, b"")],
            &[(STATUS, b"+0")],
            &[(STATUS, b"\xff")],
            &[(STATUS, b"4294967296")],
            &[(STATUS, &[b'0'; 5000])],
        ] {
            let failure = BackendFailure::from(ended_ok(&fields(wrong)).unwrap_err());
            assert_eq!(failure.kind, FailureKind::Malformed, "{wrong:?}");
            assert!(failure.detail.len() < 200, "{failure}");
        }
    }

    fn value() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![prop::sample::select(b"0123456789,%+- aA=_".to_vec()), 0x80_u8..];
        prop::collection::vec(byte, 0..40)
    }

    proptest! {
        #[test]
        fn no_fields_make_it_panic(
            fields_of in prop::collection::vec(
                (prop::sample::select(vec![STATUS, MESSAGE, HeaderName::from_static("grpc-status-details-bin")]), value()), 0..5),
        ) {
            let given: Vec<_> = fields_of.iter().map(|(name, value)| (name.clone(), &value[..])).collect();
            let statuses: Vec<_> = given.iter().filter(|(name, _)| *name == STATUS).collect();
            match ended_ok(&fields(&given)) {
                Ok(()) => prop_assert!(statuses.len() == 1 && statuses[0].1.iter().all(|byte| *byte == b'0')),
                Err(ended) => prop_assert!(ended.to_string().chars().all(|c| !c.is_control() && c != '%')),
            }
        }
    }
}

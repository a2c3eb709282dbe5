//! A Bind request and its answer.

use bytes::Bytes;
use extender_gateway_core::{Assignment, BackendFailure, reason};
use extender_gateway_object::pod::ObjectPod;
use extender_policy_api::v1beta1::{BindOutcome, BindRequest, BindResponse};
use prost::Message;

use super::{
    api::ApiVersion,
    pod::{PodView, pod_message},
    protobuf::{decoded, malformed},
    v1alpha1::{self, older},
};

/// A request to a binder.
#[derive(Debug, Clone, Copy)]
pub struct BindQuestion<'q> {
    /// `Call.id`.
    pub call: &'q str,
    /// The pod and the node to bind it to.
    pub assignment: &'q Assignment,
    /// The pod.
    pub pod: &'q ObjectPod<'q>,
    /// The JSON that `pod` was parsed from.
    pub json: &'q Bytes,
}

/// A binder's response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bound {
    /// The Binding exists.
    Yes,
    /// It does not bind this pod, and has not tried to. The reason, for people, on one line.
    Declined(String),
    /// It has not bound this pod, and there will be no Binding. The reason, for people, on one line.
    No(String),
}

/// The request's fields after `call`.
pub fn fields(question: BindQuestion<'_>, view: &PodView) -> Bytes {
    let BindQuestion { assignment, pod, json, .. } = question;
    let Assignment { namespace, name, uid, node } = assignment.clone();
    let pod = Some(pod_message(pod, view, json));
    let encoded = BindRequest { call: None, namespace, name, uid, node, pod }.encode_to_vec();
    match view.api {
        ApiVersion::V1Beta1 => encoded.into(),
        ApiVersion::V1Alpha1 => older(&encoded, v1alpha1::BIND).into(),
    }
}

/// Reads an answer.
///
/// # Errors
/// [`Malformed`](extender_gateway_core::FailureKind::Malformed): not protobuf, or an unspecified outcome, as in an
/// empty answer.
pub fn answer(message: Bytes) -> Result<Bound, BackendFailure> {
    let BindResponse { outcome, message } = decoded(message)?;
    let why = |message: String| reason::one_line(&message, reason::LONGEST);
    match BindOutcome::try_from(outcome) {
        Ok(BindOutcome::Bound) => Ok(Bound::Yes),
        Ok(BindOutcome::Declined) => Ok(Bound::Declined(why(message))),
        Ok(BindOutcome::NotBound) => Ok(Bound::No(why(message))),
        Ok(BindOutcome::Unspecified) => Err(malformed("response has no outcome")),
        Err(_) => Err(malformed(format!("unknown outcome {outcome}"))),
    }
}

#[cfg(test)]
mod tests {
    use extender_gateway_core::FailureKind;

    use super::*;

    #[test]
    fn only_a_said_outcome_counts() {
        let read = |outcome: i32| {
            let message = BindResponse { outcome, message: "not\nmine".into() }.encode_to_vec();
            answer(message.into()).map_err(|failure| failure.detail)
        };
        assert_eq!(read(1), Ok(Bound::Yes));
        assert_eq!(read(2), Ok(Bound::Declined("not mine".into())));
        assert_eq!(read(3), Ok(Bound::No("not mine".into())));
        assert_eq!(read(0), Err("response has no outcome".into()));
        assert_eq!(read(7), Err("unknown outcome 7".into()));
        let broken = answer(Bytes::from_static(b"\xff\xff")).unwrap_err();
        assert_eq!(broken.kind, FailureKind::Malformed);
        assert!(answer(Bytes::new()).is_err(), "an empty answer does not mean bound");
    }
}

//! Outcomes, observed without a server.

use extender_policy_api::v1beta1 as api;

use super::{NoAnswer, TestPod, complete};
use crate::{Backend, OutcomeKind, answer};

/// Lets the policy observe how an attempt to place the pod ended; `node` is that of a pod that is bound, otherwise empty. Without
/// [`TestPod::identity`] the pod is named `pod` and has UID `uid`; the outcome's call is that of [`TestPod::call_id`]. [`Policy::observe`](crate::Policy::observe) has an example.
///
/// # Errors
///
/// [`NoAnswer`] as the gateway would get it: the policy does not declare that it observes outcomes, is not ready, or panicked; or a
/// bound pod has no node.
pub fn observe(
    backend: impl Into<Backend>,
    pod: &TestPod,
    kind: OutcomeKind,
    node: &str,
) -> Result<(), NoAnswer> {
    let [namespace, name, uid] = pod.named();
    let kind = match kind {
        OutcomeKind::Bound => api::OutcomeKind::Bound,
        OutcomeKind::NotBound => api::OutcomeKind::NotBound,
        OutcomeKind::Superseded => api::OutcomeKind::Superseded,
        OutcomeKind::Deleted => api::OutcomeKind::Deleted,
    };
    let (call, node) = (pod.call_id.clone(), node.to_owned());
    let outcome = api::Outcome { call, namespace, name, uid, kind: kind.into(), node };
    let call = api::Call { purpose: api::Purpose::Decide.into(), ..api::Call::default() };
    let request = api::ReportRequest { call: Some(call), outcomes: vec![outcome] };
    complete("Report", async { answer::report(&backend.into(), &request) }).map(drop)
}

//! One function for each verb: from the body of a call to the pieces of its response.

use std::sync::Arc;

use bytes::Bytes;

use crate::{
    decide::{Call, CallError, Decider, PreemptCall},
    object,
    record::{HttpCall, PodRef, RequestedNodes},
    wire::{PreemptRequest, Request, bind as wire_bind, preempt as wire_preempt, reply},
};
use extender_gateway_core::Assignment;

/// The pieces of a response's body.
type VerbResult = Result<Vec<Bytes>, CallError>;

/// Answers a body of `ExtenderArgs` with the pieces of an `ExtenderFilterResult`.
pub(super) async fn filter(decider: &Decider, body: Bytes, http_call: &mut HttpCall) -> VerbResult {
    let request = Arc::new(Request::read(body)?);
    let json = request.pod();
    let pod = object::pod::offered(&json).map_err(|error| CallError::pod(&error))?;
    let nodes = RequestedNodes::Offered(Arc::clone(&request));
    let (began, parent) = (http_call.started, http_call.parent);
    let record = http_call.record.insert(decider.record_of(&pod, nodes, (began, parent)));
    let filtered = decider.filter(Call { request: &request, pod: &pod, began }, record).await?;
    Ok(reply::filtered(&request, &filtered.rejected, &filtered.reasons).into_pieces())
}

/// Answers a body of `ExtenderArgs` with the pieces of a `HostPriorityList`.
pub(super) async fn prioritize(decider: &Decider, body: Bytes, http_call: &mut HttpCall) -> VerbResult {
    let request = Arc::new(Request::read(body)?);
    let json = request.pod();
    let pod = object::pod::offered(&json).map_err(|error| CallError::pod(&error))?;
    let nodes = RequestedNodes::Offered(Arc::clone(&request));
    let (began, parent) = (http_call.started, http_call.parent);
    let record = http_call.record.insert(decider.record_of(&pod, nodes, (began, parent)));
    let totals = decider.prioritize(Call { request: &request, pod: &pod, began }, record).await?;
    Ok(reply::prioritized(&request, &totals).into_pieces())
}

/// Answers a body of `ExtenderPreemptionArgs` with the pieces of an `ExtenderPreemptionResult`.
pub(super) async fn preempt(decider: &Decider, body: Bytes, http_call: &mut HttpCall) -> VerbResult {
    let request = Arc::new(PreemptRequest::read(body)?);
    let json = request.pod();
    let pod = object::pod::offered(&json).map_err(|error| CallError::pod(&error))?;
    let nodes = RequestedNodes::Candidates(Arc::clone(&request));
    let (began, parent) = (http_call.started, http_call.parent);
    let record = http_call.record.insert(decider.record_of(&pod, nodes, (began, parent)));
    let left = decider.preempt(PreemptCall { request: &request, pod: &pod, began }, record).await?;
    Ok(wire_preempt::preempted(&request, &left).into_pieces())
}

/// Answers a body of `ExtenderBindingArgs` with the pieces of an `ExtenderBindingResult`.
pub(super) async fn bind(decider: &Decider, body: &[u8], http_call: &mut HttpCall) -> VerbResult {
    let assignment = wire_bind::read(body)?;
    let nodes = RequestedNodes::Target(assignment.node.clone());
    let (began, parent) = (http_call.started, http_call.parent);
    let record = http_call.record.insert(decider.record(pod_ref(&assignment), nodes, (began, parent)));
    decider.bind((&assignment, began), record).await?;
    Ok(reply::bound().into_pieces())
}

fn pod_ref(assignment: &Assignment) -> PodRef {
    let Assignment { namespace, name, uid, .. } = assignment.clone();
    PodRef { namespace, name, uid, nominated: String::new() }
}

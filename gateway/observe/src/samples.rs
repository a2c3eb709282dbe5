//! Calls for tests of observability.

#![expect(clippy::unwrap_used, reason = "samples that cannot be made are failures of tests")]

use std::sync::Arc;

use extender_gateway_core::{
    BackendFailure, FailureKind, PolicyVerb,
    filter::{Asked, Heard, Refusal},
    score::{Ballot, Normalization, Range},
};
use extender_gateway_record::{BackendOutcome, CallRecord, OnFailure, Outcome, PodRef, RequestedNodes};
pub use extender_gateway_settings::samples::config;
use extender_gateway_wire::Request;
use tokio::time::Instant;

/// A backend with this outcome.
pub fn part(name: &str, said: Outcome) -> BackendOutcome {
    let settings = config(&format!("- {{name: {name}, url: 'http://127.0.0.1:1', filter: {{}}}}\n"));
    let backend = Arc::new(settings.backends[0].clone());
    let verb = match said {
        Outcome::Scored(..) => PolicyVerb::Score,
        Outcome::Candidates(_) => PolicyVerb::Preempt,
        Outcome::Bound(_) => PolicyVerb::Bind,
        Outcome::Changed(_) => PolicyVerb::BeforeFilterNodes,
        Outcome::Pending | Outcome::Failed(_) | Outcome::Filtered(_) => PolicyVerb::Filter,
    };
    BackendOutcome { outcome: said, ..BackendOutcome::new(&backend, verb, OnFailure::Fail) }
}

/// It rejects these of all nodes for these reasons.
pub fn refused(refusals: &[(&str, &[u32])]) -> Outcome {
    let refusal = |(reason, positions): &(&str, &[u32])| Refusal {
        rule: String::new(),
        retry_after: None,
        reason: (*reason).to_owned(),
        preemption_may_help: false,
        positions: positions.to_vec(),
    };
    Outcome::Filtered(Heard { nodes: Asked::All, refusals: refusals.iter().map(refusal).collect() })
}

/// It gives these scores to the nodes at these positions, or to all.
pub fn scored(
    (weight, normalization): (u32, Normalization),
    nodes: Option<&[u32]>,
    scores: &[i32],
) -> Outcome {
    let (nodes, scores) = (nodes.map(<[u32]>::to_vec), scores.to_vec());
    Outcome::Scored(Ballot { weight, normalization, range: Range::default(), nodes, scores }, 0)
}

/// It failed.
pub fn failed(kind: FailureKind) -> Outcome {
    Outcome::Failed(BackendFailure::new(kind, "no answer"))
}

/// A call for a pod in namespace `shop` with these nodes.
pub fn record(pod: &str, nodes: &[&str], parts: Vec<BackendOutcome>) -> CallRecord {
    let body = format!(r#"{{"Pod": {{}}, "NodeNames": {nodes:?}}}"#);
    let request = Request::read(body.into()).unwrap();
    let pod = PodRef {
        namespace: "shop".to_owned(),
        name: pod.to_owned(),
        uid: format!("uid-{pod}"),
        ..PodRef::default()
    };
    let record =
        CallRecord::new("call".to_owned(), Instant::now(), pod, RequestedNodes::Offered(Arc::new(request)));
    CallRecord { backends: parts, ..record }
}

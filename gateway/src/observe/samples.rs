//! Calls for tests of observability.

use std::{path::Path, sync::Arc};

use extender_gateway_core::{
    BackendFailure, FailureKind, PolicyVerb,
    filter::{Asked, Heard, Refusal},
    score::{Ballot, Normalization, Range},
};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    config::Config,
    record::{BackendOutcome, CallRecord, OnFailure, Outcome, PodRef, RequestedNodes},
    wire::Request,
};

/// A configuration with these backends.
pub(crate) fn config(backends: &str) -> Config {
    let local = if backends.contains("extender:") { "" } else { "extender: {address: '127.0.0.1:8888'}\n" };
    let head = format!(
        "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\nnodes: {{source: NamesOnly}}\n{local}"
    );
    Config::parse(&format!("{head}backends:\n{backends}"), Path::new("."))
        .unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// A backend with this outcome.
pub(crate) fn part(name: &str, said: Outcome) -> BackendOutcome {
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
pub(crate) fn refused(refusals: &[(&str, &[u32])]) -> Outcome {
    let refusal = |(reason, positions): &(&str, &[u32])| Refusal {
        rule: String::new(),
        reason: (*reason).to_owned(),
        preemption_may_help: false,
        positions: positions.to_vec(),
    };
    Outcome::Filtered(Heard { nodes: Asked::All, refusals: refusals.iter().map(refusal).collect() })
}

/// It gives these scores to the nodes at these positions, or to all.
pub(crate) fn scored(
    (weight, normalization): (u32, Normalization),
    nodes: Option<&[u32]>,
    scores: &[i32],
) -> Outcome {
    let (nodes, scores) = (nodes.map(<[u32]>::to_vec), scores.to_vec());
    Outcome::Scored(Ballot { weight, normalization, range: Range::default(), nodes, scores }, 0)
}

/// It failed.
pub(crate) fn failed(kind: FailureKind) -> Outcome {
    Outcome::Failed(BackendFailure::new(kind, "no answer"))
}

/// A call for a pod in namespace `shop` with these nodes.
pub(crate) fn record(pod: &str, nodes: &[&str], parts: Vec<BackendOutcome>) -> CallRecord {
    let body = json!({"Pod": {}, "NodeNames": nodes}).to_string();
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

//! `GET /debug/explain`: what the command `explain` concludes about a pod, from the decisions of this replica alone.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use axum::{
    Json,
    extract::{Query as Parameters, State, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use extender_gateway_api::Decision;
use extender_gateway_api::explain::{
    Explanation, MAX_CALLS,
    evidence::Evidence,
    pod::{ClusterView, ExplainedPod},
    replicas::Gathered,
};
use extender_gateway_observe::{Query, ShownNodes};
use jiff::Timestamp;
use serde::Deserialize;

use crate::AdminState;

/// Why nothing from the apiserver is in the response.
const NO_APISERVER: &str =
    "the gateway does not query it for this; `extender-gateway explain` queries it and all replicas";

/// The parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainQuery {
    namespace: String,
    pod: String,
    /// The id of a call, whose attempt has the answers for its nodes, too.
    call: Option<String>,
}

/// Explains a pod.
pub(super) async fn explain(
    State(admin): State<Arc<AdminState>>,
    query: Result<Parameters<ExplainQuery>, QueryRejection>,
) -> Response {
    admin.from_log(query, explanation).await
}

/// The explanation. Only the latest attempt and the one of `call` have the answers for their nodes: with all attempts
/// in a large cluster the response would have many megabytes.
fn explanation(admin: &AdminState, query: &ExplainQuery) -> Response {
    let calls = Query {
        namespace: Some(query.namespace.clone()),
        pod: Some(query.pod.clone()),
        limit: Some(MAX_CALLS as usize),
        ..Query::default()
    };
    let list = admin.decisions(&Query { nodes: ShownNodes::None, ..calls.clone() });
    let target = ExplainedPod {
        namespace: query.namespace.clone(),
        name: query.pod.clone(),
        node: None,
        waiting: None,
        group: None,
    };
    let gathered = Gathered { answers: vec![list], away: Vec::new() };
    let statuses = Vec::from_iter(admin.gateway_status.status(&admin.observer));
    let cluster = ClusterView::not_queried(NO_APISERVER);
    let mut evidence = Evidence::new(target, cluster, gathered, statuses, Timestamp::now());
    let ids = ids_with_nodes(&evidence, query.call.as_deref());
    let (complete, _) = admin.observer.decisions.find(&Query { ids: Some(ids), ..calls });
    replace(&mut evidence, complete);
    Json(Explanation::of(&evidence)).into_response()
}

/// Replaces calls by those of the same ids.
fn replace(evidence: &mut Evidence, complete: Vec<Decision>) {
    let mut complete: HashMap<String, Decision> =
        complete.into_iter().map(|decision| (decision.id.clone(), decision)).collect();
    for call in evidence.attempts.iter_mut().flat_map(|attempt| &mut attempt.calls) {
        if let Some(decision) = complete.remove(&call.decision.id) {
            call.decision = decision;
        }
    }
}

/// The calls of the latest attempt, and of the one with this call.
fn ids_with_nodes(evidence: &Evidence, call: Option<&str>) -> HashSet<String> {
    let has_call = |id: &str| {
        evidence.attempts.iter().find(|attempt| attempt.calls.iter().any(|it| it.decision.id == id))
    };
    let attempts = evidence.latest().into_iter().chain(call.and_then(has_call));
    attempts.flat_map(|attempt| &attempt.calls).map(|call| call.decision.id.clone()).collect()
}

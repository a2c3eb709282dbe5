//! The answers of hooks: what changes about the pod and the nodes before filter and score.

use extender_policy_api::v1beta1 as api;

use super::{NodesCall, Patience, changes::of_nodes, done, question::Asked};
use crate::{Backend, error::CallError, request::NodesRequest, table::Tables};

/// What changes about the pod before filter.
pub(crate) async fn before_filter(
    backend: &Backend,
    request: &api::BeforeFilterRequest,
    patience: Patience,
) -> Result<api::BeforeFilterResponse, CallError> {
    let asked = Asked { call: &request.call, pod: &request.pod, nodes: &None };
    let prepared = asked.policy(backend, api::Verb::BeforeFilter)?;
    let terms = prepared.called(api::Verb::BeforeFilter)?;
    patience.allows(terms).await;
    asked.check_purpose(terms)?;
    let pod = asked.pod(terms.reads())?;
    prepared.policy.ready()?;
    let change = if terms.waits() {
        prepared.policy.before_filter_later(pod).await?
    } else {
        prepared.policy.before_filter(&pod)
    };
    Ok(api::BeforeFilterResponse { result: Some(done(&prepared, 1)), pod: change.into_message() })
}

/// What changes about nodes before filter.
pub(crate) async fn before_filter_nodes(
    backend: &Backend,
    tables: &Tables,
    request: &NodesRequest,
    patience: Patience,
) -> Result<api::BeforeFilterNodesResponse, CallError> {
    let asked = Asked { call: &request.call, pod: &request.pod, nodes: &request.nodes };
    let call = NodesCall { backend, tables, asked, patience };
    call.answered(api::Verb::BeforeFilterNodes, async |prepared, terms, question| {
        prepared.policy.ready()?;
        let changed = if terms.waits() {
            prepared.policy.before_filter_nodes_later(question.pod, question.nodes()).await?
        } else {
            prepared.policy.before_filter_nodes(&question.pod, &question.nodes())
        };
        let nodes = of_nodes("before_filter_nodes", changed, question, terms)?;
        Ok(api::BeforeFilterNodesResponse { result: None, nodes })
    })
    .await
}

/// What changes about the pod and the nodes before score.
pub(crate) async fn before_score(
    backend: &Backend,
    tables: &Tables,
    request: &NodesRequest,
    patience: Patience,
) -> Result<api::BeforeScoreResponse, CallError> {
    let asked = Asked { call: &request.call, pod: &request.pod, nodes: &request.nodes };
    let call = NodesCall { backend, tables, asked, patience };
    call.answered(api::Verb::BeforeScore, async |prepared, terms, question| {
        prepared.policy.ready()?;
        let (pod, nodes) = if terms.waits() {
            prepared.policy.before_score_later(question.pod, question.nodes()).await?
        } else {
            prepared.policy.before_score(&question.pod, &question.nodes())
        };
        let nodes = of_nodes("before_score", nodes, question, terms)?;
        Ok(api::BeforeScoreResponse { result: None, pod: pod.into_message(), nodes })
    })
    .await
}

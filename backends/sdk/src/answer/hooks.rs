//! The answers of hooks: what changes about the pod and the nodes before filter and score.

use extender_policy_api::v1alpha1 as api;

use super::{
    Patience,
    changes::of_nodes,
    done, missed,
    question::{Asked, Question, Reading},
};
use crate::{
    Backend, NodeChange, PodChange, backend::Prepared, error::CallError, info::declaration::Terms,
    request::NodesRequest, table::Tables,
};

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
    let prepared = asked.policy(backend, api::Verb::BeforeFilterNodes)?;
    let terms = prepared.called(api::Verb::BeforeFilterNodes)?;
    patience.allows(terms).await;
    let held = asked.hold(terms, tables)?;
    let question = match Question::read(asked, terms, &held)? {
        Reading::Whole(question) => question,
        Reading::Miss(miss) => {
            let result = Some(missed(&prepared, miss));
            return Ok(api::BeforeFilterNodesResponse { result, nodes: Vec::new() });
        }
    };
    let changed = changed_nodes(&prepared, terms, &question).await?;
    let nodes = of_nodes("before_filter_nodes", changed, &question, terms)?;
    Ok(api::BeforeFilterNodesResponse { result: Some(done(&prepared, question.count)), nodes })
}

async fn changed_nodes(
    prepared: &Prepared,
    terms: &Terms,
    question: &Question<'_>,
) -> Result<Vec<NodeChange>, CallError> {
    prepared.policy.ready()?;
    Ok(if terms.waits() {
        prepared.policy.before_filter_nodes_later(question.pod, question.nodes()).await?
    } else {
        prepared.policy.before_filter_nodes(&question.pod, &question.nodes())
    })
}

/// What changes about the pod and the nodes before score.
pub(crate) async fn before_score(
    backend: &Backend,
    tables: &Tables,
    request: &NodesRequest,
    patience: Patience,
) -> Result<api::BeforeScoreResponse, CallError> {
    let asked = Asked { call: &request.call, pod: &request.pod, nodes: &request.nodes };
    let prepared = asked.policy(backend, api::Verb::BeforeScore)?;
    let terms = prepared.called(api::Verb::BeforeScore)?;
    patience.allows(terms).await;
    let held = asked.hold(terms, tables)?;
    let question = match Question::read(asked, terms, &held)? {
        Reading::Whole(question) => question,
        Reading::Miss(miss) => {
            let result = Some(missed(&prepared, miss));
            return Ok(api::BeforeScoreResponse { result, ..Default::default() });
        }
    };
    let (pod, nodes) = changed(&prepared, terms, &question).await?;
    let nodes = of_nodes("before_score", nodes, &question, terms)?;
    let result = Some(done(&prepared, question.count));
    Ok(api::BeforeScoreResponse { result, pod: pod.into_message(), nodes })
}

async fn changed(
    prepared: &Prepared,
    terms: &Terms,
    question: &Question<'_>,
) -> Result<(PodChange, Vec<NodeChange>), CallError> {
    prepared.policy.ready()?;
    Ok(if terms.waits() {
        prepared.policy.before_score_later(question.pod, question.nodes()).await?
    } else {
        prepared.policy.before_score(&question.pod, &question.nodes())
    })
}

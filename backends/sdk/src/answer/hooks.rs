//! The answers of hooks: what changes about the pod and the nodes before filter and score.

use extender_policy_api::v1beta1 as api;

use super::{
    NodesCall, Patience,
    changes::of_nodes,
    done,
    question::{Asked, Question},
};
use crate::{
    Backend,
    backend::{Prepared, method},
    error::{CallError, in_sentence},
    info::declaration::Terms,
    request::ChangeRequest,
    table::Tables,
    trace,
};

/// The hook of this number.
pub(crate) fn hook(number: i32) -> Result<api::Verb, CallError> {
    match api::Verb::try_from(number) {
        Ok(hook @ (api::Verb::BeforeFilter | api::Verb::BeforeFilterNodes | api::Verb::BeforeScore)) => {
            Ok(hook)
        }
        Ok(api::Verb::Unspecified) => Err(CallError::Missing("hook")),
        _ => Err(CallError::NoHook(number)),
    }
}

/// What a hook changes.
pub(crate) async fn change(
    backend: &Backend,
    tables: &Tables,
    request: &ChangeRequest,
    patience: Patience,
) -> Result<api::ChangeResponse, CallError> {
    let asked = Asked { call: &request.call, pod: &request.pod, nodes: &request.nodes };
    let hook = hook(request.hook)?;
    trace::attribute("extender.hook", in_sentence(method(hook)));
    let call = NodesCall { backend, tables, asked, patience };
    match hook {
        api::Verb::BeforeFilterNodes => call.answered(hook, before_filter_nodes).await,
        api::Verb::BeforeScore => call.answered(hook, before_score).await,
        _ => before_filter(backend, asked, patience).await,
    }
}

/// What changes about the pod before filter.
async fn before_filter(
    backend: &Backend,
    asked: Asked<'_>,
    patience: Patience,
) -> Result<api::ChangeResponse, CallError> {
    let prepared = asked.policy(backend, api::Verb::BeforeFilter)?;
    let terms = prepared.called(api::Verb::BeforeFilter)?;
    if asked.nodes.is_some() {
        return Err(CallError::NodesOfPodHook);
    }
    patience.allows(terms).await;
    asked.check_purpose(terms)?;
    let pod = asked.pod(terms)?;
    prepared.policy.ready()?;
    let change = if terms.waits() {
        prepared.policy.before_filter_later(pod).await?
    } else {
        prepared.policy.before_filter(&pod)
    };
    let result = Some(done(&prepared, 1));
    Ok(api::ChangeResponse { result, pod: change.into_message(), nodes: Vec::new() })
}

/// What changes about nodes before filter.
async fn before_filter_nodes(
    prepared: &Prepared,
    terms: &Terms,
    question: &Question<'_>,
) -> Result<api::ChangeResponse, CallError> {
    prepared.policy.ready()?;
    let changed = if terms.waits() {
        prepared.policy.before_filter_nodes_later(question.pod, question.nodes()).await?
    } else {
        prepared.policy.before_filter_nodes(&question.pod, &question.nodes())
    };
    let nodes = of_nodes("before_filter_nodes", changed, question, terms)?;
    Ok(api::ChangeResponse { result: None, pod: None, nodes })
}

/// What changes about the pod and the nodes before score.
async fn before_score(
    prepared: &Prepared,
    terms: &Terms,
    question: &Question<'_>,
) -> Result<api::ChangeResponse, CallError> {
    prepared.policy.ready()?;
    let (pod, nodes) = if terms.waits() {
        prepared.policy.before_score_later(question.pod, question.nodes()).await?
    } else {
        prepared.policy.before_score(&question.pod, &question.nodes())
    };
    let nodes = of_nodes("before_score", nodes, question, terms)?;
    Ok(api::ChangeResponse { result: None, pod: pod.into_message(), nodes })
}

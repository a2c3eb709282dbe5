//! From a request to an answer, without sockets: fulfills what the contract requires of a backend, so that a policy
//! does not have to.

mod bind;
mod changes;
mod evictions;
mod held;
mod hooks;
mod introspect;
mod outcomes;
mod question;
mod rejections;

use std::{
    future::pending,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use extender_policy_api::v1beta1::{self as api, result::Outcome, watch_service_server};
use futures_util::FutureExt as _;

pub(crate) use self::{
    bind::bind,
    hooks::{change, hook},
    introspect::introspect,
    outcomes::report,
};
use self::{
    question::{Asked, Question, Reading},
    rejections::rejections,
};
use crate::{
    Backend, Candidate, NO_OPINION, Verdict,
    backend::{NamedArgs, Prepared, method},
    error::CallError,
    info::declaration::Terms,
    request::{FilterRequest, PreemptRequest, ScoreRequest},
    table::Tables,
    trace,
};

/// Whether an answer may wait for a policy that declares [`Verb::waits`](crate::Verb::waits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// No: the answer is never complete if it would have to wait, and nothing has been done for it.
    None,
    /// As long as it takes.
    Endless,
}

impl Patience {
    async fn allows(self, terms: &Terms) {
        if terms.waits() && self == Self::None {
            pending::<()>().await;
        }
    }
}

/// The answer to a call of this method, if it does not have to wait: then nothing is allocated for its future.
pub(crate) fn at_once<T>(
    method: &'static str,
    answer: impl Future<Output = Result<T, CallError>>,
) -> Option<Result<T, CallError>> {
    guarded(method, || Ok(answer.now_or_never())).unwrap_or_else(|panicked| Some(Err(panicked)))
}

/// The answer to a call of this method, with a panic as a failure of this call.
pub(crate) async fn unpanicking<T>(
    method: &'static str,
    answer: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    // Unwind safe for the same reasons as in `guarded`.
    let answer = AssertUnwindSafe(answer).catch_unwind().await;
    answer.unwrap_or_else(|panic| Err(CallError::panicked(method, &*panic)))
}

/// The answer to the handshake.
pub(crate) fn info(
    backend: &Backend,
    request: &api::GetInfoRequest,
) -> Result<api::GetInfoResponse, CallError> {
    let (response, _) = watched(backend, NamedArgs::whole(&request.args)?)?;
    Ok(response)
}

/// The answer to the handshake, and whether the policy is ready.
pub(crate) type Watched = (api::GetInfoResponse, bool);

/// What a change of is told to those who watch.
pub(crate) fn watched(backend: &Backend, args: NamedArgs<'_>) -> Result<Watched, CallError> {
    let prepared = guarded("GetInfo", || backend.policy_for(args))?;
    let is_ready = is_ready(&prepared);
    let mut response = prepared.declaration.response.clone();
    // Reported by the server, not declared by the policy.
    response.services.push(watch_service_server::SERVICE_NAME.to_owned());
    response.controllers = backend.beside().map(|beside| beside.report.message());
    Ok((response, is_ready))
}

/// Whether the policy can decide now.
pub(crate) fn is_ready(prepared: &Prepared) -> bool {
    guarded("GetInfo", || Ok(prepared.policy.ready()?)).is_ok()
}

/// Refuses a verb that the policy that these args choose does not declare.
pub(crate) fn served(
    backend: &Backend,
    args: Result<NamedArgs<'_>, CallError>,
    verb: Result<api::Verb, CallError>,
) -> Result<(), CallError> {
    guarded(verb.as_ref().map_or("Change", |verb| method(*verb)), || {
        backend.policy_for(args?)?.called(verb?).map(drop)
    })
}

/// A response about nodes.
trait AboutNodes: Default {
    fn with(self, result: api::Result) -> Self;
}

macro_rules! about_nodes {
    ($($response:ident),*) => {$(
        impl AboutNodes for api::$response {
            fn with(self, result: api::Result) -> Self {
                Self { result: Some(result), ..self }
            }
        }
    )*};
}
about_nodes!(FilterResponse, ScoreResponse, PreemptResponse, ChangeResponse);

/// A call of a verb about nodes.
struct NodesCall<'a> {
    backend: &'a Backend,
    tables: &'a Tables,
    asked: Asked<'a>,
    patience: Patience,
}

impl NodesCall<'_> {
    /// What the policy answers, or that the nodes cannot be read here.
    async fn answered<R: AboutNodes>(
        self,
        verb: api::Verb,
        answer: impl AsyncFnOnce(&Prepared, &Terms, &Question<'_>) -> Result<R, CallError>,
    ) -> Result<R, CallError> {
        let prepared = self.asked.policy(self.backend, verb)?;
        let terms = prepared.called(verb)?;
        self.patience.allows(terms).await;
        let held = self.asked.hold(terms, self.tables)?;
        Ok(match Question::read(self.asked, terms, &held)? {
            Reading::Whole(question) => {
                let response = answer(&prepared, terms, &question).await?;
                response.with(done(&prepared, question.count))
            }
            Reading::Miss(miss) => R::default().with(missed(miss)),
        })
    }
}

/// Which of the nodes the pod may not run on; with scores if they are wanted and may be given.
pub(crate) async fn filter(
    backend: &Backend,
    tables: &Tables,
    request: &FilterRequest,
    patience: Patience,
) -> Result<api::FilterResponse, CallError> {
    let asked = Asked { call: &request.call, pod: &request.pod, nodes: &request.nodes };
    let call = NodesCall { backend, tables, asked, patience };
    call.answered(api::Verb::Filter, async |prepared, terms, question| {
        let verdicts = verdicts(prepared, terms, question).await?;
        let score = prepared.declaration.verb(api::Verb::Score);
        let early = score.filter(|score| request.want_scores && score.may_come_with(terms));
        let scores = early.and_then(|score| early_scores(prepared, score, question));
        let rejections = rejections(&verdicts);
        let rejected: usize = rejections.iter().map(|rejection| rejection.positions.len()).sum();
        trace::attribute("extender.nodes.rejected", rejected);
        Ok(api::FilterResponse { result: None, rejections, scores })
    })
    .await
}

/// How good each of the nodes is.
pub(crate) async fn score(
    backend: &Backend,
    tables: &Tables,
    request: &ScoreRequest,
    patience: Patience,
) -> Result<api::ScoreResponse, CallError> {
    let asked = Asked { call: &request.call, pod: &request.pod, nodes: &request.nodes };
    let call = NodesCall { backend, tables, asked, patience };
    call.answered(api::Verb::Score, async |prepared, terms, question| {
        let scores = Some(scores(prepared, terms, question).await?);
        Ok(api::ScoreResponse { result: None, scores })
    })
    .await
}

/// Which pods may be evicted on which of the nodes.
pub(crate) async fn preempt(
    backend: &Backend,
    tables: &Tables,
    request: &PreemptRequest,
    patience: Patience,
) -> Result<api::PreemptResponse, CallError> {
    let asked = Asked { call: &request.call, pod: &request.pod, nodes: &request.nodes };
    let call = NodesCall { backend, tables, asked, patience };
    call.answered(api::Verb::Preempt, async |prepared, terms, question| {
        let kept = evictions(prepared, terms, question, &request.candidates).await?;
        Ok(api::PreemptResponse { result: None, kept })
    })
    .await
}

async fn evictions(
    prepared: &Prepared,
    terms: &Terms,
    question: &Question<'_>,
    candidates: &[api::Candidate],
) -> Result<Vec<api::KeptCandidate>, CallError> {
    if candidates.len() != question.nodes().len() {
        return Err(CallError::Candidates { count: question.count, candidates: candidates.len() });
    }
    let is_bare = |candidate: &api::Candidate| candidate.victims.is_empty() && !candidate.placeholder;
    if let Some(at) = candidates.iter().position(is_bare) {
        return Err(CallError::NoVictims(at));
    }
    evictions::check_victims(candidates, &terms.reads().pod)?;
    prepared.policy.ready()?;
    let nodes = question.nodes().iter().zip(candidates);
    let candidates = nodes.map(|(node, candidate)| Candidate::new(node, candidate, terms.pod_access()));
    let candidates: Vec<_> = candidates.collect();
    let policy = &prepared.policy;
    let evictions = if terms.waits() {
        policy.preempt_later(question.pod, &candidates).await?
    } else {
        policy.preempt_all(&question.pod, &candidates)
    };
    evictions::kept(&candidates, counted("preempt_all", evictions, question)?)
}

async fn verdicts(
    prepared: &Prepared,
    terms: &Terms,
    question: &Question<'_>,
) -> Result<Vec<Verdict>, CallError> {
    prepared.policy.ready()?;
    let verdicts = if terms.waits() {
        prepared.policy.filter_later(question.pod, question.nodes()).await?
    } else {
        prepared.policy.filter_all(&question.pod, &question.nodes())
    };
    counted("filter_all", verdicts, question)
}

/// Scores with the verdicts. If they cannot be given, the gateway requests them in a separate call: these nodes
/// include refused ones, for which the policy may not expect to be called.
fn early_scores(prepared: &Prepared, terms: &Terms, question: &Question<'_>) -> Option<api::Scores> {
    guarded("Score", || {
        prepared.policy.ready()?;
        let pod = question.pod.read_by_pure(terms.is_pure());
        scored(prepared.policy.score_all(&pod, &question.nodes()), question)
    })
    .ok()
}

async fn scores(
    prepared: &Prepared,
    terms: &Terms,
    question: &Question<'_>,
) -> Result<api::Scores, CallError> {
    prepared.policy.ready()?;
    let values = if terms.waits() {
        prepared.policy.score_later(question.pod, question.nodes()).await?
    } else {
        prepared.policy.score_all(&question.pod, &question.nodes())
    };
    scored(values, question)
}

fn scored(values: Vec<i32>, question: &Question<'_>) -> Result<api::Scores, CallError> {
    let mut values = counted("score_all", values, question)?;
    let mut absent = Vec::new();
    for (position, value) in (0..).zip(&mut values).filter(|(_, value)| **value == NO_OPINION) {
        absent.push(position);
        *value = 0;
    }
    Ok(api::Scores { values, absent })
}

/// A policy that answers for more or fewer nodes than the call has cannot be trusted to have matched them.
fn counted<T>(method: &'static str, answers: Vec<T>, question: &Question<'_>) -> Result<Vec<T>, CallError> {
    let (given, asked) = (answers.len(), question.nodes().len());
    if given == asked { Ok(answers) } else { Err(CallError::WrongCount { method, given, asked }) }
}

fn done(prepared: &Prepared, evaluated: u32) -> api::Result {
    let revision = prepared.declaration.response.revision.clone();
    trace::attribute("extender.nodes.evaluated", evaluated);
    api::Result { outcome: Some(Outcome::Evaluated(evaluated)), revision }
}

fn missed(miss: api::Miss) -> api::Result {
    trace::attribute("extender.miss", miss.as_str_name());
    api::Result { outcome: Some(Outcome::Miss(miss.into())), revision: String::new() }
}

/// The policy for a call, which its trace names.
fn policy_for(backend: &Backend, call: &api::Call, verb: api::Verb) -> Result<Arc<Prepared>, CallError> {
    trace::attribute("extender.call.id", &*call.id);
    trace::attribute("extender.backend.name", &*call.backend);
    if !call.cluster.is_empty() {
        trace::attribute("extender.cluster.name", &*call.cluster);
    }
    let prepared = backend.policy_reading(call, verb)?;
    let info = &prepared.declaration.response;
    trace::attribute("extender.policy.name", &*info.name);
    trace::attribute("extender.policy.revision", &*info.revision);
    Ok(prepared)
}

/// A panic fails only this call: one pod that triggers a bug must not stop a cluster.
fn guarded<T>(method: &'static str, answer: impl FnOnce() -> Result<T, CallError>) -> Result<T, CallError> {
    // Unwind safe: the request is dropped, and a policy is only shared, never modified here.
    catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|panic| Err(CallError::panicked(method, &*panic)))
}

#[cfg(test)]
mod tests;

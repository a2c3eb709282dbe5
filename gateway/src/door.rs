//! The HTTP/JSON front door: what kube-scheduler calls.
//!
//! The verb is the last segment of the path. Each verb has its own form of errors, because kube-scheduler reads
//! errors of filter and bind from a body with status 200, and those of prioritize and preempt only from the status.
//! A status other than 200 has no body, since a body would cost the connection.

mod accept;
mod answer;
mod body;
mod call_guard;
mod connection;
mod held;
mod limit;
mod pages;
mod server;
mod tls;
mod verbs;
mod write_timeout;

use std::{net::SocketAddr, panic::AssertUnwindSafe, sync::Arc};

use arc_swap::ArcSwap;
use bytes::Bytes;
use extender_gateway_core::{PerVerb, Verb};
use futures_util::FutureExt;
use http::{Method, Request, Response, request::Parts};
use hyper::body::Incoming;
use tracing::field::display;

use self::{
    answer::{CallRefusal, LoggedAt, RefusedCall, ReplyBody},
    body::BodyError,
    call_guard::CallGuard,
    limit::UnderWay,
};
pub(crate) use self::{held::HeldBody, limit::Address, pages::pages};
pub use self::{
    server::{Entrance, serve},
    tls::Tls,
};
use crate::{
    config::{Config, VerbPaths},
    decide::Decider,
    observe::{Metrics, Observer, SeldomEach},
    record::HttpCall,
};

/// The data shared by all connections at the door.
#[derive(Debug)]
pub struct Door {
    /// The configuration that answers calls, replaced by a reload. A call uses the same one from start to end.
    pub served: ArcSwap<Served>,
    /// Receives the records of calls.
    pub observer: Arc<Observer>,
    /// Limits log lines about refused calls, by verb and outcome.
    refused: SeldomEach<(&'static str, &'static str)>,
}

/// What answers calls under one configuration.
#[derive(Debug)]
pub struct Served {
    /// Makes the decisions.
    pub decider: Decider,
    /// The largest request body, in bytes.
    pub most: usize,
    /// The last path segment of each verb.
    pub verbs: VerbPaths,
    /// The configuration.
    pub config: Config,
    /// The generation of the configuration, starting at 1.
    pub generation: u64,
}

/// The verb of a path, whatever precedes its last segment.
fn verb_of(path: &str, verbs: &VerbPaths) -> Option<Verb> {
    let path = path.trim_end_matches('/');
    let ends = |end: &str| path.strip_suffix(end).is_some_and(|before| before.ends_with('/'));
    let VerbPaths { filter, prioritize, preempt, bind } = verbs;
    let ends = PerVerb {
        filter: ends(filter),
        prioritize: ends(prioritize),
        preempt: ends(preempt),
        bind: ends(bind),
    };
    Verb::ALL.into_iter().find(|verb| ends[*verb])
}

impl Door {
    /// A door that initially answers by this configuration.
    pub fn new(served: Served, observer: Arc<Observer>) -> Self {
        Self { served: ArcSwap::from_pointee(served), observer, refused: SeldomEach::default() }
    }

    /// Answers one request. Never fails: every error has a response.
    async fn call(
        &self,
        request: Request<Incoming>,
        (caller, secure): (SocketAddr, bool),
        under_way: UnderWay,
    ) -> Response<CallBody> {
        let (head, body) = request.into_parts();
        let awaited = under_way.awaits_body();
        let served = self.served.load_full();
        let mut guard = CallGuard::new(&self.observer, (&head, caller), served.generation);
        guard.secure = secure;
        let verb = match requested(&head, &served.verbs) {
            Ok(verb) => verb,
            Err((verb, refusal)) => {
                guard.verb = verb;
                body::drain(body);
                return held(self.refuse(guard, refusal.status()), under_way);
            }
        };
        guard.enter(verb);
        let decided = async {
            let body = body::read(&head, body, served.most).await.map_err(BodyError::refusal)?;
            drop(awaited);
            served.answer(verb, body, &mut guard).await
        };
        let response = match survive(&self.observer.metrics, decided).await {
            Ok(reply) => guard.answered(answer::reply(reply)),
            Err(refusal) => self.refuse(guard, refusal.of(verb)),
        };
        held(response, under_way)
    }

    fn refuse(&self, mut guard: CallGuard<'_>, refused: RefusedCall) -> Response<ReplyBody> {
        let RefusedCall { response, outcome, text, log } = refused;
        let (verb, caller) = (Verb::name_or_none(guard.verb), guard.caller);
        let turn = if log == LoggedAt::Here { self.refused.turn((verb, outcome)) } else { None };
        if let Some(similar) = turn {
            let trace_id = guard.record.as_ref().and_then(|record| record.trace);
            let trace_id = trace_id.map(|trace| display(trace.trace_id));
            tracing::warn!(verb, %caller, outcome, trace_id, similar, "call rejected: {text}");
        } else {
            tracing::debug!(verb, %caller, outcome, "{text}");
        }
        (guard.outcome, guard.message) = (outcome, text);
        guard.answered(response)
    }
}

impl Served {
    async fn answer(
        &self,
        verb: Verb,
        body: Bytes,
        http_call: &mut HttpCall,
    ) -> Result<Vec<Bytes>, CallRefusal> {
        http_call.request_bytes = body.len();
        let decided = match verb {
            Verb::Filter => verbs::filter(&self.decider, body, http_call).await,
            Verb::Prioritize => verbs::prioritize(&self.decider, body, http_call).await,
            Verb::Preempt => verbs::preempt(&self.decider, body, http_call).await,
            Verb::Bind => verbs::bind(&self.decider, &body, http_call).await,
        };
        decided.map_err(CallRefusal::from)
    }
}

/// The body of a response. The request is in progress until the body is dropped.
type CallBody = HeldBody<ReplyBody, UnderWay>;

fn held(response: Response<ReplyBody>, under_way: UnderWay) -> Response<CallBody> {
    response.map(|body| HeldBody::new(body, under_way))
}

/// The response to a call, also if it panics: one pod that triggers a bug must not stop a cluster.
async fn survive<T>(
    metrics: &Metrics,
    answer: impl Future<Output = Result<T, CallRefusal>>,
) -> Result<T, CallRefusal> {
    // Calls cannot see each other's inconsistent state: shared state is behind locks that are not held across a
    // decision.
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| {
        metrics.panicked();
        Err(CallRefusal::panicked())
    })
}

/// The verb of a request, or the refusal and the verb that it is counted under.
fn requested(head: &Parts, verbs: &VerbPaths) -> Result<Verb, (Option<Verb>, CallRefusal)> {
    let path = head.uri.path();
    let verb = verb_of(path, verbs).ok_or_else(|| (None, CallRefusal::path(path, verbs)))?;
    if head.method == Method::POST { Ok(verb) } else { Err((Some(verb), CallRefusal::method(&head.method))) }
}

#[cfg(test)]
mod tests {
    use super::{CallRefusal, Metrics, Verb, VerbPaths, survive, verb_of};

    #[tokio::test]
    async fn a_call_that_panics_is_answered_and_counted() {
        let metrics = Metrics::new();
        let call = async { panic!("a bug") };
        let refusal: Result<(), CallRefusal> = survive(&metrics, call).await;
        let refused = refusal.unwrap_err().of(Verb::Filter);
        assert_eq!((refused.response.status().as_u16(), refused.outcome), (200, "panic"));
        assert!(metrics.text().contains("extender_gateway_panics_total 1"));
    }

    #[test]
    fn a_path_without_a_verb_is_told_which_there_are() {
        let classic = VerbPaths { filter: "predicates/always_true".into(), ..VerbPaths::default() };
        let refused = CallRefusal::path("/x", &classic).status();
        let ends = "expected a path that ends with /predicates/always_true, /prioritize, /preempt or /bind";
        assert_eq!(refused.text, format!("extender-gateway: no verb in path /x; {ends}"));
    }

    #[test]
    fn the_end_of_the_path_is_the_verb() {
        let classic = VerbPaths { filter: "predicates/always_true".into(), ..VerbPaths::default() };
        for (path, usual, renamed) in [
            ("/filter", Some(Verb::Filter), None),
            ("/scheduler/v1beta1/prioritize", Some(Verb::Prioritize), Some(Verb::Prioritize)),
            ("/a/preempt/", Some(Verb::Preempt), Some(Verb::Preempt)),
            ("/bind", Some(Verb::Bind), Some(Verb::Bind)),
            ("/scheduler/predicates/always_true", None, Some(Verb::Filter)),
            ("/predicates/always_true", None, Some(Verb::Filter)),
            ("/xpredicates/always_true", None, None),
            ("/xfilter", None, None),
            ("/", None, None),
            ("/filter/x", None, None),
            ("/Filter", None, None),
        ] {
            let verbs = (verb_of(path, &VerbPaths::default()), verb_of(path, &classic));
            assert_eq!(verbs, (usual, renamed), "{path}");
        }
    }
}

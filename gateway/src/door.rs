//! The HTTP/JSON front door: what kube-scheduler calls.
//!
//! The last segment of the path is the verb, whatever stands before it. Each verb has its file and its form
//! of saying no, because kube-scheduler reads errors of filter and bind from a body with status 200, and
//! those of prioritize and preempt from the status alone; a status that is not 200 goes out without a body,
//! since a body would cost the connection.

mod answer;
mod body;
mod filter;
mod prioritize;
mod server;

use std::{net::SocketAddr, panic::AssertUnwindSafe, sync::Arc};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{Method, Request, Response, request::Parts};
use hyper::body::Incoming;
use tokio::time::Instant;

pub use self::server::serve;
use self::{
    answer::{Log, Refusal, Refused, Reply},
    body::BodyError,
};
use crate::{decide::Decider, observe::Metrics};

/// What every call at the door needs.
#[derive(Debug)]
pub struct Door {
    /// Decides.
    pub decider: Decider,
    /// Counts.
    pub metrics: Arc<Metrics>,
    /// The largest body of a request, in bytes.
    pub most: usize,
}

/// What kube-scheduler asks of an extender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Filter,
    Prioritize,
    Preempt,
    Bind,
}

impl Verb {
    /// The verb of a path: its last segment.
    fn of(path: &str) -> Option<Self> {
        match path.trim_end_matches('/').rsplit('/').next() {
            Some("filter") => Some(Self::Filter),
            Some("prioritize") => Some(Self::Prioritize),
            Some("preempt") => Some(Self::Preempt),
            Some("bind") => Some(Self::Bind),
            _ => None,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Prioritize => "prioritize",
            Self::Preempt => "preempt",
            Self::Bind => "bind",
        }
    }
}

impl Door {
    /// Answers one request. Never fails: whatever goes wrong has an answer.
    async fn call(&self, request: Request<Incoming>, caller: SocketAddr) -> Response<Reply> {
        let began = Instant::now();
        let (head, body) = request.into_parts();
        let verb = match served(&head) {
            Ok(verb) => verb,
            Err((verb, refusal)) => {
                body::drain(body);
                return self.refuse(verb, refusal.status(), caller);
            }
        };
        match survive(&self.metrics, self.answer(verb, &head, body, began)).await {
            Ok(reply) => {
                self.metrics.called(verb.as_str(), "ok");
                answer::reply(reply)
            }
            Err(refusal) => self.refuse(verb.as_str(), refusal.of(verb), caller),
        }
    }

    async fn answer(
        &self,
        verb: Verb,
        head: &Parts,
        body: Incoming,
        began: Instant,
    ) -> Result<Vec<Bytes>, Refusal> {
        let body = body::read(head, body, self.most).await.map_err(BodyError::refusal)?;
        let decided = match verb {
            Verb::Filter => filter::answer(&self.decider, body, began).await,
            Verb::Prioritize => prioritize::answer(&self.decider, body, began).await,
            Verb::Preempt | Verb::Bind => return Err(Refusal::unsupported(verb)),
        };
        decided.map_err(Refusal::from)
    }

    fn refuse(&self, verb: &'static str, refused: Refused, caller: SocketAddr) -> Response<Reply> {
        self.metrics.called(verb, refused.outcome);
        match refused.log {
            Log::Here => {
                tracing::warn!(verb, %caller, outcome = refused.outcome, "call refused: {}", refused.text);
            }
            Log::AtItsCause => {
                tracing::debug!(verb, %caller, outcome = refused.outcome, "{}", refused.text);
            }
        }
        refused.response
    }
}

/// What a call answers, a panic included: one pod that triggers a bug must not stop a cluster.
async fn survive<T>(
    metrics: &Metrics,
    answer: impl Future<Output = Result<T, Refusal>>,
) -> Result<T, Refusal> {
    // Nothing that a call leaves half done is seen by another: what they share is behind locks that are
    // not held across a decision.
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| {
        metrics.panicked();
        Err(Refusal::panicked())
    })
}

/// The verb that a head asks for, or the refusal and what stands for the verb in metrics.
fn served(head: &Parts) -> Result<Verb, (&'static str, Refusal)> {
    let path = head.uri.path();
    let verb = Verb::of(path).ok_or_else(|| ("none", Refusal::path(path)))?;
    if head.method == Method::POST { Ok(verb) } else { Err((verb.as_str(), Refusal::method(&head.method))) }
}

#[cfg(test)]
mod tests {
    use super::{Metrics, Refusal, Verb, survive};

    #[tokio::test]
    async fn a_call_that_panics_is_answered_and_counted() {
        let metrics = Metrics::new();
        let call = async { panic!("a bug") };
        let refusal: Result<(), Refusal> = survive(&metrics, call).await;
        let refused = refusal.unwrap_err().of(Verb::Filter);
        assert_eq!((refused.response.status().as_u16(), refused.outcome), (200, "panic"));
        assert!(metrics.text().contains("extender_gateway_panics_total 1"));
    }

    #[test]
    fn the_last_segment_is_the_verb() {
        for (path, verb) in [
            ("/filter", Some(Verb::Filter)),
            ("/scheduler/v1beta1/prioritize", Some(Verb::Prioritize)),
            ("/a/preempt/", Some(Verb::Preempt)),
            ("/bind", Some(Verb::Bind)),
            ("/", None),
            ("/filter/x", None),
            ("/Filter", None),
        ] {
            assert_eq!(Verb::of(path), verb, "{path}");
        }
    }
}

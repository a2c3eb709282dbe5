//! A request from when it comes to when it has gone, so that what became of it is known even where nobody waited for the answer.

use std::{
    net::SocketAddr,
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

use extender_otlp::{TRACEPARENT, TraceContext};
use http::{Response, request::Parts};
use hyper::body::Body as _;
use tokio::time::Instant;

use super::answer::Reply;
use crate::{
    account::Visit,
    observe::{Observer, metrics::InFlight},
};

/// A request that is under way. The observer is told of it when it is dropped.
#[derive(Debug)]
pub(super) struct Guest<'o> {
    observer: &'o Arc<Observer>,
    /// There until then.
    visit: Option<Visit>,
    in_flight: Option<InFlight>,
}

impl<'o> Guest<'o> {
    /// It has just come.
    pub(super) fn new(
        observer: &'o Arc<Observer>,
        (head, caller): (&Parts, SocketAddr),
        generation: u64,
    ) -> Self {
        let parent = observer.tracer.as_ref().and_then(|_| head.headers.get(TRACEPARENT));
        let visit = Visit {
            verb: "none",
            began: Instant::now(),
            took: Duration::ZERO,
            caller,
            http: (head.method.clone(), head.version, head.uri.clone()),
            parent: parent.and_then(|parent| TraceContext::parse(parent).ok()),
            generation,
            request_bytes: 0,
            response_bytes: 0,
            status: 0,
            // Until there is an answer: who goes before that is gone.
            outcome: "ok",
            message: String::new(),
            account: None,
        };
        Self { observer, visit: Some(visit), in_flight: None }
    }

    /// It wants this verb.
    pub(super) fn enter(&mut self, verb: &'static str) {
        self.verb = verb;
        self.in_flight = Some(self.observer.metrics.verb(verb).begun());
    }

    /// It leaves with this answer.
    pub(super) fn answered(mut self, response: Response<Reply>) -> Response<Reply> {
        self.status = response.status().as_u16();
        let bytes = response.body().size_hint().exact().unwrap_or_default();
        self.response_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        response
    }
}

impl Deref for Guest<'_> {
    type Target = Visit;

    fn deref(&self) -> &Visit {
        self.visit.as_ref().expect("it is taken when the guest is dropped")
    }
}

impl DerefMut for Guest<'_> {
    fn deref_mut(&mut self) -> &mut Visit {
        self.visit.as_mut().expect("it is taken when the guest is dropped")
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        let Some(mut visit) = self.visit.take() else { return };
        visit.took = visit.began.elapsed();
        if visit.status == 0 {
            visit.outcome = "gone";
            "the caller went before there was an answer".clone_into(&mut visit.message);
        }
        Arc::clone(self.observer).settle_soon(visit);
    }
}

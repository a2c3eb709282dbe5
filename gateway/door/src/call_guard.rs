//! Guards a request from its arrival to its end, so that its outcome is recorded even if the caller disconnects.

use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

use extender_gateway_core::Verb;
use extender_gateway_observe::{Observer, metrics::InFlight};
use extender_gateway_record::{CallOutcome, HttpCall};
use extender_otlp::TraceContext;
use http::{Response, request::Parts};
use hyper::body::Body as _;
use tokio::time::Instant;

use super::{Caller, answer::ReplyBody};

/// A request in progress. Passes its record to the observer when dropped.
#[derive(Debug)]
pub(super) struct CallGuard<'o> {
    observer: &'o Arc<Observer>,
    /// `Some` until it is dropped.
    http_call: Option<HttpCall>,
    in_flight: Option<InFlight>,
}

impl<'o> CallGuard<'o> {
    pub(super) fn new(observer: &'o Arc<Observer>, head: &Parts, caller: Caller, generation: u64) -> Self {
        let parent = observer.tracer.as_ref().and_then(|_| TraceContext::of_caller(&head.headers));
        let http_call = HttpCall {
            verb: None,
            started: Instant::now(),
            took: Duration::ZERO,
            queued: Duration::ZERO,
            caller: caller.address,
            secure: caller.secure,
            flow: caller.flow,
            http: (head.method.clone(), head.version, head.uri.clone()),
            parent,
            generation,
            request_bytes: 0,
            response_bytes: 0,
            status: None,
            outcome: CallOutcome::Ok,
            message: String::new(),
            record: None,
        };
        Self { observer, http_call: Some(http_call), in_flight: None }
    }

    pub(super) fn enter(&mut self, verb: Verb) {
        self.verb = Some(verb);
        self.in_flight = Some(self.observer.metrics.verb(Some(verb)).begin());
    }

    pub(super) fn answered(mut self, response: Response<ReplyBody>) -> Response<ReplyBody> {
        self.status = Some(response.status());
        let bytes = response.body().size_hint().exact().unwrap_or_default();
        self.response_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        response
    }
}

impl Deref for CallGuard<'_> {
    type Target = HttpCall;

    fn deref(&self) -> &HttpCall {
        self.http_call.as_ref().expect("it is taken when the guard is dropped")
    }
}

impl DerefMut for CallGuard<'_> {
    fn deref_mut(&mut self) -> &mut HttpCall {
        self.http_call.as_mut().expect("it is taken when the guard is dropped")
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let Some(mut http_call) = self.http_call.take() else { return };
        http_call.took = http_call.started.elapsed();
        if http_call.status.is_none() {
            http_call.outcome = CallOutcome::Gone;
            "the caller disconnected before the response".clone_into(&mut http_call.message);
        }
        Arc::clone(self.observer).record_later(http_call);
    }
}

#[cfg(test)]
mod tests {
    use extender_gateway_observe::Metrics;
    use http::Request;

    use super::*;

    fn observer() -> Arc<Observer> {
        Arc::new(Observer::new(Arc::new(Metrics::new()), 1 << 20))
    }

    fn head() -> Parts {
        Request::post("/filter").body(()).unwrap().into_parts().0
    }

    fn has(observer: &Observer, line: &str) -> bool {
        observer.metrics.text().contains(&format!("extender_gateway_{line}\n"))
    }

    #[tokio::test]
    async fn who_hangs_up_is_gone_and_not_in_flight_any_more() {
        let observer = observer();
        let mut guard = CallGuard::new(&observer, &head(), Caller::OWN, 1);
        guard.enter(Verb::Filter);
        assert!(has(&observer, "calls_in_flight{verb=\"filter\"} 1"));
        drop(guard);
        assert!(has(&observer, "calls_in_flight{verb=\"filter\"} 0"));
        assert!(!observer.metrics.text().contains("outcome=\"gone\""), "that is counted behind the call");
        tokio::task::yield_now().await;
        assert!(has(&observer, "calls_total{verb=\"filter\",outcome=\"gone\"} 1"));
    }

    #[tokio::test]
    async fn who_is_answered_is_not_gone() {
        let observer = observer();
        let mut guard = CallGuard::new(&observer, &head(), Caller::OWN, 1);
        guard.enter(Verb::Filter);
        assert_eq!(guard.answered(Response::new(ReplyBody::default())).status(), 200);
        tokio::task::yield_now().await;
        assert!(has(&observer, "calls_total{verb=\"filter\",outcome=\"ok\"} 1"));
        assert!(has(&observer, "calls_in_flight{verb=\"filter\"} 0"));
        assert!(!observer.metrics.text().contains("outcome=\"gone\""));
    }
}

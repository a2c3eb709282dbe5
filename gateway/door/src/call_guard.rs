//! Guards a request from its arrival to its end, so that its outcome is recorded even if the caller disconnects.

use std::{mem, sync::Arc};

use extender_gateway_core::Verb;
use extender_gateway_observe::{Observer, metrics::InFlight};
use extender_gateway_record::{CallOutcome, HttpCall};
use extender_otlp::TraceContext;
use http::{Response, StatusCode, request::Parts};
use hyper::body::Body as _;

use super::{Caller, answer::ReplyBody};

/// A request in progress. Passes its record to the observer when dropped.
#[derive(Debug)]
pub(super) struct CallGuard<'o> {
    observer: &'o Arc<Observer>,
    pub(super) call: HttpCall,
    in_flight: Option<InFlight>,
}

impl<'o> CallGuard<'o> {
    pub(super) fn new(observer: &'o Arc<Observer>, head: &Parts, caller: Caller, generation: u64) -> Self {
        let parent = observer.tracer.as_ref().and_then(|_| TraceContext::of_caller(&head.headers));
        let call = HttpCall {
            caller: caller.address,
            secure: caller.secure,
            flow: caller.flow,
            http: (head.method.clone(), head.version, head.uri.clone()),
            parent,
            generation,
            ..HttpCall::default()
        };
        Self { observer, call, in_flight: None }
    }

    pub(super) fn enter(&mut self, verb: Verb) {
        self.call.verb = Some(verb);
        self.in_flight = Some(self.observer.metrics.verb(Some(verb)).begin());
    }

    pub(super) fn answered(mut self, response: Response<ReplyBody>) -> Response<ReplyBody> {
        self.call.status = Some(response.status());
        let bytes = response.body().size_hint().exact().unwrap_or_default();
        self.call.response_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        response
    }

    /// It was decided as a part of another call, which is answered.
    pub(super) fn decided(mut self) {
        self.call.status = Some(StatusCode::OK);
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let mut call = mem::take(&mut self.call);
        call.took = call.started.elapsed();
        if call.status.is_none() {
            call.outcome = CallOutcome::Gone;
            "the caller disconnected before the response".clone_into(&mut call.message);
        }
        Arc::clone(self.observer).record_later(call);
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

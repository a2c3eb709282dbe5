//! `IntrospectionService`: one request in, one JSON value out.

use std::{sync::Arc, time::Duration};

use extender_policy_api::v1beta1::{self as api, introspection_service_server::SERVICE_NAME};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
    time::timeout,
};
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{BoxFuture, http},
    server::{Grpc, UnaryService},
};

use crate::{
    Backend, answer,
    codec::{AdmitAll, RequestCodec},
    deadline::{Arrival, timely},
    error::CallError,
    service::{Answered, method, named, refused},
};

/// The largest request in bytes: args of 1 MiB, a query of 8 KiB and the path.
const MAX_REQUEST_BYTES: usize = 2 << 20;

/// Answers that are made at a time, each of at most 4 MiB. A gateway has at most four requests. Not bounded here: answers
/// that wait to be sent, and requests that are still arriving.
const MAX_AT_ONCE: usize = 8;

/// Requests that wait for that, each of at most [`MAX_REQUEST_BYTES`], and for how long: longer than a gateway does.
const MAX_WAITING: usize = 32;
const MAX_WAIT: Duration = Duration::from_secs(5);

/// Shows what the policies of a backend declare.
#[derive(Clone, Debug)]
pub(crate) struct IntrospectionService {
    backend: Backend,
    turns: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl IntrospectionService {
    pub(crate) fn new(backend: Backend) -> Self {
        let [turns, waiting] = [MAX_AT_ONCE, MAX_WAITING].map(|most| Arc::new(Semaphore::new(most)));
        Self { backend, turns, waiting }
    }

    fn introspect(&self, http: http::Request<Body>) -> Answered {
        let service = self.clone();
        Box::pin(async move {
            let arrival = Arrival::default();
            let mut grpc = Grpc::new(RequestCodec::new(AdmitAll))
                .apply_max_message_size_config(Some(MAX_REQUEST_BYTES), None);
            let answered = grpc.unary(Introspecting { service, arrival: &arrival }, http);
            Ok(timely(answered, &arrival).await)
        })
    }

    /// On a thread of its own, because calls must not wait for a function that collects and encodes megabytes.
    async fn answer(self, request: api::IntrospectRequest) -> Result<api::IntrospectResponse, CallError> {
        let turn = self.turn().await?;
        let answered = spawn_blocking(move || {
            // A thread cannot be cancelled: if the caller has gone, the turn is taken until the policy returns.
            let _turn = turn;
            answer::introspect(&self.backend, &request)
        });
        answered.await.unwrap_or_else(|error| Err(CallError::Stopping(error.to_string())))
    }

    /// Waits for one of the turns.
    async fn turn(&self) -> Result<OwnedSemaphorePermit, CallError> {
        // Nothing closes the semaphores.
        let _waiting = self.waiting.try_acquire().map_err(|_| CallError::ManyShown)?;
        let turn = timeout(MAX_WAIT, Arc::clone(&self.turns).acquire_owned()).await;
        turn.ok().and_then(Result::ok).ok_or(CallError::ManyShown)
    }
}

named!(IntrospectionService, SERVICE_NAME, |this, http| {
    match method(http.uri().path()) {
        "Introspect" => this.introspect(http),
        _ => refused(Status::unimplemented("this service has no such method")),
    }
});

/// Answers one request.
struct Introspecting<'a> {
    service: IntrospectionService,
    arrival: &'a Arrival,
}

impl UnaryService<api::IntrospectRequest> for Introspecting<'_> {
    type Response = api::IntrospectResponse;
    type Future = BoxFuture<Response<Self::Response>, Status>;

    fn call(&mut self, request: Request<api::IntrospectRequest>) -> Self::Future {
        self.arrival.complete();
        let answer = self.service.clone().answer(request.into_inner());
        Box::pin(async move { Ok(Response::new(answer.await?)) })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, future::join_all};
    use tokio::time::Instant;

    use super::*;
    use crate::tests::Filters;

    #[tokio::test(start_paused = true)]
    async fn few_wait_for_a_turn_and_not_for_long() {
        let service = IntrospectionService::new(Filters.into());
        let mut turns: Vec<_> = (0..MAX_AT_ONCE).map(|_| service.turn().now_or_never()).collect();
        assert!(turns.iter().all(|turn| matches!(turn, Some(Ok(_)))));
        let began = Instant::now();
        let waiting = join_all((0..MAX_WAITING).map(|_| service.turn()));
        let more = async {
            let refused = service.turn().now_or_never().unwrap().unwrap_err();
            assert_eq!(Status::from(refused).code(), tonic::Code::Unavailable);
        };
        let (waited, ()) = tokio::join!(waiting, more);
        assert!(waited.iter().all(|turn| matches!(turn, Err(CallError::ManyShown))));
        assert_eq!(began.elapsed(), MAX_WAIT);
        turns.pop();
        assert!(matches!(service.turn().now_or_never(), Some(Ok(_))), "nobody waits any more");
    }
}

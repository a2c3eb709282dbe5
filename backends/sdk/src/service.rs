//! The contract's service over [`answer`]: transport only. It is routed by hand, because the generated service
//! decodes the generated requests.

use std::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};

use extender_policy_api::v1alpha1::{self as api, policy_service_server::SERVICE_NAME};
use prost::Message;
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{BoxFuture, Service as Serve, http},
    server::{Grpc, NamedService, UnaryService},
};

use crate::{
    Backend, MAX_MESSAGE_BYTES, answer,
    codec::{Admission, AdmitAll, Incoming, RequestCodec},
    deadline::{Arrival, timely},
    error::CallError,
    info::declaration::{Declaration, OfVerb},
    request,
    table::Tables,
    telemetry::Tracer,
};

/// Answers calls with the policies of a backend, about nodes in the call or in a table.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    backend: Backend,
    tables: Tables,
    tracer: Tracer,
}

impl Service {
    pub(crate) fn new(backend: Backend, tables: Tables, tracer: Tracer) -> Self {
        Self { backend, tables, tracer }
    }

    fn answered(&self, http: http::Request<Body>) -> Answered {
        match method(http.uri().path()) {
            "GetInfo" => self.unary(http, AdmitAll, answer::info),
            "Filter" => self.unary(http, self.served("Filter", Declaration::filter), answer::filter),
            "Score" => self.unary(http, self.served("Score", Declaration::score), answer::score),
            "Preempt" => self.unary(http, self.served("Preempt", Declaration::preempt), answer::preempt),
            "Bind" => self.bind(http),
            _ => refused(Status::unimplemented("this service has no such method")),
        }
    }

    /// Refuses calls of a verb that the policy does not declare.
    fn served(&self, name: &'static str, verb: OfVerb) -> Served {
        Served { backend: self.backend.clone(), name, verb }
    }

    fn unary<Q, A>(
        &self,
        http: http::Request<Body>,
        admission: impl Admission,
        answer: Answer<Q, A>,
    ) -> Answered
    where
        Q: Incoming,
        A: Message + 'static,
    {
        let verb = Verb { backend: self.backend.clone(), tables: self.tables.clone(), answer };
        let exchanged = exchange(http, admission, verb);
        Box::pin(async move { Ok(timely(exchanged, None).await) })
    }

    fn bind(&self, http: http::Request<Body>) -> Answered {
        let (backend, arrival) = (self.backend.clone(), Arrival::default());
        let admission = self.served("Bind", Declaration::bind);
        let exchanged = exchange(http, admission, Bind { backend, arrival: arrival.clone() });
        Box::pin(async move { Ok(timely(exchanged, Some(arrival)).await) })
    }
}

/// Reads one message, answers it, writes one message.
async fn exchange<Q, V>(http: http::Request<Body>, admission: impl Admission, verb: V) -> http::Response<Body>
where
    Q: Incoming,
    V: UnaryService<Q, Response: Message + 'static, Future: Send> + Send + 'static,
{
    let limit = Some(MAX_MESSAGE_BYTES);
    Grpc::new(RequestCodec::new(admission))
        .apply_max_message_size_config(limit, limit)
        .unary(verb, http)
        .await
}

/// The future HTTP response.
pub(crate) type Answered = BoxFuture<http::Response<Body>, Infallible>;

impl Serve<http::Request<Body>> for Service {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answered;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, http: http::Request<Body>) -> Answered {
        match self.tracer.follow(&http) {
            Some(followed) => followed.through(self.answered(http)),
            None => self.answered(http),
        }
    }
}

impl NamedService for Service {
    const NAME: &'static str = SERVICE_NAME;
}

/// The part of `/extender.policy.v1alpha1.PolicyService/Filter` after the service.
pub(crate) fn method(path: &str) -> &str {
    let service_and_method = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    service_and_method.map_or("", |(_, method)| method)
}

pub(crate) fn refused(status: impl Into<Status>) -> Answered {
    Box::pin(ready(Ok(status.into().into_http())))
}

/// A verb, and whether a policy declares it.
#[derive(Clone)]
struct Served {
    backend: Backend,
    name: &'static str,
    verb: OfVerb,
}

impl Admission for Served {
    fn admit(&self, message: &[u8]) -> Result<(), CallError> {
        let served = answer::served(&self.backend, request::args(message), self.verb)?;
        served.then_some(()).ok_or(CallError::NotServed(self.name))
    }
}

/// One verb of [`answer`].
type Answer<Q, A> = fn(&Backend, &Tables, &Q) -> Result<A, CallError>;

/// A verb with the backend that answers it.
struct Verb<Q, A> {
    backend: Backend,
    tables: Tables,
    answer: Answer<Q, A>,
}

impl<Q, A> UnaryService<Q> for Verb<Q, A> {
    type Response = A;
    type Future = Ready<Result<Response<A>, Status>>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let answered = (self.answer)(&self.backend, &self.tables, request.get_ref());
        ready(answered.map(Response::new).map_err(Status::from))
    }
}

/// Bind with the backend that answers it; the answer may take long.
struct Bind {
    backend: Backend,
    arrival: Arrival,
}

impl UnaryService<api::BindRequest> for Bind {
    type Response = api::BindResponse;
    type Future = BoxFuture<Response<api::BindResponse>, Status>;

    fn call(&mut self, request: Request<api::BindRequest>) -> Self::Future {
        self.arrival.complete();
        let backend = self.backend.clone();
        Box::pin(async move {
            let answered = answer::bind(&backend, request.get_ref()).await;
            answered.map(Response::new).map_err(Status::from)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Info, Policy, Verb};

    struct Filters;

    impl Policy for Filters {
        fn info(&self) -> Info {
            Info::new("filters", "1").filters(Verb::per_node())
        }
    }

    #[test]
    fn a_verb_that_is_not_declared_is_refused_before_its_message_is_decoded() {
        let configured = Backend::configured(|args| {
            if args.is_empty() { Ok(Filters) } else { Err(crate::ArgsError::new("args are not expected")) }
        });
        let admitted = |backend: &Backend, args: &'static [u8]| {
            let call = api::Call { args: args.into(), ..api::Call::default() };
            let request = api::PreemptRequest { call: Some(call), ..api::PreemptRequest::default() };
            // The field after the call is not a message.
            let message = [&*request.encode_to_vec(), &[0x22, 5, 1]].concat();
            let served = Served { backend: backend.clone(), name: "Preempt", verb: Declaration::preempt };
            served.admit(&message)
        };
        for backend in [Filters.into(), configured.clone()] {
            assert_eq!(admitted(&backend, b"{}"), Err(CallError::NotServed("Preempt")));
        }
        let refused = admitted(&configured, b"{\"a\":1}").unwrap_err();
        assert_eq!(refused.to_string(), "args are not expected");
    }
}

//! The contract's service over [`answer`]: nothing but transport in and out. It is routed by
//! hand, because the generated service decodes the generated requests.

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
use tonic_prost::ProstCodec;

use crate::{Backend, MAX_MESSAGE_BYTES, answer, error::CallError, table::Tables, telemetry::Tracer};

/// Answers calls with the policies of a backend, about nodes that stand in the call or in a table.
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
            "GetInfo" => self.unary(http, answer::info),
            "Filter" => self.unary(http, answer::filter),
            "Score" => self.unary(http, answer::score),
            "Preempt" => self.unary(http, answer::preempt),
            "Bind" => Self::exchange(http, Bind { backend: self.backend.clone() }),
            _ => refused(Status::unimplemented("this service has no such method")),
        }
    }

    fn unary<Q, A>(&self, http: http::Request<Body>, answer: Answer<Q, A>) -> Answered
    where
        Q: Message + Default + 'static,
        A: Message + 'static,
    {
        Self::exchange(http, Verb { backend: self.backend.clone(), tables: self.tables.clone(), answer })
    }

    /// Reads one message, answers it, writes one message.
    fn exchange<Q, V>(http: http::Request<Body>, verb: V) -> Answered
    where
        Q: Message + Default + 'static,
        V: UnaryService<Q, Response: Message + 'static, Future: Send> + Send + 'static,
    {
        let limit = Some(MAX_MESSAGE_BYTES);
        let mut grpc = Grpc::new(ProstCodec::default()).apply_max_message_size_config(limit, limit);
        Box::pin(async move { Ok(grpc.unary(verb, http).await) })
    }
}

/// The HTTP response to come.
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

/// What follows the service in `/extender.policy.v1alpha1.PolicyService/Filter`.
pub(crate) fn method(path: &str) -> &str {
    let service_and_method = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    service_and_method.map_or("", |(_, method)| method)
}

pub(crate) fn refused(status: impl Into<Status>) -> Answered {
    Box::pin(ready(Ok(status.into().into_http())))
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

/// Bind with the backend that answers it, which may take its time.
struct Bind {
    backend: Backend,
}

impl UnaryService<api::BindRequest> for Bind {
    type Response = api::BindResponse;
    type Future = BoxFuture<Response<api::BindResponse>, Status>;

    fn call(&mut self, request: Request<api::BindRequest>) -> Self::Future {
        let backend = self.backend.clone();
        Box::pin(async move {
            let answered = answer::bind(&backend, request.get_ref()).await;
            answered.map(Response::new).map_err(Status::from)
        })
    }
}

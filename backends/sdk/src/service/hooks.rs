//! `HookService`: verbs like the others, under a name of their own.

use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use extender_policy_api::v1alpha1::{self as api, hook_service_server::SERVICE_NAME};
use tonic::{
    Status,
    body::Body,
    codegen::{Service as Serve, http},
    server::NamedService,
};

use super::{Answered, Service, Verb, method, refused};
use crate::{
    Backend,
    answer::{self, Patience},
    error::CallError,
    info::declaration::Declaration,
    request::HookRequest,
    table::Tables,
};

/// Answers the hooks of a backend.
#[derive(Clone, Debug)]
pub(crate) struct HookService(pub(crate) Service);

impl Serve<http::Request<Body>> for HookService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answered;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, http: http::Request<Body>) -> Answered {
        self.0.traced(http, answered)
    }
}

impl NamedService for HookService {
    const NAME: &'static str = SERVICE_NAME;
}

fn answered(service: &Service, http: http::Request<Body>) -> Answered {
    match method(http.uri().path()) {
        "BeforeFilter" => {
            let served = service.served("BeforeFilter", Declaration::before_filter);
            service.unary::<BeforeFilter>(http, served)
        }
        "BeforeFilterNodes" => {
            let served = service.served("BeforeFilterNodes", Declaration::before_filter_nodes);
            service.unary::<BeforeFilterNodes>(http, served)
        }
        "BeforeScore" => {
            let served = service.served("BeforeScore", Declaration::before_score);
            service.unary::<BeforeScore>(http, served)
        }
        _ => refused(Status::unimplemented("this service has no such method")),
    }
}

struct BeforeFilter;

impl Verb for BeforeFilter {
    type Request = api::BeforeFilterRequest;
    type Answer = api::BeforeFilterResponse;

    async fn answer(
        backend: &Backend,
        _: &Tables,
        request: &Self::Request,
        patience: Patience,
    ) -> Result<Self::Answer, CallError> {
        answer::before_filter(backend, request, patience).await
    }
}

struct BeforeFilterNodes;

impl Verb for BeforeFilterNodes {
    type Request = HookRequest;
    type Answer = api::BeforeFilterNodesResponse;

    async fn answer(
        backend: &Backend,
        tables: &Tables,
        request: &Self::Request,
        patience: Patience,
    ) -> Result<Self::Answer, CallError> {
        answer::before_filter_nodes(backend, tables, request, patience).await
    }
}

struct BeforeScore;

impl Verb for BeforeScore {
    type Request = HookRequest;
    type Answer = api::BeforeScoreResponse;

    async fn answer(
        backend: &Backend,
        tables: &Tables,
        request: &Self::Request,
        patience: Patience,
    ) -> Result<Self::Answer, CallError> {
        answer::before_score(backend, tables, request, patience).await
    }
}

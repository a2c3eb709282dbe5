//! The contract's service over [`answer`]: transport only. It is routed by hand, because the generated service
//! decodes the generated requests. [`hooks`] is the service of hooks.

mod hooks;

use std::{
    convert::Infallible,
    future::{Ready, pending, ready},
    marker::PhantomData,
    task::{Context, Poll},
};

use extender_policy_api::v1alpha1::{self as api, policy_service_server::SERVICE_NAME};
use futures_util::future::Either;
use prost::Message;
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{BoxFuture, Service as Serve, http},
    server::{Grpc, NamedService, UnaryService},
};

pub(crate) use self::hooks::HookService;
use crate::{
    Backend, MAX_MESSAGE_BYTES,
    answer::{self, Patience, at_once, unpanicking},
    codec::{Admission, AdmitAll, Incoming, RequestCodec},
    deadline::{Arrival, timely},
    error::CallError,
    info::declaration::{Declaration, OfVerb},
    request::{self, FilterRequest, PreemptRequest, ScoreRequest},
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
            "GetInfo" => self.unary::<GetInfo>(http, AdmitAll),
            "Filter" => self.unary::<Filter>(http, self.served("Filter", Declaration::filter)),
            "Score" => self.unary::<Score>(http, self.served("Score", Declaration::score)),
            "Preempt" => self.unary::<Preempt>(http, self.served("Preempt", Declaration::preempt)),
            "Bind" => self.unary::<Bind>(http, self.served("Bind", Declaration::bind)),
            _ => refused(Status::unimplemented("this service has no such method")),
        }
    }

    /// An answer, with a span if the call is traced.
    fn traced(
        &self,
        http: http::Request<Body>,
        answer: fn(&Self, http::Request<Body>) -> Answered,
    ) -> Answered {
        match self.tracer.follow(&http) {
            Some(followed) => followed.through(answer(self, http)),
            None => answer(self, http),
        }
    }

    /// Refuses calls of a verb that the policy does not declare.
    fn served(&self, name: &'static str, verb: OfVerb) -> Served {
        Served { backend: self.backend.clone(), name, verb }
    }

    fn unary<V: Verb>(&self, http: http::Request<Body>, admission: impl Admission) -> Answered {
        let (backend, tables) = (self.backend.clone(), self.tables.clone());
        Box::pin(async move {
            let arrival = Arrival::default();
            let answers = Answers { backend, tables, arrival: &arrival, verb: PhantomData::<V> };
            Ok(timely(exchange(http, admission, answers), &arrival).await)
        })
    }
}

/// Reads one message, answers it, writes one message.
async fn exchange<Q, V>(http: http::Request<Body>, admission: impl Admission, verb: V) -> http::Response<Body>
where
    Q: Incoming,
    V: UnaryService<Q, Response: Message + 'static, Future: Send> + Send,
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
        self.traced(http, Self::answered)
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
trait Verb: Send + Sync + 'static {
    type Request: Incoming + Sync;
    type Answer: Message + 'static;

    fn answer(
        backend: &Backend,
        tables: &Tables,
        request: &Self::Request,
        patience: Patience,
    ) -> impl Future<Output = Result<Self::Answer, CallError>> + Send;
}

struct GetInfo;

impl Verb for GetInfo {
    type Request = api::GetInfoRequest;
    type Answer = api::GetInfoResponse;

    async fn answer(
        backend: &Backend,
        _: &Tables,
        request: &Self::Request,
        _: Patience,
    ) -> Result<Self::Answer, CallError> {
        answer::info(backend, request)
    }
}

struct Filter;

impl Verb for Filter {
    type Request = FilterRequest;
    type Answer = api::FilterResponse;

    async fn answer(
        backend: &Backend,
        tables: &Tables,
        request: &Self::Request,
        patience: Patience,
    ) -> Result<Self::Answer, CallError> {
        answer::filter(backend, tables, request, patience).await
    }
}

struct Score;

impl Verb for Score {
    type Request = ScoreRequest;
    type Answer = api::ScoreResponse;

    async fn answer(
        backend: &Backend,
        tables: &Tables,
        request: &Self::Request,
        patience: Patience,
    ) -> Result<Self::Answer, CallError> {
        answer::score(backend, tables, request, patience).await
    }
}

struct Preempt;

impl Verb for Preempt {
    type Request = PreemptRequest;
    type Answer = api::PreemptResponse;

    async fn answer(
        backend: &Backend,
        tables: &Tables,
        request: &Self::Request,
        patience: Patience,
    ) -> Result<Self::Answer, CallError> {
        answer::preempt(backend, tables, request, patience).await
    }
}

struct Bind;

impl Verb for Bind {
    type Request = api::BindRequest;
    type Answer = api::BindResponse;

    async fn answer(
        backend: &Backend,
        _: &Tables,
        request: &Self::Request,
        patience: Patience,
    ) -> Result<Self::Answer, CallError> {
        if patience == Patience::None {
            pending::<()>().await;
        }
        answer::bind(backend, request).await
    }
}

/// Answers one request of a verb.
struct Answers<'a, V> {
    backend: Backend,
    tables: Tables,
    arrival: &'a Arrival,
    verb: PhantomData<V>,
}

impl<V: Verb> UnaryService<V::Request> for Answers<'_, V> {
    type Response = V::Answer;
    type Future = Either<Ready<Answer<V>>, BoxFuture<Response<V::Answer>, Status>>;

    fn call(&mut self, request: Request<V::Request>) -> Self::Future {
        self.arrival.complete();
        let Self { backend, tables, .. } = self;
        let answered = at_once(V::answer(backend, tables, request.get_ref(), Patience::None));
        if let Some(answered) = answered {
            return Either::Left(ready(response(answered)));
        }
        let (backend, tables) = (backend.clone(), tables.clone());
        Either::Right(Box::pin(async move {
            let answer = V::answer(&backend, &tables, request.get_ref(), Patience::Endless);
            response(unpanicking(answer).await)
        }))
    }
}

/// What a verb gives to tonic.
type Answer<V> = Result<Response<<V as Verb>::Answer>, Status>;

fn response<T>(answered: Result<T, CallError>) -> Result<Response<T>, Status> {
    answered.map(Response::new).map_err(Status::from)
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

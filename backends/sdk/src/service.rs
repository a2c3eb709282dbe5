//! The contract's services of verbs, hooks and outcomes over [`answer`]: transport only. They are routed by hand, because the generated
//! services decode the generated requests.

use std::{
    convert::Infallible,
    future::{Ready, pending, ready},
    marker::PhantomData,
    pin::Pin,
};

use extender_policy_api::v1beta1::{
    self as api, hook_service_server, outcome_service_server, policy_service_server::SERVICE_NAME,
};
use futures_util::future::Either;
use prost::Message;
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{BoxFuture, http},
    server::{Grpc, UnaryService},
};
use tracing::Instrument as _;

use crate::{
    Backend, MAX_MESSAGE_BYTES,
    answer::{self, Patience, at_once, unpanicking},
    backend::{self, NamedArgs},
    calls::{Calls, Record, Recordable, Rejecting},
    codec::{Admission, AdmitAll, Incoming, RequestCodec},
    deadline::{Arrival, timely},
    error::CallError,
    request::{self, ChangeRequest, FilterRequest, PreemptRequest, ScoreRequest},
    table::Tables,
    telemetry::Tracer,
};

/// A service of the contract, under the name by which callers find it.
macro_rules! named {
    ($service:ident, $name:expr, |$this:ident, $http:ident| $answered:expr) => {
        impl tonic::codegen::Service<tonic::codegen::http::Request<tonic::body::Body>> for $service {
            type Response = tonic::codegen::http::Response<tonic::body::Body>;
            type Error = std::convert::Infallible;
            type Future = $crate::service::Answered;

            fn poll_ready(
                &mut self,
                _: &mut std::task::Context<'_>,
            ) -> std::task::Poll<Result<(), Self::Error>> {
                std::task::Poll::Ready(Ok(()))
            }

            fn call(&mut self, $http: tonic::codegen::http::Request<tonic::body::Body>) -> Self::Future {
                let $this = self;
                $answered
            }
        }

        impl tonic::server::NamedService for $service {
            const NAME: &'static str = $name;
        }
    };
}
pub(crate) use named;

/// Answers calls with the policies of a backend, about nodes in the call or in a table.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    backend: Backend,
    tables: Tables,
    tracer: Tracer,
    calls: Calls,
}

impl Service {
    pub(crate) fn new(backend: Backend, tables: Tables, tracer: Tracer, calls: Calls) -> Self {
        Self { backend, tables, tracer, calls }
    }

    fn answered(&self, http: http::Request<Body>) -> Answered {
        let name = http.uri().path().strip_prefix('/').unwrap_or_default();
        match name.strip_prefix("extender.policy.v1beta1.").unwrap_or_default() {
            "PolicyService/GetInfo" => self.unary::<GetInfo>(http, AdmitAll),
            "PolicyService/Filter" => self.declared::<Filter>(http, api::Verb::Filter),
            "PolicyService/Score" => self.declared::<Score>(http, api::Verb::Score),
            "PolicyService/Preempt" => self.declared::<Preempt>(http, api::Verb::Preempt),
            "PolicyService/Bind" => self.declared::<Bind>(http, api::Verb::Bind),
            "HookService/Change" => self.unary::<Change>(http, ServedHook { backend: self.backend.clone() }),
            "OutcomeService/Report" => self.unary::<Report>(http, AdmitAll),
            _ => refused(Status::unimplemented("this service has no such method")),
        }
    }

    /// Refuses calls of a verb that the policy does not declare.
    fn declared<V: ServedVerb>(&self, http: http::Request<Body>, verb: api::Verb) -> Answered {
        self.unary::<V>(http, Served { backend: self.backend.clone(), verb })
    }

    fn unary<V: ServedVerb>(&self, http: http::Request<Body>, admission: impl Admission) -> Answered {
        let (backend, tables) = (self.backend.clone(), self.tables.clone());
        let record = self.calls.begin(V::NAME);
        Box::pin(async move {
            let arrival = Arrival::default();
            let verb = PhantomData::<V>;
            let answers = Answers { backend, tables, arrival: &arrival, record: &record, verb };
            let response = timely(exchange(http, admission, answers), &arrival).await;
            record.ended(response.headers());
            Ok(response)
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

named!(Service, SERVICE_NAME, |this, http| {
    match this.tracer.follow(&http) {
        Some(followed) => followed.through(this.answered(http)),
        None => this.answered(http),
    }
});

/// The same service under the name of `HookService`.
#[derive(Clone, Debug)]
pub(crate) struct HookService(pub(crate) Service);

named!(HookService, hook_service_server::SERVICE_NAME, |this, http| tonic::codegen::Service::call(
    &mut this.0,
    http
));

/// The same service under the name of `OutcomeService`.
#[derive(Clone, Debug)]
pub(crate) struct OutcomeService(pub(crate) Service);

named!(OutcomeService, outcome_service_server::SERVICE_NAME, |this, http| tonic::codegen::Service::call(
    &mut this.0,
    http
));

/// The part of `/extender.policy.v1beta1.PolicyService/Filter` after the service.
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
    verb: api::Verb,
}

impl Admission for Served {
    fn admit(&self, message: &[u8]) -> Result<(), CallError> {
        let (args, args_sha256) = request::args(message);
        answer::served(&self.backend, NamedArgs::sent(args, args_sha256), Ok(self.verb))
    }
}

/// The hook that a request names, and whether a policy declares it.
#[derive(Clone)]
struct ServedHook {
    backend: Backend,
}

impl Admission for ServedHook {
    fn admit(&self, message: &[u8]) -> Result<(), CallError> {
        let (args, args_sha256) = request::args(message);
        answer::served(
            &self.backend,
            NamedArgs::sent(args, args_sha256),
            answer::hook(request::hook(message)),
        )
    }
}

/// A verb of [`answer`].
trait ServedVerb: Send + Sync + 'static {
    /// Of the method, before its request is read.
    const NAME: &'static str;

    type Request: Incoming + Recordable + Sync;
    type Answer: Message + Rejecting + 'static;

    /// As failures name it.
    fn method(request: &Self::Request) -> &'static str;

    fn answer(
        backend: &Backend,
        tables: &Tables,
        request: &Self::Request,
        patience: Patience,
    ) -> impl Future<Output = Result<Self::Answer, CallError>> + Send;
}

/// A verb, its messages, and how it is answered.
macro_rules! verb {
    ($verb:ident: $request:ty => $answer:ty, |$backend:ident, $tables:pat_param, $asked:ident, $patience:pat_param| $answered:expr) => {
        struct $verb;

        impl ServedVerb for $verb {
            const NAME: &'static str = stringify!($verb);

            type Request = $request;
            type Answer = $answer;

            fn method(_: &Self::Request) -> &'static str {
                Self::NAME
            }

            async fn answer(
                $backend: &Backend,
                $tables: &Tables,
                $asked: &Self::Request,
                $patience: Patience,
            ) -> Result<Self::Answer, CallError> {
                $answered
            }
        }
    };
}

verb!(GetInfo: api::GetInfoRequest => api::GetInfoResponse, |backend, _, request, _| {
    answer::info(backend, request)
});
verb!(Filter: FilterRequest => api::FilterResponse, |backend, tables, request, patience| {
    answer::filter(backend, tables, request, patience).await
});
verb!(Score: ScoreRequest => api::ScoreResponse, |backend, tables, request, patience| {
    answer::score(backend, tables, request, patience).await
});
verb!(Preempt: PreemptRequest => api::PreemptResponse, |backend, tables, request, patience| {
    answer::preempt(backend, tables, request, patience).await
});
verb!(Bind: api::BindRequest => api::BindResponse, |backend, _, request, patience| {
    if patience == Patience::None {
        pending::<()>().await;
    }
    answer::bind(backend, request).await
});

verb!(Report: api::ReportRequest => api::ReportResponse, |backend, _, request, _| {
    answer::report(backend, request)
});

/// A hook, which the request names.
struct Change;

impl ServedVerb for Change {
    const NAME: &'static str = "Change";

    type Request = ChangeRequest;
    type Answer = api::ChangeResponse;

    fn method(request: &Self::Request) -> &'static str {
        backend::method(request.hook())
    }

    async fn answer(
        backend: &Backend,
        tables: &Tables,
        request: &Self::Request,
        patience: Patience,
    ) -> Result<Self::Answer, CallError> {
        answer::change(backend, tables, request, patience).await
    }
}

/// Answers one request of a verb.
struct Answers<'a, V> {
    backend: Backend,
    tables: Tables,
    arrival: &'a Arrival,
    record: &'a Record,
    verb: PhantomData<V>,
}

impl<'a, V: ServedVerb> UnaryService<V::Request> for Answers<'a, V> {
    type Response = V::Answer;
    type Future = Either<Ready<Answer<V>>, Pin<Box<dyn Future<Output = Answer<V>> + Send + 'a>>>;

    fn call(&mut self, request: Request<V::Request>) -> Self::Future {
        self.arrival.complete();
        let Self { backend, tables, record, .. } = self;
        let (record, about, method) = (*record, request.get_ref().about(), V::method(request.get_ref()));
        record.asked(method, about);
        let span = about.span();
        let answered =
            span.in_scope(|| at_once(method, V::answer(backend, tables, request.get_ref(), Patience::None)));
        if let Some(answered) = answered {
            return Either::Left(ready(response::<V>(answered, record, about.nodes)));
        }
        let (backend, tables, nodes) = (backend.clone(), tables.clone(), about.nodes);
        let answer = async move {
            let answer = V::answer(&backend, &tables, request.get_ref(), Patience::Endless);
            response::<V>(unpanicking(method, answer).await, record, nodes)
        };
        Either::Right(Box::pin(answer.instrument(span)))
    }
}

/// What a verb gives to tonic.
type Answer<V> = Result<Response<<V as ServedVerb>::Answer>, Status>;

fn response<V: ServedVerb>(
    answered: Result<V::Answer, CallError>,
    record: &Record,
    nodes: Option<u32>,
) -> Answer<V> {
    let answer = answered?;
    record.answered(answer.rejected(nodes));
    Ok(Response::new(answer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Filters;

    #[test]
    fn a_verb_that_is_not_declared_is_refused_before_its_message_is_decoded() {
        let configured = Backend::configured(|args| {
            if args.is_empty() { Ok(Filters) } else { Err(crate::ArgsError::new("args are not expected")) }
        });
        let admitted = |backend: &Backend, args: &'static [u8]| {
            let args_sha256 = crate::digest::sha256(args).to_vec().into();
            let call = api::Call { args: args.into(), args_sha256, ..api::Call::default() };
            let request = api::PreemptRequest { call: Some(call), ..api::PreemptRequest::default() };
            // The field after the call is not a message.
            let message = [&*request.encode_to_vec(), &[0x22, 5, 1]].concat();
            let served = Served { backend: backend.clone(), verb: api::Verb::Preempt };
            served.admit(&message)
        };
        for backend in [Filters.into(), configured.clone()] {
            assert_eq!(admitted(&backend, b"{}"), Err(CallError::NotServed("Preempt")));
        }
        let refused = admitted(&configured, b"{\"a\":1}").unwrap_err();
        assert_eq!(refused.to_string(), "args are not expected");
    }
}

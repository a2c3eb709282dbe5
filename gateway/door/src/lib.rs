//! The HTTP/JSON front door: what kube-scheduler calls.
//!
//! The verb is the last segment of the path. Each verb has its own form of errors, because kube-scheduler reads
//! errors of filter and bind from a body with status 200, and those of prioritize and preempt only from the status.
//! A status other than 200 has no body, since a body would cost the connection.

mod accept;
mod admission;
mod answer;
mod body;
mod call_guard;
mod connection;
mod in_flight;
mod limit;
mod pages;
mod plugin;
mod server;
mod tls;
mod turns;
mod write_timeout;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use extender_gateway_core::{Assignment, Verb};
use futures_util::FutureExt;
use http::{Method, Request, Response, Version, header::ORIGIN, request::Parts};
use hyper::body::Incoming;
use tokio::time::Instant;
use tracing::{Instrument, Span, field::display};

use self::{
    admission::{Admission, Received},
    answer::{CallRefusal, ReplyBody},
    call_guard::CallGuard,
    in_flight::{BodyBytes, BytesInFlight},
    limit::{AnswerInProgress, RequestInProgress},
    plugin::{AssumedPods, NodeLists, PluginCall, PluginMethod, States},
    turns::{FlowTurns, Turns},
};
pub use self::{
    answer::HeldBody,
    limit::Address,
    pages::{PageCaller, Pages},
    plugin::v1alpha1,
};
pub use self::{
    server::{Entrance, serve},
    tls::{Tls, TlsError},
    turns::Busy,
};
use extender_gateway_backend::Backend;
use extender_gateway_decide::{Call, CallError, CallerNeeds, Decider, Filtered, PreemptCall};
use extender_gateway_object::pod::ObjectPod;
use extender_gateway_observe::{Metrics, Observer};
use extender_gateway_pace::fair_queue::Flow;
use extender_gateway_pace::rate_limited_log::RateLimitedLog;
use extender_gateway_record::{CallOutcome, CallRecord, HttpCall, PodRef, RequestedNodes};
use extender_gateway_settings::{Config, ConfigSummary, VerbPaths};
use extender_gateway_wire::{self as wire, PreemptRequest, Request as NodesRequest, reply};

/// The data shared by all connections at the door.
#[derive(Debug)]
pub struct Door {
    /// The configuration that answers calls, replaced by a reload. A call uses the same one from start to end.
    pub served: ArcSwap<Served>,
    /// Receives the records of calls.
    pub observer: Arc<Observer>,
    /// The bodies of the requests in progress.
    in_flight: Arc<BytesInFlight>,
    /// The calls that wait for the thread that decides them.
    turns: Arc<Turns>,
    /// The nodes that plugins name by their positions.
    lists: NodeLists,
    /// The pods that plugins have placed.
    assumed: AssumedPods,
    states: States,
    /// Limits log lines about refused calls, by verb and outcome.
    refused: RateLimitedLog<(&'static str, CallOutcome)>,
}

/// What answers calls under one configuration.
#[derive(Debug)]
pub struct Served {
    /// Makes the decisions.
    pub decider: Decider,
    /// The largest request body, in bytes.
    pub most: usize,
    /// The most of all bodies of requests in progress, in bytes.
    pub most_in_flight: usize,
    /// The last path segment of each verb.
    pub verbs: VerbPaths,
    /// The configuration.
    pub config: Config,
    /// What is shown of it.
    pub summary: ConfigSummary,
    /// The generation of the configuration, starting at 1.
    pub generation: u64,
}

/// Who makes a call.
#[derive(Clone, Copy, Debug)]
struct Caller {
    address: SocketAddr,
    /// Whether it uses TLS.
    secure: bool,
    flow: Flow,
}

impl Caller {
    /// This process.
    const OWN: Self =
        Self { address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0), secure: false, flow: Flow::Own };
}

/// Refuses a caller of the plugin's service who may not have pods counted.
fn permit_plugin(head: &Parts, caller: Caller) -> Result<(), CallRefusal> {
    refuse_page(head)?;
    match caller.flow {
        Flow::Socket | Flow::Certificate(_) => Ok(()),
        Flow::Address(_) | Flow::Own => Err(CallRefusal::no_plugin()),
    }
}

/// The verb of a path, whatever precedes its last segment.
fn verb_of(path: &str, verbs: &VerbPaths) -> Option<Verb> {
    let path = path.trim_end_matches('/');
    let ends = |end: &str| path.strip_suffix(end).is_some_and(|before| before.ends_with('/'));
    let VerbPaths { filter, prioritize, preempt, bind } = verbs;
    Verb::ALL.into_iter().find(|verb| match verb {
        Verb::Filter => ends(filter),
        Verb::Prioritize => ends(prioritize),
        Verb::Preempt => ends(preempt),
        Verb::Bind => ends(bind),
    })
}

impl Door {
    /// A door that initially answers by this configuration.
    pub fn new(served: Served, observer: Arc<Observer>) -> Self {
        Self::on_thread(Busy::default(), served, observer)
    }

    /// The same on a thread that says when it is idle.
    pub fn on_thread(busy: Busy, served: Served, observer: Arc<Observer>) -> Self {
        let turns = Arc::new(Turns::new(busy));
        let waiting = Arc::downgrade(&turns);
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        observer.metrics.process().waiting_calls.set(move || Some(waiting.upgrade()?.waiting() as f64));
        Self {
            served: ArcSwap::from_pointee(served),
            observer,
            in_flight: Arc::default(),
            turns,
            lists: NodeLists::default(),
            assumed: AssumedPods::default(),
            states: States::default(),
            refused: RateLimitedLog::default(),
        }
    }

    /// Answers one request. Never fails: every error has a response.
    async fn call(
        &self,
        request: Request<Incoming>,
        caller: Caller,
        in_progress: RequestInProgress,
    ) -> Response<CallBody> {
        let (head, body) = request.into_parts();
        let awaited = in_progress.awaits_body();
        let served = self.served.load_full();
        let mut bytes = self.in_flight.request(served.most_in_flight);
        let turns = FlowTurns { turns: &self.turns, flow: caller.flow };
        let admission =
            |verb, arrived| Admission { turns, arrived, longest: served.config.timeouts.longest_wait(verb) };
        let method = PluginMethod::of(head.uri.path()).filter(|_| head.version == Version::HTTP_2);
        if let Some(method) = method.map(|method| permit_plugin(&head, caller).and(method)) {
            let verb = method.as_ref().map_or(Verb::Filter, |method| method.verb());
            let admission = admission(verb, Instant::now());
            let received = admission.admit(&head, body, served.most, &mut bytes, awaited);
            let call = PluginCall { door: self, served: &served, head: &head, caller };
            let response = call.response(method, received).await;
            return response.map(|body| HeldBody::new(body, (in_progress.answers(), bytes)));
        }
        let mut guard = CallGuard::new(&self.observer, &head, caller, served.generation);
        guard.call.verb = verb_of(head.uri.path(), &served.verbs);
        let response = match requested(guard.call.verb, &head, &served.verbs) {
            Err(refusal) => {
                body::drain(&head, body, turns);
                let response = refusal.status();
                self.refuse(guard, refusal, response)
            }
            Ok(verb) => {
                let admission = admission(verb, guard.call.started);
                let received = admission.admit(&head, body, served.most, &mut bytes, awaited);
                self.decide(verb, received, &served, guard).await
            }
        };
        response.map(|body| HeldBody::new(body, (in_progress.answers(), bytes)))
    }

    /// Answers a call of this process, with this body. It is decided, recorded and counted like one of kube-scheduler;
    /// the record has the result.
    pub async fn call_locally(&self, verb: Verb, body: Bytes) {
        let served = self.served.load_full();
        let (mut head, ()) = Request::new(()).into_parts();
        head.method = Method::POST;
        let mut guard = CallGuard::new(&self.observer, &head, Caller::OWN, served.generation);
        guard.call.verb = Some(verb);
        let received = Received { body, queued: Duration::ZERO };
        self.decide(verb, async { Ok(received) }, &served, guard).await;
    }

    /// The response to a call, from its body.
    async fn decide(
        &self,
        verb: Verb,
        received: impl Future<Output = Result<Received, CallRefusal>>,
        served: &Served,
        mut guard: CallGuard<'_>,
    ) -> Response<ReplyBody> {
        guard.enter(verb);
        let decided = async {
            let Received { body, queued } = received.await?;
            guard.call.queued = queued;
            // Its future has some 15 KiB, which would be copied with each of those around it.
            Box::pin(served.answer(verb, body, &mut guard.call)).await.map_err(CallRefusal::from)
        };
        match survive(&self.observer.metrics, decided).await {
            Ok(reply) => guard.answered(answer::success(reply)),
            Err(refusal) => {
                let response = refusal.response(verb);
                self.refuse(guard, refusal, response)
            }
        }
    }

    /// Logs a refusal and ends its call with this response.
    fn refuse(
        &self,
        mut guard: CallGuard<'_>,
        refusal: CallRefusal,
        response: Response<ReplyBody>,
    ) -> Response<ReplyBody> {
        let CallRefusal { outcome, text, is_logged, .. } = refusal;
        let (verb, caller) = (Verb::name_or_none(guard.call.verb), guard.call.caller);
        let permit = if is_logged { None } else { self.refused.permit_of((verb, outcome)) };
        if let Some(similar) = permit {
            let trace_id = guard.call.record.as_ref().and_then(|record| record.trace);
            let trace_id = trace_id.map(|trace| display(trace.trace_id));
            tracing::warn!(verb, %caller, outcome = outcome.as_str(), trace_id, similar, "call rejected: {text}");
        } else {
            tracing::debug!(verb, %caller, outcome = outcome.as_str(), "{text}");
        }
        (guard.call.outcome, guard.call.message) = (outcome, text);
        guard.answered(response)
    }
}

/// The body of a response. The request is in progress, and its memory in use, until the body is dropped.
type CallBody = HeldBody<ReplyBody, (AnswerInProgress, BodyBytes)>;

/// The verb of a request, unless its path, its method or its origin is refused.
fn requested(verb: Option<Verb>, head: &Parts, verbs: &VerbPaths) -> Result<Verb, CallRefusal> {
    refuse_page(head)?;
    let path = head.uri.path();
    let no_verb = || {
        PluginMethod::of(path).map_or_else(|| CallRefusal::path(path, verbs), |_| CallRefusal::no_plugin())
    };
    let verb = verb.ok_or_else(no_verb)?;
    if head.method == Method::POST { Ok(verb) } else { Err(CallRefusal::method(&head.method)) }
}

/// Refuses what a web page sends. A browser sends a page's POST without asking first, to any address that it reaches, with the
/// certificate of its user, and says whose page it is.
fn refuse_page(head: &Parts) -> Result<(), CallRefusal> {
    let is_of_page = head.headers.contains_key(ORIGIN) || head.headers.contains_key("sec-fetch-site");
    if is_of_page { Err(CallRefusal::browser()) } else { Ok(()) }
}

/// The result of a call, also if it panics: one pod that triggers a bug must not stop a cluster.
async fn survive<T>(
    metrics: &Metrics,
    answer: impl Future<Output = Result<T, CallRefusal>>,
) -> Result<T, CallRefusal> {
    // Calls cannot see each other's inconsistent state: shared state is behind locks that are not held across a
    // decision.
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| {
        metrics.panicked();
        Err(CallRefusal::panicked())
    })
}

/// Log lines below name the call. Only at level debug: a span that is written costs a call 6 to 9 allocations and 2 µs.
fn log_span(verb: Verb, record: &CallRecord) -> Span {
    let PodRef { namespace, name: pod, .. } = &record.pod;
    let trace_id = record.trace.map(|trace| display(trace.trace_id));
    tracing::debug_span!("call", verb = verb.name(), pod, namespace, trace_id)
}

impl Served {
    /// The backends that have to answer before the gateway is ready, each with the reason while it is not connected.
    pub fn required(&self) -> Vec<(String, Option<String>)> {
        let required = &self.config.readiness.backends;
        let required =
            self.decider.backends().filter(|backend| required.contains(backend.settings.name.as_str()));
        let failure = |backend: &Backend| backend.any_session().err().map(|failure| failure.to_string());
        required.map(|backend| (backend.settings.name.to_string(), failure(backend))).collect()
    }

    /// Decides a call from its body.
    async fn answer(
        &self,
        verb: Verb,
        body: Bytes,
        http_call: &mut HttpCall,
    ) -> Result<reply::Body, CallError> {
        http_call.request_bytes = body.len();
        match verb {
            Verb::Filter | Verb::Prioritize => self.about_nodes(verb, body, http_call).await,
            Verb::Preempt => self.preempt(body, http_call).await,
            Verb::Bind => self.bind(&body, http_call).await,
        }
    }

    /// Answers `ExtenderArgs` with an `ExtenderFilterResult` or a `HostPriorityList`.
    async fn about_nodes(
        &self,
        verb: Verb,
        body: Bytes,
        http_call: &mut HttpCall,
    ) -> Result<reply::Body, CallError> {
        let request = Arc::new(self.decider.read(body)?);
        let json = request.pod();
        let pod = self.decider.pod(&json)?;
        if verb == Verb::Filter {
            let filtered = self.filter(&request, &pod, CallerNeeds::default(), http_call).await?;
            Ok(reply::filtered(&request, &filtered.rejected, &filtered.reasons))
        } else {
            let totals = self.prioritize(&request, &pod, http_call).await?;
            Ok(reply::prioritized(&request, &totals))
        }
    }

    /// Decides which of the nodes the pod may not run on. `needs` is as in [`Call`].
    async fn filter(
        &self,
        request: &Arc<NodesRequest>,
        pod: &ObjectPod<'_>,
        needs: CallerNeeds,
        http_call: &mut HttpCall,
    ) -> Result<Filtered, CallError> {
        let (call, record) = self.begun(request, pod, http_call);
        let call = Call { needs, ..call };
        let span = log_span(Verb::Filter, record);
        self.decider.filter(call, record).instrument(span).await
    }

    /// The total score of each node; `None` for one that is not listed.
    async fn prioritize(
        &self,
        request: &Arc<NodesRequest>,
        pod: &ObjectPod<'_>,
        http_call: &mut HttpCall,
    ) -> Result<Vec<Option<i64>>, CallError> {
        let (call, record) = self.begun(request, pod, http_call);
        let span = log_span(Verb::Prioritize, record);
        self.decider.prioritize(call, record).instrument(span).await
    }

    /// A call about nodes, and its record.
    fn begun<'c>(
        &self,
        request: &'c Arc<NodesRequest>,
        pod: &'c ObjectPod<'c>,
        http_call: &'c mut HttpCall,
    ) -> (Call<'c>, &'c mut CallRecord) {
        let nodes = RequestedNodes::Offered(Arc::clone(request));
        let (began, parent, flow) = (http_call.started, http_call.parent, http_call.flow);
        let record = http_call.record.insert(self.decider.record_of(pod, nodes, began, parent));
        (Call { request, pod, began, flow, needs: CallerNeeds::default() }, record)
    }

    /// Answers `ExtenderPreemptionArgs` with an `ExtenderPreemptionResult`.
    async fn preempt(&self, body: Bytes, http_call: &mut HttpCall) -> Result<reply::Body, CallError> {
        let request = Arc::new(PreemptRequest::read(body)?);
        let json = request.pod();
        let pod = self.decider.pod(&json)?;
        let nodes = RequestedNodes::Candidates(Arc::clone(&request));
        let (began, parent) = (http_call.started, http_call.parent);
        let record = http_call.record.insert(self.decider.record_of(&pod, nodes, began, parent));
        let call = PreemptCall { request: &request, pod: &pod, began, flow: http_call.flow };
        let span = log_span(Verb::Preempt, record);
        let left = self.decider.preempt(call, record).instrument(span).await?;
        Ok(wire::preempt::preempted(&request, &left))
    }

    /// Answers `ExtenderBindingArgs` with an `ExtenderBindingResult`.
    async fn bind(&self, body: &[u8], http_call: &mut HttpCall) -> Result<reply::Body, CallError> {
        let assignment = wire::bind::read(body)?;
        let nodes = RequestedNodes::Target(assignment.node.clone());
        let Assignment { namespace, name, uid, .. } = assignment.clone();
        let pod = PodRef { namespace, name, uid, ..PodRef::default() };
        let (began, parent) = (http_call.started, http_call.parent);
        let record = http_call.record.insert(self.decider.record(pod, nodes, began, parent));
        let span = log_span(Verb::Bind, record);
        self.decider.bind(&assignment, began, http_call.flow, record).instrument(span).await?;
        Ok(reply::bound())
    }
}

#[cfg(test)]
mod tests {
    use super::{CallOutcome, CallRefusal, Metrics, Verb, VerbPaths, survive, verb_of};

    #[tokio::test]
    async fn a_call_that_panics_is_answered_and_counted() {
        let metrics = Metrics::new();
        let call = async { panic!("a bug") };
        let refusal: Result<(), CallRefusal> = survive(&metrics, call).await;
        let refusal = refusal.unwrap_err();
        assert_eq!(
            (refusal.response(Verb::Filter).status().as_u16(), refusal.outcome),
            (200, CallOutcome::Panic)
        );
        assert!(metrics.text().contains("extender_gateway_panics_total 1"));
    }

    #[test]
    fn a_path_without_a_verb_is_told_which_there_are() {
        let classic = VerbPaths { filter: "predicates/always_true".into(), ..VerbPaths::default() };
        let refused = CallRefusal::path("/x", &classic);
        let ends = "expected a path that ends with /predicates/always_true, /prioritize, /preempt or /bind";
        assert_eq!(refused.text, format!("extender-gateway: no verb in path /x; {ends}"));
    }

    #[test]
    fn the_end_of_the_path_is_the_verb() {
        let classic = VerbPaths { filter: "predicates/always_true".into(), ..VerbPaths::default() };
        for (path, usual, renamed) in [
            ("/filter", Some(Verb::Filter), None),
            ("/scheduler/v1beta1/prioritize", Some(Verb::Prioritize), Some(Verb::Prioritize)),
            ("/a/preempt/", Some(Verb::Preempt), Some(Verb::Preempt)),
            ("/bind", Some(Verb::Bind), Some(Verb::Bind)),
            ("/scheduler/predicates/always_true", None, Some(Verb::Filter)),
            ("/predicates/always_true", None, Some(Verb::Filter)),
            ("/xpredicates/always_true", None, None),
            ("/xfilter", None, None),
            ("/", None, None),
            ("/filter/x", None, None),
            ("/Filter", None, None),
        ] {
            let verbs = (verb_of(path, &VerbPaths::default()), verb_of(path, &classic));
            assert_eq!(verbs, (usual, renamed), "{path}");
        }
    }
}

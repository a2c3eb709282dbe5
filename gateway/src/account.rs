//! What one call was and what became of it: put down while it is decided, read by who shows it.
//!
//! Nothing here decides anything. What a decision has at hand anyway is moved into its account, so that the way of a
//! call is spared the work of showing it: logs, metrics and traces are made from the account behind the answer.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use extender_gateway_core::{BackendFailure, FailureKind, FailurePolicy, filter::Heard, score::Ballot};
use extender_otlp::TraceContext;
use tokio::time::Instant;

use crate::{
    backend::{Backend, question::Form},
    object::pod::ObjectPod,
    wire::{PreemptRequest, Request},
};

/// One request at the door, whatever came of it.
#[derive(Debug)]
pub struct Visit {
    /// `filter`, `prioritize`, `preempt` or `bind`; `none` where the path has no verb.
    pub verb: &'static str,
    /// When it came.
    pub began: Instant,
    /// How long the answer took.
    pub took: Duration,
    /// Who asked.
    pub caller: SocketAddr,
    /// How: the HTTP method and version, and the request's target.
    pub http: (http::Method, http::Version, http::Uri),
    /// The caller's span, where it named one and traces are made.
    pub parent: Option<TraceContext>,
    /// Under which configuration it was decided.
    pub generation: u64,
    /// Bytes of the request's body, as far as it was read.
    pub request_bytes: usize,
    /// Bytes of the answer's body.
    pub response_bytes: usize,
    /// The answer's HTTP status; 0 where nobody waited for it.
    pub status: u16,
    /// `ok`, or in one word why there is no decision.
    pub outcome: &'static str,
    /// The same in a sentence; empty for `ok`.
    pub message: String,
    /// What was decided, and how; `None` where the request could not be read.
    pub account: Option<Account>,
}

/// What one call was and what became of it.
#[derive(Debug)]
pub struct Account {
    /// Its id, which the backends are told.
    pub id: String,
    /// When it came.
    pub time: SystemTime,
    /// When it came, for what took how long.
    pub began: Instant,
    /// The span of the decision, where traces are made.
    pub trace: Option<TraceContext>,
    /// The span that the pod's annotation names.
    pub annotated: Option<TraceContext>,
    /// The pod.
    pub pod: Subject,
    /// What was to be decided about.
    pub nodes: Nodes,
    /// How many nodes were left; `None` where the call ended with an error, and in verbs that leave all.
    pub left: Option<u32>,
    /// The backends that had a part in it, in the order in which their answers count.
    pub parts: Vec<Part>,
}

/// The pod of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Subject {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `status.nominatedNodeName`; empty where there is none.
    pub nominated: String,
}

impl From<&ObjectPod<'_>> for Subject {
    fn from(pod: &ObjectPod<'_>) -> Self {
        Self {
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            nominated: pod.nominated_node_name().to_owned(),
        }
    }
}

/// The nodes of a call.
#[derive(Debug, Clone)]
pub enum Nodes {
    /// Those of filter and prioritize.
    Offered(Arc<Request>),
    /// Those of preempt.
    Candidates(Arc<PreemptRequest>),
    /// That of bind.
    Target(String),
}

impl Nodes {
    /// How many there are.
    pub fn count(&self) -> u32 {
        match self {
            Self::Offered(request) => request.names.count(),
            Self::Candidates(request) => request.count(),
            Self::Target(_) => 1,
        }
    }
}

/// One backend's part in a call.
#[derive(Debug)]
pub struct Part {
    /// Who.
    pub backend: Arc<Backend>,
    /// What its failure means.
    pub policy: Policy,
    /// Positions of nodes that it could not be told about, ascending.
    pub unknown: Vec<u32>,
    /// Each time that it was asked.
    pub inquiries: Vec<Inquiry>,
    /// What it said.
    pub said: Said,
    /// What it thinks of the decision, where it was asked beside it.
    pub opinion: Option<Opinion>,
}

/// Whether a shadow would have changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opinion {
    /// It would not.
    Agrees,
    /// It would.
    Disagrees,
    /// It gave no usable answer.
    Failed,
}

impl Opinion {
    /// In one word, as metrics have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Disagrees => "disagrees",
            Self::Failed => "failed",
        }
    }
}

/// What becomes of a call when a backend fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The call ends with an error, if nodes are left for this backend.
    Fail,
    /// It is left out of the decision.
    Ignore,
    /// The next one is asked to bind, unless the pod turns out to be bound.
    Next,
}

impl Policy {
    /// In one word, as metrics and logs have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Ignore => "ignore",
            Self::Next => "next",
        }
    }
}

impl From<FailurePolicy> for Policy {
    fn from(policy: FailurePolicy) -> Self {
        match policy {
            FailurePolicy::Fail => Self::Fail,
            FailurePolicy::Ignore => Self::Ignore,
        }
    }
}

/// What a backend said in a call.
#[derive(Debug)]
pub enum Said {
    /// Nothing yet, or nobody waited for it any more.
    Nothing,
    /// There is no usable answer.
    Failed(BackendFailure),
    /// Filter: which nodes it refuses.
    Refused(Heard),
    /// Prioritize: how good nodes are. Of these scores so many were outside the range that it declares.
    Scored(Ballot, usize),
    /// Preempt: the candidates that are left by it, and how many victims on each.
    Kept(Vec<(u32, u32)>),
    /// Bind: in a few words.
    Words(String),
}

impl Part {
    /// Before it is asked.
    pub fn new(backend: &Arc<Backend>, policy: Policy) -> Self {
        let backend = Arc::clone(backend);
        Self {
            backend,
            policy,
            unknown: Vec::new(),
            inquiries: Vec::new(),
            said: Said::Nothing,
            opinion: None,
        }
    }
}

/// Finding out what a backend says: from what is known, and for the rest by asking it.
#[derive(Debug)]
pub struct Inquiry {
    /// When it began.
    pub began: Instant,
    /// How long it took.
    pub took: Duration,
    /// How many nodes the backend was asked about.
    pub asked: u32,
    /// For how many its answer was known.
    pub known: u32,
    /// From where.
    pub source: Source,
    /// The questions that went to it.
    pub exchanges: Exchanges,
    /// Why there is no answer.
    pub failure: Option<FailureKind>,
}

/// From where answers are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// They are remembered from other pods.
    Memory,
    /// They came with the answer to filter.
    Filter,
}

/// The questions that went to a backend.
#[derive(Debug, Default)]
pub struct Exchanges {
    /// The span that they are parts of, where traces are made.
    trace: Option<TraceContext>,
    all: Vec<Exchange>,
}

impl Exchanges {
    /// The span of the next question.
    pub fn span(&self) -> Option<TraceContext> {
        self.trace.as_ref().map(TraceContext::child)
    }

    /// Adds one.
    pub fn push(&mut self, exchange: Exchange) {
        self.all.push(exchange);
    }

    /// Those so far.
    pub fn all(&self) -> &[Exchange] {
        &self.all
    }
}

impl Inquiry {
    /// Begins now, as a part of this span.
    pub fn begin(trace: Option<TraceContext>) -> Self {
        Self {
            began: Instant::now(),
            took: Duration::ZERO,
            asked: 0,
            known: 0,
            source: Source::Memory,
            exchanges: Exchanges { trace, all: Vec::new() },
            failure: None,
        }
    }

    /// Of so many nodes the backend's answer is known.
    pub fn knows(&mut self, nodes: usize) {
        self.known = u32::try_from(nodes).unwrap_or(u32::MAX);
    }

    /// The backend is asked about so many nodes.
    pub fn asks_about(&mut self, nodes: usize) {
        self.asked = u32::try_from(nodes).unwrap_or(u32::MAX);
    }

    /// Ends now, with an answer or without.
    #[must_use]
    pub fn ended<T>(self, answer: &Result<T, BackendFailure>) -> Self {
        let failure = answer.as_ref().err().map(|failure| failure.kind);
        Self { took: self.began.elapsed(), failure, ..self }
    }
}

/// One question that went to a backend.
#[derive(Debug)]
pub struct Exchange {
    /// Its span, where traces are made.
    pub span: Option<TraceContext>,
    /// When it was sent.
    pub began: Instant,
    /// How long the answer took.
    pub took: Duration,
    /// About how many nodes.
    pub nodes: u32,
    /// How these were named.
    pub form: Form,
    /// Bytes of the question.
    pub sent: usize,
    /// Bytes of the answer.
    pub received: usize,
    /// Why there is no answer.
    pub failure: Option<FailureKind>,
    /// The gRPC status.
    pub code: &'static str,
}

impl Account {
    /// Of what is asked beside this call.
    #[must_use]
    pub fn beside(&self, part: Part) -> Self {
        let Self { id, pod, nodes, time, began, trace, .. } = self;
        let (id, pod, nodes) = (id.clone(), pod.clone(), nodes.clone());
        let parts = vec![part];
        Self { id, time: *time, began: *began, trace: *trace, annotated: None, pod, nodes, left: None, parts }
    }

    /// With what the one who was asked beside the call said.
    #[must_use]
    pub fn with(mut self, said: Result<(Opinion, Said), BackendFailure>, inquiry: Inquiry) -> Self {
        let inquiry = inquiry.ended(&said);
        let (opinion, said) = said.unwrap_or_else(|failure| (Opinion::Failed, Said::Failed(failure)));
        if let Some(part) = self.parts.first_mut() {
            (part.opinion, part.said) = (Some(opinion), said);
            part.inquiries.push(inquiry);
        }
        self
    }

    /// When something happened in it that this clock knows.
    pub fn at(&self, instant: Instant) -> SystemTime {
        self.time + instant.saturating_duration_since(self.began)
    }

    /// Of a call about a pod that came at `began`.
    pub fn new(id: String, began: Instant, pod: Subject, nodes: Nodes) -> Self {
        let time = SystemTime::now().checked_sub(began.elapsed()).unwrap_or(SystemTime::UNIX_EPOCH);
        let parts = Vec::new();
        Self { id, time, began, trace: None, annotated: None, pod, nodes, left: None, parts }
    }
}

//! What one call was and what became of it: put down while it is decided, read by who shows it.
//!
//! Nothing here decides anything. What a decision has at hand anyway is moved into its record, so that the way of a
//! call is spared the work of showing it: logs, metrics and traces are made from the record behind the answer.

mod attempt;

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use extender_gateway_core::{BackendFailure, FailurePolicy, Verb, filter::Heard, score::Ballot};
use extender_otlp::TraceContext;
use tokio::time::Instant;

pub use self::attempt::{BackendAttempt, CacheSource, OpenAttempt, Recorder, Rpc, RpcEnd, Rpcs};
use crate::{
    config,
    object::pod::ObjectPod,
    wire::{PreemptRequest, Request},
};

/// One request at the door, whatever came of it.
#[derive(Debug)]
pub struct HttpCall {
    /// `None` where the path names no verb.
    pub verb: Option<Verb>,
    /// When it came.
    pub started: Instant,
    /// How long the answer took.
    pub took: Duration,
    /// Who asked.
    pub caller: SocketAddr,
    /// Whether it speaks TLS.
    pub secure: bool,
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
    pub record: Option<CallRecord>,
}

/// What one call was and what became of it.
#[derive(Debug)]
pub struct CallRecord {
    /// Its id, which the backends are told.
    pub id: String,
    /// When it came.
    pub time: SystemTime,
    /// When it came, for what took how long.
    pub started: Instant,
    /// The span of the decision, where traces are made.
    pub trace: Option<TraceContext>,
    /// The span that the pod's annotation names.
    pub annotated: Option<TraceContext>,
    /// The pod.
    pub pod: PodRef,
    /// Its namespace is exempt: nobody is asked.
    pub exempt: bool,
    /// What was to be decided about.
    pub nodes: RequestedNodes,
    /// How many nodes were left; `None` where the call ended with an error, and in verbs that leave all.
    pub left: Option<u32>,
    /// The backends that had a part in it, in the order in which their answers count.
    pub backends: Vec<BackendOutcome>,
    /// Where what they are asked is put down, until it is gathered.
    pub recorder: Recorder,
}

/// The pod of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodRef {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `status.nominatedNodeName`; empty where there is none.
    pub nominated: String,
}

impl From<&ObjectPod<'_>> for PodRef {
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
pub enum RequestedNodes {
    /// Those of filter and prioritize.
    Offered(Arc<Request>),
    /// Those of preempt.
    Candidates(Arc<PreemptRequest>),
    /// That of bind.
    Target(String),
    /// So many, which the record of the call has that this one is beside.
    CountOnly(u32),
}

impl RequestedNodes {
    /// How many there are.
    pub fn count(&self) -> u32 {
        match self {
            Self::Offered(request) => request.names.count(),
            Self::Candidates(request) => request.count(),
            Self::Target(_) => 1,
            Self::CountOnly(count) => *count,
        }
    }
}

/// One backend's part in a call.
#[derive(Debug)]
pub struct BackendOutcome {
    /// The backend.
    pub backend: Arc<config::BackendSettings>,
    /// What its failure means.
    pub policy: OnFailure,
    /// Positions of nodes that it could not be told about, ascending.
    pub unknown: Vec<u32>,
    /// Those that it needed to know more about and that were deleted.
    pub deleted: Vec<u32>,
    /// Those that are too large for a question to it.
    pub oversize: Vec<u32>,
    /// Each time that it was asked.
    pub attempts: Vec<BackendAttempt>,
    /// What it said.
    pub outcome: Outcome,
    /// What it thinks of the decision, where it was asked beside it.
    pub agreement: Option<Agreement>,
}

/// Whether a shadow would have changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// It would not.
    Agrees,
    /// It would.
    Disagrees,
    /// It gave no usable answer.
    Failed,
}

impl Agreement {
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
pub enum OnFailure {
    /// The call ends with an error, if nodes are left for this backend.
    Fail,
    /// It is left out of the decision.
    Ignore,
    /// The next one is asked to bind, unless the pod turns out to be bound.
    Next,
}

impl OnFailure {
    /// In one word, as metrics and logs have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Ignore => "ignore",
            Self::Next => "next",
        }
    }
}

impl From<FailurePolicy> for OnFailure {
    fn from(policy: FailurePolicy) -> Self {
        match policy {
            FailurePolicy::Fail => Self::Fail,
            FailurePolicy::Ignore => Self::Ignore,
        }
    }
}

/// What a backend said in a call.
#[derive(Debug)]
pub enum Outcome {
    /// Nothing yet, or nobody waited for it any more.
    Pending,
    /// There is no usable answer.
    Failed(BackendFailure),
    /// Filter: which nodes it refuses.
    Filtered(Heard),
    /// Prioritize: how good nodes are. Of these scores so many were outside the range that it declares.
    Scored(Ballot, usize),
    /// Preempt: the candidates that are left by it, and how many victims on each.
    Candidates(Vec<(u32, u32)>),
    /// Bind: in a few words.
    Bound(String),
}

impl BackendOutcome {
    /// Its scores.
    pub fn ballot(&self) -> Option<&Ballot> {
        match &self.outcome {
            Outcome::Scored(ballot, _) => Some(ballot),
            _ => None,
        }
    }

    /// Before it is asked.
    pub fn new(backend: &Arc<config::BackendSettings>, policy: OnFailure) -> Self {
        let backend = Arc::clone(backend);
        Self {
            backend,
            policy,
            unknown: Vec::new(),
            deleted: Vec::new(),
            oversize: Vec::new(),
            attempts: Vec::new(),
            outcome: Outcome::Pending,
            agreement: None,
        }
    }
}

impl CallRecord {
    /// Brings what was asked to whom it was asked: also what was given up, because the call was decided without it or
    /// its caller went.
    pub fn collect_attempts(&mut self) {
        for (part, attempt) in self.recorder.take() {
            self.backends[part].attempts.push(attempt);
        }
        for part in &mut self.backends {
            // Found out after the answer, which was no use.
            let last = part.attempts.last_mut().filter(|last| !last.canceled);
            if let (Outcome::Failed(failure), Some(last)) = (&part.outcome, last) {
                last.failure.get_or_insert(failure.kind);
            }
        }
    }

    /// Of what is asked beside this call.
    #[must_use]
    pub fn of_shadow(&self, part: BackendOutcome) -> Self {
        let Self { id, pod, nodes, time, started: began, trace, .. } = self;
        // What was asked about is in this record: a shadow that takes its time must not hold the request.
        let nodes = RequestedNodes::CountOnly(nodes.count());
        Self {
            time: *time,
            trace: *trace,
            backends: vec![part],
            ..Self::new(id.clone(), *began, pod.clone(), nodes)
        }
    }

    /// With what the one who was asked beside the call said, and how that was found out.
    #[must_use]
    pub fn with_shadow_outcome(
        mut self,
        said: Result<(Agreement, Outcome), BackendFailure>,
        attempt: OpenAttempt,
    ) -> Self {
        attempt.finish(&said);
        let (opinion, said) = said.unwrap_or_else(|failure| (Agreement::Failed, Outcome::Failed(failure)));
        if let Some(part) = self.backends.first_mut() {
            (part.agreement, part.outcome) = (Some(opinion), said);
        }
        self.collect_attempts();
        self
    }

    /// Begins to find out what the one says who is asked beside the call, whose part is the only one.
    pub fn start_attempt(&self) -> OpenAttempt {
        self.recorder.start_attempt(0, self.trace)
    }

    /// When something happened in it that this clock knows.
    pub fn at(&self, instant: Instant) -> SystemTime {
        self.time + instant.saturating_duration_since(self.started)
    }

    /// Of a call about a pod that came at `began`.
    pub fn new(id: String, began: Instant, pod: PodRef, nodes: RequestedNodes) -> Self {
        let time = SystemTime::now().checked_sub(began.elapsed()).unwrap_or(SystemTime::UNIX_EPOCH);
        Self {
            id,
            time,
            started: began,
            trace: None,
            annotated: None,
            pod,
            exempt: false,
            nodes,
            left: None,
            backends: Vec::new(),
            recorder: Recorder::default(),
        }
    }
}

//! What one call was and what became of it: put down while it is decided, read by who shows it.
//!
//! Nothing here decides anything. What a decision has at hand anyway is moved into its account, so that the way of a
//! call is spared the work of showing it: logs, metrics and traces are made from the account behind the answer.

mod inquiry;

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use extender_gateway_core::{BackendFailure, FailurePolicy, Verb, filter::Heard, score::Ballot};
use extender_otlp::TraceContext;
use tokio::time::Instant;

pub use self::inquiry::{Desk, Ending, Exchange, Exchanges, Inquiry, Open, Source};
use crate::{
    backend::Backend,
    object::pod::ObjectPod,
    wire::{PreemptRequest, Request},
};

/// One request at the door, whatever came of it.
#[derive(Debug)]
pub struct Visit {
    /// `None` where the path names no verb.
    pub verb: Option<Verb>,
    /// When it came.
    pub began: Instant,
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
    /// Its namespace is exempt: nobody is asked.
    pub exempt: bool,
    /// What was to be decided about.
    pub nodes: Nodes,
    /// How many nodes were left; `None` where the call ended with an error, and in verbs that leave all.
    pub left: Option<u32>,
    /// The backends that had a part in it, in the order in which their answers count.
    pub parts: Vec<Part>,
    /// Where what they are asked is put down, until it is gathered.
    pub desk: Desk,
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
    /// So many, which the account of the call has that this one is beside.
    OfTheCall(u32),
}

impl Nodes {
    /// How many there are.
    pub fn count(&self) -> u32 {
        match self {
            Self::Offered(request) => request.names.count(),
            Self::Candidates(request) => request.count(),
            Self::Target(_) => 1,
            Self::OfTheCall(count) => *count,
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
    /// Those that it needed to know more about and that were deleted.
    pub deleted: Vec<u32>,
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
    Choice(String),
}

impl Part {
    /// Its scores.
    pub fn ballot(&self) -> Option<&Ballot> {
        match &self.said {
            Said::Scored(ballot, _) => Some(ballot),
            _ => None,
        }
    }

    /// Before it is asked.
    pub fn new(backend: &Arc<Backend>, policy: Policy) -> Self {
        let backend = Arc::clone(backend);
        Self {
            backend,
            policy,
            unknown: Vec::new(),
            deleted: Vec::new(),
            inquiries: Vec::new(),
            said: Said::Nothing,
            opinion: None,
        }
    }
}

impl Account {
    /// Brings what was asked to whom it was asked: also what was given up, because the call was decided without it or
    /// its caller went.
    pub fn gather(&mut self) {
        for (part, inquiry) in self.desk.take() {
            self.parts[part].inquiries.push(inquiry);
        }
        for part in &mut self.parts {
            // Found out after the answer, which was no use.
            let last = part.inquiries.last_mut().filter(|last| !last.given_up);
            if let (Said::Failed(failure), Some(last)) = (&part.said, last) {
                last.failure.get_or_insert(failure.kind);
            }
        }
    }

    /// Of what is asked beside this call.
    #[must_use]
    pub fn beside(&self, part: Part) -> Self {
        let Self { id, pod, nodes, time, began, trace, .. } = self;
        // What was asked about is in this account: a shadow that takes its time must not hold the request.
        let nodes = Nodes::OfTheCall(nodes.count());
        Self {
            time: *time,
            trace: *trace,
            parts: vec![part],
            ..Self::new(id.clone(), *began, pod.clone(), nodes)
        }
    }

    /// With what the one who was asked beside the call said, and how that was found out.
    #[must_use]
    pub fn with(mut self, said: Result<(Opinion, Said), BackendFailure>, inquiry: Open) -> Self {
        inquiry.close(&said);
        let (opinion, said) = said.unwrap_or_else(|failure| (Opinion::Failed, Said::Failed(failure)));
        if let Some(part) = self.parts.first_mut() {
            (part.opinion, part.said) = (Some(opinion), said);
        }
        self.gather();
        self
    }

    /// Begins to find out what the one says who is asked beside the call, whose part is the only one.
    pub fn inquire(&self) -> Open {
        self.desk.open(0, self.trace)
    }

    /// When something happened in it that this clock knows.
    pub fn at(&self, instant: Instant) -> SystemTime {
        self.time + instant.saturating_duration_since(self.began)
    }

    /// Of a call about a pod that came at `began`.
    pub fn new(id: String, began: Instant, pod: Subject, nodes: Nodes) -> Self {
        let time = SystemTime::now().checked_sub(began.elapsed()).unwrap_or(SystemTime::UNIX_EPOCH);
        Self {
            id,
            time,
            began,
            trace: None,
            annotated: None,
            pod,
            exempt: false,
            nodes,
            left: None,
            parts: Vec::new(),
            desk: Desk::default(),
        }
    }
}

//! The record of one call and its outcome. A decision moves its data into its record, so that logs, metrics and
//! traces are created from it after the response, not on the path of the call. Nothing here makes decisions.

mod attempt;
mod call_outcome;

use std::{
    fmt::{self, Display},
    mem,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use extender_gateway_core::{
    BackendFailure, FailurePolicy, PolicyVerb, Verb,
    filter::{Heard, NotSent},
    preempt::Candidate,
    reason::one_line,
    score::Ballot,
};
use extender_otlp::TraceContext;
use http::StatusCode;
use tokio::time::Instant;

pub use self::attempt::{BackendAttempt, CacheSource, OpenAttempt, Recorder, Rpc, RpcRole, Rpcs};
pub use self::call_outcome::CallOutcome;
use extender_gateway_cluster::{held::Held, pods::PodTable};
use extender_gateway_contract::hook::Changes;
use extender_gateway_object::pod::ObjectPod;
use extender_gateway_pace::fair_queue::Flow;
use extender_gateway_settings::{self as config, BindFailurePolicy, Mode};
use extender_gateway_wire::{PreemptRequest, Request};

/// One HTTP request and its outcome.
#[derive(Debug)]
pub struct HttpCall {
    /// `None` if the path has no verb.
    pub verb: Option<Verb>,
    /// When it was received.
    pub started: Instant,
    /// The duration until the response.
    pub took: Duration,
    /// How long it waited for the thread that decides calls, as part of it.
    pub queued: Duration,
    /// The caller's address.
    pub caller: SocketAddr,
    /// Whether it uses TLS.
    pub secure: bool,
    /// Whose calls it is queued with.
    pub flow: Flow,
    /// The HTTP method and version, and the request's target.
    pub http: (http::Method, http::Version, http::Uri),
    /// The caller's span, if it sent one and tracing is enabled.
    pub parent: Option<TraceContext>,
    /// The generation of the configuration that decided it.
    pub generation: u64,
    /// Bytes of the request's body that were read.
    pub request_bytes: usize,
    /// Bytes of the response's body.
    pub response_bytes: usize,
    /// The HTTP status of the response; `None` if the caller disconnected.
    pub status: Option<StatusCode>,
    /// How it ended.
    pub outcome: CallOutcome,
    /// The error as a sentence; empty if there is none.
    pub message: String,
    /// The decision; `None` if the request could not be read.
    pub record: Option<CallRecord>,
}

/// A request of nobody about nothing.
impl Default for HttpCall {
    fn default() -> Self {
        Self {
            verb: None,
            started: Instant::now(),
            took: Duration::ZERO,
            queued: Duration::ZERO,
            caller: SocketAddr::from(([0; 4], 0)),
            secure: false,
            flow: Flow::Own,
            http: Default::default(),
            parent: None,
            generation: 0,
            request_bytes: 0,
            response_bytes: 0,
            status: None,
            outcome: CallOutcome::Ok,
            message: String::new(),
            record: None,
        }
    }
}

/// The record of one call and its outcome.
#[derive(Debug)]
pub struct CallRecord {
    /// Its id, which backends receive.
    pub id: String,
    /// When it was received.
    pub time: SystemTime,
    /// The monotonic time at which it was received.
    pub started: Instant,
    /// The span of the decision, if tracing is enabled.
    pub trace: Option<TraceContext>,
    /// The span in the pod's annotation.
    pub annotated: Option<TraceContext>,
    /// The pod.
    pub pod: PodRef,
    /// Its namespace is exempt: no backend is called.
    pub exempt: bool,
    /// The subject of the decision.
    pub nodes: RequestedNodes,
    /// How many nodes were left; `None` if the call ended with an error, and for verbs that keep all nodes.
    pub left: Option<u32>,
    /// The parts of backends: those of hooks first, in the order of the file, then the others in effective order.
    pub backends: Vec<BackendOutcome>,
    /// Collects the calls to them until the record is complete.
    pub recorder: Recorder,
    /// Where the users of what hooks hold are looked up when the record is completed; `None` if they hold nothing.
    pub holds: Option<HoldUsers>,
}

/// The pods that may use room which hooks hold.
#[derive(Debug)]
pub struct HoldUsers {
    /// `None` if pods are not watched.
    pub pods: Option<Arc<PodTable>>,
    /// Whether the pod of the call is none of them.
    pub without_own: bool,
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
    /// `status.nominatedNodeName`; empty if it is not set.
    pub nominated: String,
    /// The kind and name of its controller, such as `ReplicaSet web-7d9`; empty without one, or if the call does not say.
    pub owner: String,
}

/// The longest description of a workload, in bytes: more than a kind, a namespace and a name have.
const LONGEST_WORKLOAD: usize = 400;

impl PodRef {
    /// What it is a part of, for people: its controller with its namespace, or the pod itself.
    pub fn workload(&self) -> String {
        let Self { namespace, name, owner, .. } = self;
        let workload = match owner.split_once(' ') {
            Some((kind, owner)) => format!("{kind} {namespace}/{owner}"),
            None => format!("pod {namespace}/{name}"),
        };
        // The apiserver does not limit kind and name of an owner.
        one_line(&workload, LONGEST_WORKLOAD)
    }
}

impl From<&ObjectPod<'_>> for PodRef {
    fn from(pod: &ObjectPod<'_>) -> Self {
        Self {
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            uid: pod.uid().to_owned(),
            nominated: pod.nominated_node_name().to_owned(),
            owner: pod.controller().unwrap_or_default(),
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
    /// The node of bind.
    Target(String),
    /// Only their number: the record of a shadow call, whose main call has the nodes.
    CountOnly(u32),
}

impl RequestedNodes {
    /// The number of nodes.
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
    /// What it was called for: the verb of the call, or a hook.
    pub verb: PolicyVerb,
    /// Its failure policy.
    pub policy: OnFailure,
    /// The nodes that it is not sent.
    pub not_sent: NotSent,
    /// Its attempts.
    pub attempts: Vec<BackendAttempt>,
    /// Its answer.
    pub outcome: Outcome,
    /// Its agreement with the decision, in shadow mode.
    pub agreement: Option<Agreement>,
    /// Why it is in shadow mode although it is configured otherwise, in words.
    pub mode_reason: Option<String>,
}

/// Whether a backend in shadow mode would have changed the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// No.
    Agrees,
    /// Yes.
    Disagrees,
    /// It gave no usable answer.
    Failed,
}

impl Agreement {
    /// The metric label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Disagrees => "disagrees",
            Self::Failed => "failed",
        }
    }
}

/// The effect of a backend's failure on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnFailure {
    /// The call ends with an error, if nodes are left for this backend.
    Fail,
    /// The backend is ignored in the decision.
    Ignore,
    /// The next binder is called, unless the pod turns out to be bound.
    Next,
}

impl OnFailure {
    /// The word in metrics and logs.
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

impl From<BindFailurePolicy> for OnFailure {
    fn from(policy: BindFailurePolicy) -> Self {
        match policy {
            BindFailurePolicy::Fail => Self::Fail,
            BindFailurePolicy::Next => Self::Next,
        }
    }
}

/// A backend's answer in a call.
#[derive(Debug)]
pub enum Outcome {
    /// No answer yet, or the call ended without it.
    Pending,
    /// There is no usable answer.
    Failed(BackendFailure),
    /// Filter: the nodes that it rejects.
    Filtered(Heard),
    /// Prioritize: scores, and how many of them were outside the declared range.
    Scored(Ballot, usize),
    /// Preempt: the remaining candidates and the number of victims on each.
    Candidates(Vec<(u32, u32)>),
    /// Bind: what it did, or in front of it, what its filter says once more.
    Bound(BindPart),
    /// A hook: what it changed. Positions are those in the call.
    Changed(Changes),
}

/// A backend's part in a call of bind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindPart {
    /// It has bound the pod.
    Bound,
    /// It left that to others, for this reason.
    Declined(String),
    /// Its filter still accepts the node.
    Accepts,
    /// Its filter does not accept the node any more.
    Rejects,
}

impl Display for BindPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bound => f.write_str("bound"),
            Self::Declined(why) => write!(f, "declined: {why}"),
            Self::Accepts => f.write_str("still accepts the node"),
            Self::Rejects => f.write_str("rejects the node"),
        }
    }
}

impl Outcome {
    /// The candidates that remain in a preempt call.
    pub fn candidates(left: &[Candidate]) -> Self {
        let count = |candidate: &Candidate| u32::try_from(candidate.victims.len()).unwrap_or(u32::MAX);
        Self::Candidates(left.iter().map(|candidate| (candidate.node, count(candidate))).collect())
    }
}

impl BackendOutcome {
    /// Whether its answer counts in this call, whatever its configured mode is: Enforce or Shadow.
    pub fn mode(&self) -> Mode {
        if self.agreement.is_some() { Mode::Shadow } else { Mode::Enforce }
    }

    /// Its part before it is called.
    pub fn new(backend: &Arc<config::BackendSettings>, verb: PolicyVerb, policy: OnFailure) -> Self {
        let backend = Arc::clone(backend);
        Self {
            backend,
            verb,
            policy,
            not_sent: NotSent::default(),
            attempts: Vec::new(),
            outcome: Outcome::Pending,
            agreement: None,
            mode_reason: None,
        }
    }

    /// Whether it gave no usable answer.
    pub fn has_failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_))
    }

    /// Whether it responded to a request.
    pub fn has_responded(&self) -> bool {
        let answered = |attempt: &BackendAttempt| {
            !attempt.canceled && attempt.failure.is_none() && !attempt.rpcs.all().is_empty()
        };
        self.attempts.iter().any(answered)
    }

    /// Its scores.
    pub fn ballot(&self) -> Option<&Ballot> {
        match &self.outcome {
            Outcome::Scored(ballot, _) => Some(ballot),
            _ => None,
        }
    }
}

impl CallRecord {
    /// The record of a call about a pod that was received at `began`.
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
            holds: None,
        }
    }

    /// Adds a backend's part before it is called for this. Returns its index.
    pub fn add_part(
        &mut self,
        backend: &Arc<config::BackendSettings>,
        verb: PolicyVerb,
        policy: impl Into<OnFailure>,
    ) -> usize {
        self.backends.push(BackendOutcome::new(backend, verb, policy.into()));
        self.backends.len() - 1
    }

    /// The record of a shadow call of this call to this backend, which is in shadow mode for this reason.
    #[must_use]
    pub fn of_shadow(
        &self,
        backend: &Arc<config::BackendSettings>,
        verb: PolicyVerb,
        mode_reason: Option<String>,
    ) -> Self {
        // The nodes are in this record: a slow shadow call must not keep the request in memory.
        let nodes = RequestedNodes::CountOnly(self.nodes.count());
        Self {
            time: self.time,
            trace: self.trace,
            backends: vec![BackendOutcome {
                mode_reason,
                ..BackendOutcome::new(backend, verb, OnFailure::Ignore)
            }],
            ..Self::new(self.id.clone(), self.started, self.pod.clone(), nodes)
        }
    }

    /// Adds the outcome of a shadow call, which has a single backend and this attempt.
    #[must_use]
    pub fn with_shadow_outcome(
        mut self,
        answer: Result<(Agreement, Outcome), BackendFailure>,
        attempt: OpenAttempt,
    ) -> Self {
        attempt.finish(&answer);
        let (agreement, outcome) =
            answer.unwrap_or_else(|failure| (Agreement::Failed, Outcome::Failed(failure)));
        if let Some(part) = self.backends.first_mut() {
            (part.agreement, part.outcome) = (Some(agreement), outcome);
        }
        self.complete();
        self
    }

    /// Completes the record, after the response.
    pub fn complete(&mut self) {
        self.collect_attempts();
        self.add_holds();
    }

    /// Moves attempts to their backends' parts, including canceled ones, because the call was decided without them
    /// or the caller disconnected.
    fn collect_attempts(&mut self) {
        for (part, attempt) in self.recorder.take() {
            self.backends[part].attempts.push(attempt);
        }
        for part in &mut self.backends {
            // Found after the response, so unused.
            let last = part.attempts.last_mut().filter(|last| !last.canceled);
            if let (Outcome::Failed(failure), Some(last)) = (&part.outcome, last) {
                last.failure.get_or_insert(failure.kind);
            }
        }
    }

    /// Replaces what hooks hold by what that adds to the usage of each node now.
    fn add_holds(&mut self) {
        let (Some(users), RequestedNodes::Offered(request)) = (self.holds.take(), &self.nodes) else {
            return;
        };
        let own = users.without_own.then_some(&*self.pod.uid);
        let held = Held { request, pods: users.pods.as_deref(), number: u64::MAX, own };
        for part in &mut self.backends {
            if let Outcome::Changed(changes) = &mut part.outcome {
                *changes = held.in_words(mem::take(changes));
            }
        }
    }

    /// The system time of an instant during the call.
    pub fn at(&self, instant: Instant) -> SystemTime {
        self.time + instant.saturating_duration_since(self.started)
    }
}

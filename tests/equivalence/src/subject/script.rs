//! The behavior of one backend of a case, and its requests.

mod counts;
mod failure;
mod preempt;
mod question;
mod reading;
mod reads;
mod table;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use extender_gateway_contract::api::sha256;
use extender_policy_api::v1beta1::{
    self as api, Effects, FilterResponse, GetInfoResponse, Rejection, RejectionKind, ScoreRequest,
    ScoreResponse, Scores, SyncNodesRequest, VerbInfo, node_table_service_server::SERVICE_NAME,
};
use extender_reference::model::{self, Best, Failing, Mode, Node, Normalize, Pod};
use prost::Message;
use serde_json::Value;

pub use self::question::{About, Outcome, Question, Verb};
use self::{
    failure::{fail, result},
    reading::Refused,
    reads::declaration,
    table::Held,
};
use super::{configuration, gate::Gate, objects, world::Shock};
use crate::case::{
    Backend, Case, Crowd, Failure, Form, Manner, Pods, Purity, Scale, Scope, Table, turn, turned_filter,
    turned_score,
};

/// The reply.
pub(super) enum Reply {
    /// This message, and OK.
    Message(Vec<u8>),
    /// A status and its text.
    Status(u16, &'static str),
    /// Nothing, ever.
    Nothing,
    /// A reset of the stream.
    Reset,
}

/// One backend of one case.
pub(super) struct Script {
    number: u64,
    /// The pods of the case; the tables are about the first.
    placed: Vec<Pod>,
    form: Form,
    pods: Pods,
    pub(super) backend: Backend,
    rules: AtomicUsize,
    held: Mutex<Held>,
    shock: Arc<Shock>,
    position: usize,
    crowd: Crowd,
    gate: Arc<Gate>,
    questions: Mutex<Vec<Question>>,
    complaints: Mutex<Vec<String>>,
}

impl Script {
    pub(super) fn new(
        number: u64,
        (case, position): (&Case, usize),
        (shock, gate): (&Arc<Shock>, &Arc<Gate>),
    ) -> Self {
        let placed = case.placings().into_iter().chain(case.crowded());
        Self {
            number,
            placed: placed.map(|placing| placing.pod).collect(),
            form: case.form,
            pods: case.pods,
            backend: case.backends[position].clone(),
            rules: AtomicUsize::new(0),
            held: Mutex::default(),
            shock: Arc::clone(shock),
            position,
            crowd: case.crowd.clone(),
            gate: Arc::clone(gate),
            questions: Mutex::default(),
            complaints: Mutex::default(),
        }
    }

    /// The requests since the last call of this.
    pub(super) fn take_questions(&self) -> Vec<Question> {
        std::mem::take(&mut locked(&self.questions))
    }

    /// Its rules change.
    pub(super) fn edit(&self) {
        self.rules.fetch_add(1, Ordering::Relaxed);
    }

    /// Its current revision.
    pub(super) fn revision(&self) -> String {
        format!("{}.{}", self.number, self.rules.load(Ordering::Relaxed))
    }

    pub(super) fn complaints(&self) -> Vec<String> {
        locked(&self.complaints).clone()
    }

    /// Whether a call with these arguments belongs to this case.
    pub(super) fn is_meant(&self, args: &[u8]) -> bool {
        self.changes(args).is_some()
    }

    /// How often the arguments of this case have changed; `None` where they are another case's.
    fn changes(&self, args: &[u8]) -> Option<usize> {
        let args: Value = serde_json::from_slice(args).ok()?;
        let changes = usize::try_from(args["changes"].as_u64()?).ok()?;
        (configuration::args((self.number, changes)) == args).then_some(changes)
    }

    /// The same for arguments that are named by their digest. A case has far fewer changes.
    fn changes_of(&self, digest: &[u8]) -> Option<usize> {
        let args = |changes: &usize| configuration::args((self.number, *changes)).to_string();
        (0..64).find(|changes| sha256(args(changes).as_bytes()) == digest)
    }

    pub(super) fn introduction(&self) -> GetInfoResponse {
        let filter = Self::verb(api::Verb::Filter, self.backend.filter);
        let score = Self::verb(api::Verb::Score, self.backend.score).map(|info| self.scaled(info));
        let preempt = Self::verb(api::Verb::Preempt, self.backend.preempt);
        let services = (self.backend.table != Table::None).then(|| SERVICE_NAME.to_owned());
        GetInfoResponse {
            name: "scripted".into(),
            api_version: "extender.policy.v1beta1".into(),
            revision: self.revision(),
            verbs: filter.into_iter().chain(score).chain(preempt).collect(),
            services: services.into_iter().collect(),
            ..GetInfoResponse::default()
        }
    }

    /// Takes a message of the node table; returns the answer to it.
    pub(super) fn take_nodes(&self, message: Bytes) -> Option<Vec<u8>> {
        let message = SyncNodesRequest::decode(message).map_err(|error| error.to_string());
        match message.and_then(|message| locked(&self.held).apply(message)) {
            Ok(response) => Some(response.encode_to_vec()),
            Err(complaint) => {
                self.complain(&complaint);
                None
            }
        }
    }

    fn complain(&self, complaint: &str) {
        locked(&self.complaints).push(format!("{}: {complaint}", self.backend.extender.name));
    }

    fn verb(verb: api::Verb, manner: Manner) -> Option<VerbInfo> {
        let scope = match manner.scope {
            Scope::Node | Scope::NodeWithSideEffects => api::Scope::Node,
            Scope::WholeSet => api::Scope::WholeSet,
            Scope::Unspecified => api::Scope::Unspecified,
        };
        (manner.failure != Failure::Unlisted).then(|| VerbInfo {
            verb: verb as i32,
            scope: scope as i32,
            effects: effects(manner).into(),
            reads: Some(declaration(manner)),
            ..VerbInfo::default()
        })
    }

    /// With the range, and with the normalization unless the configuration overrides it: then with another.
    fn scaled(&self, mut info: VerbInfo) -> VerbInfo {
        let Some(score) = &self.backend.extender.score else { return info };
        (info.score_min, info.score_max) = score.range;
        let (normalize, best) = match self.backend.scale {
            Scale::Declared => (score.normalize, score.best),
            Scale::Configured if score.normalize == Normalize::Max => (Normalize::MinMax, Best::Least),
            Scale::Configured => (Normalize::Max, Best::Least),
        };
        info.normalization = match normalize {
            Normalize::None => api::Normalization::None,
            Normalize::Range => api::Normalization::Range,
            Normalize::Max => api::Normalization::Max,
            Normalize::MinMax => api::Normalization::MinMax,
        } as i32;
        info.reversed = best == Best::Least;
        info
    }

    /// Waits until a request may be read.
    pub(super) async fn wait(&self, verb: &str, message: &Bytes) {
        if !self.gate.is_closed() || !matches!(verb, "Filter" | "Score") {
            return;
        }
        // The requests of both verbs have the same pod.
        let pod = ScoreRequest::decode(message.clone()).ok().and_then(|request| request.pod);
        let uid = pod.and_then(|pod| pod.identity).map(|identity| identity.uid);
        let is_it = |number: &usize| uid.as_ref() == Some(&objects::placed_uid((self.number, *number)));
        let pod = (0..self.placed.len()).find(is_it).unwrap_or_default();
        self.gate.pass(self.crowd.rank(self.position, pod)).await;
    }

    /// Answers a Filter, Score or Preempt.
    pub(super) fn answer(&self, verb: Verb, message: Bytes) -> Reply {
        if reading::case_of(&message).is_some_and(|case| case < self.number) {
            // Its caller has given up; a busy machine reads it late.
            return Reply::Status(14, "another backend is being played");
        }
        // A call of a backend in shadow comes after the response, and so perhaps during the next filter call.
        if self.backend.extender.mode == Mode::Enforce {
            self.shock.strike();
        }
        let read = match verb {
            Verb::Filter => self.read_filter(message),
            Verb::Score => self.read_score(message),
            Verb::Preempt => self.read_preempt(message),
        };
        let mut question = match read {
            Ok(question) => question,
            Err(Refused::Wrong(complaint)) => {
                self.complain(&complaint);
                return Reply::Status(3, "the request breaks the contract");
            }
            Err(Refused::Behind) => return behind(),
        };
        let (failure, failing) = self.failing(verb);
        if failing.is_some_and(|failing| failing.fails(question.nodes.len())) {
            // Inline nodes could be readable, as far as the gateway knows.
            if failure == Failure::Miss && question.named.is_some() {
                return behind();
            }
            question.outcome = Outcome::Failed;
        }
        let before = self.note(question.clone());
        if question.outcome == Outcome::Failed {
            return fail((failure, self.pod_of(&question)), verb, question.nodes.len());
        }
        Reply::Message(match verb {
            Verb::Filter => self.filter(&question, before).encode_to_vec(),
            Verb::Score => self.score(&question).encode_to_vec(),
            Verb::Preempt => self.preempt(&question.candidates).encode_to_vec(),
        })
    }

    fn result(&self, count: usize) -> api::Result {
        api::Result { revision: self.revision(), ..result(count) }
    }

    /// How a verb fails, and when.
    fn failing(&self, verb: Verb) -> (Failure, Option<Failing>) {
        let Backend { extender, filter, score, preempt, .. } = &self.backend;
        match verb {
            Verb::Filter => (filter.failure, extender.filter.as_ref().map(|filter| filter.failing)),
            Verb::Score => (score.failure, extender.score.as_ref().map(|score| score.failing)),
            Verb::Preempt => (preempt.failure, extender.preempt.as_ref().map(|preempt| preempt.failing)),
        }
    }

    /// The number of the pod that a request names, 0 where it names none.
    fn pod_of(&self, question: &Question) -> usize {
        let named = |number: &usize| question.about.uid == Some(objects::placed_uid((self.number, *number)));
        (0..self.placed.len()).find(named).unwrap_or_default()
    }

    /// Records a request; returns the number of earlier ones of its verb for the same pod.
    fn note(&self, question: Question) -> usize {
        let mut questions = locked(&self.questions);
        let same =
            |earlier: &&Question| (earlier.verb, &earlier.about.uid) == (question.verb, &question.about.uid);
        let before = questions.iter().filter(same).count();
        questions.push(question);
        before
    }

    /// The offset in the tables for each node.
    fn turn(&self, question: &Question, manner: Manner) -> impl Fn(Node) -> usize {
        let About { class, like, rules, args, .. } = &question.about;
        let turn = turn(class, &manner.class(&self.placed[0]), (*rules, *args)) + like;
        let states: BTreeMap<Node, usize> =
            question.nodes.iter().copied().zip(question.states.iter().copied()).collect();
        move |node| turn + states.get(&node).copied().unwrap_or_default()
    }

    fn filter(&self, question: &Question, before: usize) -> FilterResponse {
        let mut rejections: Vec<Rejection> = Vec::new();
        let nodes = &question.nodes;
        let rule = self.backend.extender.filter.as_ref().map(|filter| &filter.rule);
        let rule = rule.map(|rule| turned_filter(rule, self.turn(question, self.backend.filter)));
        let verdicts = rule.iter().flat_map(|rule| rule.verdicts(nodes, before));
        for (at, verdict) in (0_u32..).zip(verdicts) {
            let Some(verdict) = verdict else { continue };
            let same =
                |group: &&mut Rejection| group.reason == verdict.reason && group.kind() == kind(verdict);
            match rejections.iter_mut().find(same) {
                Some(group) => group.positions.push(at),
                None => rejections.push(Rejection {
                    reason: verdict.reason.clone(),
                    kind: kind(verdict).into(),
                    positions: vec![at],
                    ..Rejection::default()
                }),
            }
        }
        let scores = (question.outcome == Outcome::AnsweredWithScores).then(|| self.scores(question));
        FilterResponse { result: Some(self.result(nodes.len())), rejections, scores }
    }

    fn score(&self, question: &Question) -> ScoreResponse {
        let result = Some(self.result(question.nodes.len()));
        ScoreResponse { result, scores: Some(self.scores(question)) }
    }

    fn scores(&self, question: &Question) -> Scores {
        let rule = self.backend.extender.score.as_ref().map(|score| &score.rule);
        let rule = rule.map(|rule| turned_score(rule, self.turn(question, self.backend.score)));
        let values = rule.map(|rule| rule.scores(&question.nodes)).unwrap_or_default();
        Scores { values, absent: Vec::new() }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The beginning of every message with an answer, and so an answer to any verb.
fn behind() -> Reply {
    let result = Some(api::Result::missed(api::Miss::TableBehind));
    Reply::Message(FilterResponse { result, ..FilterResponse::default() }.encode_to_vec())
}

/// What a verb depends on and changes besides its answer.
fn effects(manner: Manner) -> Effects {
    match (manner.scope, manner.purity) {
        (Scope::NodeWithSideEffects, _) => Effects::ChangesOutside,
        (_, Purity::Pure) => Effects::Pure,
        _ => Effects::ReadsOutside,
    }
}

fn kind(verdict: &model::Rejection) -> RejectionKind {
    if verdict.preemption_may_help { RejectionKind::Unschedulable } else { RejectionKind::Unresolvable }
}

//! What one backend of a case does, and what it was asked.

mod preempt;
mod table;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use extender_policy_api::v1alpha1::{
    self as api, FilterRequest, FilterResponse, GetInfoResponse, NodeView, Rejection, ScoreRequest,
    ScoreResponse, Scores, SyncNodesRequest, VerbInfo,
};
use extender_reference::model::{Best, Candidate, Failing, Node, Normalize, Pod};
use prost::Message;
use serde_json::Value;

use self::table::Held;
use super::{configuration, objects, world::Shock};
use crate::case::{
    Backend, Case, Early, Failure, Form, Manner, Pods, Purity, Scale, Scope, Table, View, turn,
    turned_filter, turned_score,
};

/// A verb of the policy service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Filter.
    Filter,
    /// Score.
    Score,
    /// Preempt.
    Preempt,
}

/// A call that a backend got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Which verb.
    pub verb: Verb,
    /// What was told about the pod, and under what it is answered.
    pub about: About,
    /// About which nodes, in order.
    pub nodes: Vec<Node>,
    /// How often the row of each has changed, where the view shows it.
    pub states: Vec<usize>,
    /// How many of them were named by their ids in a table; `None` where all came with their rows.
    pub named: Option<usize>,
    /// In preempt, who would be evicted there: one for each node.
    pub candidates: Vec<Candidate>,
    /// What came of it.
    pub outcome: Outcome,
}

/// What an answer depends on besides nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct About {
    /// The pod's UID; `None` where it was not told.
    pub uid: Option<String>,
    /// Its namespace.
    pub namespace: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// How often the rules have changed.
    pub rules: usize,
    /// How often the arguments have.
    pub args: usize,
}

/// What came of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// An answer to what was asked.
    Answered,
    /// Verdicts, and scores with them.
    AnsweredWithScores,
    /// A failure.
    Failed,
}

/// Nodes as they were told.
#[derive(Debug, Default)]
struct Told {
    about: About,
    nodes: Vec<Node>,
    states: Vec<usize>,
    named: Option<usize>,
}

/// Why a question is not answered.
enum Refused {
    /// It breaks the contract.
    Wrong(String),
    /// This backend says that it does not have these nodes.
    Behind,
}

impl From<String> for Refused {
    fn from(complaint: String) -> Self {
        Self::Wrong(complaint)
    }
}

impl From<&str> for Refused {
    fn from(complaint: &str) -> Self {
        Self::Wrong(complaint.to_owned())
    }
}

/// The service that keeps tables of nodes.
const TABLES: &str = "extender.policy.v1alpha1.NodeTableService";

/// What is sent back.
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
    /// The pods of the case; the first is what tables are about.
    placed: Vec<Pod>,
    form: Form,
    pods: Pods,
    pub(super) backend: Backend,
    rules: AtomicUsize,
    held: Mutex<Held>,
    shock: Arc<Shock>,
    questions: Mutex<Vec<Question>>,
    complaints: Mutex<Vec<String>>,
}

impl Script {
    pub(super) fn new(number: u64, (case, position): (&Case, usize), shock: &Arc<Shock>) -> Self {
        Self {
            number,
            placed: case.placings().into_iter().map(|placing| placing.pod).collect(),
            form: case.form,
            pods: case.pods,
            backend: case.backends[position].clone(),
            rules: AtomicUsize::new(0),
            held: Mutex::default(),
            shock: Arc::clone(shock),
            questions: Mutex::default(),
            complaints: Mutex::default(),
        }
    }

    /// What it was asked since this was looked at last.
    pub(super) fn take_questions(&self) -> Vec<Question> {
        std::mem::take(&mut locked(&self.questions))
    }

    /// Its rules change.
    pub(super) fn edit(&self) {
        self.rules.fetch_add(1, Ordering::Relaxed);
    }

    /// What it answers by.
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

    pub(super) fn introduction(&self) -> GetInfoResponse {
        let filter = Self::verb(api::Verb::Filter, self.backend.filter);
        let score = Self::verb(api::Verb::Score, self.backend.score).map(|info| self.scaled(info));
        let preempt = Self::verb(api::Verb::Preempt, self.backend.preempt);
        let services = (self.backend.table != Table::None).then(|| TABLES.to_owned());
        GetInfoResponse {
            name: "scripted".into(),
            api_version: "extender.policy.v1alpha1".into(),
            revision: self.revision(),
            verbs: filter.into_iter().chain(score).chain(preempt).collect(),
            services: services.into_iter().collect(),
            ..GetInfoResponse::default()
        }
    }

    /// Takes a message about nodes that are to be held; returns the answer to it.
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
        let view = match manner.view {
            View::Name => NodeView::Name,
            View::Facts => NodeView::Facts,
            View::Raw => NodeView::FactsAndRaw,
        };
        let scope = match manner.scope {
            Scope::Node | Scope::NodeWithSideEffects => api::Scope::Node,
            Scope::WholeSet => api::Scope::WholeSet,
            Scope::Unspecified => api::Scope::Unspecified,
        };
        (manner.failure != Failure::Unlisted).then(|| VerbInfo {
            verb: verb as i32,
            node_view: view as i32,
            scope: scope as i32,
            side_effects: manner.scope == Scope::NodeWithSideEffects,
            pure: manner.purity == Purity::Pure,
            ..VerbInfo::default()
        })
    }

    /// With the range, and with the normalisation unless the configuration overrides it: then with another.
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

    /// Answers a Filter, Score or Preempt.
    pub(super) fn answer(&self, verb: Verb, message: Bytes) -> Reply {
        self.shock.strike();
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
            Err(Refused::Behind) => return self.behind(),
        };
        let (failure, failing) = self.failing(verb);
        if failing.is_some_and(|failing| failing.fails(question.nodes.len())) {
            // It would have read them inline, for all that one knows.
            if failure == Failure::Miss && question.named.is_some() {
                return self.behind();
            }
            question.outcome = Outcome::Failed;
        }
        let before = self.note(question.clone());
        if question.outcome == Outcome::Failed {
            return fail(failure, verb, question.nodes.len());
        }
        Reply::Message(match verb {
            Verb::Filter => self.filter(&question, before).encode_to_vec(),
            Verb::Score => self.score(&question).encode_to_vec(),
            Verb::Preempt => self.preempt(&question.candidates).encode_to_vec(),
        })
    }

    /// The beginning of every message with an answer, and so an answer to any verb.
    fn behind(&self) -> Reply {
        let result = Some(api::Result { miss: api::Miss::TableBehind as i32, ..self.result(0) });
        Reply::Message(FilterResponse { result, ..FilterResponse::default() }.encode_to_vec())
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

    /// Notes a question; returns how many of its verb came before, for the same pod.
    fn note(&self, question: Question) -> usize {
        let mut questions = locked(&self.questions);
        let same =
            |earlier: &&Question| (earlier.verb, &earlier.about.uid) == (question.verb, &question.about.uid);
        let before = questions.iter().filter(same).count();
        questions.push(question);
        before
    }

    fn read_filter(&self, message: Bytes) -> Result<Question, Refused> {
        let request = FilterRequest::decode(message).map_err(|error| error.to_string())?;
        let told = self.read((request.call, request.pod, request.nodes), self.backend.filter)?;
        let mut question = told.question(Verb::Filter, Vec::new());
        let score = self.backend.extender.score.as_ref().filter(|_| request.want_scores);
        if score.is_some_and(|score| !score.failing.fails(question.nodes.len()))
            && self.backend.early == Early::Scores
        {
            question.outcome = Outcome::AnsweredWithScores;
        }
        Ok(question)
    }

    fn read_score(&self, message: Bytes) -> Result<Question, Refused> {
        let request = ScoreRequest::decode(message).map_err(|error| error.to_string())?;
        let told = self.read((request.call, request.pod, request.nodes), self.backend.score)?;
        Ok(told.question(Verb::Score, Vec::new()))
    }

    fn read(
        &self,
        (call, pod, nodes): (Option<api::Call>, Option<api::Pod>, Option<api::Nodes>),
        manner: Manner,
    ) -> Result<Told, Refused> {
        let call = call.ok_or("no call")?;
        let args = self.changes(&call.args).filter(|_| call.backend == self.backend.extender.name);
        let args = args.ok_or_else(|| format!("a call for {} with args {:?}", call.backend, call.args))?;
        let about = self.about(pod.ok_or("no pod")?, (manner, args))?;
        let api::Nodes { count, form } = nodes.ok_or("no nodes")?;
        let (rows, named) = match form {
            Some(api::nodes::Form::Rows(rows)) => (rows.rows, None),
            Some(api::nodes::Form::Table(_)) if self.backend.table == Table::Behind => {
                return Err(Refused::Behind);
            }
            Some(api::nodes::Form::Table(named)) => {
                let ids = named.ids.iter().filter(|id| **id > 0).count();
                (locked(&self.held).rows(named)?, Some(ids))
            }
            _ => return Err("nodes in no form that is known".into()),
        };
        if rows.len() != count as usize || rows.is_empty() {
            return Err(format!("{} rows, and {count} are announced", rows.len()).into());
        }
        let nodes: Vec<_> = rows.iter().map(|row| number(row, manner.view)).collect::<Result<_, _>>()?;
        let (nodes, states) = nodes.into_iter().unzip();
        Ok(Told { about, nodes, states, named })
    }

    /// What is told of a pod. What tells it from its siblings is told to verbs that are not pure, and among the facts
    /// there is nothing of it.
    fn about(&self, pod: api::Pod, (manner, args): (Manner, usize)) -> Result<About, String> {
        let api::PodFacts { namespace, labels, volumes, .. } = pod.facts.ok_or("no facts of the pod")?;
        let labels: BTreeMap<_, _> = labels.into_iter().collect();
        let uid = pod.identity.map(|identity| identity.uid);
        if uid.is_some() == (manner.purity == Purity::Pure) {
            return Err(format!("{:?}, and is told {uid:?}", manner.purity));
        }
        if volumes.iter().any(|volume| volume.name.starts_with(objects::TOKEN)) {
            return Err(format!("the volumes {volumes:?}"));
        }
        let is_told = |(number, pod): (usize, &Pod)| {
            let is_it = uid.as_ref().is_none_or(|uid| *uid == objects::placed_uid((self.number, number)));
            is_it && (&pod.namespace, &pod.labels) == (&namespace, &labels)
        };
        let is_probe = labels.contains_key(objects::PROBE);
        if !is_probe && !self.placed.iter().enumerate().any(is_told) {
            return Err(format!("a pod {uid:?} of namespace {namespace} with {labels:?}"));
        }
        Ok(About { uid, namespace, labels, rules: self.rules.load(Ordering::Relaxed), args })
    }

    /// How far on tables are looked up for each node.
    fn turn(&self, question: &Question) -> impl Fn(Node) -> usize {
        let About { namespace, labels, rules, args, .. } = &question.about;
        let turn = turn((namespace, labels), &self.placed[0], (*rules, *args));
        let states: BTreeMap<Node, usize> =
            question.nodes.iter().copied().zip(question.states.iter().copied()).collect();
        move |node| turn + states.get(&node).copied().unwrap_or_default()
    }

    fn filter(&self, question: &Question, before: usize) -> FilterResponse {
        let mut rejections: Vec<Rejection> = Vec::new();
        let nodes = &question.nodes;
        let rule = self.backend.extender.filter.as_ref().map(|filter| &filter.rule);
        let rule = rule.map(|rule| turned_filter(rule, self.turn(question)));
        let verdicts = rule.iter().flat_map(|rule| rule.verdicts(nodes, before));
        for (at, verdict) in (0_u32..).zip(verdicts) {
            let Some(verdict) = verdict else { continue };
            let same = |group: &&mut Rejection| {
                group.reason == verdict.reason && group.preemption_may_help == verdict.preemption_may_help
            };
            match rejections.iter_mut().find(same) {
                Some(group) => group.positions.push(at),
                None => rejections.push(Rejection {
                    reason: verdict.reason.clone(),
                    preemption_may_help: verdict.preemption_may_help,
                    positions: vec![at],
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
        let rule = rule.map(|rule| turned_score(rule, self.turn(question)));
        Scores { values: rule.map(|rule| rule.scores(&question.nodes)).unwrap_or_default() }
    }
}

impl Told {
    fn question(self, verb: Verb, candidates: Vec<Candidate>) -> Question {
        let Self { about, nodes, states, named } = self;
        Question { verb, about, nodes, states, named, candidates, outcome: Outcome::Answered }
    }
}

/// Which node a row is about, and in which state it is, by what the view has.
fn number(row: &api::NodeRow, view: View) -> Result<(Node, usize), String> {
    let called = objects::numbered(&row.name);
    let (said, state) = match view {
        View::Name => (called, Some(0)),
        View::Facts => {
            let label = |key| row.facts.as_ref().and_then(|facts| facts.labels.get(key)?.parse().ok());
            (label(objects::LABEL), label(objects::STATE))
        }
        View::Raw => {
            let node: Value = serde_json::from_slice(&row.raw_json).unwrap_or_default();
            let label = |key| node["metadata"]["labels"][key].as_str()?.parse().ok();
            (label(objects::LABEL), label(objects::STATE))
        }
    };
    let said = said.filter(|_| said == called).zip(state);
    said.ok_or_else(|| format!("{} is said to be {called:?} in state {state:?}", row.name))
}

fn fail(failure: Failure, verb: Verb, count: usize) -> Reply {
    let broken = |result: api::Result, positions: &[u32], scores: usize| {
        Reply::Message(match verb {
            Verb::Filter => {
                let rejection = Rejection { positions: positions.into(), ..Rejection::default() };
                let rejections = vec![rejection];
                FilterResponse { result: Some(result), rejections, ..FilterResponse::default() }
                    .encode_to_vec()
            }
            Verb::Score => {
                let scores = Some(Scores { values: vec![10; scores] });
                ScoreResponse { result: Some(result), scores }.encode_to_vec()
            }
            Verb::Preempt => preempt::broken(failure, result).encode_to_vec(),
        })
    };
    match failure {
        Failure::Unavailable | Failure::Unlisted => Reply::Status(14, "not now"),
        Failure::Internal => Reply::Status(13, "a bug: 100% of it"),
        Failure::Hang => Reply::Nothing,
        Failure::Reset => Reply::Reset,
        Failure::Garbage => Reply::Message(vec![0xff; 3]),
        Failure::Empty => Reply::Message(Vec::new()),
        Failure::Miscounted => broken(result(count + 1), &[], count),
        Failure::OutOfRange | Failure::VictimOutOfRange => broken(result(count), &[u32::MAX], count - 1),
        Failure::Twice | Failure::VictimTwice => broken(result(count), &[0, 0], count + 1),
        Failure::Miss => broken(api::Result { miss: 1, ..api::Result::default() }, &[], count),
    }
}

fn result(count: usize) -> api::Result {
    api::Result { evaluated: u32::try_from(count).unwrap_or(u32::MAX), ..api::Result::default() }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! What one backend of a case does, and what it was asked.

mod preempt;

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use extender_policy_api::v1alpha1::{
    self as api, FilterRequest, FilterResponse, GetInfoResponse, NodeView, Rejection, ScoreRequest,
    ScoreResponse, Scores, VerbInfo,
};
use extender_reference::model::{Best, Candidate, Failing, Node, Normalize};
use prost::Message;

use super::objects;
use crate::case::{Backend, Case, Failure, Form, Manner, Pods, Scale, Scope, View};

/// A verb of the policy service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// About which nodes, in order.
    pub nodes: Vec<Node>,
    /// In preempt, who would be evicted there: one for each node.
    pub candidates: Vec<Candidate>,
}

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
    namespace: String,
    form: Form,
    pods: Pods,
    pub(super) backend: Backend,
    questions: Mutex<Vec<Question>>,
    complaints: Mutex<Vec<String>>,
}

impl Script {
    pub(super) fn new(number: u64, case: &Case, position: usize) -> Self {
        Self {
            number,
            namespace: case.pod.namespace.clone(),
            form: case.form,
            pods: case.pods,
            backend: case.backends[position].clone(),
            questions: Mutex::default(),
            complaints: Mutex::default(),
        }
    }

    pub(super) fn questions(&self) -> Vec<Question> {
        locked(&self.questions).clone()
    }

    pub(super) fn complaints(&self) -> Vec<String> {
        locked(&self.complaints).clone()
    }

    /// Whether a call with these arguments belongs to this case.
    pub(super) fn is_meant(&self, args: &[u8]) -> bool {
        args == format!("{{\"case\":{}}}", self.number).as_bytes()
    }

    pub(super) fn introduction(&self) -> GetInfoResponse {
        let filter = Self::verb(api::Verb::Filter, self.backend.filter);
        let score = Self::verb(api::Verb::Score, self.backend.score).map(|info| self.scaled(info));
        let preempt = Self::verb(api::Verb::Preempt, self.backend.preempt);
        GetInfoResponse {
            name: "scripted".into(),
            api_version: "extender.policy.v1alpha1".into(),
            verbs: filter.into_iter().chain(score).chain(preempt).collect(),
            ..GetInfoResponse::default()
        }
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
        let read = match verb {
            Verb::Filter => self.read_filter(message),
            Verb::Score => self.read_score(message),
            Verb::Preempt => self.read_preempt(message),
        };
        let question = match read {
            Ok(question) => question,
            Err(complaint) => {
                locked(&self.complaints).push(format!("{}: {complaint}", self.backend.extender.name));
                return Reply::Status(3, "the request breaks the contract");
            }
        };
        let before = self.note(question.clone());
        let Question { nodes, candidates, .. } = question;
        let (failure, failing) = self.failing(verb);
        if failing.is_some_and(|failing| failing.fails(nodes.len())) {
            return fail(failure, verb, nodes.len());
        }
        Reply::Message(match verb {
            Verb::Filter => self.filter(&nodes, before).encode_to_vec(),
            Verb::Score => self.score(&nodes).encode_to_vec(),
            Verb::Preempt => self.preempt(&candidates).encode_to_vec(),
        })
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

    /// Notes a question; returns how many of its verb came before.
    fn note(&self, question: Question) -> usize {
        let mut questions = locked(&self.questions);
        let before = questions.iter().filter(|earlier| earlier.verb == question.verb).count();
        questions.push(question);
        before
    }

    fn read_filter(&self, message: Bytes) -> Result<Question, String> {
        let request = FilterRequest::decode(message).map_err(|error| error.to_string())?;
        let nodes = self.read((request.call, request.pod, request.nodes), self.backend.filter.view)?;
        Ok(Question { verb: Verb::Filter, nodes, candidates: Vec::new() })
    }

    fn read_score(&self, message: Bytes) -> Result<Question, String> {
        let request = ScoreRequest::decode(message).map_err(|error| error.to_string())?;
        let nodes = self.read((request.call, request.pod, request.nodes), self.backend.score.view)?;
        Ok(Question { verb: Verb::Score, nodes, candidates: Vec::new() })
    }

    fn read(
        &self,
        (call, pod, nodes): (Option<api::Call>, Option<api::Pod>, Option<api::Nodes>),
        view: View,
    ) -> Result<Vec<Node>, String> {
        let call = call.ok_or("no call")?;
        if call.backend != self.backend.extender.name || !self.is_meant(&call.args) {
            return Err(format!("a call for {} with args {:?}", call.backend, call.args));
        }
        let namespace = pod.and_then(|pod| pod.facts).ok_or("no pod")?.namespace;
        if namespace != self.namespace {
            return Err(format!("a pod of namespace {namespace}"));
        }
        let api::Nodes { count, form } = nodes.ok_or("no nodes")?;
        let Some(api::nodes::Form::Rows(rows)) = form else {
            return Err("nodes in no form that is known".into());
        };
        if rows.rows.len() != count as usize || rows.rows.is_empty() {
            return Err(format!("{} rows, and {count} are announced", rows.rows.len()));
        }
        rows.rows.iter().map(|row| number(row, view)).collect()
    }

    fn filter(&self, nodes: &[Node], before: usize) -> FilterResponse {
        let mut rejections: Vec<Rejection> = Vec::new();
        let rule = self.backend.extender.filter.as_ref().map(|filter| &filter.rule);
        let verdicts = rule.map(|rule| rule.verdicts(nodes, before)).unwrap_or_default();
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
        FilterResponse { result: Some(result(nodes.len())), rejections, ..FilterResponse::default() }
    }

    fn score(&self, nodes: &[Node]) -> ScoreResponse {
        let rule = self.backend.extender.score.as_ref().map(|score| &score.rule);
        let values = rule.map(|rule| rule.scores(nodes)).unwrap_or_default();
        ScoreResponse { result: Some(result(nodes.len())), scores: Some(Scores { values }) }
    }
}

/// Which node a row is about, by what the view has.
fn number(row: &api::NodeRow, view: View) -> Result<Node, String> {
    let called = objects::numbered(&row.name);
    let said = match view {
        View::Name => called,
        View::Facts => row.facts.as_ref().and_then(|facts| facts.labels.get(objects::LABEL)?.parse().ok()),
        View::Raw => serde_json::from_slice::<serde_json::Value>(&row.raw_json)
            .ok()
            .and_then(|node| node["metadata"]["labels"][objects::LABEL].as_str()?.parse().ok()),
    };
    said.filter(|_| said == called).ok_or_else(|| format!("{} is said to be {said:?}", row.name))
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

//! Converts requests back into nodes and pods of the case, and checks that they contain only what they may.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use extender_policy_api::v1beta1::{self as api, FilterRequest, ScoreRequest};
use extender_reference::model::{Candidate, Node, Pod};
use prost::Message;
use serde_json::Value;

use super::super::configuration;
use super::{About, Outcome, Question, Script, Verb, counts, locked, objects, reads};
use crate::case::{Early, Manner, Purity, Table, View};

/// Nodes as they were sent.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) about: About,
    pub(super) nodes: Vec<Node>,
    pub(super) states: Vec<usize>,
    pub(super) named: Option<usize>,
}

/// Why a request is not answered.
pub(super) enum Refused {
    /// It violates the contract.
    Wrong(String),
    /// This backend reports that it does not have these nodes.
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

/// The field that all requests about nodes have.
#[derive(Clone, PartialEq, Message)]
struct AnyRequest {
    #[prost(message, optional, tag = "1")]
    call: Option<api::Call>,
}

/// The number of the case whose configuration the call is from.
pub(super) fn case_of(message: &Bytes) -> Option<u64> {
    let call = AnyRequest::decode(message.clone()).ok()?.call?;
    configuration::case_of(&call.args_sha256)
}

impl Script {
    pub(super) fn read_filter(&self, message: Bytes) -> Result<Question, Refused> {
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

    pub(super) fn read_score(&self, message: Bytes) -> Result<Question, Refused> {
        let request = ScoreRequest::decode(message).map_err(|error| error.to_string())?;
        let told = self.read((request.call, request.pod, request.nodes), self.backend.score)?;
        Ok(told.question(Verb::Score, Vec::new()))
    }

    pub(super) fn read(
        &self,
        (call, pod, nodes): (Option<api::Call>, Option<api::Pod>, Option<api::Nodes>),
        manner: Manner,
    ) -> Result<Told, Refused> {
        let call = call.ok_or("no call")?;
        let args = self.changes_of(&call.args_sha256).filter(|_| call.backend == self.backend.extender.name);
        let args =
            args.ok_or_else(|| format!("a call for {} with args {:?}", call.backend, call.args_sha256))?;
        if *call.reads != reads::digest(manner) {
            return Err(format!("{:?}, and the request is encoded for {:?}", manner.reads, call.reads).into());
        }
        let about = self.about(pod.ok_or("no pod")?, (manner, args))?;
        let api::Nodes { count, form } = nodes.ok_or("no nodes")?;
        let (rows, named) = match form {
            Some(api::nodes::Form::Rows(rows)) => (rows.rows, None),
            Some(api::nodes::Form::Table(_)) if self.backend.table == Table::Behind => {
                return Err(Refused::Behind);
            }
            Some(api::nodes::Form::Table(named)) => {
                let ids = named.ids.iter().filter(|id| **id > 0).count();
                let held = locked(&self.held);
                // A request that is read late is answered by the nodes held then, as backends do.
                let rows = if self.gate.is_closed() {
                    held.latest_rows(named)?.ok_or(Refused::Behind)?
                } else {
                    held.rows(named)?
                };
                (rows, Some(ids))
            }
            _ => return Err("nodes in no form that is known".into()),
        };
        if rows.len() != count as usize || rows.is_empty() {
            return Err(format!("{} rows, and {count} are announced", rows.len()).into());
        }
        let nodes: Vec<_> = rows.iter().map(|row| number(row, manner)).collect::<Result<_, _>>()?;
        let (nodes, states) = nodes.into_iter().unzip();
        Ok(Told { about, nodes, states, named })
    }

    /// The data about a pod. Fields that distinguish siblings are sent only to verbs that are not pure, and the
    /// facts do not contain them.
    fn about(&self, pod: api::Pod, (manner, args): (Manner, usize)) -> Result<About, String> {
        let like = counts::of_pod(&pod.topology_counts, &manner.counts)?;
        let facts = pod.facts.ok_or("no facts of the pod")?;
        let volumes = facts.volumes.clone();
        let class = reads::class(facts, manner)?;
        let uid = pod.identity.map(|identity| identity.uid);
        if uid.is_some() == (manner.purity == Purity::Pure) {
            return Err(format!("{:?}, and the request has UID {uid:?}", manner.purity));
        }
        if volumes.iter().any(|volume| volume.name.starts_with(objects::TOKEN)) {
            return Err(format!("the volumes {volumes:?}"));
        }
        let is_told = |(number, pod): (usize, &Pod)| {
            let is_it = uid.as_ref().is_none_or(|uid| *uid == objects::placed_uid((self.number, number)));
            is_it && manner.class(pod) == class
        };
        let is_probe = class.1.contains_key(objects::PROBE);
        if !is_probe && !self.placed.iter().enumerate().any(is_told) {
            return Err(format!("a pod {uid:?} of namespace and labels {class:?}"));
        }
        Ok(About { uid, class, like, rules: self.rules.load(Ordering::Relaxed), args })
    }
}

impl Told {
    pub(super) fn question(self, verb: Verb, candidates: Vec<Candidate>) -> Question {
        let Self { about, nodes, states, named } = self;
        Question { verb, about, nodes, states, named, candidates, outcome: Outcome::Answered }
    }
}

/// The node of a row and its state with its counts, from the data of the view.
fn number(row: &api::NodeRow, manner: Manner) -> Result<(Node, usize), String> {
    let (called, has_name) = (objects::numbered(&row.name), reads::reads_names(manner));
    let (said, state) = match manner.view {
        View::Name => (called, Some(0)),
        View::Facts => row.facts.as_ref().and_then(|facts| reads::node(facts, manner)).unzip(),
        View::Raw => {
            let node: Value = serde_json::from_slice(&row.raw_json).unwrap_or_default();
            let label = |key| node["metadata"]["labels"][key].as_str()?.parse().ok();
            (label(objects::LABEL), label(objects::STATE))
        }
    };
    let fits = if has_name { said == called } else { row.name.is_empty() };
    let said = said.filter(|_| fits).zip(state);
    let (node, state) =
        said.ok_or_else(|| format!("the row of {} has {called:?} in state {state:?}", row.name))?;
    Ok((node, state + counts::of_row(row, &manner.counts)?))
}

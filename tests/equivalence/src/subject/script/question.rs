//! What a backend was asked, and what came of it.

use std::collections::BTreeMap;

use extender_reference::model::{Candidate, Node};

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

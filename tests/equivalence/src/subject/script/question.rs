//! A request to a backend, and its result.

use extender_reference::model::{Candidate, Node};

use crate::case::Class;

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

/// A request to a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The verb.
    pub verb: Verb,
    /// The pod's data, and the conditions of the answer.
    pub about: About,
    /// The nodes, in order.
    pub nodes: Vec<Node>,
    /// The number of changes of each row and its counts of pods as one number, as far as the view contains them.
    pub states: Vec<usize>,
    /// How many of them were named by their ids in a table; `None` if all came with their rows.
    pub named: Option<usize>,
    /// In preempt, the victims: one candidate for each node.
    pub candidates: Vec<Candidate>,
    /// The result.
    pub outcome: Outcome,
}

/// What an answer depends on besides nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct About {
    /// The pod's UID; `None` if it was not sent.
    pub uid: Option<String>,
    /// What was sent of its namespace and labels.
    pub class: Class,
    /// The counts of the pods that are like it, as a number.
    pub like: usize,
    /// How often the rules have changed.
    pub rules: usize,
    /// How often the arguments have.
    pub args: usize,
}

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// An answer to the request.
    Answered,
    /// Verdicts, and scores with them.
    AnsweredWithScores,
    /// A failure.
    Failed,
}

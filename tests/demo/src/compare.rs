//! Compares the policies' own answers with the gateway's.

use std::collections::BTreeMap;

use crate::{
    Failure,
    answer::{FilterResult, HostPriority},
    panel::Opinion,
    question::{Form, Question},
};

/// The result of a filter call.
#[derive(Debug)]
pub(crate) struct FilterOutcome {
    /// For each node of the question which policies refuse it, in the gateway's order, and why.
    pub(crate) refusals: Vec<Vec<Refusal>>,
    /// The names of the nodes that stay according to the gateway.
    pub(crate) staying: Vec<String>,
    /// Where gateway and policies differ, one sentence each.
    pub(crate) surprises: Vec<String>,
}

/// A policy's refusal of a node.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The policy.
    pub(crate) policy: String,
    /// Its reason.
    pub(crate) reason: String,
}

/// The result of a prioritize call.
#[derive(Debug)]
pub(crate) struct ScoreOutcome {
    /// The policies and their weights, in the gateway's order.
    pub(crate) policies: Vec<(String, u32)>,
    /// For each node of the question its raw scores and the sums.
    pub(crate) nodes: Vec<NodeScores>,
    /// Where gateway and policies differ, one sentence each.
    pub(crate) surprises: Vec<String>,
}

/// The scores of a node.
#[derive(Debug)]
pub(crate) struct NodeScores {
    /// The score of each policy.
    pub(crate) raw: Vec<i32>,
    /// Their weighted sum, computed here.
    pub(crate) expected: i64,
    /// The gateway's sum, if it lists the node.
    pub(crate) answered: Option<i64>,
}

impl FilterOutcome {
    /// Compares the answer with the policies' own refusals.
    pub(crate) fn of(
        question: &Question,
        opinions: &[Opinion<Option<String>>],
        result: &FilterResult,
    ) -> Self {
        let refusals = (0..question.nodes.len()).map(|node| refusals_of(node, opinions));
        let mut outcome =
            Self { refusals: refusals.collect(), staying: staying(question, result), surprises: Vec::new() };
        if !result.error.is_empty() {
            outcome.surprises.push(format!("filter fails: {}", result.error));
        }
        outcome.check_staying(question);
        outcome.check_reasons(question, result);
        outcome.check_objects(question, result);
        outcome.check_that_it_shows_both();
        outcome
    }

    fn check_staying(&mut self, question: &Question) {
        let expected = question.nodes.iter().zip(&self.refusals).filter(|(_, refusals)| refusals.is_empty());
        let expected: Vec<&str> = expected.map(|(node, _)| node.name.as_str()).collect();
        if self.staying != expected {
            self.surprises.push(format!(
                "filter of {}: the gateway leaves {:?}, the policies leave {expected:?}",
                question.pod_name, self.staying
            ));
        }
    }

    /// The first policy that refuses a node gives the reason, after its name.
    fn check_reasons(&mut self, question: &Question, result: &FilterResult) {
        let reasons = reasons(result);
        for (node, refusals) in question.nodes.iter().zip(&self.refusals) {
            let expected = refusals.first().map(|first| format!("{}: {}", first.policy, first.reason));
            let answered = reasons.get(node.name.as_str()).copied();
            if expected.as_deref() != answered {
                self.surprises.push(format!(
                    "filter of {}, {}: the gateway's reason is {answered:?}, the policies' {expected:?}",
                    question.pod_name, node.name
                ));
            }
        }
    }

    /// Node objects that stay are returned byte for byte.
    fn check_objects(&mut self, question: &Question, result: &FilterResult) {
        for item in result.nodes.iter().flat_map(|list| list.items.iter().flatten()) {
            if !question.nodes.iter().any(|node| node.json == item.get()) {
                self.surprises.push(format!(
                    "filter of {}: a node object did not come back as it was sent",
                    question.pod_name
                ));
            }
        }
    }

    /// A call in which no node is refused, or all, would show nothing.
    fn check_that_it_shows_both(&mut self) {
        let falling = self.refusals.iter().filter(|refusals| !refusals.is_empty()).count();
        if falling == 0 || falling == self.refusals.len() {
            self.surprises.push(format!("{falling} of {} nodes fall", self.refusals.len()));
        }
    }
}

fn refusals_of(node: usize, opinions: &[Opinion<Option<String>>]) -> Vec<Refusal> {
    let refusal = |opinion: &Opinion<Option<String>>| {
        let reason = opinion.of_nodes[node].clone()?;
        Some(Refusal { policy: opinion.policy.clone(), reason })
    };
    opinions.iter().filter_map(refusal).collect()
}

/// The names of the nodes that the answer keeps, in its order and its form.
fn staying(question: &Question, result: &FilterResult) -> Vec<String> {
    match question.form {
        Form::Names => result.node_names.clone().unwrap_or_default(),
        Form::Objects => {
            let items = result.nodes.iter().flat_map(|list| list.items.iter().flatten());
            let sent = |json: &str| question.nodes.iter().find(|node| node.json == json);
            items.filter_map(|item| sent(item.get())).map(|node| node.name.clone()).collect()
        }
    }
}

/// The reasons of both kinds by node.
fn reasons(result: &FilterResult) -> BTreeMap<&str, &str> {
    let both = [&result.failed_nodes, &result.failed_and_unresolvable_nodes];
    let all = both.into_iter().flatten().flatten();
    all.map(|(node, reason)| (node.as_str(), reason.as_str())).collect()
}

impl ScoreOutcome {
    /// Compares the answer with the policies' own scores.
    pub(crate) fn of(
        question: &Question,
        opinions: &[Opinion<i32>],
        answer: &[HostPriority],
    ) -> Result<Self, Failure> {
        let policies = opinions.iter().map(|opinion| (opinion.policy.clone(), opinion.weight)).collect();
        let answered: BTreeMap<&str, i64> =
            answer.iter().map(|priority| (priority.host.as_str(), priority.score)).collect();
        let mut outcome = Self { policies, nodes: Vec::new(), surprises: Vec::new() };
        for (place, node) in question.nodes.iter().enumerate() {
            let scores = NodeScores::of(place, opinions, answered.get(node.name.as_str()).copied())?;
            if scores.answered != Some(scores.expected) {
                outcome.surprises.push(format!(
                    "prioritize of {}, {}: the gateway says {:?}, the policies' sum is {}",
                    question.pod_name, node.name, scores.answered, scores.expected
                ));
            }
            outcome.nodes.push(scores);
        }
        if answer.len() != question.nodes.len() {
            outcome.surprises.push(format!(
                "prioritize of {}: {} scores for {} nodes",
                question.pod_name,
                answer.len(),
                question.nodes.len()
            ));
        }
        Ok(outcome)
    }

    /// The largest of the gateway's sums.
    pub(crate) fn best(&self) -> Option<i64> {
        self.nodes.iter().filter_map(|node| node.answered).max()
    }
}

impl NodeScores {
    /// The demo's policies declare no normalization: each counts score × weight, as an extender does.
    fn of(node: usize, opinions: &[Opinion<i32>], answered: Option<i64>) -> Result<Self, Failure> {
        let (mut raw, mut expected) = (Vec::with_capacity(opinions.len()), 0);
        for opinion in opinions {
            let score = *opinion.of_nodes.get(node).ok_or_else(|| {
                format!("{} gave {} scores, too few", opinion.policy, opinion.of_nodes.len())
            })?;
            raw.push(score);
            expected += i64::from(score) * i64::from(opinion.weight);
        }
        Ok(Self { raw, expected, answered })
    }
}

#[cfg(test)]
mod tests;

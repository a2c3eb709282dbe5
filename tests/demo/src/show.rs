//! What people see: a heading for each call and a table below it, in at most 100 columns.

use std::{
    fmt::{Display, Write},
    time::Duration,
};

use crate::{
    calls::Call,
    colour::Colours,
    compare::{FilterOutcome, NodeScores, Refusal, ScoreOutcome},
    question::{Form, OfferedNode, Question},
    stage::Stage,
};

/// The widest line.
const WIDTH: usize = 100;

/// What stands above a table.
pub(crate) struct Heading<'a> {
    /// The call.
    pub(crate) call: &'a Call,
    /// What it asked.
    pub(crate) question: &'a Question,
    /// How long the gateway took, as the caller saw it.
    pub(crate) took: Duration,
}

/// Who plays.
pub(crate) fn introduction(stage: &Stage, colours: Colours) -> String {
    let mut text = Text::default();
    text.line(colours.bold("kube-scheduler's calls, one gateway, three gRPC policies"));
    text.line("");
    text.line(format!(
        "  {:<18}{:<18}asks the three in parallel",
        "extender-gateway", stage.gateway.extender
    ));
    for (policy, weight) in &stage.policies {
        let file = format!("tests/demo/rules/{}.yaml", policy.process.name());
        text.line(format!("  {:<18}{:<18}weight {weight}, {file}", policy.process.name(), policy.address));
    }
    text.0
}

/// What came of a filter call: a line for each node.
pub(crate) fn filter(heading: &Heading<'_>, outcome: &FilterOutcome, colours: Colours) -> String {
    let mut text = heading.text(colours);
    let columns = format!("  {:<14}{:<9}{:<10}{:<12}", "node", "rack", "tenant", "zone");
    text.line(colours.dim(columns.trim_end()));
    for (node, refusals) in heading.question.nodes.iter().zip(&outcome.refusals) {
        let facts = format!("  {:<14}{}", node.short_name(), columns_of(node));
        match refusals.split_first() {
            None => text.line(format!("{facts}{}", colours.green("stays"))),
            Some((first, others)) => text.line(format!("{facts}{}", falls(first, others, colours))),
        }
    }
    text.0
}

fn columns_of(node: &OfferedNode) -> String {
    let [rack, tenant, zone] =
        ["topology.acme.io/rack", "acme.io/tenant", "topology.kubernetes.io/zone"].map(|key| node.label(key));
    format!("{rack:<9}{tenant:<10}{zone:<12}")
}

fn falls(first: &Refusal, others: &[Refusal], colours: Colours) -> String {
    let mut text = format!("{} {}: {}", colours.red("falls"), first.policy, first.reason);
    for other in others {
        text.push_str(&colours.dim(&format!(" (and {})", other.policy)));
    }
    text
}

/// What came of a prioritize call: a line for each node, the best first.
pub(crate) fn scores(heading: &Heading<'_>, outcome: &ScoreOutcome, colours: Colours) -> String {
    let mut text = heading.text(colours);
    let mut columns = format!("  {:<14}", "node");
    for (policy, weight) in &outcome.policies {
        let _ = write!(columns, "{:>20}", format!("{policy} x{weight}"));
    }
    text.line(colours.dim(&format!("{columns}{:>8}{:>10}", "sum", "gateway")));
    let mut nodes: Vec<_> = heading.question.nodes.iter().zip(&outcome.nodes).collect();
    nodes.sort_by_key(|(_, scores)| std::cmp::Reverse(scores.answered));
    for (node, scores) in nodes {
        let mark = if scores.answered == outcome.best() { colours.green("  best") } else { String::new() };
        text.line(format!("  {:<14}{}{mark}", node.short_name(), numbers(scores)));
    }
    text.0
}

fn numbers(scores: &NodeScores) -> String {
    let mut text = String::new();
    for score in &scores.raw {
        let _ = write!(text, "{score:>20}");
    }
    let answered = scores.answered.map_or("none".to_owned(), |sum| sum.to_string());
    let _ = write!(text, "{:>8}{answered:>10}", scores.expected);
    text
}

/// Whether everything was as expected.
pub(crate) fn conclusion(surprises: &[String], colours: Colours) -> String {
    let mut text = Text::default();
    text.line("");
    if surprises.is_empty() {
        text.line(colours.green("Every answer is what the three policies say when they are asked directly,"));
        text.line(colours.green("and every node object came back byte for byte."));
    }
    for surprise in surprises {
        text.line(format!("{} {surprise}", colours.red("NOT AS EXPECTED:")));
    }
    text.0
}

impl Heading<'_> {
    fn text(&self, colours: Colours) -> Text {
        let (verb, nodes) = (self.call.verb, self.question.nodes.len());
        let form = match self.question.form {
            Form::Names => "by name",
            Form::Objects => "as full objects",
        };
        let about = format!("{} call, {nodes} nodes {form}", self.call.origin);
        let took = format!("{:.2} ms", self.took.as_secs_f64() * 1e3);
        let name = verb.path().trim_start_matches('/');
        let left = format!("{name}  {}", self.question.pod_name);
        let gap = WIDTH.saturating_sub(left.len() + took.len());
        let mut text = Text::default();
        text.line("");
        text.line(format!("{}{about:^gap$}{took}", colours.bold(&left)));
        text
    }
}

/// Lines that are collected before they are printed.
#[derive(Debug, Default)]
struct Text(String);

impl Text {
    fn line(&mut self, line: impl Display) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.0, "{line}");
    }
}

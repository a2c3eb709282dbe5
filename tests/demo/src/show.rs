//! The output: a heading for each call and a table below it, in at most 100 columns.

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

/// The head of the first column.
const NODE: &str = "node";

/// The lines above a table.
pub(crate) struct Heading<'a> {
    /// The call.
    pub(crate) call: &'a Call,
    /// Its content.
    pub(crate) question: &'a Question,
    /// The latency that the caller saw.
    pub(crate) took: Duration,
}

/// The participants, and how to read the rest.
pub(crate) fn introduction(stage: &Stage, colours: Colours) -> String {
    let mut text = Text::default();
    text.line(colours.bold("kube-scheduler's calls, one gateway, three gRPC policies"));
    text.line("");
    text.line(format!("  {:<18}{:<18}asks the three at once", "extender-gateway", stage.gateway.extender));
    for (policy, weight) in &stage.policies {
        let name = policy.process.name();
        text.line(format!("  {name:<18}{:<18}weight {weight}, tests/demo/rules/{name}.yaml", policy.address));
    }
    text.line("");
    text.line("  filter      a node falls when a policy refuses it; the first one's reason counts");
    text.line("  prioritize  a policy's score times its weight, added up; gateway is what it answered");
    text.line("  captured    what a real kube-scheduler sent, whose extender had kept all three nodes");
    text.0
}

/// The result of a filter call: a line for each node, and one more for each further policy that refuses it.
pub(crate) fn filter(heading: &Heading<'_>, outcome: &FilterOutcome, colours: Colours) -> String {
    let mut text = heading.text(colours);
    let columns = format!("  {NODE:<15}{:<8}{:<10}zone", "rack", "tenant");
    text.line(colours.dim(&columns));
    for (node, refusals) in heading.question.nodes.iter().zip(&outcome.refusals) {
        let facts = facts_of(node);
        let Some((first, others)) = refusals.split_first() else {
            text.line(format!("{facts}{}", colours.green("stays")));
            continue;
        };
        text.line(format!("{facts}{}  {}", colours.red("falls"), words(first)));
        for other in others {
            let also = format!("also   {}", words(other));
            text.line(format!("{:width$}{}", "", colours.dim(&also), width = facts.len()));
        }
    }
    text.0
}

fn facts_of(node: &OfferedNode) -> String {
    let [rack, tenant, zone] =
        ["topology.acme.io/rack", "acme.io/tenant", "topology.kubernetes.io/zone"].map(|key| node.label(key));
    format!("  {:<15}{rack:<8}{tenant:<10}{zone:<12}", node.short_name())
}

fn words(refusal: &Refusal) -> String {
    format!("{}: {}", refusal.policy, refusal.reason)
}

/// The result of a prioritize call: a line for each node, the best first.
pub(crate) fn scores(heading: &Heading<'_>, outcome: &ScoreOutcome, colours: Colours) -> String {
    let mut text = heading.text(colours);
    let mut columns = format!("  {NODE:<15}");
    for (policy, weight) in &outcome.policies {
        let _ = write!(columns, "{:>21}", format!("{policy} \u{d7} {weight}"));
    }
    text.line(colours.dim(&format!("{columns}{:>6}{:>9}", "sum", "gateway")));
    let mut nodes: Vec<_> = heading.question.nodes.iter().zip(&outcome.nodes).collect();
    nodes.sort_by_key(|(_, scores)| std::cmp::Reverse(scores.answered));
    for (node, scores) in nodes {
        let mark = if scores.answered == outcome.best() { colours.green("  best") } else { String::new() };
        text.line(format!("  {:<15}{}{mark}", node.short_name(), numbers(scores)));
    }
    text.0
}

fn numbers(scores: &NodeScores) -> String {
    let mut text = String::new();
    for score in &scores.raw {
        let _ = write!(text, "{score:>21}");
    }
    let answered = scores.answered.map_or("none".to_owned(), |sum| sum.to_string());
    let _ = write!(text, "{:>6}{answered:>9}", scores.expected);
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
        let name = format!("{:<12}", verb.path().trim_start_matches('/'));
        let about = format!("{}, {nodes} nodes {form}, {}", self.question.pod_name, self.call.origin);
        let took = format!("{:.2} ms", self.took.as_secs_f64() * 1e3);
        let gap = WIDTH.saturating_sub(name.len() + about.len());
        let mut text = Text::default();
        text.line("");
        text.line(format!("{}{about}{took:>gap$}", colours.bold(&name)));
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

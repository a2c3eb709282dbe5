//! Makes the calls: calls the gateway and the policies, compares and shows.

use std::collections::BTreeSet;

use extender_harness::{http::Connection, request::Verb};

use crate::{
    Failure,
    answer::{self, HostPriority},
    calls::{self, Call},
    colour::Colours,
    compare::{FilterOutcome, ScoreOutcome},
    panel::Panel,
    question::{KnownNodes, Question},
    show::{self, Heading},
    stage::Stage,
};

/// What the demo needs for a call.
struct Demo<'a> {
    gateway: Connection,
    panel: &'a mut Panel,
    nodes: &'a KnownNodes,
    colours: Colours,
    surprises: Vec<String>,
}

/// Makes all calls. Returns what was unexpected, one sentence each.
pub(crate) fn all(stage: &Stage, panel: &mut Panel, colours: Colours) -> Result<Vec<String>, Failure> {
    let gateway = Connection::open(stage.gateway.extender)?;
    let mut demo = Demo { gateway, panel, nodes: &stage.nodes, colours, surprises: Vec::new() };
    for call in calls::captured() {
        match call.verb {
            Verb::Filter => demo.filter(&call).map(drop)?,
            Verb::Prioritize => demo.prioritize(&call)?,
        }
    }
    demo.generated()?;
    Ok(demo.surprises)
}

impl Demo<'_> {
    /// As kube-scheduler continues: the nodes that filter leaves are prioritized.
    fn generated(&mut self) -> Result<(), Failure> {
        let mut nodes = calls::twelve_nodes();
        let left = self.filter(&calls::generated(Verb::Filter, &nodes))?;
        nodes.retain(|node| left.contains(&node.name));
        self.prioritize(&calls::generated(Verb::Prioritize, &nodes))
    }

    /// Returns the names of the nodes that stay.
    fn filter(&mut self, call: &Call) -> Result<BTreeSet<String>, Failure> {
        let question = Question::read(&call.body, self.nodes)?;
        let (result, took) = answer::to(call, &mut self.gateway)?;
        let outcome = FilterOutcome::of(&question, &self.panel.refusals(&question)?, &result);
        print!("{}", show::filter(&Heading { call, question: &question, took }, &outcome, self.colours));
        self.surprises.extend(outcome.surprises);
        Ok(outcome.staying.into_iter().collect())
    }

    fn prioritize(&mut self, call: &Call) -> Result<(), Failure> {
        let question = Question::read(&call.body, self.nodes)?;
        let (result, took): (Vec<HostPriority>, _) = answer::to(call, &mut self.gateway)?;
        let opinions = self.panel.scores(&question)?;
        let outcome = ScoreOutcome::of(&question, &opinions, &result)?;
        print!("{}", show::scores(&Heading { call, question: &question, took }, &outcome, self.colours));
        self.surprises.extend(outcome.surprises);
        Ok(())
    }
}

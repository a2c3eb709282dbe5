//! The decisions of one run, and how they are printed.

use std::{
    fmt,
    path::{Component, PathBuf},
};

use extender_gateway_api::explain::{
    Explanation,
    evidence::Evidence,
    pod::{ClusterView, ExplainedPod},
    replicas::Gathered,
};
use extender_gateway_api::{Decision, DecisionList, NodePart, Status};
use extender_gateway_core::Verb;
use extender_gateway_object::text::{clean, counted};
use extender_gateway_serve::simulation::{SimulatedPod, feasible};
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use super::{TryOptions, expectations::Expectation};

use crate::{
    explain::Printed,
    output::{Console, Failure},
};

/// All decisions of a run.
pub(super) struct Outcome {
    /// At least one.
    pub(super) cases: Vec<SimulatedCase>,
    pub(super) status: Option<Status>,
}

/// The decision about a pod.
pub(super) struct SimulatedCase {
    pub(super) file: PathBuf,
    pub(super) pod: SimulatedPod,
    pub(super) expectation: Option<Expectation>,
    /// The latest call first.
    pub(super) decisions: DecisionList,
}

impl SimulatedCase {
    /// The file of the pod for messages, without steps up and down again.
    pub(super) fn shown_file(&self) -> String {
        let mut shown = PathBuf::new();
        for part in self.file.components() {
            let is_below =
                shown.components().next_back().is_some_and(|last| matches!(last, Component::Normal(_)));
            if part == Component::ParentDir && is_below {
                shown.pop();
            } else {
                shown.push(part);
            }
        }
        shown.display().to_string()
    }

    /// The call of a verb.
    pub(super) fn call(&self, verb: Verb) -> Option<&Decision> {
        self.decisions.items.iter().find(|call| call.is(verb))
    }

    /// The error that kube-scheduler would get instead of a decision.
    pub(super) fn error(&self) -> Option<&str> {
        let Some(filter) = self.call(Verb::Filter) else { return Some("no call was recorded") };
        (filter.outcome != "ok").then(|| filter.message.as_deref().unwrap_or(&filter.outcome))
    }

    /// The nodes on which the pod may run.
    pub(super) fn feasible(&self) -> Vec<String> {
        self.call(Verb::Filter).map(feasible).unwrap_or_default()
    }

    /// The nodes of the filter call that were rejected.
    pub(super) fn rejected(&self) -> impl Iterator<Item = &NodePart> {
        let nodes = self.call(Verb::Filter).into_iter().flat_map(|call| &call.nodes);
        nodes.filter(|node| node.rejected_by.is_some())
    }

    /// The sum of a node's weighted scores.
    pub(super) fn total(&self, name: &str) -> Option<i64> {
        let scored = self.call(Verb::Prioritize)?;
        scored.nodes.iter().find(|node| node.name == name)?.total
    }

    /// The nodes with the highest total.
    pub(super) fn best(&self) -> Vec<&str> {
        let nodes = self.call(Verb::Prioritize).map_or(&[][..], |call| &call.nodes);
        let highest = nodes.iter().filter_map(|node| node.total).max();
        let best = nodes.iter().filter(|node| highest.is_some() && node.total == highest);
        best.map(|node| node.name.as_str()).collect()
    }

    /// How the decision differs from what is expected.
    pub(super) fn differences(&self) -> Vec<String> {
        self.expectation.as_ref().map_or_else(Vec::new, |expected| expected.differences(self))
    }
}

impl Outcome {
    /// Prints the decisions. Of one that is as expected, the table has a line.
    pub(super) fn write(&self, options: &TryOptions, console: &mut Console<'_>) -> Result<(), Failure> {
        options.output.write(&PrintedOutcome { outcome: self, options }, console)
    }

    /// Whether the run succeeded.
    ///
    /// # Errors
    /// An expectation is not met, or there is no decision.
    pub(super) fn result(&self) -> Result<(), Failure> {
        let (mut differences, mut expected) = (Vec::new(), 0_u64);
        for case in self.cases.iter().filter(|case| case.expectation.is_some()) {
            expected += 1;
            let found = case.differences();
            differences.extend(found.into_iter().map(|text| format!("{}: {text}", case.shown_file())));
        }
        if !differences.is_empty() {
            return Err(Failure::Unexpected(differences));
        }
        let error = self.cases.iter().find_map(SimulatedCase::error);
        error.filter(|_| expected == 0).map_or(Ok(()), |error| Err(Failure::Undecided(error.to_owned())))
    }

    /// What two runs have in common if they decide the same: all but times and ids.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        type Shown<'a> = (&'a str, &'a Option<String>, &'a [NodePart]);
        fn shown(outcome: &Outcome) -> Vec<Shown<'_>> {
            let calls = outcome.cases.iter().flat_map(|case| &case.decisions.items);
            calls.map(|call| (call.outcome.as_str(), &call.message, &*call.nodes)).collect()
        }
        shown(self) == shown(other)
    }
}

/// The outcome with the options for its form. Serialized as the admin address does.
struct PrintedOutcome<'o> {
    outcome: &'o Outcome,
    options: &'o TryOptions,
}

impl Serialize for PrintedOutcome<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut lists = self.outcome.cases.iter().map(|case| case.decisions.clone());
        let mut all = lists.next().expect("there is at least one pod");
        for list in lists {
            // The newest first.
            all.items.splice(0..0, list.items);
            all.log = list.log;
        }
        all.serialize(serializer)
    }
}

impl fmt::Display for PrintedOutcome<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_first = true;
        for case in &self.outcome.cases {
            let is_met = case.expectation.is_some() && case.differences().is_empty();
            if !std::mem::take(&mut is_first) && !is_met {
                writeln!(out)?;
            }
            if is_met {
                writeln!(out, "ok: {}: {}", case.shown_file(), in_short(case))?;
            } else {
                self.explain(case, out)?;
            }
        }
        Ok(())
    }
}

impl PrintedOutcome<'_> {
    fn explain(&self, case: &SimulatedCase, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = ExplainedPod {
            namespace: case.pod.namespace.clone(),
            name: case.pod.name.clone(),
            node: self.options.node.clone(),
            waiting: None,
            group: None,
        };
        let gathered = Gathered { answers: vec![case.decisions.clone()], away: Vec::new() };
        let cluster = ClusterView::simulated(&case.shown_file());
        let statuses =
            self.outcome.status.iter().map(|status| on_command_line(status, self.options)).collect();
        let evidence = Evidence::new(target, cluster, gathered, statuses, Timestamp::now());
        write!(
            out,
            "{}",
            Printed { explanation: Explanation::of(&evidence), top: self.options.top, policy_pages: &[] }
        )
    }
}

/// The same state, with what helps on the command line about backends that no configuration has, and their URLs if they
/// have no name.
fn on_command_line(status: &Status, options: &TryOptions) -> Status {
    let mut status = status.clone();
    let Status { backends, problems, .. } = &mut status;
    for problem in problems {
        problem.remedy = without_replicas(&problem.remedy).to_owned();
        let backend = backends.iter().find(|backend| problem.about == format!("backend {}", backend.name));
        let added = backend.and_then(|backend| {
            let mut added = options.backends.iter();
            added.find(|added| added.is(&backend.name, &backend.url)).map(|added| (added, &backend.url))
        });
        if let Some((added, url)) = added {
            problem.remedy = remedy_on_command_line(&problem.remedy);
            if !added.has_name() {
                problem.what = format!("{url}: {}", problem.what);
            }
        }
    }
    status
}

/// What helps without a running gateway: a simulation has no replicas to command.
fn without_replicas(remedy: &str) -> &str {
    remedy.split_once("; `extender-gateway backend ").map_or(remedy, |(remedy, _)| remedy)
}

/// What helps about a backend of `--backend`.
fn remedy_on_command_line(remedy: &str) -> String {
    remedy
        .replace("correct its args:", "correct --args:")
        .replace("correct its url or tls", "correct the URL of --backend")
        .replace("correct its url", "correct the URL of --backend")
}

/// The decision in some words.
fn in_short(case: &SimulatedCase) -> String {
    if let Some(error) = case.error() {
        return format!("no decision, as expected: {}", clean(error));
    }
    let feasible = counted(case.feasible().len() as u64, "feasible node");
    format!("{feasible}, {} rejected", case.rejected().count())
}

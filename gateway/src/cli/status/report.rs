//! All replicas together.

use jiff::Timestamp;
use serde::Serialize;

use super::differences;
use crate::{
    api::{API_VERSION, Problem, Severity, Status},
    cli::admin::{Away, Gathered},
};

/// What `-o json` and `-o yaml` write.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    /// When it was asked.
    pub(super) time: Timestamp,
    /// Who answered, by name.
    pub(super) replicas: Vec<Status>,
    /// Who did not.
    pub(super) away: Vec<Away>,
    /// In what the replicas differ, one sentence each.
    pub(super) differences: Vec<String>,
}

impl Report {
    /// Puts together what the replicas said.
    pub(super) fn new(gathered: Gathered<Status>, now: Timestamp) -> Self {
        let mut replicas = gathered.answers;
        replicas.sort_by(|a, b| a.gateway.cmp(&b.gateway));
        let differences = differences::between(&replicas);
        Self {
            api_version: API_VERSION,
            kind: "StatusReport",
            time: now,
            replicas,
            away: gathered.away,
            differences,
        }
    }

    /// What is wrong, the worst first, each with the replicas that say so.
    pub(super) fn problems(&self) -> Vec<(&Problem, Vec<&str>)> {
        let mut groups: Vec<(&Problem, Vec<&str>)> = Vec::new();
        for (gateway, problem) in self.replicas.iter().flat_map(of_replica) {
            match groups.iter_mut().find(|(other, _)| *other == problem) {
                Some((_, gateways)) => gateways.push(gateway),
                None => groups.push((problem, vec![gateway])),
            }
        }
        groups.sort_by_key(|(problem, _)| problem.severity);
        groups
    }

    /// How much keeps pods from being scheduled, replicas that do not answer among it.
    pub(super) fn errors(&self) -> usize {
        let is_error = |(problem, _): &&(&Problem, _)| problem.severity == Severity::Error;
        self.problems().iter().filter(is_error).count() + self.away.len()
    }
}

fn of_replica(status: &Status) -> impl Iterator<Item = (&str, &Problem)> {
    status.problems.iter().map(|problem| (status.gateway.as_str(), problem))
}

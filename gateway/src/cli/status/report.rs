//! All replicas together.

use jiff::Timestamp;
use serde::Serialize;

use super::differences;
use crate::{
    cli::admin::{Away, Gathered},
    observe::api::{API_VERSION, Severity, Status},
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

    /// What keeps pods from being scheduled, and replicas that do not answer.
    pub(super) fn errors(&self) -> usize {
        let problems = self.replicas.iter().flat_map(|status| &status.problems);
        problems.filter(|problem| problem.severity == Severity::Error).count() + self.away.len()
    }
}

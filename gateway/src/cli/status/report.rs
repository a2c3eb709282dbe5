//! The combined status of all replicas.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::{
    api::{API_VERSION, BackendStatus, Problem, Severity, Status},
    cli::admin::{Away, Gathered},
};

/// The output of `-o json` and `-o yaml`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    /// When the replicas were queried.
    pub(super) time: Timestamp,
    /// The replicas that answered, by name.
    pub(super) replicas: Vec<Status>,
    /// The replicas that did not answer.
    pub(super) away: Vec<Away>,
    /// The differences between replicas, one sentence each.
    pub(super) differences: Vec<String>,
}

impl Report {
    /// Combines the answers of the replicas.
    pub(super) fn new(gathered: Gathered<Status>, now: Timestamp) -> Self {
        let mut replicas = gathered.answers;
        replicas.sort_by(|a, b| a.gateway.cmp(&b.gateway));
        let differences = differences(&replicas);
        Self {
            api_version: API_VERSION,
            kind: "StatusReport",
            time: now,
            replicas,
            away: gathered.away,
            differences,
        }
    }

    /// The problems, the most severe first, each with the replicas that report it.
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

    /// The number of problems that prevent pods from being scheduled, including replicas that do not answer.
    pub(super) fn errors(&self) -> usize {
        let is_error = |(problem, _): &&(&Problem, _)| problem.severity == Severity::Error;
        self.problems().iter().filter(is_error).count() + self.away.len()
    }
}

fn of_replica(status: &Status) -> impl Iterator<Item = (&str, &Problem)> {
    status.problems.iter().map(|problem| (status.gateway.as_str(), problem))
}

/// A property of a replica that should be the same for all.
type Aspect = (&'static str, fn(&Status) -> String);

const ASPECTS: [Aspect; 4] = [
    ("version", |status| status.version.clone()),
    ("configuration (digests)", |status| status.configuration.digest.clone()),
    ("backends or their effective order", |status| listed(status.backends.iter().map(configured))),
    ("the reported versions of backends", |status| listed(status.backends.iter().filter_map(introduced))),
];

/// A sentence for each property that differs.
fn differences(replicas: &[Status]) -> Vec<String> {
    ASPECTS.iter().filter_map(|aspect| difference(aspect, replicas)).collect()
}

fn difference((what, value): &Aspect, replicas: &[Status]) -> Option<String> {
    let mut names: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for replica in replicas {
        names.entry(value(replica)).or_default().push(&replica.gateway);
    }
    if names.len() < 2 {
        return None;
    }
    let sides: Vec<_> = names.iter().map(|(value, names)| format!("{}: {value}", names.join(", "))).collect();
    Some(format!("Replicas differ in {what}. {}", sides.join("; ")))
}

fn listed(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<_> = texts.collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

fn configured(backend: &BackendStatus) -> String {
    let verbs: Vec<_> = backend.verbs.iter().map(|verb| verb.verb.as_str()).collect();
    format!("{} ({}, {}, {})", backend.name, backend.url, backend.mode, verbs.join(" "))
}

/// A backend without a connection is a separate problem, not a difference.
fn introduced(backend: &BackendStatus) -> Option<String> {
    let said = backend.handshake.as_ref()?;
    Some(
        format!("{} is {} {} {}", backend.name, said.name, said.version, said.revision).trim_end().to_owned(),
    )
}

//! What must hold at any moment, as the objects of the API show it.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Duration, Instant};

use crate::apiserver::Apiserver;

/// How long a claim may stay whose pod is gone: the time of a claim, that of the Lease, and some pauses.
const LONGEST_CLAIM: Duration = Duration::from_secs(200);
/// How long reserved room may be used by others.
const LONGEST_LOSS: Duration = Duration::from_secs(2);
/// How long a pod may wait although there is room.
const LONGEST_WAIT: Duration = Duration::from_secs(150);

/// The objects of a moment.
pub(super) struct OracleCluster {
    pub(super) version: u64,
    pub(super) pods: Vec<Value>,
    pub(super) reservations: Vec<Value>,
    nodes: Vec<String>,
    /// The nodes of the pods that are on one and have not ended, by UID, and what they request, by node.
    there: HashMap<String, String>,
    used: HashMap<String, i64>,
}

/// What it has seen.
#[derive(Default)]
pub(super) struct Oracle {
    capacity: i64,
    /// Since when something is as it should be only for a while.
    since: HashMap<String, Instant>,
    looks: u64,
    most_owners: usize,
    bound: usize,
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn milli(quantity: &Value) -> i64 {
    let quantity = text(quantity);
    match quantity.strip_suffix('m') {
        Some(milli) => milli.parse().unwrap(),
        None if quantity.is_empty() => 0,
        None => quantity.parse::<i64>().unwrap() * 1_000,
    }
}

pub(super) fn cpu_of(pod: &Value) -> i64 {
    milli(&pod["spec"]["containers"][0]["resources"]["requests"]["cpu"])
}

pub(super) fn has_ended(pod: &Value) -> bool {
    pod["status"]["phase"] == "Succeeded"
}

/// Whether the scheduler has to place it.
pub(super) fn waits(pod: &Value) -> bool {
    pod["spec"]["nodeName"].is_null() && pod["spec"]["schedulingGates"].is_null() && !has_ended(pod)
}

impl OracleCluster {
    pub(super) fn of(apiserver: &Apiserver) -> Self {
        let version = apiserver.version();
        let pods: Vec<_> = apiserver.pods().into_values().collect();
        let (mut there, mut used) = (HashMap::new(), HashMap::new());
        for pod in pods.iter().filter(|pod| pod["spec"]["nodeName"].is_string() && !has_ended(pod)) {
            let node = text(&pod["spec"]["nodeName"]).to_owned();
            *used.entry(node.clone()).or_default() += cpu_of(pod);
            there.insert(text(&pod["metadata"]["uid"]).to_owned(), node);
        }
        let (reservations, nodes) = (apiserver.reservations(), apiserver.nodes());
        Self { version, pods, reservations, nodes, there, used }
    }

    /// Whether the pod of this UID is on a node.
    pub(super) fn has(&self, uid: &str) -> bool {
        self.node_of(uid).is_some()
    }

    pub(super) fn node_of(&self, uid: &str) -> Option<&str> {
        self.there.get(uid).map(String::as_str)
    }

    /// How many Reservations are not over.
    pub(super) fn living(&self) -> usize {
        let is_over = |one: &&Value| matches!(text(&one["status"]["phase"]), "Failed" | "Succeeded");
        self.reservations.len() - self.reservations.iter().filter(is_over).count()
    }

    pub(super) fn used(&self, node: &str) -> i64 {
        self.used.get(node).copied().unwrap_or_default()
    }

    /// What is reserved on a node, and not used by owners.
    fn kept(&self, node: &str, now: Timestamp) -> i64 {
        let lives = |reservation: &&Value| {
            let status = &reservation["status"];
            let expires = || text(&reservation["spec"]["expires"]).parse::<Timestamp>().ok();
            status["phase"] == "Available"
                && status["nodeName"] == node
                && expires().is_none_or(|at| at > now)
        };
        self.reservations
            .iter()
            .filter(lives)
            .map(|one| (allocatable(one) - self.used_by_owners(one)).max(0))
            .sum()
    }

    fn used_by_owners(&self, reservation: &Value) -> i64 {
        let node = reservation["status"]["nodeName"].as_str();
        let is_there = |owner: &&Value| self.node_of(text(&owner["uid"])) == node;
        owners(reservation).iter().filter(is_there).map(|owner| milli(&owner["requests"]["cpu"])).sum()
    }
}

fn allocatable(reservation: &Value) -> i64 {
    milli(&reservation["status"]["allocatable"]["cpu"])
}

fn owners(reservation: &Value) -> &[Value] {
    reservation["status"]["owners"].as_array().map_or(&[], Vec::as_slice)
}

impl Oracle {
    pub(super) fn new(capacity: i64) -> Self {
        Self { capacity, ..Self::default() }
    }

    pub(super) fn told(&self) -> String {
        format!(
            "{} looks, {} pods seen on nodes, at most {} owners",
            self.looks, self.bound, self.most_owners
        )
    }

    /// Panics if something is wrong.
    pub(super) fn look(&mut self, state: &OracleCluster, now: Timestamp, instant: Instant) {
        self.looks += 1;
        let (mut passing, mut taken) = (HashMap::new(), Vec::new());
        for node in &state.nodes {
            let (used, kept) = (state.used(node), state.kept(node, now));
            taken.push((node, used + kept));
            assert!(used <= self.capacity, "{now}: node {node} has {used} of {}", self.capacity);
            if used + kept > self.capacity {
                passing.insert(format!("{used} are used and {kept} kept on node {node}"), LONGEST_LOSS);
            }
        }
        for reservation in &state.reservations {
            owned_rightly(reservation);
            passing.extend(gone_owners(state, reservation).map(|why| (why, LONGEST_CLAIM)));
        }
        for pod in state.pods.iter().filter(|pod| waits(pod)) {
            let milli_cpu = cpu_of(pod);
            if let Some((node, _)) = taken.iter().find(|(_, taken)| taken + milli_cpu <= self.capacity) {
                passing.insert(
                    format!("{} waits, with room on {node}", text(&pod["metadata"]["name"])),
                    LONGEST_WAIT,
                );
            }
        }
        self.since.retain(|why, _| passing.contains_key(why));
        for (why, limit) in passing {
            let since = *self.since.entry(why.clone()).or_insert(instant);
            assert!(instant - since <= limit, "{now}: for {limit:?}, {why}: {}", shown(state));
        }
        self.most_owners = self.most_owners.max(state.reservations.iter().map(|one| owners(one).len()).sum());
        self.bound = self.bound.max(state.there.len());
    }
}

/// No slot is given twice.
fn owned_rightly(reservation: &Value) {
    let sum: i64 = owners(reservation).iter().map(|owner| milli(&owner["requests"]["cpu"])).sum();
    assert!(sum <= allocatable(reservation), "owners have {sum}: {reservation}");
    let most = if reservation["spec"]["allocateOnce"] == true { 1 } else { 1_000 };
    assert!(owners(reservation).len() <= most, "{reservation}");
}

fn gone_owners<'c>(state: &'c OracleCluster, reservation: &'c Value) -> impl Iterator<Item = String> + 'c {
    let is_gone = |owner: &&Value| {
        let mut pods = state.pods.iter();
        !pods.any(|pod| pod["metadata"]["uid"] == owner["uid"] && !has_ended(pod))
    };
    let name = text(&reservation["metadata"]["name"]);
    owners(reservation)
        .iter()
        .filter(is_gone)
        .map(move |owner| format!("{name} has the gone owner {}", text(&owner["uid"])))
}

fn shown(state: &OracleCluster) -> String {
    let reservations =
        state.reservations.iter().map(|one| format!("{} {}", one["metadata"]["name"], one["status"]));
    let pods =
        state.pods.iter().map(|pod| format!("{} {} {}", pod["metadata"]["name"], pod["spec"], pod["status"]));
    reservations.chain(pods).collect::<Vec<_>>().join("\n")
}

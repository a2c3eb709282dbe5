//! The decision log: the latest calls of each pod, with each backend's answer for each node, in memory and of
//! limited size.
//!
//! An entry is packed after the response (`packed`, `dictionary`) and unpacked for each query. Pods that found no
//! node are kept longest (`retention`).

mod dictionary;
mod entry;
mod overview;
mod packed;
mod retention;
mod shadows;
mod shown;

use std::{
    collections::{HashMap, HashSet},
    iter,
    sync::Arc,
    time::SystemTime,
};

use extender_gateway_core::Verb;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use serde::{Deserialize, Deserializer, de::Error as _};

use extender_gateway_api::{Decision, LogState, NodeVerdict};
use extender_gateway_record::{Agreement, CallRecord, HttpCall, PodRef};

use self::{entry::LogEntry, retention::Retention};
use super::timestamp;

/// The most calls that are unpacked for one response.
const MAX_UNPACKED: usize = 5_000;
/// The most nodes in one response, over all of its calls: each takes half a kilobyte.
const MAX_NODES: usize = 50_000;
/// The default number of calls.
const DEFAULT_LIMIT: usize = 100;
/// The most calls.
const MAX_LIMIT: usize = 5_000;

/// The log.
#[derive(Debug)]
pub struct DecisionLog {
    kept: Mutex<Retention>,
    since: SystemTime,
}

impl DecisionLog {
    /// An empty log with this limit in bytes; 0 disables it. It counts the calls that it evicts.
    pub fn new(max_bytes: usize, evicted: Counter) -> Self {
        Self { kept: Mutex::new(Retention::new(max_bytes, evicted)), since: SystemTime::now() }
    }

    /// Changes the limit, in bytes.
    pub fn resize(&self, max_bytes: usize) {
        self.kept.lock().resize(max_bytes);
    }

    /// Stores a call, or its shadow calls, which have no HTTP call.
    pub(super) fn put(&self, verb: Verb, record: &CallRecord, http_call: Option<&HttpCall>) {
        let mut kept = self.kept.lock();
        if kept.max_bytes > 0 {
            let pod = kept.pod(&record.pod);
            let entry = LogEntry::new(verb, record, http_call, pod, kept.prepare_dictionary());
            kept.put(entry);
        }
    }

    /// Stores that a pod got, without a call, the answer of the filter call with this id about another pod, and of the prioritize
    /// call in it. Does nothing if that call is not in the log any more.
    pub fn put_kept(&self, call: &str, asked: &str, pod: &PodRef) {
        let mut kept = self.kept.lock();
        if kept.has_kept(call, &pod.uid) {
            // Told again.
            return;
        }
        let answered = kept.answers_of(call, asked);
        let pod = kept.pod(pod);
        for entry in answered {
            kept.put(entry.kept_for(Arc::clone(&pod)));
        }
    }

    /// The state of the log.
    pub fn state(&self) -> LogState {
        // Visits all pods, so before the lock that is held for the rest.
        let oldest = self.calls(|_| true).map(|entry| entry.time).min();
        let kept = self.kept.lock();
        let (calls, pods, evicted) = kept.counts();
        let is_disabled = kept.max_bytes == 0;
        let complete_since = if is_disabled { Some(SystemTime::now()) } else { kept.latest_evicted };
        LogState {
            max_bytes: kept.max_bytes as u64,
            bytes: kept.bytes() as u64,
            calls: calls as u64,
            pods: pods as u64,
            evicted,
            since: timestamp(self.since),
            oldest: oldest.map(timestamp),
            complete_since: complete_since.map(timestamp),
        }
    }

    /// The limit and the size in bytes, and the numbers of calls and pods. Cheap.
    pub fn size(&self) -> [usize; 4] {
        let kept = self.kept.lock();
        let (calls, pods, _) = kept.counts();
        [kept.max_bytes, kept.bytes(), calls, pods]
    }

    /// The calls that match a query, newest first, and whether there are more.
    pub fn find(&self, query: &Query) -> (Vec<Decision>, bool) {
        let entries = self.in_order(|pod| query.wants_pod(pod));
        let mut shadows: HashMap<&str, Vec<&LogEntry>> = HashMap::new();
        for entry in entries.iter().rev().filter(|entry| entry.shadow) {
            shadows.entry(&entry.id).or_default().push(entry);
        }
        let shadows = |entry: &LogEntry| shadows.get(&*entry.id).into_iter().flatten().copied();
        let has_part = |entry: &LogEntry| {
            let by = |backend: &String| {
                entry.has_part(backend) || shadows(entry).any(|shadow| shadow.has_part(backend))
            };
            query.backend.as_ref().is_none_or(by)
        };
        let calls = entries
            .iter()
            .rev()
            .filter(|entry| !entry.shadow && query.verb.is_none_or(|verb| verb == entry.verb));
        let calls = calls.filter(|entry| query.ids.as_ref().is_none_or(|ids| ids.contains(&*entry.id)));
        let calls = calls.filter(|entry| query.node.as_deref().is_none_or(|node| entry.offers(node)));
        // A search for a rare text may scan the whole log, which is bounded.
        let (calls, mut unpacked) = (calls.filter(|entry| has_part(entry)), 0);
        let mut wanted = calls.filter_map(|entry| {
            unpacked += 1;
            if unpacked > MAX_UNPACKED {
                return None;
            }
            let show = if query.reads_nodes() { shown::decision } else { shown::without_nodes };
            query.matching(show(entry, shadows(entry)))
        });
        let limit = query.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
        let (mut found, mut nodes) = (Vec::new(), 0);
        while found.len() < limit && nodes < MAX_NODES {
            let Some(decision) = wanted.next() else { break };
            nodes += decision.nodes.len();
            found.push(decision);
        }
        let more = wanted.next().is_some();
        drop(wanted);
        (found, more || unpacked > MAX_UNPACKED)
    }

    /// The calls of these pods and their shadow calls, the oldest first.
    fn in_order(&self, wanted: impl Fn(&PodRef) -> bool) -> Vec<Arc<LogEntry>> {
        let mut entries: Vec<Arc<LogEntry>> = self.calls(wanted).collect();
        entries.sort_by_key(|entry| (entry.time, Arc::as_ptr(entry)));
        // A pod with another call in the meantime was visited twice.
        entries.dedup_by(|one, other| Arc::ptr_eq(one, other));
        entries
    }

    /// The calls of all pods that `wanted` selects, unordered, some twice. The lock is held for some pods at a
    /// time, since kube-scheduler's calls wait for it.
    fn calls(&self, wanted: impl Fn(&PodRef) -> bool) -> impl Iterator<Item = Arc<LogEntry>> {
        let mut after = Some(0);
        let steps = iter::from_fn(move || {
            let (calls, next) = self.kept.lock().step(after?, &wanted);
            after = next;
            Some(calls)
        });
        steps.flatten()
    }
}

/// The parameters of `GET /debug/decisions`. Omitted parameters do not restrict.
#[derive(Debug, Default, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Query {
    /// A pod's name.
    pub pod: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its UID.
    pub uid: Option<String>,
    /// Calls that offered this node, with only the answers for this node.
    pub node: Option<String>,
    /// Calls in which this backend had a part.
    pub backend: Option<String>,
    /// `accepted`, `rejected`, `scored`, `failed` or `disagreed`: calls in which a backend (`backend`, if given) had
    /// this verdict, for `node` if that is given.
    pub verdict: Option<Verdict>,
    /// `filter`, `prioritize`, `preempt` or `bind`.
    #[serde(deserialize_with = "verb")]
    pub verb: Option<Verb>,
    /// Whether the calls have the answers for their nodes; by default they do.
    pub nodes: ShownNodes,
    /// The most calls; 100 by default.
    pub limit: Option<usize>,
    /// The calls with these ids; not a parameter.
    #[serde(skip)]
    pub ids: Option<HashSet<String>>,
}

/// Which answers for nodes a response has.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShownNodes {
    /// For all nodes of a call, or the one of `node`.
    #[default]
    All,
    /// None: a response about many calls is small, and takes little time.
    None,
}

/// The verdict of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Filter: a node is accepted.
    Accepted,
    /// Filter and preempt: a node is rejected.
    Rejected,
    /// Prioritize: a node has a score.
    Scored,
    /// No usable answer.
    Failed,
    /// In shadow: its answer would have changed the decision.
    Disagreed,
}

/// A verb by its name.
fn verb<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Verb>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let names = || Verb::ALL.map(Verb::name).join(", ");
    let unknown = || D::Error::custom(format!("unknown verb {name:?}; known are {}", names()));
    Verb::named(&name).map(Some).ok_or_else(unknown)
}

impl Query {
    /// Whether calls for this pod match.
    pub(super) fn wants_pod(&self, pod: &PodRef) -> bool {
        let is =
            |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        is(&self.pod, &pod.name) && is(&self.namespace, &pod.namespace) && is(&self.uid, &pod.uid)
    }

    /// Whether the answers for nodes are needed to tell what matches, or for the response.
    fn reads_nodes(&self) -> bool {
        let by_node = matches!(self.verdict, Some(Verdict::Accepted | Verdict::Rejected | Verdict::Scored));
        self.nodes == ShownNodes::All || self.node.is_some() || by_node
    }

    /// The matching part of a call; `None` if nothing matches.
    fn matching(&self, mut decision: Decision) -> Option<Decision> {
        if let Some(node) = &self.node {
            decision.nodes.retain(|part| part.name == *node);
            if decision.nodes.is_empty() {
                return None;
            }
        }
        let by = |name: &str| self.backend.as_deref().is_none_or(|wanted| wanted == name);
        let node_has = |has: fn(&NodeVerdict) -> bool| {
            let verdicts = decision.nodes.iter().flat_map(|node| &node.backends);
            verdicts.into_iter().any(|(name, verdict)| by(name) && has(verdict))
        };
        let matches = match self.verdict {
            None => true,
            Some(Verdict::Failed) => {
                decision.backends.iter().any(|part| by(&part.name) && part.failure.is_some())
            }
            Some(Verdict::Disagreed) => {
                let disagrees = Agreement::Disagrees.as_str();
                decision
                    .backends
                    .iter()
                    .any(|part| by(&part.name) && part.answer.as_deref() == Some(disagrees))
            }
            Some(Verdict::Accepted) => node_has(|verdict| verdict.accepted),
            Some(Verdict::Rejected) => node_has(|verdict| verdict.rejected.is_some()),
            Some(Verdict::Scored) => node_has(|verdict| verdict.raw.is_some()),
        };
        if self.nodes == ShownNodes::None {
            decision.nodes.clear();
        }
        matches.then_some(decision)
    }
}

#[cfg(test)]
mod tests;

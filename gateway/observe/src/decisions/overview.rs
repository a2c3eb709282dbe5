//! Overviews of the log: its pods, and the answers of each backend over time. They read packed calls and no names of
//! nodes, so a full log takes little time.

use std::{
    collections::{BTreeMap, HashMap},
    iter,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use extender_gateway_api::{
    API_VERSION, BackendHistory, CallBucket, History, HistoryBucket, PodRef as ShownPod, PodSummary,
    VerbHistory,
};
use extender_gateway_core::Verb;
use extender_gateway_record::{Agreement, CallOutcome, PodRef};
use extender_gateway_settings::Choice;

use super::{
    DecisionLog,
    entry::{LogEntry, OutcomeEntry, PartEntry},
    retention::is_pending,
};

use crate::{metrics::percentile, timestamp};

/// The number of buckets of a history.
const BUCKETS: usize = 60;

/// A bucket, and the durations of what it counts.
#[derive(Debug, Default)]
struct Timed<B> {
    counts: B,
    took: Vec<Duration>,
}

fn buckets<B: Default>() -> Vec<Timed<B>> {
    iter::repeat_with(Timed::default).take(BUCKETS).collect()
}

impl<B> Timed<B> {
    /// The counts, with the median and the 99th percentile of the durations in seconds.
    fn summary(mut self) -> (B, [Option<f64>; 2]) {
        self.took.sort_unstable();
        (self.counts, [50, 99].map(|percent| percentile(&self.took, percent)))
    }
}

impl DecisionLog {
    /// The pods whose `NAMESPACE/NAME` contains a text, the one with the latest call first, and whether there are more.
    pub fn pods(&self, search: &str, limit: usize) -> (Vec<PodSummary>, bool) {
        let wanted = |pod: &PodRef| {
            pod.name.contains(search) || format!("{}/{}", pod.namespace, pod.name).contains(search)
        };
        let mut pods: HashMap<[&str; 3], PodSummary> = HashMap::new();
        let entries = self.in_order(wanted);
        for entry in entries.iter().filter(|entry| !entry.shadow) {
            let PodRef { namespace, name, uid, .. } = &*entry.pod;
            let pod = pods.entry([namespace, name, uid]).or_insert_with(|| summary(entry));
            add_call(pod, entry);
        }
        let mut pods: Vec<PodSummary> = pods.into_values().collect();
        pods.sort_by(|one, other| other.time.cmp(&one.time).then_with(|| one.pod.name.cmp(&other.pod.name)));
        let more = pods.len() > limit;
        pods.truncate(limit);
        (pods, more)
    }

    /// Calls and the answers of each backend, of this gateway, in `BUCKETS` buckets of equal length that end with the one of `now` and span this period.
    pub fn history(&self, gateway: &str, period: Duration, now: SystemTime) -> History {
        let bucket = (period.as_secs() / BUCKETS as u64).max(1);
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        // Buckets begin at multiples of their length, so that a call is in the same bucket in each response.
        let since = (now / bucket + 1).saturating_sub(BUCKETS as u64) * bucket;
        let mut verbs: BTreeMap<Verb, Vec<Timed<CallBucket>>> = BTreeMap::new();
        let mut backends: BTreeMap<(String, &str), Vec<Timed<HistoryBucket>>> = BTreeMap::new();
        for entry in &self.in_order(|_| true) {
            let time = entry.time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
            let at = time.checked_sub(since).and_then(|age| usize::try_from(age / bucket).ok());
            let Some(at) = at.filter(|at| *at < BUCKETS) else { continue };
            if !entry.shadow {
                count_call(&mut verbs.entry(entry.verb).or_insert_with(buckets)[at], entry);
            }
            let texts = entry.texts_without_nodes();
            for part in &entry.parts {
                let backend = (texts.at(part.name).to_owned(), part.mode.word());
                add_part(&mut backends.entry(backend).or_insert_with(buckets)[at], entry, part);
            }
        }
        History {
            api_version: API_VERSION.to_owned(),
            kind: "History".to_owned(),
            gateway: gateway.to_owned(),
            log: self.state(),
            since: timestamp(UNIX_EPOCH + Duration::from_secs(since)),
            bucket_seconds: Duration::from_secs(bucket).as_secs_f64(),
            verbs: verbs.into_iter().map(|(verb, buckets)| verb_history(verb, buckets)).collect(),
            backends: backends
                .into_iter()
                .map(|((name, mode), it)| backend_history(name, mode, it))
                .collect(),
        }
    }
}

/// A pod before its calls are added.
fn summary(entry: &LogEntry) -> PodSummary {
    let PodRef { namespace, name, uid, .. } = &*entry.pod;
    PodSummary {
        pod: ShownPod {
            namespace: namespace.clone(),
            name: name.clone(),
            uid: uid.clone(),
            nominated_node: None,
        },
        calls: 0,
        time: timestamp(entry.time),
        verb: String::new(),
        outcome: String::new(),
        offered: None,
        left: None,
        waits: false,
    }
}

/// Adds a later call.
fn add_call(pod: &mut PodSummary, entry: &LogEntry) {
    pod.calls += 1;
    pod.time = timestamp(entry.time);
    entry.verb.name().clone_into(&mut pod.verb);
    entry.outcome.as_str().clone_into(&mut pod.outcome);
    if entry.verb == Verb::Filter {
        (pod.offered, pod.left) = (Some(entry.offered), entry.left);
    }
    pod.waits = is_pending(entry).unwrap_or(pod.waits);
}

fn count_call(bucket: &mut Timed<CallBucket>, entry: &LogEntry) {
    bucket.counts.calls += 1;
    bucket.counts.failed += u64::from(entry.outcome != CallOutcome::Ok);
    bucket.took.push(entry.took);
}

fn verb_history(verb: Verb, buckets: Vec<Timed<CallBucket>>) -> VerbHistory {
    let shown = |bucket: Timed<CallBucket>| {
        let (counts, [median_seconds, p99_seconds]) = bucket.summary();
        CallBucket { median_seconds, p99_seconds, ..counts }
    };
    VerbHistory { verb: verb.name().to_owned(), buckets: buckets.into_iter().map(shown).collect() }
}

fn backend_history(name: String, mode: &str, buckets: Vec<Timed<HistoryBucket>>) -> BackendHistory {
    let shown = |bucket: Timed<HistoryBucket>| {
        let (counts, [_, p99_seconds]) = bucket.summary();
        HistoryBucket { p99_seconds, ..counts }
    };
    BackendHistory { name, mode: mode.to_owned(), buckets: buckets.into_iter().map(shown).collect() }
}

fn add_part(bucket: &mut Timed<HistoryBucket>, entry: &LogEntry, part: &PartEntry) {
    // Zero: it was not called.
    bucket.took.extend(Some(part.took).filter(|took| !took.is_zero()));
    let bucket = &mut bucket.counts;
    bucket.failed += u64::from(matches!(part.outcome, OutcomeEntry::Failed { .. }));
    bucket.agreed += u64::from(part.agreement == Some(Agreement::Agrees));
    bucket.disagreed += u64::from(part.agreement == Some(Agreement::Disagrees));
    if let Some((nodes, rejected)) = part.filtered(entry.offered) {
        bucket.answers += 1;
        bucket.nodes += nodes;
        bucket.rejected += rejected;
    }
}

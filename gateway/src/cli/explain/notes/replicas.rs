//! Notes about data that the queried gateways do not have.

use jiff::Timestamp;

use crate::cli::{
    explain::{
        case::{Evidence, Replica},
        pod::PodState,
    },
    text::{bytes, counted, moment},
};

pub(super) fn note(case: &Evidence, notes: &mut Vec<String>) {
    notes.extend(case.gateways.iter().filter_map(|replica| log(case, replica)));
    notes.extend(case.gateways.iter().filter(|replica| replica.truncated).map(truncated));
    notes.extend(others(case));
    notes.extend(case.away.iter().map(|away| format!("{} did not answer: {}.", away.gateway, away.why)));
    if let PodState::NotAsked { why } = &case.pod {
        notes.push(format!("No data from the apiserver: {why}."));
    }
}

impl Replica {
    /// Whether its log has all calls about an object created then: an apiserver time, in whole seconds.
    pub(super) fn reaches_back_to(&self, time: Timestamp) -> bool {
        let log = &self.log;
        let kept = log.complete_since.is_none_or(|complete| complete <= time);
        log.max_bytes > 0 && log.since.as_second() <= time.as_second() && kept
    }
}

/// The gaps of a log. For a pod of unknown age this matters only if there is no call at all.
fn log(case: &Evidence, replica: &Replica) -> Option<String> {
    let (name, log) = (&replica.name, &replica.log);
    if log.max_bytes == 0 {
        return Some(format!("The decision log of {name} is disabled: decisions.maxBytes is 0."));
    }
    let complete = match case.pod() {
        Some(pod) => replica.reaches_back_to(pod.created),
        None => !case.attempts.is_empty(),
    };
    (!complete).then(|| format!("The decision log of {name} {}.", reach(replica)))
}

fn reach(replica: &Replica) -> String {
    let log = &replica.log;
    let Some(complete) = log.complete_since else {
        return format!("begins at {}, when the gateway was started", moment(log.since));
    };
    let complete = moment(complete);
    let evicted = counted(log.evicted, "call");
    let size = bytes(log.max_bytes);
    format!(
        "is complete only since {complete}: {evicted} evicted since the start (decisions.maxBytes is {size})"
    )
}

fn truncated(replica: &Replica) -> String {
    format!("{} has more calls for this pod than one response holds; the latest are shown.", replica.name)
}

/// Calls about earlier pods with this name.
fn others(case: &Evidence) -> Option<String> {
    let uid = case.uid.as_deref()?;
    let calls = match case.calls_about_others {
        0 => return None,
        1 => "1 call is".to_owned(),
        count => format!("{} are", counted(count as u64, "call")),
    };
    Some(format!("{calls} for other pods of this name and not shown: this one's UID is {uid}."))
}

use extender_gateway_core::Verb;
use extender_gateway_record::CallOutcome;
use std::time::{Duration, SystemTime};

use super::*;
use crate::decisions::{Query, packed::Runs};

fn subject(pod: u32) -> PodRef {
    PodRef {
        namespace: "shop".into(),
        name: format!("web-{pod}"),
        uid: format!("uid-{pod}"),
        ..PodRef::default()
    }
}

/// A filter call that leaves `left` of 100 nodes.
fn entry(log: &mut Retention, pod: u32, left: u32) -> LogEntry {
    let who = log.pod(&subject(pod));
    let dictionary = Arc::clone(log.prepare_dictionary());
    let numbers: Vec<String> = (0..100).map(|at| format!("node-{at}")).collect();
    let nodes = Runs::of(dictionary.write().numbers(numbers.iter().map(String::as_str)));
    let nominated = dictionary.write().number("");
    LogEntry {
        id: "call".into(),
        time: SystemTime::UNIX_EPOCH + Duration::from_secs(u64::from(pod)),
        took: Duration::ZERO,
        verb: Verb::Filter,
        trace: None,
        generation: 1,
        pod: who,
        nominated,
        form: None,
        left: Some(left),
        outcome: CallOutcome::Ok,
        message: None,
        dictionary,
        nodes,
        offered: 100,
        parts: Box::default(),
        exempt: false,
        shadow: false,
        kept: false,
    }
}

fn put(log: &mut Retention, pod: u32, left: u32) {
    let entry = entry(log, pod, left);
    log.put(entry);
}

/// The names of the pods of each step.
fn steps(log: &Retention) -> Vec<Vec<String>> {
    let (mut steps, mut after) = (Vec::new(), 0);
    loop {
        let (calls, next) = log.step(after, |pod| Query::default().wants_pod(pod));
        steps.push(calls.iter().map(|entry| entry.pod.name.clone()).collect());
        let Some(next) = next else { return steps };
        after = next;
    }
}

fn pods(log: &Retention) -> Vec<String> {
    let mut names: Vec<String> = steps(log).into_iter().flatten().collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn what_it_takes_stays_below_what_it_may() {
    let mut log = Retention::new(64 << 10, Counter::default());
    for pod in 0..2_000 {
        put(&mut log, pod, pod % 2);
        assert!(log.bytes() <= 64 << 10, "{} bytes", log.bytes());
    }
    let (calls, pods, evicted) = log.counts();
    assert_eq!((calls as u64 + evicted, calls), (2_000, pods));
    assert!(calls > 50, "{calls}");
}

#[test]
fn pods_that_found_no_node_stay_longest() {
    let mut log = Retention::new(64 << 10, Counter::default());
    put(&mut log, 0, 0);
    put(&mut log, 1, 7);
    for pod in 2..500 {
        put(&mut log, pod, 7);
    }
    let pods = pods(&log);
    assert!(pods.contains(&"web-0".to_owned()) && !pods.contains(&"web-1".to_owned()));
    // It finally found a node and is now the latest: it is as old as the others after that many further calls.
    put(&mut log, 0, 1);
    for pod in 500..1_000 {
        put(&mut log, pod, 7);
    }
    assert!(!self::pods(&log).contains(&"web-0".to_owned()));
}

#[test]
fn one_pod_does_not_push_out_the_others() {
    let mut log = Retention::new(1 << 20, Counter::default());
    put(&mut log, 0, 1);
    for _ in 0..1_000 {
        put(&mut log, 1, 0);
    }
    assert_eq!(log.counts(), (1 + MAX_CALLS_PER_POD, 2, 0));
}

#[test]
fn a_smaller_log_lets_go_at_once_and_one_of_nothing_keeps_nothing() {
    let mut log = Retention::new(1 << 20, Counter::default());
    (0..100).for_each(|pod| put(&mut log, pod, 1));
    log.resize(16 << 10);
    assert!(log.bytes() <= 16 << 10 && log.counts().0 > 0);
    log.resize(0);
    assert_eq!((log.counts().0, log.counts().1), (0, 0));
}

#[test]
fn a_log_that_was_switched_off_is_complete_since_it_is_on() {
    let mut log = Retention::new(1 << 20, Counter::default());
    put(&mut log, 1, 1);
    assert_eq!(log.latest_evicted, None);
    log.resize(0);
    let before = SystemTime::now();
    log.resize(1 << 20);
    assert!(log.latest_evicted.is_some_and(|since| since >= before));
}

#[test]
fn texts_of_nobody_are_let_go() {
    let mut log = Retention::new(4 << 20, Counter::default());
    for pod in 0..200_u32 {
        for at in 0..1_000 {
            log.prepare_dictionary().write().number(&format!("a-node-of-another-call-{pod}-{at}"));
        }
        put(&mut log, pod, 1);
        assert!(log.bytes() <= 4 << 20, "{} bytes", log.bytes());
    }
    assert!(log.counts().0 > 0);
}

#[test]
fn a_step_looks_at_so_many_pods_and_all_steps_at_all() {
    let mut log = Retention::new(64 << 20, Counter::default());
    (0..1_000).for_each(|pod| put(&mut log, pod, pod % 2));
    let steps = steps(&log);
    assert!(steps.iter().all(|step| step.len() <= PODS_PER_STEP));
    assert_eq!(steps.iter().map(Vec::len).sum::<usize>(), 1_000);
}

#[test]
fn a_pod_that_comes_again_between_two_steps_is_not_missed() {
    let mut log = Retention::new(64 << 20, Counter::default());
    let last = 10 * u32::try_from(PODS_PER_STEP).unwrap();
    (0..=last).for_each(|pod| put(&mut log, pod, 1));
    let (mut found, mut after) = (std::collections::BTreeSet::new(), 0);
    loop {
        let (calls, next) = log.step(after, |_| true);
        found.extend(calls.iter().map(|entry| entry.pod.name.clone()));
        let Some(next) = next else { break };
        if after == 0 {
            // It waits from now on: it moves to the end, in the other list.
            put(&mut log, last, 0);
            put(&mut log, 0, 0);
        }
        after = next;
    }
    assert_eq!(found.len(), last as usize + 1);
}

#[test]
fn the_texts_of_one_call_do_not_push_out_all_others() {
    let mut log = Retention::new(8 << 20, Counter::default());
    (0..300).for_each(|pod| put(&mut log, pod, 1));
    let dictionary = Arc::clone(log.prepare_dictionary());
    let names = (0..100_000).map(|at| format!("{at:0200}"));
    let nodes = Runs::of(dictionary.write().numbers(names));
    let entry = LogEntry { nodes, dictionary, offered: 100_000, ..entry(&mut log, 300, 1) };
    log.put(entry);
    let (calls, _, evicted) = log.counts();
    assert_eq!((calls, evicted), (301, 0));
    assert!(log.bytes() <= 8 << 20);
}

#[test]
fn a_pod_with_texts_larger_than_its_share_does_not_push_out_the_others() {
    let mut log = Retention::new(1 << 20, Counter::default());
    (0..20).for_each(|pod| put(&mut log, pod, 1));
    let large = PodRef { uid: "u".repeat(2 << 20), ..subject(20) };
    let pod = log.pod(&large);
    let entry = LogEntry { pod, ..entry(&mut log, 20, 1) };
    log.put(entry);
    assert_eq!(log.counts(), (20, 20, 1));
}

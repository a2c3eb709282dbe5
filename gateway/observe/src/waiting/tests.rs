use std::time::Duration;

use extender_gateway_contract::{hook::Changes, nodes::NodeForm};
use extender_gateway_core::filter::{Asked, Heard};
use extender_gateway_core::{FailureKind, PolicyVerb};
use extender_gateway_record::{BackendOutcome, CallOutcome, OnFailure, Outcome};
use extender_policy_api::v1beta1::PodChange;
use tokio::time::advance;

use super::*;

use crate::samples;

const SECOND: Duration = Duration::from_secs(1);

fn rejects(name: &str) -> BackendOutcome {
    samples::part(name, samples::refused(&[("full", &[0])]))
}

fn accepts(name: &str) -> BackendOutcome {
    samples::part(name, Outcome::Filtered(Heard { nodes: Asked::All, refusals: Vec::new() }))
}

fn fails(name: &str, policy: OnFailure) -> BackendOutcome {
    BackendOutcome { policy, ..samples::part(name, samples::failed(FailureKind::Late)) }
}

/// Answered by a call, not from a cache.
fn responds(name: &str) -> BackendOutcome {
    let record = samples::record("any", &["a"], vec![accepts(name)]);
    let mut attempt = record.recorder.start_attempt(0, None);
    attempt.rpcs.start(1, NodeForm::Rows, 10, Duration::ZERO);
    attempt.rpcs.end(5, None, "OK");
    attempt.finish(&Ok(()));
    let mut record = record;
    record.complete();
    record.backends.remove(0)
}

/// A filter call with one node, of which this many are left.
fn filter(waiting: &WaitingPods, pod: &str, left: u32, parts: Vec<BackendOutcome>) {
    let record = CallRecord { left: Some(left), ..samples::record(pod, &["a"], parts) };
    waiting.record(Verb::Filter, CallOutcome::Ok, &record);
}

fn failed(waiting: &WaitingPods, verb: Verb, pod: &str, parts: Vec<BackendOutcome>) {
    let parts = parts.into_iter().map(|part| BackendOutcome { verb: verb.into(), ..part }).collect();
    waiting.record(verb, CallOutcome::Backend, &samples::record(pod, &["a"], parts));
}

/// The number of pods that wait because of each backend.
fn held(waiting: &WaitingPods) -> Vec<(String, u32)> {
    waiting.by_backend().into_iter().map(|(backend, summary)| (backend, summary.pods)).collect()
}

/// The names of the pods that are due.
fn due(waiting: &WaitingPods) -> Vec<String> {
    match waiting.due(usize::MAX) {
        Due::Now(pods) => pods.into_iter().map(|pod| pod.name).collect(),
        Due::At(_) | Due::Never => Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_until_a_filter_call_leaves_a_node() {
    let waiting = WaitingPods::default();
    filter(&waiting, "web", 0, vec![rejects("zones"), accepts("racks")]);
    assert_eq!(held(&waiting), [("zones".to_owned(), 1)]);
    advance(SECOND * 90).await;
    filter(&waiting, "web", 0, vec![rejects("zones"), rejects("racks")]);
    assert_eq!(held(&waiting), [("racks".to_owned(), 1), ("zones".to_owned(), 1)]);
    assert_eq!(waiting.by_backend()["zones"].oldest, SECOND * 90, "since the first rejection");
    filter(&waiting, "web", 1, vec![rejects("zones")]);
    assert!(waiting.is_empty());
}

#[tokio::test(start_paused = true)]
async fn only_backends_that_hold_a_pod_count() {
    let waiting = WaitingPods::default();
    // A call without nodes, and one whose caller disconnected.
    filter(&waiting, "web", 0, vec![accepts("zones")]);
    waiting.record(Verb::Filter, CallOutcome::Gone, &samples::record("web", &["a"], vec![accepts("zones")]));
    // Failures that are ignored.
    filter(&waiting, "web", 0, vec![fails("zones", OnFailure::Ignore)]);
    assert!(waiting.is_empty());
    failed(
        &waiting,
        Verb::Filter,
        "web",
        vec![fails("zones", OnFailure::Fail), fails("quota", OnFailure::Ignore)],
    );
    assert_eq!(held(&waiting), [("zones".to_owned(), 1)]);
    // Its failure ends the call, however few nodes the others reject.
    failed(&waiting, Verb::Filter, "web", vec![rejects("racks"), fails("zones", OnFailure::Fail)]);
    assert_eq!(held(&waiting), [("zones".to_owned(), 1)]);
    // The caller disconnected before all had answered.
    waiting.record(
        Verb::Filter,
        CallOutcome::Gone,
        &samples::record("late", &["a", "b"], vec![rejects("racks")]),
    );
    assert_eq!(waiting.len(), 1);
    // A failed prioritize call fails nothing.
    failed(&waiting, Verb::Prioritize, "job", vec![fails("zones", OnFailure::Ignore)]);
    // Without a UID, a later pod with the name cannot be told apart.
    let mut record = samples::record("old", &["a"], vec![rejects("zones")]);
    (record.pod.uid, record.left) = (String::new(), Some(0));
    waiting.record(Verb::Filter, CallOutcome::Ok, &record);
    assert_eq!(waiting.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_bind_fails_waits_until_it_is_bound() {
    let waiting = WaitingPods::default();
    failed(&waiting, Verb::Bind, "web", vec![fails("gpus", OnFailure::Fail)]);
    filter(&waiting, "web", 1, vec![accepts("zones")]);
    assert_eq!(held(&waiting), [("gpus".to_owned(), 1)], "it has a node and is not bound");
    waiting.record(Verb::Bind, CallOutcome::Ok, &samples::record("web", &["a"], Vec::new()));
    assert!(waiting.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_vetoed_preemption_adds_to_what_the_filter_said() {
    let waiting = WaitingPods::default();
    filter(&waiting, "web", 0, vec![rejects("zones")]);
    let parts = vec![samples::part("guard", Outcome::Candidates(Vec::new()))];
    waiting.record(
        Verb::Preempt,
        CallOutcome::Ok,
        &CallRecord { left: Some(0), ..samples::record("web", &["a"], parts) },
    );
    assert_eq!(held(&waiting), [("guard".to_owned(), 1), ("zones".to_owned(), 1)]);
    filter(&waiting, "web", 0, vec![rejects("zones")]);
    assert_eq!(held(&waiting), [("zones".to_owned(), 1)]);
}

#[tokio::test(start_paused = true)]
async fn pods_are_due_when_a_backend_that_holds_them_changes() {
    let waiting = WaitingPods::default();
    filter(&waiting, "web", 0, vec![rejects("zones")]);
    filter(&waiting, "job", 0, vec![rejects("racks")]);
    assert_eq!(waiting.due(10), Due::Never);
    advance(SECOND).await;
    waiting.changed("zones", PolicyChange::Revision);
    let summary = waiting.by_backend()["zones"];
    assert_eq!((summary.untried, summary.changed), (1, Some(Duration::ZERO)));
    let Due::Now(pods) = waiting.due(10) else { panic!("it is due") };
    let [DuePod { uid, namespace, name, backend, change }] = &pods[..] else { panic!("{pods:?}") };
    assert_eq!((&**uid, &**namespace, &**name, &**backend), ("uid-web", "shop", "web", "zones"));
    assert_eq!(*change, PolicyChange::Revision);
    waiting.requested("uid-web", PolicyChange::Revision, Instant::now());
    assert_eq!(waiting.due(10), Due::Never, "once for each change");
    advance(SECOND).await;
    waiting.all_changed();
    assert_eq!(due(&waiting), ["job"], "the other one was requested a second ago");
    advance(SECOND).await;
    filter(&waiting, "job", 0, vec![rejects("racks")]);
    assert_eq!(due(&waiting), Vec::<String>::new(), "tried after the change");
    waiting.remove("uid-web");
    assert_eq!(waiting.due(10), Due::Never);
}

#[tokio::test(start_paused = true)]
async fn pods_that_kube_scheduler_tries_again_by_itself_do_not_wait_for_an_event() {
    let waiting = WaitingPods::default();
    filter(&waiting, "web", 0, vec![rejects("zones")]);
    failed(&waiting, Verb::Preempt, "web", vec![fails("zones", OnFailure::Fail)]);
    failed(&waiting, Verb::Filter, "job", vec![fails("zones", OnFailure::Fail)]);
    failed(&waiting, Verb::Bind, "late", vec![fails("zones", OnFailure::Fail)]);
    advance(SECOND).await;
    waiting.changed("zones", PolicyChange::Recovered);
    let summary = waiting.by_backend()["zones"];
    assert_eq!((summary.pods, summary.untried), (3, 1));
    assert_eq!(due(&waiting).len(), 3, "each is tried sooner on request");
}

#[tokio::test(start_paused = true)]
async fn the_oldest_pods_come_first() {
    let waiting = WaitingPods::default();
    for pod in ["c", "a", "b"] {
        filter(&waiting, pod, 0, vec![rejects("zones")]);
        advance(SECOND).await;
    }
    waiting.changed("zones", PolicyChange::Recovered);
    let Due::Now(pods) = waiting.due(2) else { panic!("they are due") };
    assert_eq!(pods.iter().map(|pod| &*pod.name).collect::<Vec<_>>(), ["c", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_changes_all_the_time_causes_fewer_and_fewer_requests() {
    let waiting = WaitingPods::default();
    filter(&waiting, "web", 0, vec![rejects("zones")]);
    let (began, mut requests) = (Instant::now(), Vec::new());
    while began.elapsed() < SECOND * 1_000 {
        advance(SECOND).await;
        waiting.changed("zones", PolicyChange::Revision);
        if !due(&waiting).is_empty() {
            waiting.requested("uid-web", PolicyChange::Revision, Instant::now());
            requests.push(began.elapsed().as_secs());
        }
        // It is tried, and rejected again.
        filter(&waiting, "web", 0, vec![rejects("zones")]);
    }
    assert_eq!(requests, [1, 11, 31, 71, 151, 311, 611, 911]);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_later_request_is_known() {
    let waiting = WaitingPods::default();
    filter(&waiting, "web", 0, vec![rejects("zones")]);
    advance(SECOND).await;
    waiting.changed("zones", PolicyChange::Revision);
    waiting.requested("uid-web", PolicyChange::Revision, Instant::now());
    let at = Instant::now() + PAUSES.after(0);
    advance(SECOND).await;
    waiting.changed("zones", PolicyChange::Revision);
    assert_eq!(waiting.due(10), Due::At(at));
}

#[tokio::test(start_paused = true)]
async fn a_backend_recovers_when_it_responds_after_an_outage() {
    for (outage, recovers) in [(SECOND * 4, false), (SECOND * 5, true)] {
        let waiting = WaitingPods::default();
        failed(&waiting, Verb::Filter, "web", vec![fails("zones", OnFailure::Fail)]);
        advance(outage).await;
        filter(&waiting, "other", 1, vec![accepts("zones")]);
        assert!(due(&waiting).is_empty(), "a cached answer");
        filter(&waiting, "other", 1, vec![responds("zones")]);
        assert_eq!(!due(&waiting).is_empty(), recovers, "{outage:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_verb_that_fails_does_not_recover_because_another_one_responds() {
    let waiting = WaitingPods::default();
    filter(&waiting, "web", 0, vec![rejects("zones")]);
    for _ in 0..3 {
        let failed = BackendOutcome { verb: PolicyVerb::Score, ..fails("zones", OnFailure::Ignore) };
        let scores = samples::record("other", &["a"], vec![failed]);
        waiting.record(Verb::Prioritize, CallOutcome::Ok, &scores);
        advance(SHORTEST_OUTAGE).await;
        filter(&waiting, "other", 1, vec![responds("zones")]);
        assert_eq!(due(&waiting), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_attempt_that_shows_a_recovery_is_not_repeated() {
    let waiting = WaitingPods::default();
    for pod in ["web", "job"] {
        failed(&waiting, Verb::Filter, pod, vec![fails("zones", OnFailure::Fail)]);
    }
    advance(SHORTEST_OUTAGE).await;
    let rejected = BackendOutcome { outcome: rejects("zones").outcome, ..responds("zones") };
    let call = CallRecord { left: Some(0), ..samples::record("web", &["a"], vec![rejected]) };
    advance(Duration::from_millis(1)).await;
    waiting.record(Verb::Filter, CallOutcome::Ok, &call);
    assert_eq!(due(&waiting), ["job"]);
}

#[tokio::test(start_paused = true)]
async fn a_recovery_that_the_connection_reports_is_not_reported_again_by_the_next_call() {
    let waiting = WaitingPods::default();
    failed(&waiting, Verb::Filter, "web", vec![fails("zones", OnFailure::Fail)]);
    advance(SHORTEST_OUTAGE).await;
    waiting.changed("zones", PolicyChange::Recovered);
    assert_eq!(due(&waiting), ["web"]);
    waiting.requested("uid-web", PolicyChange::Revision, Instant::now());
    advance(SECOND).await;
    filter(&waiting, "other", 1, vec![responds("zones")]);
    assert_eq!(waiting.due(10), Due::Never);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_began_before_the_change_is_due_at_once() {
    let waiting = WaitingPods::default();
    let call = CallRecord { left: Some(0), ..samples::record("web", &["a"], vec![rejects("zones")]) };
    advance(SECOND).await;
    waiting.changed("zones", PolicyChange::Revision);
    waiting.touched().await;
    waiting.record(Verb::Filter, CallOutcome::Ok, &call);
    waiting.touched().await;
    assert_eq!(due(&waiting), ["web"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_over_is_forgotten() {
    let pods = PodTable::new();
    let waiting = WaitingPods::default();
    for pod in ["gone", "bound", "waits"] {
        filter(&waiting, pod, 0, vec![rejects("zones")]);
    }
    waiting.refresh(&pods);
    assert_eq!(waiting.len(), 3, "pods are not watched");
    let mut list = pods.relist();
    for (pod, node) in [("bound", "a"), ("waits", "")] {
        let json = format!(
            r#"{{"metadata":{{"name":"{pod}","namespace":"shop","uid":"uid-{pod}"}},"spec":{{"nodeName":"{node}"}}}}"#
        );
        list.add(json.as_bytes()).unwrap();
    }
    pods.replace(list);
    waiting.refresh(&pods);
    assert_eq!(waiting.len(), 2, "the watch may not have delivered it yet");
    advance(WATCH_DELAY).await;
    waiting.refresh(&pods);
    assert_eq!(waiting.len(), 1);
    advance(MAX_SILENCE).await;
    waiting.refresh(&pods);
    assert!(waiting.is_empty(), "kube-scheduler would have tried it again");
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_not_gone_because_a_failing_watch_does_not_have_it() {
    let (pods, waiting) = (PodTable::new(), WaitingPods::default());
    pods.replace(pods.relist());
    pods.source_health.failed("forbidden".to_owned());
    filter(&waiting, "new", 0, vec![rejects("zones")]);
    advance(WATCH_DELAY).await;
    waiting.refresh(&pods);
    assert_eq!(waiting.len(), 1);
    pods.source_health.recovered();
    waiting.refresh(&pods);
    assert!(waiting.is_empty());
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded() {
    let waiting = WaitingPods::default();
    let mut record = CallRecord { left: Some(0), ..samples::record("any", &["a"], vec![rejects("zones")]) };
    for number in 0..MAX_PODS + 10 {
        record.pod.uid = number.to_string();
        waiting.record(Verb::Filter, CallOutcome::Ok, &record);
    }
    assert_eq!(waiting.len(), MAX_PODS);
    advance(MAX_SILENCE).await;
    filter(&waiting, "new", 0, vec![rejects("zones")]);
    assert_eq!(waiting.len(), 1, "the others are gone");
}

#[tokio::test(start_paused = true)]
async fn of_a_backend_that_leaves_no_node_one_pod_is_tried_from_time_to_time() {
    let waiting = WaitingPods::default();
    for pod in ["web-0", "web-1", "web-2"] {
        filter(&waiting, pod, 0, vec![rejects("zones")]);
        advance(SECOND).await;
    }
    assert_eq!(waiting.due(10), Due::Never, "a quota may be full for days");
    waiting.turned("zones", Turn::Stuck, Instant::now());
    assert_eq!(due(&waiting), Vec::<String>::new());
    for expected in ["web-0", "web-1", "web-2", "web-0"] {
        advance(PROBE_PERIOD).await;
        let Due::Now(pods) = waiting.due(10) else { panic!("{expected}") };
        let [DuePod { uid, name, change, .. }] = &pods[..] else { panic!("{pods:?}") };
        assert_eq!((name.as_str(), *change), (expected, PolicyChange::Probe));
        waiting.requested(uid, *change, Instant::now());
        assert!(matches!(waiting.due(10), Due::At(_)), "one at a time");
        filter(&waiting, name, 0, vec![rejects("zones")]);
    }
    // The repaired backend leaves a node: all others are tried, and the probes have not delayed that.
    filter(&waiting, "web-1", 1, vec![accepts("zones")]);
    advance(SECOND).await;
    waiting.turned("zones", Turn::Changed, Instant::now());
    assert_eq!(waiting.untried().map(|(pods, _)| pods), Some(2));
    let mut due = due(&waiting);
    due.sort();
    assert_eq!(due, ["web-0", "web-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_rejects_every_node_is_what_a_pod_waits_for() {
    let waiting = WaitingPods::default();
    let some = samples::part("racks", samples::refused(&[("drained", &[1])]));
    let all = samples::part("disks", samples::refused(&[("full", &[0, 1, 2])]));
    let record = samples::record("web", &["a", "b", "c"], vec![some, all]);
    waiting.record(Verb::Filter, CallOutcome::Ok, &CallRecord { left: Some(0), ..record });
    assert_eq!(held(&waiting), [("disks".to_owned(), 1)], "whatever racks says, no node is left");
}

#[tokio::test(start_paused = true)]
async fn waiting_pods_are_listed_by_workload_and_reason() {
    let waiting = WaitingPods::default();
    for (pod, owner) in [("web-0", "ReplicaSet web"), ("job", ""), ("web-1", "ReplicaSet web")] {
        let mut record = samples::record(pod, &["a"], vec![rejects("zones")]);
        (record.pod.owner, record.left) = (owner.to_owned(), Some(0));
        waiting.record(Verb::Filter, CallOutcome::Ok, &record);
        advance(SECOND).await;
    }
    waiting.changed("zones", PolicyChange::Revision);
    let groups = waiting.groups();
    let seen: Vec<_> = groups.iter().map(|it| (&*it.workload, &*it.reason, it.pods, it.untried)).collect();
    assert_eq!(seen, [("ReplicaSet shop/web", "zones: full", 2, 2), ("pod shop/job", "zones: full", 1, 1)]);
    assert_eq!((groups[0].oldest_seconds, groups[0].pod.as_str()), (3, "web-0"));
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_changed_nodes_holds_a_pod_beside_the_policy_that_rejects_all() {
    let waiting = WaitingPods::default();
    let changes = Changes { pod: Some(PodChange::default().into()), ..Changes::default() };
    filter(&waiting, "web", 0, vec![samples::part("reservation", Outcome::Changed(changes)), rejects("fit")]);
    assert_eq!(held(&waiting), [("fit".to_owned(), 1), ("reservation".to_owned(), 1)]);
    advance(SECOND).await;
    waiting.changed("reservation", PolicyChange::Configuration);
    assert_eq!(due(&waiting), ["web"]);
}

#[tokio::test(start_paused = true)]
async fn pods_rejected_while_another_counted_are_due_when_it_no_longer_does() {
    let waiting = WaitingPods::default();
    // Its attempt begins before the other pod counts, and ends while it does.
    let early = samples::record("early", &["a"], vec![rejects("fit")]);
    let late = samples::record("late", &["a"], vec![rejects("fit")]);
    let rejected = |record: CallRecord| {
        waiting.record(Verb::Filter, CallOutcome::Ok, &CallRecord { left: Some(0), ..record });
    };
    advance(SECOND).await;
    let since = Instant::now();
    advance(SECOND).await;
    rejected(early);
    advance(SECOND).await;
    waiting.freed(since);
    // It is recorded after that.
    rejected(late);
    filter(&waiting, "after", 0, vec![rejects("fit")]);
    let mut pods = due(&waiting);
    pods.sort();
    assert_eq!(pods, ["early", "late"]);
    waiting.touched().await;
    for uid in ["uid-early", "uid-late"] {
        waiting.requested(uid, PolicyChange::Freed, Instant::now());
    }
    assert_eq!(waiting.due(10), Due::Never, "once");
}

#[tokio::test(start_paused = true)]
async fn binds_that_fail_delay_no_request_for_a_change() {
    let waiting = WaitingPods::default();
    for _ in 0..6 {
        let since = Instant::now();
        filter(&waiting, "web", 0, vec![rejects("fit")]);
        advance(SECOND).await;
        waiting.freed(since);
        waiting.requested("uid-web", PolicyChange::Freed, Instant::now());
        advance(SECOND).await;
    }
    filter(&waiting, "web", 0, vec![rejects("fit")]);
    advance(SECOND).await;
    waiting.changed("fit", PolicyChange::Revision);
    assert_eq!(due(&waiting), ["web"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_to_wait_for_a_stuck_backend_is_tried_in_time() {
    let waiting = WaitingPods::default();
    waiting.turned("zones", Turn::Stuck, Instant::now());
    waiting.touched().await;
    assert_eq!(waiting.due(10), Due::Never);
    filter(&waiting, "web", 0, vec![rejects("zones")]);
    // The task that sleeps until the next request learns of it.
    waiting.touched().await;
    assert_eq!(waiting.due(10), Due::At(Instant::now() + PROBE_PERIOD));
}

#[test]
fn times_are_bounded_and_old_ones_forgotten() {
    let start = Instant::now();
    let after = |seconds: u32| start + SECOND * seconds;
    let mut freed = Freed::default();
    for second in 0..200 {
        freed.add(after(second), after(second + 1));
    }
    assert_eq!(freed.during(after(150), after(150)), Some(after(151)));
    assert_eq!(freed.during(after(2), after(3)), Some(after(137)), "the oldest are one");
    freed.add(after(1_000), after(1_001));
    assert_eq!(freed.during(after(150), after(150)), None);
}

use serde_json::json;

use super::*;
use crate::explain::samples::{self, at, backend, failed, filter, pod, refused};
use crate::{Decision, LogState};

/// A gateway whose backend `zones` has changed this many seconds ago; pods wait for it.
fn status(requeue: &str, changed_seconds: u64, problems: &serde_json::Value) -> Status {
    let status = json!({
        "apiVersion": "v", "kind": "Status", "gateway": "gateway-0", "version": "1", "started": at(0), "ready": true,
        "configuration": {"file": "f", "generation": 1, "loaded": at(0)},
        "verbs": [], "nodes": {"source": "Watch", "count": 5, "synced": true},
        "log": LogState::default(), "requeue": requeue, "problems": problems,
        "backends": [{
            "name": "zones", "url": "http://zones:1", "mode": "Enforce", "connected": true, "verbs": [],
            "waiting": {"pods": 1, "oldestSeconds": 90, "untried": 1, "changedSeconds": changed_seconds},
        }],
    });
    serde_json::from_value(status).unwrap()
}

/// The notes about backends of a pod that `zones` rejected at 500 s; now is 600 s.
fn notes(pod: super::super::PodFacts, statuses: Vec<Status>) -> Vec<String> {
    let part = BackendPart { rejected: 1, ..backend("zones", 1) };
    let call = Decision { backends: vec![part], ..filter(500, &[("a", Some("full"))]) };
    notes_after(call, pod, statuses)
}

/// The same after this call.
fn notes_after(call: Decision, pod: super::super::PodFacts, statuses: Vec<Status>) -> Vec<String> {
    let mut evidence = samples::case(pod, vec![call]);
    evidence.statuses = statuses;
    let mut notes = Vec::new();
    note(&evidence, &mut notes);
    notes
}

#[test]
fn a_backend_that_changed_after_the_attempt_is_named_with_what_happens_next() {
    let no_problems = json!([]);
    let [note] =
        &notes(refused(501), vec![status("None", 40, &no_problems), status("None", 40, &no_problems)])[..]
    else {
        panic!("both replicas say the same")
    };
    let start = "zones has recovered or changed 40 s ago, after this attempt: kube-scheduler tries the pod again at the next event";
    assert!(note.starts_with(start) && note.contains("extender-gateway status --retry"), "{note}");
    let [note] = &notes(refused(501), vec![status("PodCondition", 40, &no_problems)])[..] else { panic!() };
    assert!(note.ends_with("the gateway makes kube-scheduler try the pod again."), "{note}");
    // Before the attempt, or of no interest.
    assert_eq!(notes(refused(501), vec![status("None", 101, &no_problems)]), [""; 0]);
    assert_eq!(notes(pod(Some("a")), vec![status("None", 40, &no_problems)]), [""; 0]);
}

#[test]
fn the_remedy_of_status_is_repeated() {
    let problems = json!([
        {"severity": "Error", "about": "backend zones", "what": "cannot connect", "remedy": "start it", "runbook": "docs/runbook.md#backend-down"},
        {"severity": "Warning", "about": "backend zones", "what": "slow", "remedy": "speed it up"},
        {"severity": "Error", "about": "backend other", "what": "cannot connect", "remedy": "start it"},
    ]);
    let expected = "Now: backend zones: cannot connect. Remedy: start it (docs/runbook.md#backend-down).";
    assert_eq!(notes(refused(501), vec![status("None", 400, &problems)]), [expected]);
}

#[test]
fn kube_scheduler_does_not_wait_for_an_event_after_an_error() {
    let part = BackendPart { failure: Some(failed("late", "no answer", "fail")), ..backend("zones", 1) };
    let call = Decision {
        outcome: "backend".to_owned(),
        left: None,
        backends: vec![part],
        ..filter(500, &[("a", None)])
    };
    let [note] = &notes_after(call, refused(501), vec![status("None", 40, &json!([]))])[..] else { panic!() };
    let end = "after this attempt: kube-scheduler tries the pod again by itself, within 10 s by default.";
    assert!(note.ends_with(end), "{note}");
}

#[test]
fn a_backend_that_failed_holds_the_pod_too() {
    let part = BackendPart { failure: Some(failed("late", "no answer", "fail")), ..backend("zones", 1) };
    let evidence =
        samples::case(refused(501), vec![Decision { backends: vec![part], ..filter(500, &[("a", None)]) }]);
    let attempt = evidence.latest().unwrap();
    assert!(holds(attempt, "zones") && !holds(attempt, "other"));
}

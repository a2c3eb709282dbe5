//! Every sentence about missing data.

use super::*;
use crate::explain::{
    pod::{PodFacts, PodState, ShownCondition},
    replicas::Away,
    samples::{self, answer, at, bind, filter, pod, prioritize, refused},
};
use crate::{Decision, LogState, PodRef};

/// The notes of a pod in a cluster of five nodes, where one gateway decided these calls.
fn notes(pod: PodFacts, calls: Vec<Decision>) -> Vec<String> {
    of(&samples::case(pod, calls))
}

/// Checks that there is one note with this beginning.
fn only(notes: &[String], beginning: &str) {
    assert!(matches!(notes, [note] if note.starts_with(beginning)), "{beginning:?} is not {notes:#?}");
}

fn whole_attempt() -> Vec<Decision> {
    vec![filter(10, &[("a", None), ("b", None)]), prioritize(11, &[("a", 5), ("b", 3)]), bind(12, "a")]
}

#[test]
fn where_everything_is_known_there_is_nothing_to_add() {
    assert_eq!(notes(pod(Some("a")), whole_attempt()), [""; 0]);
}

#[test]
fn a_pod_that_was_tried_again_and_nobody_asked() {
    let calls = vec![filter(10, &[("a", Some("full"))])];
    let expected = "Not called since 2026-11-21 23:00:10 UTC (9 min 50 s ago): kube-scheduler's own filters left no node. \
                    PodScheduled, written at 2026-11-21 23:01:00 UTC, says: Unschedulable: 0/5 nodes are available: 5 \
                    Insufficient cpu.";
    assert_eq!(notes(refused(60), calls.clone()), [expected]);
    // The condition that results from the call itself is written within seconds.
    for seconds in [9, 10, 11, 12] {
        assert_eq!(notes(refused(seconds), calls.clone()), [""; 0], "{seconds}");
    }
    let mut case = samples::case(refused(60), calls.clone());
    case.away
        .push(Away { gateway: "http://gateway-1:9403".to_owned(), why: "no answer within 5 s".to_owned() });
    let expected = "No call after 2026-11-21 23:00:10 UTC (9 min 50 s ago) found, but the logs may be incomplete. PodScheduled, written at";
    assert!(of(&case)[0].starts_with(expected), "{:?}", of(&case));
    let mut failed = refused(60);
    failed.scheduled.as_mut().unwrap().reason = "SchedulerError".to_owned();
    assert!(
        notes(failed, calls)[0]
            .contains("ago): the attempt ended with an error before the gateway was called.")
    );
}

#[test]
fn a_pod_that_nobody_was_ever_asked_about() {
    let never = |pod| notes(pod, Vec::new());
    let expected = "Not called since the pod was created, 2026-11-21 23:00:05 UTC: kube-scheduler's own filters left no node. \
                    PodScheduled says: Unschedulable: 0/5 nodes are available: 5 Insufficient cpu. Only gateway-0 was queried; --gateway-namespace queries all replicas.";
    assert_eq!(never(refused(60)), [expected]);
    only(
        &never(pod(None)),
        "Not called: no scheduler has tried the pod yet; check that a scheduler with its ",
    );
    only(
        &never(pod(Some("a"))),
        "Never called: the pod was placed by another scheduler, or by one that does not list this ",
    );
    let created_there = PodFacts { created_with_node: true, ..pod(Some("a")) };
    only(
        &never(created_there),
        "Never called: the pod was created with spec.nodeName, so no scheduler decided",
    );
    let other = PodFacts { scheduler_name: "batch".to_owned(), ..pod(Some("a")) };
    assert!(
        never(other)[0]
            .contains(" Its spec.schedulerName is batch: if that scheduler does not list this gateway as")
    );
    let condition = ShownCondition {
        status: "False".into(),
        reason: "SchedulingGated".into(),
        message: "waits for quota".into(),
        time: None,
    };
    let gated = PodFacts { scheduled: Some(condition), ..pod(None) };
    only(
        &never(gated),
        "Not called yet: the pod is held back by its spec.schedulingGates. PodScheduled says: SchedulingGated: ",
    );
}

#[test]
fn a_node_that_was_not_offered() {
    let calls = vec![
        filter(10, &[("node-1", None), ("node-2", None)]),
        prioritize(11, &[("node-1", 1), ("node-2", 0)]),
    ];
    let standing = PodState::There(Box::new(pod(Some("node-1"))));
    let mut case = samples::of(standing, vec![answer("gateway-0", calls)], Some("node-9"));
    only(
        &of(&case),
        "node-9 was not offered in this attempt (2 of 5 nodes were): kube-scheduler's own filters rejected it, or ",
    );
    case.cluster.cluster_nodes = None;
    only(&of(&case), "node-9 was not offered in this attempt (2 nodes were): ");
    case.cluster.node_exists = None;
    assert!(
        of(&case)[0].ends_with("nor whether there is a node of this name; similar names: node-1, node-2.")
    );
    case.cluster.node_exists = Some(false);
    only(&of(&case), "There is no node node-9 in the cluster; similar names: node-1, node-2.");
    case.target.node = Some("node-2".to_owned());
    assert_eq!(of(&case), [""; 0]);
}

#[test]
fn a_nominated_node_is_offered_alone() {
    let alone = |of_call: Option<&str>| {
        let nominated_node = of_call.map(str::to_owned);
        let call = filter(10, &[("a", None)]);
        Decision { pod: PodRef { nominated_node, ..call.pod.clone() }, ..call }
    };
    let found = notes(pod(Some("a")), vec![alone(Some("a"))]);
    assert!(found[0].starts_with(
        "One node offered: nominated. kube-scheduler tries a, the pod's status.nominatedNodeName,"
    ));
    let since = PodFacts { nominated_node: Some("a".to_owned()), ..pod(None) };
    assert!(!notes(since, vec![alone(None)])[0].contains("nominated"), "it was not at the time of the call");
    for other in [None, Some("b")] {
        assert!(!notes(pod(Some("a")), vec![alone(other)])[0].contains("nominated"), "{other:?}");
    }
}

#[test]
fn one_feasible_node_is_not_scored() {
    let one = vec![filter(10, &[("a", None), ("b", Some("full"))]), bind(11, "a")];
    only(
        &notes(pod(Some("a")), one),
        "One feasible node: not scored. kube-scheduler requests no scores for a single node.",
    );
    let two = vec![filter(10, &[("a", None), ("b", None)])];
    only(
        &notes(pod(Some("a")), two),
        "2 nodes were left and no prioritize call followed: another extender behind this one may",
    );
    let none = vec![filter(10, &[("a", Some("full"))])];
    assert_eq!(notes(refused(10), none), [""; 0]);
}

#[test]
fn a_pod_that_is_not_where_the_totals_say() {
    let scored = |scores: &[(&str, i32)]| {
        let names: Vec<_> = scores.iter().map(|(name, _)| (*name, None)).collect();
        vec![filter(10, &names), prioritize(11, scores)]
    };
    let expected = "The pod is on a (total 6), although b has a higher total (10). Scores of kube-scheduler's own plugins and of \
                    other extenders are added to these, and the gateway does not see them.";
    assert_eq!(notes(pod(Some("a")), scored(&[("a", 3), ("b", 5)])), [expected]);
    let several = [("a", 3), ("b", 5), ("c", 5), ("d", 5), ("e", 5)];
    let on_a = |count| notes(pod(Some("a")), scored(&several[..count]));
    only(&on_a(4), "The pod is on a (total 6), although b, c and d have a higher total (10). ");
    only(&on_a(5), "The pod is on a (total 6), although 4 nodes have a higher total (10). ");
    only(
        &notes(pod(Some("b")), scored(&several)),
        "4 nodes share the highest total, 10. Scores of kube-scheduler's own plugins",
    );
    only(
        &notes(pod(Some("z")), scored(&several)),
        "The pod is on z, which was rejected in the latest known attempt: a later",
    );
    let rejected = vec![filter(10, &[("a", Some("full"))])];
    only(
        &notes(pod(Some("a")), rejected),
        "The pod is on a, which was rejected in the latest known attempt: ",
    );
}

#[test]
fn nobody_was_interested() {
    let empty = Decision { backends: Vec::new(), ..filter(10, &[("a", None), ("b", None)]) };
    let scored = Decision { backends: Vec::new(), ..prioritize(11, &[("a", 1), ("b", 0)]) };
    let found = notes(pod(Some("a")), vec![empty, scored]);
    only(
        &found,
        "No backend was called in this attempt: none has a block for the verb, a match for the pod and a mode ",
    );
    let exempt = Decision { exempt: true, backends: Vec::new(), ..prioritize(11, &[("a", 1), ("b", 0)]) };
    let called = Decision { exempt: true, backends: Vec::new(), ..filter(10, &[("a", None), ("b", None)]) };
    only(
        &notes(pod(Some("a")), vec![called, exempt]),
        "No backend was called in this attempt: namespace shop is one of exempt.namespaces (kube-system and the gateway's own,",
    );
}

#[test]
fn a_log_that_does_not_have_it() {
    let with = |log: LogState, calls: Vec<Decision>| {
        let mut case = samples::case(pod(Some("a")), calls);
        case.gateways[0].log = log;
        of(&case)
    };
    let lost = "No call for the pod found, but the logs may be incomplete.";
    let evicted =
        LogState { evicted: 1234, oldest: Some(at(0)), complete_since: Some(at(300)), ..samples::log() };
    let expected = "The decision log of gateway-0 is complete only since 2026-11-21 23:05:00 UTC: 1,234 calls evicted since the start (decisions.maxBytes is 64 MiB).";
    assert_eq!(with(evicted.clone(), Vec::new()), [lost, expected]);
    assert_eq!(with(evicted, whole_attempt()), [expected]);
    let restarted = LogState { since: at(400), oldest: None, ..samples::log() };
    let expected =
        "The decision log of gateway-0 begins at 2026-11-21 23:06:40 UTC, when the gateway was started.";
    assert_eq!(with(restarted, Vec::new()), [lost, expected]);
    let in_that_second = pod(Some("a")).created + std::time::Duration::from_millis(300);
    let begun = LogState { since: in_that_second, oldest: None, ..samples::log() };
    assert_eq!(with(begun, whole_attempt()), [""; 0], "the apiserver says no milliseconds");
    let off = LogState { max_bytes: 0, oldest: None, ..samples::log() };
    let expected = "The decision log of gateway-0 is disabled: decisions.maxBytes is 0.";
    assert_eq!(with(off, Vec::new()), [lost, expected]);
}

#[test]
fn what_could_not_be_looked_through_proves_nothing() {
    let mut case = samples::case(refused(60), Vec::new());
    case.away
        .push(Away { gateway: "http://gateway-1:9403".to_owned(), why: "no answer within 5 s".to_owned() });
    let expected = "No call for the pod found, but the logs may be incomplete. PodScheduled says: \
                    Unschedulable: 0/5 nodes are available: 5 Insufficient cpu.";
    assert_eq!(of(&case), [expected, "http://gateway-1:9403 did not answer: no answer within 5 s."]);
    // Without a condition no scheduler has tried the pod, whatever the logs contain.
    case.cluster.pod = PodState::There(Box::new(pod(None)));
    assert!(of(&case)[0].starts_with("Not called: no scheduler has tried the pod yet; "));
}

#[test]
fn what_replicas_and_the_apiserver_do_not_say() {
    let mut case = samples::case(pod(Some("a")), whole_attempt());
    case.gateways[0].truncated = true;
    only(&of(&case), "gateway-0 has more calls for this pod than one response holds; the latest are shown.");
    case.gateways[0].truncated = false;
    case.away
        .push(Away { gateway: "http://gateway-1:9403".to_owned(), why: "no answer within 5 s".to_owned() });
    only(&of(&case), "http://gateway-1:9403 did not answer: no answer within 5 s.");
    case.away.clear();
    case.cluster.pod = PodState::NotAsked { why: "--no-cluster is set".to_owned() };
    only(&of(&case), "No data from the apiserver: --no-cluster is set.");
}

#[test]
fn calls_about_an_earlier_pod_of_the_name_are_not_shown() {
    let of_uid = |uid: &str, call: Decision| Decision {
        pod: PodRef { uid: uid.to_owned(), ..call.pod.clone() },
        ..call
    };
    let mut calls = whole_attempt();
    calls.push(of_uid("u-0", filter(500, &[("z", Some("full"))])));
    let case = samples::case(pod(Some("a")), calls.clone());
    only(&of(&case), "1 call is for other pods of this name and not shown: this one's UID is u-1.");
    assert_eq!(case.attempts.len(), 1);
    // For a deleted pod, the latest one is shown.
    let gone = PodState::Gone { near: Vec::new(), elsewhere: Vec::new() };
    let case = samples::of(gone, vec![answer("gateway-0", calls)], None);
    assert_eq!(case.uid.as_deref(), Some("u-0"));
    only(&of(&case), "3 calls are for other pods of this name and not shown: this one's UID is u-0.");
}

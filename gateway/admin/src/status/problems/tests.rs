use std::{sync::Arc, time::Duration};

use extender_gateway_api::{
    BackendStatus, BackendVerb, FailureCount, Handshake, LastCall, LastFailure, LogState, LostLogLines,
    MinuteStatus, OverrideStatus, RefusedCalls, RejectedBecause, RejectedChange, RejectsAll, TableStatus,
    UnresolvedStatus, UntriedPods, VerbStatus, WaitingStatus,
};
use extender_gateway_cluster::table::NodeTable;
use extender_gateway_core::{FailureKind, PolicyVerb};
use extender_gateway_observe::{Health, Metrics, samples};
use extender_gateway_record::CallOutcome;
use extender_gateway_settings::{BackendName, INEXACT_LIMIT, NodeSource, default_exempt};
use extender_gateway_tls::{CertificateFile, CertificateRole, Validity};
use jiff::{SignedDuration, Timestamp};
use tokio::time::advance;

use crate::status::{StatusSources, problems::*};

/// A backend that filters and scores with the usual 200 ms; its failures end calls.
const BACKEND: &str = "- {name: zones, url: 'http://zones:9000', filter: {}, score: {}}\n";

/// A gateway and its reported problems.
struct Scene {
    status: Status,
    config: Config,
    gateway_status: GatewayStatus,
    observer: Observer,
}

/// The anchors of the runbook's entries.
fn entries() -> impl Iterator<Item = String> {
    let headings =
        include_str!("../../../../../docs/runbook.md").lines().filter_map(|line| line.strip_prefix("## "));
    headings.map(|heading| heading.to_lowercase().replace(' ', "-"))
}

fn ago(seconds: i64) -> Timestamp {
    Timestamp::now() - SignedDuration::from_secs(seconds)
}

fn verb(name: &str) -> BackendVerb {
    BackendVerb {
        verb: name.to_owned(),
        failure_policy: "Fail".to_owned(),
        decisions: 25,
        calls: 20,
        failures: 1,
        failed_lately: 1,
        lately: 20,
        failure_kinds: vec![FailureCount { kind: "late".to_owned(), calls: 1 }],
        minute: MinuteStatus { calls: 10, failed: 0, sent: 10, p99_seconds: Some(0.15) },
        median_seconds: Some(0.001),
        p99_seconds: Some(0.15),
        rejected_share: Some(0.98),
        last_failure: Some(failed(MAX_FAILURE_AGE + 5)),
        ..BackendVerb::default()
    }
}

/// A failure this many seconds ago.
fn failed(seconds: i64) -> LastFailure {
    LastFailure { time: ago(seconds), kind: "late".to_owned(), message: "no answer".to_owned() }
}

/// A backend without problems.
fn healthy() -> BackendStatus {
    BackendStatus {
        name: "zones".to_owned(),
        url: "http://zones:9000".to_owned(),
        mode: "Enforce".to_owned(),
        connected: true,
        matches: "all".to_owned(),
        verbs: vec![verb("filter"), verb("score")],
        ..BackendStatus::default()
    }
}

/// A status barely without problems.
fn good() -> Status {
    let called = VerbStatus {
        verb: "filter".to_owned(),
        calls: 1,
        refused: Some(RefusedCalls { count: 1, last: ago(601) }),
        ..VerbStatus::default()
    };
    let complete_since = Some(ago(MIN_LOG_AGE + 5));
    Status {
        started: ago(100),
        ready: true,
        verbs: vec![called],
        backends: vec![healthy()],
        nodes: TableStatus { source: "Watch".to_owned(), count: 1, synced: true, silent_seconds: None },
        log: LogState { max_bytes: 100, bytes: 99, complete_since, ..LogState::default() },
        ..Status::default()
    }
}

impl Scene {
    fn new() -> Self {
        let known = StatusSources {
            gateway: "test".into(),
            file: "f".to_owned(),
            source: NodeSource::Watch,
            table: Some(Arc::new(NodeTable::new())),
            pods: Arc::default(),
            exempt: default_exempt(None),
            certificates: Arc::default(),
            health: Arc::new(Health::default()),
        };
        Self {
            status: good(),
            config: samples::config(BACKEND),
            gateway_status: GatewayStatus::new(known),
            observer: Observer::new(Arc::new(Metrics::new()), 1 << 20),
        }
    }

    /// Each has its entry of the runbook.
    fn problems(&self) -> Vec<Problem> {
        let problems = of(&self.status, &self.config, &self.gateway_status, &self.observer);
        for problem in &problems {
            let (path, entry) = problem.runbook.split_once('#').unwrap();
            assert_eq!(path, "docs/runbook.md");
            assert!(entries().any(|known| known == entry), "docs/runbook.md has no entry {entry}");
        }
        problems
    }
}

#[test]
fn where_all_is_well_there_is_no_problem() {
    assert_eq!(Scene::new().problems(), []);
}

type Change = fn(&mut Scene);

fn zones(scene: &mut Scene) -> &mut BackendStatus {
    &mut scene.status.backends[0]
}

fn filter(scene: &mut Scene) -> &mut BackendVerb {
    &mut zones(scene).verbs[0]
}

/// A failure a second ago, and the last minute.
fn fail(verb: &mut BackendVerb, calls: u32, failures: u32) {
    verb.last_failure = Some(failed(1));
    verb.minute = MinuteStatus { calls, failed: failures, sent: calls, p99_seconds: None };
}

fn rejected(because: RejectedBecause) -> RejectedChange {
    RejectedChange { time: ago(1), message: "line 3: no".to_owned(), because }
}

fn rejects_all() -> RejectsAll {
    RejectsAll {
        since: Timestamp::from_second(1_795_302_000).unwrap(),
        last: ago(1),
        decisions: 60,
        pods: 30,
        workload: None,
        reason: "full".to_owned(),
    }
}

/// The handshake of a policy whose filter decides by the pods that are bound.
fn counting() -> Handshake {
    Handshake { name: "spread".to_owned(), filters_by_bound_pods: true, ..Handshake::default() }
}

/// The change, its subject, the severity and the text.
const GATEWAY: [(Change, &str, Severity, &str); 11] = [
    (
        |scene| scene.status.lost_log_lines = Some(LostLogLines { lines: 3, last: ago(5) }),
        "the log",
        Severity::Warning,
        "3 lines were lost since the start, the last one # s ago: they could not be written",
    ),
    (
        |scene| scene.status.ready = false,
        "the gateway",
        Severity::Error,
        "not ready: a Service sends calls to other replicas",
    ),
    (
        |scene| {
            scene.status.configuration.refused = Some(rejected(RejectedBecause::File));
        },
        "the configuration",
        Severity::Warning,
        "the changed file was rejected: line 3: no",
    ),
    (
        |scene| scene.status.nodes.synced = false,
        "the nodes",
        Severity::Error,
        "not listed yet, so backends get no facts about nodes",
    ),
    (
        |scene| {
            scene.gateway_status.sources.table.as_ref().unwrap().source_health.failed("forbidden".to_owned());
        },
        "the nodes",
        Severity::Warning,
        "the watch has failed for # s: forbidden",
    ),
    (
        |scene| scene.gateway_status.sources.pods.source_health.failed("forbidden".to_owned()),
        "the pods",
        Severity::Warning,
        "the watch has failed for # s: forbidden",
    ),
    (
        |scene| {
            let sources = &scene.gateway_status.sources;
            let away = extender_apiserver::RequestError::Unreachable("connection refused".to_owned());
            sources.table.as_ref().unwrap().source_health.refused(&away);
            sources.pods.source_health.refused(&away);
        },
        "the apiserver",
        Severity::Error,
        "no connection for # s: connection refused",
    ),
    (|scene| scene.status.verbs[0].calls = 0, "kube-scheduler", Severity::Warning, "no call since the start"),
    (
        |scene| scene.status.verbs[0].refused = Some(RefusedCalls { count: 3, last: ago(1) }),
        "the gateway",
        Severity::Warning,
        "overloaded: 3 calls refused since the start, the last one # s ago",
    ),
    (
        |scene| scene.status.verbs[0].refused = Some(RefusedCalls { count: 3, last: ago(61) }),
        "the gateway",
        Severity::Recent,
        "overloaded: 3 calls refused since the start, the last one # s ago",
    ),
    (
        |scene| scene.status.log.complete_since = Some(ago(5)),
        "the decision log",
        Severity::Warning,
        "full; it covers only the last # s",
    ),
];

const BACKENDS: [(Change, &str, Severity, &str); 17] = [
    (
        |scene| zones(scene).rejected_configuration = Some("rules.yaml: line 3: no".to_owned()),
        "backend zones",
        Severity::Warning,
        "it does not use its own configuration: rules.yaml: line 3: no",
    ),
    (
        |scene| {
            let failure = "failed to lookup address information".to_owned();
            zones(scene).unresolved = Some(UnresolvedStatus { seconds: 40, failure });
        },
        "backend zones",
        Severity::Warning,
        "its host has not been resolved for 40 s, and its last addresses are used: failed to lookup address information",
    ),
    (|scene| zones(scene).handshake = Some(counting()), "backend zones", Severity::Warning, INEXACT_LIMIT),
    (
        |scene| {
            let handshake = Handshake { filters_by_bound_pods: false, changes_too_often: true, ..counting() };
            zones(scene).handshake = Some(handshake);
        },
        "backend zones",
        Severity::Warning,
        "it changes too often what it requests, so its latest handshake is not used yet",
    ),
    (
        |scene| {
            let zones = zones(scene);
            (zones.connected, zones.failure) = (false, Some("connection refused".to_owned()));
        },
        "backend zones",
        Severity::Error,
        "connection refused",
    ),
    (|scene| zones(scene).connected = false, "backend zones", Severity::Error, "no connection"),
    (
        |scene| {
            fail(filter(scene), 10, 10);
            zones(scene).connected = false;
        },
        "backend zones",
        Severity::Error,
        "no connection",
    ),
    (
        |scene| {
            zones(scene).connected = false;
            scene.config = samples::config(&BACKEND.replace("filter: {}", "filter: {failurePolicy: Ignore}"));
        },
        "backend zones",
        Severity::Warning,
        "no connection",
    ),
    (
        |scene| filter(scene).unsuitable = Some("wants facts".to_owned()),
        "backend zones",
        Severity::Error,
        "cannot serve filter: it wants facts",
    ),
    (
        |scene| filter(scene).unscaled_scores = Some("its scores reach 100, are not normalized".to_owned()),
        "backend zones",
        Severity::Warning,
        "its scores reach 100, are not normalized",
    ),
    (
        |scene| {
            fail(filter(scene), 10, 1);
            filter(scene).last_failed = true;
        },
        "backend zones",
        Severity::Error,
        "1 of the latest 20 calls to filter failed (late 1); the last one # s ago: no answer",
    ),
    (
        |scene| fail(filter(scene), 11, 1),
        "backend zones",
        Severity::Warning,
        "1 of the latest 20 calls to filter failed (late 1); the last one # s ago: no answer",
    ),
    (
        |scene| fail(filter(scene), 11, 0),
        "backend zones",
        Severity::Recent,
        "1 of the latest 20 calls to filter failed until # s ago (late 1); the last one: no answer",
    ),
    (
        |scene| {
            fail(filter(scene), 0, 0);
            filter(scene).last_failed = true;
        },
        "backend zones",
        Severity::Error,
        "1 of the latest 20 calls to filter failed (late 1); the last one # s ago: no answer",
    ),
    (
        |scene| filter(scene).minute.p99_seconds = Some(0.161),
        "backend zones",
        Severity::Warning,
        "the 99th percentile of filter is 161 ms in the last minute, close to its timeout of 200 ms",
    ),
    (
        |scene| filter(scene).rejects_all = Some(rejects_all()),
        "backend zones",
        Severity::Error,
        "it rejected every node in its latest 60 decisions about 30 pods, since 2026-11-21 23:00:00 UTC",
    ),
    (
        |scene| {
            filter(scene).rejects_all = Some(rejects_all());
            scene.config = samples::config(&BACKEND.replace("filter:", "mode: Shadow, filter:"));
        },
        "backend zones",
        Severity::Warning,
        "it rejected every node in its latest 60 decisions about 30 pods, since 2026-11-21 23:00:00 UTC",
    ),
];

/// The text with `#` for each number of seconds.
fn timeless(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').collect();
    let follows = |at: usize| words.get(at + 1).is_some_and(|word| matches!(*word, "s" | "s:"));
    let word = |(at, word): (usize, &&str)| if follows(at) { "#".to_owned() } else { (*word).to_owned() };
    words.iter().enumerate().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_problem_has_its_sentence_and_a_remedy() {
    for (change, about, severity, what) in GATEWAY.into_iter().chain(BACKENDS) {
        let mut scene = Scene::new();
        change(&mut scene);
        let [problem] = &scene.problems()[..] else { panic!("{what}: {:#?}", scene.problems()) };
        assert_eq!(
            (problem.about.as_str(), problem.severity, timeless(&problem.what).as_str()),
            (about, severity, what)
        );
        assert!(problem.remedy.len() > 10, "{problem:?}");
    }
}

/// The only problem after this change.
fn only(change: impl FnOnce(&mut Scene)) -> Problem {
    let mut scene = Scene::new();
    change(&mut scene);
    let [problem] = <[Problem; 1]>::try_from(scene.problems()).unwrap();
    problem
}

#[test]
fn the_remedy_fits_the_cause() {
    for (because, impact, remedy) in [
        (RejectedBecause::File, "do not restart: ", "check-config --config "),
        (RejectedBecause::Fixed, "until a restart", "restart the gateway, or undo "),
        (RejectedBecause::Backend, "a restart would use the file", "correct the backend's entry"),
    ] {
        let problem = only(|scene| scene.status.configuration.refused = Some(rejected(because)));
        assert!(problem.remedy.contains(remedy), "{problem:?}");
        assert!(problem.impact.as_ref().unwrap().contains(impact), "{problem:?}");
    }
    for (kind, remedy) in [
        ("late", "raise its timeout"),
        ("circuit_open", "raise its timeout"),
        ("overloaded", "run more replicas of it"),
        ("reset", "is not restarted"),
        ("oversize", "`nodeCacheCapable: true`"),
        ("status", "see its log"),
    ] {
        let problem = only(|scene| {
            fail(filter(scene), 10, 10);
            filter(scene).failure_kinds[0].kind = kind.to_owned();
            filter(scene).last_failure = Some(LastFailure { kind: kind.to_owned(), ..failed(1) });
        });
        assert!(problem.remedy.contains(remedy) && problem.what.contains(kind), "{problem:?}");
    }
}

#[test]
fn a_failure_before_the_connection_was_lost_is_over_without_another_call() {
    let reported = |kind: &str, connected_since| {
        only(|scene| {
            // All calls of the last minute failed; what is answered from the cache since is no call.
            fail(filter(scene), 5, 5);
            filter(scene).last_failed = true;
            filter(scene).failed_lately = 5;
            filter(scene).last_failure = Some(LastFailure { kind: kind.to_owned(), ..failed(100) });
            zones(scene).connected_since = Some(connected_since);
        })
    };
    for kind in ["unreachable", "reset"] {
        assert_eq!(reported(kind, ago(200)).severity, Severity::Error);
        let over = reported(kind, ago(50));
        assert_eq!(
            (over.severity, over.remedy.as_str()),
            (Severity::Recent, "nothing: it is connected again")
        );
    }
    // Its next call may fail in the same way.
    assert_eq!(reported("status", ago(50)).severity, Severity::Error);
}

#[test]
fn rejections_of_before_a_change_are_over() {
    let reported = |untried| {
        let mut scene = Scene::new();
        filter(&mut scene).rejects_all = Some(rejects_all());
        zones(&mut scene).waiting = Some(waiting(12, untried));
        let is_of_rules = |problem: &Problem| problem.runbook.ends_with("#backend-rejects-everything");
        scene.problems().into_iter().find(is_of_rules).unwrap().severity
    };
    assert_eq!(reported(12), Severity::Recent, "no pod was tried since");
    assert_eq!(reported(11), Severity::Error, "one was, and still waits");
}

#[test]
fn a_problem_says_what_it_means_for_pods() {
    let impact = |settings: &str| {
        let problem = only(|scene| {
            scene.config = samples::config(&BACKEND.replace("filter: {}", settings));
            fail(filter(scene), 10, 10);
        });
        problem.impact.unwrap()
    };
    assert_eq!(impact("filter: {}"), "filter Fail: no pod that it matches is scheduled");
    assert_eq!(
        impact("filter: {failurePolicy: Ignore}"),
        "filter Ignore: pods can be placed on nodes that it would reject"
    );
    assert_eq!(impact("filter: {}, mode: Shadow"), "no decision depends on its filter: it is in shadow mode");
    let down = only(|scene| zones(scene).connected = false);
    let both =
        "filter Fail: no pod that it matches is scheduled; score Ignore: pods are placed without its scores";
    assert_eq!(down.impact.as_deref(), Some(both));
    let over = only(|scene| fail(filter(scene), 11, 0));
    assert_eq!((over.severity, over.impact), (Severity::Recent, None));
    let refused = only(|scene| scene.status.configuration.refused = Some(rejected(RejectedBecause::Fixed)));
    let unchanged = "the previous configuration stays in use until a restart";
    assert_eq!(refused.impact.as_deref(), Some(unchanged));
    let away = only(|scene| scene.gateway_status.sources.pods.source_health.failed("forbidden".to_owned()));
    let last_known = "decisions use the last known pods, and new ones are not known";
    assert_eq!(away.impact.as_deref(), Some(last_known));
}

#[test]
fn pod_groups_that_do_not_keep_to_a_policy_are_named_while_they_exist() {
    let mut scene = Scene::new();
    let matches = "excludedNamespaces: [lab], podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [web]}]}";
    scene.config =
        samples::config(&BACKEND.replace("score: {}", &format!("preempt: {{}}, match: {{{matches}}}")));
    zones(&mut scene).handshake = Some(counting());
    let pods = Arc::clone(&scene.gateway_status.sources.pods);
    let put = |namespace: &str, uid: &str, policy: &str, phase: &str| {
        let pod = serde_json::json!({
            "metadata": {"name": uid, "namespace": namespace, "uid": uid, "labels": {"app": uid}},
            "spec": {
                "preemptionPolicy": policy,
                "schedulingGroup": {"podGroupName": "train"},
                "nodeName": if phase == "Pending" { "" } else { "n1" },
            },
            "status": {"phase": phase},
        });
        pods.apply(pod.to_string().as_bytes()).unwrap();
    };
    let reported = || {
        let problems = scene.problems();
        let of = |entry: &str| problems.iter().find(|it| it.runbook.ends_with(entry)).cloned();
        let limit = of("#limits-not-exact").unwrap();
        assert!(limit.remedy.contains("binder: BuiltIn") && limit.remedy.contains("docs/limits.md"));
        (limit.impact.unwrap().contains("such as "), of("#group-preempts"))
    };
    for (namespace, uid) in [("lab", "elsewhere"), ("kube-system", "exempt"), ("shop", "web")] {
        put(namespace, uid, "PreemptLowerPriority", "Pending");
        assert_eq!(reported(), (false, None), "it is not called for {namespace}/{uid}");
    }
    pods.remove("web");
    put("shop", "a", "Never", "Pending");
    assert_eq!(reported(), (true, None));
    put("shop", "b", "PreemptLowerPriority", "Pending");
    let (_, preempts) = reported();
    let Problem { what, remedy, .. } = preempts.unwrap();
    assert!(what.contains("shop/train may preempt") && remedy.contains("no-preempting-groups.yaml"));
    assert!(remedy.contains("docs/limits.md"), "{remedy}");
    put("shop", "b", "PreemptLowerPriority", "Succeeded");
    assert_eq!(reported(), (true, None), "the pod that may preempt has ended");
    put("shop", "b", "PreemptLowerPriority", "Running");
    assert_eq!(reported(), (true, None), "it has its node");
    pods.remove("b");
    pods.remove("a");
    assert_eq!(reported(), (false, None), "the group is gone");
}

#[tokio::test(start_paused = true)]
async fn pods_that_wait_while_no_call_comes_are_a_problem() {
    let mut scene = Scene::new();
    let pods = Arc::clone(&scene.gateway_status.sources.pods);
    pods.replace(pods.relist());
    let pod = r#"{"metadata": {"name": "a", "namespace": "apps", "uid": "a"}, "spec": {"schedulerName": "default-scheduler"}}"#;
    pods.apply(pod.as_bytes()).unwrap();
    let last = |seconds| LastCall { time: ago(seconds), node_form: None, nodes: 1, outcome: "ok".to_owned() };
    scene.status.verbs[0].last = Some(last(40));
    assert_eq!(scene.problems(), [], "the pod is new");
    advance(Duration::from_secs(35)).await;
    let [problem] = &scene.problems()[..] else { panic!("{:#?}", scene.problems()) };
    let expected = "1 pod waits, with schedulerName default-scheduler, for 35 s without having been tried, and no call has \
                    come for # s";
    assert_eq!(
        (problem.severity, timeless(&problem.what).replace("for # s without", "for 35 s without")),
        (Severity::Warning, expected.to_owned())
    );
    scene.status.verbs[0].last = Some(last(1));
    assert_eq!(scene.problems(), [], "kube-scheduler works, and has a long queue");
}

#[test]
fn bind_calls_without_a_binder_are_an_error() {
    let ended = |outcome: &str, seconds| {
        let mut scene = Scene::new();
        let last = LastCall { time: ago(seconds), node_form: None, nodes: 1, outcome: outcome.to_owned() };
        let bind = VerbStatus { verb: "bind".to_owned(), last: Some(last), ..scene.status.verbs[0].clone() };
        scene.status.verbs.push(bind);
        scene.problems()
    };
    assert_eq!(ended("ok", 1), []);
    assert_eq!(ended("no_binder", MAX_FAILURE_AGE + 1), []);
    let [over] = &ended("no_binder", MAX_BIND_PAUSE + 1)[..] else { panic!("one") };
    assert_eq!(over.severity, Severity::Recent, "kube-scheduler no longer sends them");
    let [problem] = &ended("no_binder", 1)[..] else { panic!("one") };
    assert_eq!((problem.severity, problem.what.contains("no binder is configured")), (Severity::Error, true));
}

#[test]
fn a_problem_is_as_bad_as_what_its_verb_does_to_calls() {
    let how_bad = |verb: PolicyVerb, settings: &str| {
        let config =
            samples::config(&format!("{}binder: BuiltIn\n", BACKEND.replace("filter: {}", settings)));
        backends::severity(&config.backends[0], verb)
    };
    assert_eq!(how_bad(PolicyVerb::Bind, "filter: {failurePolicy: Ignore}, bind: {}"), Severity::Error);
    assert_eq!(how_bad(PolicyVerb::Bind, "filter: {}, bind: {failurePolicy: Next}"), Severity::Warning);
    assert_eq!(how_bad(PolicyVerb::Score, "filter: {}"), Severity::Warning, "pods are scheduled without");
    assert_eq!(how_bad(PolicyVerb::Filter, "filter: {}, mode: Shadow"), Severity::Warning);
}

#[test]
fn few_calls_are_no_problem_and_neither_is_a_disabled_backend() {
    let quiet: [Change; 7] = [
        |scene| {
            filter(scene).minute = MinuteStatus { calls: 12, failed: 0, sent: 9, p99_seconds: Some(0.2) };
        },
        |scene| filter(scene).last_failed = true,
        |scene| {
            zones(scene).connected = false;
            scene.config = samples::config(&BACKEND.replace("filter:", "mode: Disabled, filter:"));
        },
        |scene| (scene.status.started, scene.status.verbs[0].calls) = (ago(MAX_IDLE - 5), 0),
        |scene| scene.status.log.complete_since = None,
        |scene| (scene.status.log.complete_since, scene.status.log.max_bytes) = (Some(ago(5)), 0),
        |scene| (scene.status.log.complete_since, scene.status.log.bytes) = (Some(ago(5)), 1),
    ];
    for change in quiet {
        let mut scene = Scene::new();
        change(&mut scene);
        assert_eq!(scene.problems(), []);
    }
}

#[test]
fn the_worst_comes_first() {
    let mut scene = Scene::new();
    scene.status.verbs[0].calls = 0;
    filter(&mut scene).minute.p99_seconds = Some(0.2);
    zones(&mut scene).connected = false;
    let severities: Vec<Severity> = scene.problems().iter().map(|problem| problem.severity).collect();
    assert_eq!(severities, [Severity::Error, Severity::Warning, Severity::Warning]);
}

fn waiting(pods: u32, untried: u32) -> WaitingStatus {
    WaitingStatus { pods, workloads: pods, oldest_seconds: 245, untried, changed_seconds: Some(40) }
}

#[test]
fn the_impact_counts_the_pods_that_wait() {
    for (pods, expected) in
        [(1, "; 1 pod waits, for 4 min 5 s"), (12, "; 12 pods wait, the oldest for 4 min 5 s")]
    {
        let problem = only(|scene| {
            let zones = zones(scene);
            zones.connected = false;
            zones.waiting = Some(waiting(pods, 0));
        });
        let impact = problem.impact.unwrap();
        assert!(impact.ends_with(expected), "{impact}");
    }
}

#[test]
fn pods_that_were_not_tried_since_their_backend_changed_come_first() {
    let reported = |is_requeued, changed_seconds, backend: Option<WaitingStatus>| {
        let mut scene = Scene::new();
        scene.status.untried = Some(UntriedPods { pods: 3, changed_seconds, is_requeued });
        // The others are warnings, too.
        scene.status.log.complete_since = Some(ago(5));
        zones(&mut scene).waiting = backend;
        scene.problems().into_iter().find(|problem| problem.about == "waiting pods").unwrap()
    };
    let problem = reported(false, 40, Some(waiting(12, 3)));
    assert_eq!(problem.severity, Severity::Warning);
    assert_eq!(
        problem.what,
        "3 pods wait for an event of the cluster, although backend zones recovered or changed 40 s ago"
    );
    assert!(problem.remedy.starts_with("run `extender-gateway status --retry`"), "{}", problem.remedy);
    let of_removed = reported(false, 40, None);
    assert!(of_removed.what.ends_with("although a backend recovered or changed 40 s ago"), "{of_removed:?}");
    for (seconds, severity) in [(40, Severity::Recent), (61, Severity::Warning)] {
        let problem = reported(true, seconds, None);
        assert_eq!(problem.severity, severity);
        assert!(problem.remedy.contains("is being updated"), "{}", problem.remedy);
    }
}

#[test]
fn a_success_ends_an_error() {
    let reported = |last_failed, minute: (u32, u32), seconds| {
        let mut scene = Scene::new();
        fail(filter(&mut scene), minute.0, minute.1);
        let filter = filter(&mut scene);
        (filter.failed_lately, filter.lately, filter.last_failed) = (228, 230, last_failed);
        filter.last_failure = Some(failed(seconds));
        scene.problems().pop()
    };
    let severity =
        |last_failed, minute, seconds| reported(last_failed, minute, seconds).map(|it| it.severity);
    assert_eq!(severity(true, (40, 40), 1), Some(Severity::Error));
    assert_eq!(severity(false, (41, 40), 1), Some(Severity::Warning), "the first success");
    assert_eq!(severity(false, (45, 40), 11), Some(Severity::Recent), "none failed for a while");
    assert_eq!(severity(true, (46, 41), 1), Some(Severity::Error), "it fails again");
    let some = reported(false, (232, 66), 1).unwrap();
    assert_eq!(some.impact.unwrap(), "filter Fail: the pods of the calls that failed are tried again");
}

#[test]
fn few_failures_are_soon_forgotten() {
    let reported = |seconds| {
        let mut scene = Scene::new();
        filter(&mut scene).last_failure = Some(failed(seconds));
        scene.problems().len()
    };
    assert_eq!((reported(59), reported(60)), (1, 0), "1 of 20");
}

#[test]
fn the_remedy_is_for_the_latest_failure() {
    let problem = only(|scene| {
        fail(filter(scene), 10, 10);
        filter(scene).last_failed = true;
        let last = LastFailure { kind: "status".to_owned(), ..failed(1) };
        filter(scene).last_failure = Some(last);
    });
    assert!(problem.remedy.starts_with("correct what its message names"), "late ones were more: {problem:?}");
    assert!(problem.remedy.contains("`extender-gateway backend zones shadow --for 30m"), "{problem:?}");
}

#[test]
fn a_workload_at_its_own_limit_is_a_warning_that_names_it() {
    let problem = only(|scene| {
        let workload = Some("ReplicaSet apps/web".to_owned());
        filter(scene).rejects_all = Some(RejectsAll { workload, ..rejects_all() });
    });
    assert_eq!(problem.severity, Severity::Warning);
    assert!(problem.what.contains("about 30 pods of ReplicaSet apps/web, since "), "{}", problem.what);
    assert!(problem.what.ends_with(" (full)"), "{}", problem.what);
    assert!(!problem.remedy.contains("shadow"), "its limit is right: {}", problem.remedy);
}

#[test]
fn a_backend_that_nobody_asks_any_more_may_be_repaired() {
    let problem = only(|scene| {
        filter(scene).rejects_all = Some(RejectsAll { last: ago(46), ..rejects_all() });
    });
    assert_eq!(problem.severity, Severity::Error);
    assert!(
        problem.remedy.starts_with("if it is repaired, run `extender-gateway status --retry`"),
        "{problem:?}"
    );
}

#[test]
fn updates_of_pods_that_fail_are_a_problem_while_they_are_wanted() {
    let fail = |scene: &mut Scene| scene.observer.waiting.requeue_health.failed("forbidden".to_owned());
    let mut scene = Scene::new();
    fail(&mut scene);
    assert_eq!(scene.problems(), []);
    let problem = only(|scene| {
        fail(scene);
        scene.config.requeue = Requeueing::PodCondition;
    });
    assert_eq!(problem.what, "updates of pods have failed for 0 s: forbidden");
}

const LOCKED_OUT: &str = "- {name: zones, url: 'http://zones.policies.svc:9000', filter: {}}\n";

#[test]
fn limits_are_exact_with_a_binder_and_of_no_interest_in_shadow() {
    for settings in ["filter: {}, mode: Shadow", "filter: {}, bind: {}"] {
        let mut scene = Scene::new();
        zones(&mut scene).handshake = Some(counting());
        let binder = if settings.contains("bind") { "binder: BuiltIn\n" } else { "" };
        scene.config = samples::config(&(BACKEND.replace("filter: {}", settings) + binder));
        assert_eq!(scene.problems(), [], "{settings}");
    }
}

#[test]
fn a_backend_whose_namespace_is_not_exempt_is_a_warning() {
    let problem = only(|scene| scene.config = samples::config(LOCKED_OUT));
    assert_eq!((problem.severity, &*problem.about), (Severity::Warning, "backend zones"));
    assert_eq!(problem.what, "it is in namespace policies, which is not exempt");
}

#[test]
fn a_backend_whose_own_pod_waits_for_it_is_named_with_the_only_remedy() {
    let mut scene = Scene::new();
    scene.config = samples::config(LOCKED_OUT);
    zones(&mut scene).connected = false;
    let part = samples::part("zones", samples::failed(FailureKind::Unreachable));
    let mut record = samples::record("zones-7f9c", &["a"], vec![part]);
    record.pod.namespace = "policies".to_owned();
    scene.observer.waiting.record(Verb::Filter, CallOutcome::Backend, &record);
    let problems = scene.problems();
    let whats: Vec<_> = problems.iter().map(|problem| (problem.severity, &*problem.what)).collect();
    let expected = [
        (Severity::Error, "no connection"),
        (Severity::Error, "its own pod policies/zones-7f9c waits for it"),
    ];
    assert_eq!(whats, expected);
    assert!(problems.iter().all(|problem| problem.remedy.contains("exempt.namespaces")), "{problems:#?}");
}

#[test]
fn an_override_says_who_has_set_it_and_what_it_means() {
    let reported = |backend: Option<&str>, mode: &str| {
        only(|scene| {
            scene.status.overrides.push(OverrideStatus {
                backend: backend.map(str::to_owned),
                mode: mode.to_owned(),
                since: ago(60),
                ends: ago(-1800),
                reason: "incident".to_owned(),
                by: "ann at 10.0.0.1".to_owned(),
            });
        })
    };
    let of_one = reported(Some("zones"), "Shadow");
    assert!(of_one.what.ends_with(" min, set by ann at 10.0.0.1): incident"), "{}", of_one.what);
    assert_eq!(of_one.impact.unwrap(), "pods can be placed where it would not allow it");
    assert_eq!(of_one.severity, Severity::Warning);
    let of_all = reported(None, "Disabled");
    assert_eq!(
        (of_all.severity, &*of_all.impact.unwrap()),
        (Severity::Error, "pods are placed against every policy")
    );
}

/// A file that ends after this many days.
fn certificate_file(scene: &Scene, field: &str, backend: Option<&str>, days: i64) {
    let is_chain = field.ends_with("certFile");
    let file = CertificateFile {
        field: field.to_owned(),
        path: "/tls.crt".into(),
        role: if is_chain { CertificateRole::Chain } else { CertificateRole::Authorities },
        backend: backend.map(|name| BackendName::new(name).unwrap()),
    };
    let validity = Validity { name: "a".to_owned(), begins: ago(9_999_999), ends: ago(-days * 86_400 - 60) };
    scene.gateway_status.sources.certificates.update(vec![(file, Ok(validity))], Timestamp::now());
}

#[test]
fn a_certificate_file_that_became_unusable_is_a_problem() {
    for (backend, impact) in
        [(None, "do not restart: "), (Some("zones"), "new connections to the backend fail")]
    {
        let problem = only(|scene| {
            let file = CertificateFile {
                field: "extender.tls.certFile".to_owned(),
                path: "/tls.crt".into(),
                role: CertificateRole::Chain,
                backend: backend.map(|name| BackendName::new(name).unwrap()),
            };
            let read = vec![(file, Err("it contains no certificate".to_owned()))];
            scene.gateway_status.sources.certificates.update(read, Timestamp::now());
        });
        assert_eq!(
            (problem.severity, &*problem.what),
            (Severity::Warning, "/tls.crt: it contains no certificate")
        );
        assert!(problem.impact.as_ref().unwrap().contains(impact), "{problem:?}");
    }
}

#[test]
fn certificates_are_a_problem_before_they_end_and_afterwards() {
    for (days, severity, what) in [
        (-2, Some(Severity::Error), "/tls.crt: certificate a has expired on "),
        (13, Some(Severity::Warning), "/tls.crt: certificate a expires in 13 d, on "),
        (14, None, ""),
    ] {
        let scene = Scene::new();
        certificate_file(&scene, "extender.tls.certFile", None, days);
        let problems = scene.problems();
        assert_eq!(problems.first().map(|problem| problem.severity), severity, "{days}");
        assert!(problems.iter().all(|problem| problem.what.starts_with(what)), "{problems:?}");
    }
    let problem = only(|scene| certificate_file(scene, "metrics.tls.certFile", None, -2));
    let impact = problem.impact.as_deref();
    assert_eq!(
        (problem.severity, impact),
        (Severity::Warning, Some("callers of this address reject the gateway"))
    );
    let problem = only(|scene| certificate_file(scene, "backends[0].tls.certFile", Some("zones"), -2));
    assert_eq!(problem.about, "backend zones, backends[0].tls.certFile");
    assert_eq!(problem.impact.unwrap(), "the backend rejects new connections of the gateway");
}

#[test]
fn certificates_without_which_pods_are_scheduled_are_a_warning() {
    let severity = |field: &str, settings: &str| {
        let problem = only(|scene| {
            scene.config = samples::config(&BACKEND.replace("filter: {}", settings));
            certificate_file(scene, field, field.starts_with("backends").then_some("zones"), -2);
        });
        problem.severity
    };
    let client = "backends[0].tls.certFile";
    assert_eq!(severity(client, "filter: {}"), Severity::Error);
    assert_eq!(severity(client, "filter: {failurePolicy: Ignore}"), Severity::Warning);
    assert_eq!(severity(client, "filter: {}, mode: Shadow"), Severity::Warning);
    // The gateway accepts certificates that an expired CA has signed.
    assert_eq!(severity("backends[0].tls.caFile", "filter: {}"), Severity::Warning);
    assert_eq!(severity("extender.tls.clientCAFile", "filter: {}"), Severity::Warning);
}

#[test]
fn a_label_that_no_node_has_explains_why_everything_is_rejected() {
    for (labels, expected) in [
        (&["acme.io/rak"][..], "; no node has the label acme.io/rak, which it reads"),
        (&["a", "b"], "; no node has any of the labels a, b, which it reads"),
    ] {
        let problem = only(|scene| {
            let filter = filter(scene);
            filter.rejects_all = Some(rejects_all());
            filter.missing_labels = labels.iter().map(|&label| label.to_owned()).collect();
        });
        assert!(problem.what.ends_with(expected), "{}", problem.what);
    }
}

#[test]
fn the_remedy_for_a_backend_that_is_down_fits_its_cause() {
    for (failure, expected) in [
        ("cannot connect to zones:9000: connection refused", "start it, or correct its url or tls; "),
        ("handshake failed: INVALID_ARGUMENT: missing field `zone`", "correct its args: "),
        ("handshake failed: UNIMPLEMENTED", "correct its url: another service "),
        ("handshake failed: UNAVAILABLE: license lookup failed, connection was refused", "see its log; "),
        ("handshake failed: UNKNOWN: token expired", "see its log; "),
        (
            "cannot connect to zones:9000: TLS: received corrupt message of type InvalidContentType",
            "it speaks no TLS: ",
        ),
        (
            "cannot connect to zones:9000: TLS: invalid peer certificate: UnknownIssuer",
            "correct its tls.caFile: ",
        ),
        (
            "cannot connect to zones:9000: TLS: invalid peer certificate: certificate expired on 2026-11-21",
            "renew the backend's certificate, ",
        ),
        (
            "cannot connect to zones:9000: TLS: received fatal alert: CertificateExpired",
            "renew its tls.certFile, ",
        ),
        ("cannot connect to zones:9000: TLS: received fatal alert: UnknownCA", "set its tls.certFile and "),
        (
            "cannot connect to zones:9000: TLS: invalid peer certificate: certificate not valid before 2026-11-21",
            "check both machines' clocks, ",
        ),
        (
            "the connection was closed: the backend answers with a TLS alert, not in HTTP/2",
            "it serves TLS: use an https url, ",
        ),
        (
            "the connection was closed: the backend answers in HTTP/1, not in HTTP/2",
            "correct its url: another service ",
        ),
        (
            "handshake failed: not a gRPC response: HTTP status 404; does url point to another service?",
            "correct its url: another service ",
        ),
        ("handshake failed: the connection was lost", "see its log; if it serves TLS, use an https url"),
        (
            "cannot connect to zones:9000: failed to lookup address information",
            "correct the host of its url, ",
        ),
    ] {
        let problem = only(|scene| {
            let zones = zones(scene);
            (zones.connected, zones.failure) = (false, Some(failure.to_owned()));
        });
        assert!(problem.remedy.starts_with(expected), "{failure}: {}", problem.remedy);
    }
}

#[test]
fn a_wrong_clock_is_a_warning() {
    let what = |ahead| clock(ahead).map(|problem| problem.what);
    assert_eq!([what(5), what(-5)], [None, None]);
    assert_eq!(what(10_800).as_deref(), Some("it is 10800 s behind the apiserver's"));
    assert_eq!(what(-6).as_deref(), Some("it is 6 s ahead of the apiserver's"));
}

//! Exact output for people and programs.

mod hostile;
mod samples;

use extender_gateway_api::explain::replicas::Away;
use extender_gateway_api::{
    CircuitState, CircuitStatus, ControllersStatus, LastFailure, Problem, RejectedBecause, RejectedChange,
    Severity, ShadowEffect, ShadowGroup, ShadowStatus, WaitingPodsStatus,
};
use jiff::Timestamp;

use self::samples::{at, report, status};
use super::{Shown, StatusReport};

const DOCUMENT: &str = include_str!("../../../../docs/explain.md");

fn text(report: &StatusReport) -> String {
    report.to_string()
}

#[test]
fn the_document_shows_what_is_printed() {
    let shown =
        format!("```text\n$ extender-gateway status\n{}```\n", text(&report(vec![samples::documented()])));
    assert!(DOCUMENT.contains(&shown), "docs/explain.md has to show this:\n{shown}");
}

#[test]
fn the_wide_table_says_which_pods_are_concerned_and_what_a_failure_does() {
    let documented = report(vec![samples::documented()]);
    let wide = "\nBACKEND  MATCHES PODS  FAILURE POLICIES\n\
        zones    all           filter Fail, score Ignore\n\
        quota    all           filter Fail\n";
    assert!(format!("{documented:#}").contains(wide), "{documented:#}");
    assert!(!text(&documented).contains("MATCHES PODS"));
}

#[test]
fn a_gateway_that_does_nothing_yet() {
    let mut idle = status("gateway-0");
    idle.verbs.clear();
    idle.backends.clear();
    idle.pods = None;
    idle.ready = false;
    idle.nodes.synced = false;
    idle.log.max_bytes = 0;
    let expected = "\
No problem.

gateway-0 0.1.0, not ready, started 1 h 0 min ago
  configuration  /etc/extender-gateway/gateway.yaml, generation 1, in use since 2026-11-21 22:00:00 UTC (1 h 0 min ago)
  nodes          5,000 from Watch, not listed yet, last event 200 ms ago
  decision log   disabled

VERB  CALLS  FAILED  MEDIAN  P99  LAST CALL

no backends
";
    assert_eq!(text(&report(vec![idle])), expected);
}

#[test]
fn problems_are_said_once_and_the_worst_first() {
    let problem = |severity, about: &str| Problem {
        severity,
        about: about.to_owned(),
        what: "is down".to_owned(),
        impact: None,
        remedy: "start it".to_owned(),
        runbook: "docs/runbook.md#backend-down".to_owned(),
    };
    let [mut first, mut second] = [status("gateway-1"), status("gateway-0")];
    first.problems =
        vec![problem(Severity::Warning, "configuration"), problem(Severity::Error, "backend zones")];
    second.problems = vec![problem(Severity::Error, "backend zones")];
    let mut both = report(vec![first, second]);
    both.away.push(Away { gateway: "http://gateway-2:9403".into(), why: "no answer within 5 s".into() });
    let expected = "\
ERROR    http://gateway-2:9403 does not answer: no answer within 5 s
ERROR    gateway-0, gateway-1: backend zones: is down
         start it
         docs/runbook.md#backend-down
WARNING  gateway-1: configuration: is down
         start it
         docs/runbook.md#backend-down

gateway-0 ";
    assert!(text(&both).starts_with(expected), "{}", text(&both));
    assert_eq!(both.errors(), 2);
    let mut warned = status("gateway-0");
    warned.problems = vec![problem(Severity::Warning, "configuration")];
    assert_eq!(report(vec![warned]).errors(), 0);
}

#[test]
fn what_is_over_is_shown_and_is_no_problem() {
    let mut recovered = status("gateway-0");
    recovered.problems = vec![Problem {
        severity: Severity::Recent,
        about: "backend zones".to_owned(),
        what: "2 of the latest 20 calls to filter failed until 22 s ago (late 2)".to_owned(),
        impact: None,
        remedy: "nothing: calls succeed again".to_owned(),
        runbook: "docs/runbook.md#backend-down".to_owned(),
    }];
    let report = report(vec![recovered]);
    let expected = "\
RECENT   gateway-0: backend zones: 2 of the latest 20 calls to filter failed until 22 s ago (late 2)
         nothing: calls succeed again
         docs/runbook.md#backend-down
No problem.

gateway-0 ";
    assert!(text(&report).starts_with(expected), "{}", text(&report));
    assert_eq!(report.errors(), 0);
}

#[test]
fn replicas_that_differ() {
    let alike = report(vec![status("gateway-0"), status("gateway-1")]);
    assert_eq!(alike.differences, [""; 0]);
    let mut other = status("gateway-2");
    other.version = "0.2.0".into();
    other.configuration.generation = 3;
    other.configuration.digest = "2c".into();
    other.configuration.settings.insert("backends.zones.score.weight".into(), "7".into());
    other.backends[0].mode = "Shadow".into();
    other.backends[0].handshake.as_mut().unwrap().revision = "r2".into();
    let expected = [
        "Replicas have other configurations. From gateway-0 to gateway-2: backends.zones.score.weight: 1 → 7",
        "Replicas differ in version. gateway-0, gateway-1: 0.1.0; gateway-2: 0.2.0",
        "Replicas differ in backends or their effective order. gateway-0, gateway-1: zones \
         (http://zones:9000, Enforce, filter score); gateway-2: zones (http://zones:9000, Shadow, filter score)",
        "Replicas differ in the reported versions of backends. gateway-0, gateway-1: zones is label-rules 0.1.0 r1; \
         gateway-2: zones is label-rules 0.1.0 r2",
    ];
    let differing = report(vec![status("gateway-0"), other, status("gateway-1")]);
    assert_eq!(differing.differences, expected);
    assert!(text(&differing).starts_with("DIFFERS  Replicas have other "), "{}", text(&differing));
    assert!(
        text(&differing).contains("\n         docs/runbook.md#replicas-differ\n"),
        "{}",
        text(&differing)
    );
    assert_eq!(differing.errors(), 0);
}

#[test]
fn what_a_backend_suffers_from() {
    let mut ill = status("gateway-0");
    ill.configuration.refused =
        Some(RejectedChange { time: at(-60), message: "line 3: no".into(), because: RejectedBecause::File });
    let zones = &mut ill.backends[0];
    zones.connected = false;
    zones.failure = Some("cannot connect".into());
    zones.handshake = None;
    zones.verbs[0].unsuitable = Some("it does not filter".into());
    zones.verbs[1].last_failure =
        Some(LastFailure { time: at(-5), kind: "late".into(), message: "late: no answer".into() });
    zones.verbs[1].circuits.push(CircuitStatus {
        address: "10.0.0.7:9000".into(),
        state: CircuitState::Open,
        since: at(-40),
        cause: "no answer within 100 ms".into(),
    });
    let mut disabled = status("x").backends.remove(0);
    disabled.name = "racks".into();
    disabled.mode = "Disabled".into();
    disabled.connected = false;
    disabled.verbs.clear();
    ill.backends.push(disabled);
    let text = text(&report(vec![ill]));
    for line in [
        "  refused        1 min 0 s ago: line 3: no\n",
        "zones    http://zones:9000  Enforce   down: cannot connect        0  -             -\n",
        "racks    http://zones:9000  Disabled  -                           0  -             label-rules 0.1.0, revision r1, holds the nodes\n",
        "  unavailable: it does not filter\n",
        "  circuit open for 40 s: no answer within 100 ms\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn who_runs_the_controllers_of_backends() {
    let mut status = status("gateway-0");
    let controllers = |leaders: &[&str]| ControllersStatus {
        names: vec!["expiry".into(), "status".into()],
        lease: "shop/zones".into(),
        leaders: leaders.iter().map(|leader| (*leader).to_owned()).collect(),
    };
    assert!(!text(&report(vec![status.clone()])).contains("LEADER"));
    let mut quota = status.backends[0].clone();
    quota.name = "quota".into();
    status.backends.push(quota);
    status.backends[0].controllers = Some(controllers(&["zones-0", "zones-1"]));
    status.backends[1].controllers = Some(controllers(&[]));
    let text = text(&report(vec![status]));
    for line in [
        "BACKEND  CONTROLLERS     LEADER            LEASE\n",
        "zones    expiry, status  zones-0, zones-1  shop/zones\n",
        "quota    expiry, status  -                 shop/zones\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn programs_read_each_replica_as_it_answered() {
    let report = report(vec![status("gateway-0")]);
    let json = serde_json::to_value(&report).unwrap();
    let yaml: serde_json::Value = serde_saphyr::from_str(&serde_saphyr::to_string(&report).unwrap()).unwrap();
    assert_eq!(json, yaml);
    assert_eq!((&json["kind"], &json["away"]), (&"StatusReport".into(), &serde_json::json!([])));
    assert_eq!(json["replicas"][0], serde_json::to_value(status("gateway-0")).unwrap());
    assert_eq!(json["time"].as_str().unwrap().parse::<Timestamp>().unwrap(), at(0));
}

#[test]
fn the_waiting_pods_are_a_list() {
    let mut waiting = status("gateway-0");
    waiting.waiting = vec![WaitingPodsStatus {
        workload: "ReplicaSet apps/web-7d9".into(),
        reason: "quota: tenant is over its quota".into(),
        pods: 40,
        oldest_seconds: 245,
        namespace: "apps".into(),
        pod: "web-7d9-x".into(),
        untried: 2,
    }];
    let report = StatusReport { shown: Shown::WaitingPods, ..report(vec![waiting]) };
    let expected = "\
No problem.

gateway-0: 40 waiting pods

PODS  OLDEST  WORKLOAD                 REASON                                                                    OLDEST POD
  40   4 min 5 s  ReplicaSet apps/web-7d9  quota: tenant is over its quota (2 not tried since it changed)  apps/web-7d9-x
";
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(squeezed(&text(&report)), squeezed(expected));
}

#[test]
fn a_clock_that_differs_is_a_warning() {
    let problem = |time: Option<i64>| {
        let status = super::Status { time: time.map(at), problems: Vec::new(), ..status("gateway-0") };
        super::clock_problem(&status, at(-2), at(0)).map(|problem| problem.what)
    };
    for (time, expected) in [
        (None, None),
        (Some(-1), None),
        (Some(5), None),
        (Some(-7), None),
        (Some(6), Some("it is 6 s ahead of that of the machine of this command")),
        (Some(-10_802), Some("it is 10800 s behind that of the machine of this command")),
    ] {
        assert_eq!(problem(time).as_deref(), expected, "{time:?}");
    }
    let mut known = super::Status { time: Some(at(60)), ..status("gateway-0") };
    known.problems.extend(super::clock_problem(&known, at(0), at(0)));
    assert_eq!(known.problems.len(), 1);
    assert_eq!(super::clock_problem(&known, at(0), at(0)), None, "one entry is enough");
}

#[test]
fn backends_in_shadow_have_the_pods_that_they_would_have_moved() {
    let mut status = status("gateway-0");
    assert!(!text(&report(vec![status.clone()])).contains("IN SHADOW"));
    let group = |effect, rule: Option<&str>, pods| ShadowGroup {
        effect,
        workload: "ReplicaSet apps/web".into(),
        rule: rule.map(str::to_owned),
        reason: "no disk".into(),
        pods,
        namespace: "apps".into(),
        pod: "web-x".into(),
    };
    status.shadows = vec![ShadowStatus {
        backend: "zones".into(),
        pods: 60,
        elsewhere: 40,
        nowhere: 1,
        groups: vec![
            group(ShadowEffect::Elsewhere, Some("disks"), 40),
            group(ShadowEffect::Nowhere, None, 1),
        ],
    }];
    let text = text(&report(vec![status]));
    for line in [
        "\nIN SHADOW  PODS  ELSEWHERE  NOWHERE\nzones        60         40        1\n",
        "\nzones        40  elsewhere  ReplicaSet apps/web  disks  no disk  apps/web-x\n",
        "\nzones         1  nowhere    ReplicaSet apps/web  -      no disk  apps/web-x\n",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

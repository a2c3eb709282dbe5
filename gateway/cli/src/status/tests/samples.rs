//! Statuses for tests.

use extender_gateway_api::explain::replicas::Gathered;
use extender_gateway_api::{
    API_VERSION, BackendStatus, BackendVerb, ConfigurationStatus, Handshake, LastCall, LastFailure, LogState,
    MinuteStatus, NodeForm, Problem, ReadsStatus, RejectedBecause, RejectedChange, Severity, Status,
    TableStatus, VerbStatus, WaitingStatus,
};
use jiff::Timestamp;

use crate::status::StatusReport;

/// A point in time, in seconds after 2026-11-21 23:00:00 UTC.
pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_795_302_000 + seconds).unwrap()
}

/// The report of these replicas at 23:00:00 UTC.
pub(super) fn report(answers: Vec<Status>) -> StatusReport {
    StatusReport::new(Gathered { answers, away: Vec::new() }, at(0))
}

/// A gateway that was started an hour ago and serves with one backend.
pub(super) fn status(gateway: &str) -> Status {
    let configuration = ConfigurationStatus {
        file: "/etc/extender-gateway/gateway.yaml".into(),
        generation: 1,
        digest: "1f".to_owned(),
        settings: [("backends.zones.score.weight".to_owned(), "1".to_owned())].into(),
        loaded: at(-3600),
        ..ConfigurationStatus::default()
    };
    let table =
        |count| TableStatus { source: "Watch".into(), count, synced: true, silent_seconds: Some(0.2) };
    Status {
        api_version: API_VERSION.into(),
        kind: "Status".into(),
        gateway: gateway.into(),
        version: "0.1.0".into(),
        started: at(-3600),
        ready: true,
        configuration,
        verbs: vec![verb("filter", 12_345), verb("prioritize", 11_800)],
        backends: vec![zones()],
        nodes: table(5000),
        pods: Some(table(12_000)),
        requeue: "None".into(),
        log: log(),
        ..Status::default()
    }
}

fn log() -> LogState {
    LogState {
        max_bytes: 64 << 20,
        bytes: 12 << 20,
        calls: 24_000,
        pods: 11_800,
        evicted: 0,
        since: at(-3600),
        oldest: Some(at(-3500)),
        complete_since: None,
    }
}

fn verb(verb: &str, calls: u64) -> VerbStatus {
    VerbStatus {
        verb: verb.into(),
        calls,
        failed: 3,
        median_seconds: Some(0.0012),
        p99_seconds: Some(0.0045),
        last: Some(LastCall {
            time: at(-12),
            node_form: Some(NodeForm::Names),
            nodes: 500,
            outcome: "ok".into(),
        }),
        refused: None,
    }
}

fn zones() -> BackendStatus {
    BackendStatus {
        name: "zones".into(),
        url: "http://zones:9000".into(),
        mode: "Enforce".into(),
        connected: true,
        matches: "all".into(),
        connected_since: Some(at(-3600)),
        handshake: Some(Handshake {
            name: "label-rules".into(),
            version: "0.1.0".into(),
            revision: "r1".into(),
            holds_nodes: true,
            ..Handshake::default()
        }),
        verbs: vec![backend_verb("filter", Some(0.12)), backend_verb("score", None)],
        ..BackendStatus::default()
    }
}

fn backend_verb(verb: &str, rejected_share: Option<f64>) -> BackendVerb {
    BackendVerb {
        verb: verb.into(),
        failure_policy: if verb == "score" { "Ignore" } else { "Fail" }.into(),
        reads: Some(ReadsStatus {
            pods: "nothing".into(),
            nodes: "label topology.kubernetes.io/zone".into(),
        }),
        decisions: 6400,
        calls: 4321,
        failures: 3,
        lately: 256,
        minute: MinuteStatus { calls: 12, failed: 0, sent: 12, p99_seconds: Some(0.002) },
        median_seconds: Some(0.0008),
        p99_seconds: Some(0.002),
        rejected_share,
        ..BackendVerb::default()
    }
}

/// A status with problems: a backend that is down, and a rejected configuration.
pub(super) fn documented() -> Status {
    let mut status = status("gateway-0");
    let message = "line 9: backends[1].filter.timeout: 1 has no unit; expected a duration from 1ms to 1h such as 200ms, 1s or 1m30s";
    status.configuration.refused =
        Some(RejectedChange { time: at(-300), message: message.into(), because: RejectedBecause::File });
    status.verbs.push(VerbStatus { verb: "bind".into(), ..VerbStatus::default() });
    status.backends.push(quota());
    let problem = |severity, about: &str, what: &str, remedy: &str, entry: &str| Problem {
        severity,
        about: about.into(),
        what: what.into(),
        impact: None,
        remedy: remedy.into(),
        runbook: format!("docs/runbook.md#{entry}"),
    };
    status.problems = vec![
        Problem {
            impact: Some(
                "filter Fail: no pod that it matches is scheduled; 12 pods wait, the oldest for 4 min 5 s"
                    .to_owned(),
            ),
            ..problem(
                Severity::Error,
                "backend quota",
                "cannot connect to quota:9000: connection refused",
                "start it, or correct its url or tls; `extender-gateway backend quota shadow --for 30m --reason TEXT` takes it out of decisions for a while",
                "backend-down",
            )
        },
        Problem {
            impact: Some("the previous configuration stays in use; do not restart: the gateway would not start with the file".to_owned()),
            ..problem(
                Severity::Warning,
                "the configuration",
                &format!("the changed file was rejected: {message}"),
                "correct the file and check it with `extender-gateway check-config --config /etc/extender-gateway/gateway.yaml`",
                "configuration-rejected",
            )
        },
    ];
    status
}

fn quota() -> BackendStatus {
    let failure = LastFailure {
        time: at(-2),
        kind: "unreachable".into(),
        message: "cannot connect to quota:9000: connection refused".into(),
    };
    let filter = BackendVerb {
        failures: 57,
        failed_lately: 57,
        reads: None,
        last_failure: Some(failure),
        ..backend_verb("filter", Some(0.003))
    };
    BackendStatus {
        name: "quota".into(),
        url: "http://quota:9000".into(),
        connected: false,
        failure: Some("cannot connect to quota:9000: connection refused".into()),
        connected_since: None,
        outages: 1,
        waiting: Some(WaitingStatus {
            pods: 12,
            workloads: 3,
            oldest_seconds: 245,
            untried: 0,
            changed_seconds: None,
        }),
        handshake: None,
        verbs: vec![filter],
        ..zones()
    }
}

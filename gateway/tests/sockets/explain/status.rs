//! `status` and its exit codes.

use serde_json::{Value, json};

use super::{GATEWAY, STATUS, Server, run};
use crate::support::ClosedPort;

/// A gateway's status with these problems.
pub(crate) fn status(gateway: &str, problems: &Value) -> (u16, Value) {
    let time = "2026-11-21T23:00:00Z";
    let status = json!({
        "apiVersion": "extender-gateway.io/v1alpha1", "kind": "Status", "gateway": gateway, "version": "0.1.0",
        "started": time, "ready": true, "verbs": [], "backends": [], "problems": problems,
        "configuration": {"file": "gateway.yaml", "generation": 1, "loaded": time},
        "nodes": {"source": "Watch", "count": 5, "synced": true},
        "log": {"maxBytes": 1, "bytes": 0, "calls": 0, "pods": 0, "evicted": 0, "since": time},
    });
    (200, status)
}

fn problem(severity: &str) -> Value {
    json!([{"severity": severity, "about": "backend zones", "what": "it is down", "remedy": "start it"}])
}

#[tokio::test]
async fn scripts_see_problems_in_the_exit_code() {
    for (problems, expected, err) in [
        (json!([]), 0, ""),
        (problem("Warning"), 0, ""),
        (problem("Error"), 4, "extender-gateway: 1 problem\n"),
    ] {
        let gateway = Server::start([(STATUS, status("gateway-0", &problems))]).await;
        let (code, out, told) = run(GATEWAY, &["status", "--gateway", &gateway.url()]).await;
        assert_eq!((code, told.as_str()), (expected, err), "{out}");
        assert!(out.contains("\ngateway-0 0.1.0, ready, started "), "{out}");
        assert_eq!(
            out.contains("backend zones: it is down\n         start it\n"),
            problems != json!([]),
            "{out}"
        );
    }
}

#[tokio::test]
async fn a_replica_that_is_away_is_a_problem_and_all_of_them_a_failure() {
    let gateway = Server::start([(STATUS, status("gateway-0", &json!([])))]).await;
    let closed_port = ClosedPort::new();
    let away = format!("http://{}", closed_port.address);
    let (code, out, _) = run(GATEWAY, &["status", "--gateway", &gateway.url(), "--gateway", &away]).await;
    assert_eq!(code, 4);
    assert!(out.starts_with(&format!("ERROR    {away} does not answer: cannot connect (")), "{out}");
    let (code, out, err) = run(GATEWAY, &["status", "--gateway", &away]).await;
    let begin = format!("extender-gateway: no gateway answered\n- {away}: cannot connect (");
    assert!(code == 5 && out.is_empty() && err.starts_with(&begin), "{code} {err}");
}

#[tokio::test]
async fn one_gateway_that_is_reached_twice_is_one() {
    let gateway = Server::start([(STATUS, status("gateway-0", &json!([])))]).await;
    let twice = format!("{},http://localhost:{}", gateway.url(), gateway.address.port());
    let (code, out, _) = run(GATEWAY, &["status", "--gateway", &twice, "-o", "json"]).await;
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, report["replicas"].as_array().unwrap().len()), (0, 1), "{out}");
    assert_eq!(gateway.asked(), [STATUS, STATUS]);
}

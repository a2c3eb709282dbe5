//! The command line, and the output for people.

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    options: BackendOptions,
}

fn request(line: &str) -> Result<OverrideRequest, String> {
    let line = Line::try_parse_from(std::iter::once("backend").chain(line.split(' ')));
    line.map(|line| line.options.request()).map_err(|wrong| wrong.to_string())
}

#[test]
fn a_command_line_is_a_request() {
    let timed = |action| OverrideRequest {
        backend: Some("racks".to_owned()),
        all: false,
        action,
        time: Some("30m".to_owned()),
        reason: Some("bad".to_owned()),
    };
    let reset = OverrideRequest { time: None, reason: None, ..timed(OverrideAction::Reset) };
    for (line, expected) in [
        ("racks shadow --for 30m --reason bad", timed(OverrideAction::Shadow)),
        ("racks enforce --for 30m --reason bad", timed(OverrideAction::Enforce)),
        ("racks reset", reset.clone()),
        ("--all reset", OverrideRequest { backend: None, all: true, ..reset }),
        (
            "--all disable --for 30m --reason bad",
            OverrideRequest { backend: None, all: true, ..timed(OverrideAction::Disable) },
        ),
    ] {
        assert_eq!(request(line), Ok(expected), "{line}");
    }
}

#[test]
fn an_incomplete_command_line_is_refused() {
    for (line, wrong) in [
        ("shadow --for 30m --reason bad", "NAME"),
        ("racks shadow --reason bad", "--for <DURATION>"),
        ("racks disable --for 30m", "--reason <TEXT>"),
        ("racks --all shadow --for 30m --reason bad", "invalid value 'racks'"),
        ("racks pause", "invalid value 'pause'"),
    ] {
        let said = request(line).unwrap_err();
        assert!(said.contains(wrong), "{line}: {said}");
    }
}

#[test]
fn each_replica_is_printed() {
    let item = OverrideStatus {
        backend: Some("racks".to_owned()),
        mode: "Shadow".to_owned(),
        since: "2026-11-21T23:00:00Z".parse().unwrap(),
        ends: "2026-11-21T23:30:00Z".parse().unwrap(),
        reason: "bad \u{1b}rule".to_owned(),
        by: "ann at 10.0.0.1".to_owned(),
    };
    let report = OverrideReport {
        api_version: API_VERSION,
        kind: "OverrideReport",
        untried: Some(UntriedPods { pods: 60, changed_seconds: 0, is_requeued: false }),
        replicas: vec![
            ReplicaOverrides { gateway: "gateway-0".to_owned(), overrides: vec![item] },
            ReplicaOverrides { gateway: "gateway-1".to_owned(), overrides: Vec::new() },
        ],
        away: vec![Away::new(&"http://10.0.0.9:9403", &"no answer")],
    };
    assert_eq!(
        report.to_string(),
        "60 waiting pods: kube-scheduler tries them at the next event of the cluster, in 5.5 minutes at most; now with --retry, or \
         `extender-gateway status --retry`\n\
         gateway-0: backend racks: Shadow until 2026-11-21 23:30:00 UTC by ann at 10.0.0.1 (bad \\u{1b}rule)\n\
         gateway-1: all backends have their configured modes\n\
         http://10.0.0.9:9403: NOT DONE: no answer\n"
    );
}

//! Texts are untrusted: any text can be displayed in the status.

use extender_gateway_api::{Handshake, ReadsStatus, Status};
use proptest::prelude::*;

use super::*;

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{0,8}", any::<String>(), Just("\u{1b}]0;x\u{7}\u{9b}2J\r\n\t\u{202e}%s".to_owned())]
}

/// A status with this text wherever untrusted text can occur, and these numbers.
fn hostile(said: &str, seconds: Option<f64>, count: u64) -> Status {
    let text = || said.to_owned();
    let mut status = samples::documented();
    (status.gateway, status.version, status.traces) = (text(), text(), Some(text()));
    (status.configuration.file, status.nodes.source) = (text(), text());
    (status.nodes.silent_seconds, status.nodes.count) = (seconds, count);
    (status.log.bytes, status.log.max_bytes) = (count, count);
    for verb in &mut status.verbs {
        (verb.verb, verb.median_seconds, verb.calls) = (text(), seconds, count);
    }
    for backend in &mut status.backends {
        (backend.name, backend.url, backend.failure) = (text(), text(), Some(text()));
        backend.handshake = Some(Handshake {
            name: text(),
            version: text(),
            revision: text(),
            holds_nodes: false,
            filters_by_bound_pods: false,
            changes_too_often: false,
        });
        for verb in &mut backend.verbs {
            (verb.verb, verb.p99_seconds, verb.rejected_share) = (text(), seconds, seconds);
            verb.reads = Some(ReadsStatus { pods: text(), nodes: text() });
            verb.last_failure = Some(LastFailure { time: at(0), kind: text(), message: text() });
        }
    }
    for problem in &mut status.problems {
        (problem.about, problem.what, problem.remedy) = (text(), text(), text());
    }
    status
}

proptest! {
    #[test]
    fn no_input_makes_it_fail_or_print_what_a_terminal_obeys(
        (said, seconds, count, gateway) in (any_text(), any::<Option<f64>>(), any::<u64>(), any_text()),
    ) {
        let mut report = report(vec![hostile(&said, seconds, count), status("gateway-1")]);
        report.away.push(Away { gateway: gateway.clone(), why: gateway });
        let text = text(&report);
        let obeyed = text.lines().flat_map(str::chars).find(|c| c.is_control() || *c == '\u{202e}');
        prop_assert_eq!(obeyed, None, "{:?}", text);
    }
}

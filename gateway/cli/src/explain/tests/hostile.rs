//! Names and reasons are untrusted: any text can be displayed.

use extender_gateway_api::NodeChange;
use extender_gateway_api::explain::pod::ShownCondition;
use proptest::prelude::*;

use super::*;

/// Any untrusted text.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["\\PC{0,8}", any::<String>(), Just("\u{1b}]0;x\u{7}\u{9b}2J\r\n\t\u{202e}%s".to_owned())]
}

fn verdict() -> impl Strategy<Value = NodeVerdict> {
    let numbers = (any::<Option<i32>>(), any::<Option<f64>>(), any::<Option<f64>>(), any::<Option<u32>>());
    let rejection = (prop::option::of(any_text()), prop::option::of(any_text()));
    (any::<bool>(), rejection, numbers).prop_map(
        |(accepted, (rejected, rule), (raw, normalized, weighted, victims))| NodeVerdict {
            accepted,
            rejected,
            rule,
            retry_after_seconds: victims,
            raw,
            normalized,
            weighted,
            victims,
        },
    )
}

/// A node with verdicts of the first backends, or of a backend that did not take part.
fn hostile_node() -> impl Strategy<Value = NodePart> {
    let backends =
        prop::collection::btree_map(prop_oneof![Just("zones".to_owned()), any_text()], verdict(), 0..3);
    let rejected = prop::option::of((any_text(), prop::option::of(any_text())));
    let changes = prop::collection::vec((any_text(), any_text()), 0..3);
    let all = (any_text(), rejected, any::<Option<i64>>(), changes, backends);
    all.prop_map(|(name, rejected, total, changes, backends)| {
        let change = |(backend, change)| NodeChange { backend, change };
        let changes = changes.into_iter().map(change).collect();
        let (rejected_by, reason) = rejected.map_or((None, None), |(by, reason)| (Some(by), reason));
        NodePart { name, rejected_by, reason, total, changes, backends }
    })
}

fn hostile_backend() -> impl Strategy<Value = BackendPart> {
    let texts = (prop_oneof![Just("zones".to_owned()), any_text()], any_text(), prop::option::of(any_text()));
    let failure = prop::option::of((any_text(), any_text(), any_text()));
    (texts, failure, any::<(u32, u32, u32, u32)>(), any::<f64>()).prop_map(
        |((name, mode, answer), failure, (asked, known, rejected, clamped), seconds)| BackendPart {
            name,
            hook: answer.clone(),
            changed: known,
            pod_change: answer.clone(),
            mode,
            mode_reason: answer.clone(),
            weight: Some(asked),
            normalization: answer.clone(),
            asked,
            known,
            reads_of_pods: answer.clone(),
            rejected,
            clamped,
            seconds,
            answer,
            failure: failure.map(|(kind, message, policy)| failed(&kind, &message, &policy)),
        },
    )
}

fn call() -> impl Strategy<Value = Decision> {
    let verb = prop_oneof![Just("filter"), Just("prioritize"), Just("preempt"), Just("bind")];
    let outcome = prop_oneof![Just("ok".to_owned()), any_text()];
    let lists = (prop::collection::vec(hostile_backend(), 0..3), prop::collection::vec(hostile_node(), 0..5));
    (verb, outcome, prop::option::of(any_text()), lists, any::<(u32, Option<u32>, f64)>(), 0..600_i64)
        .prop_map(|(verb, outcome, message, (backends, nodes), (offered, left, seconds), time)| Decision {
            seconds,
            offered,
            left,
            outcome,
            message,
            backends,
            nodes,
            ..decision(verb, time)
        })
}

fn standing() -> impl Strategy<Value = PodState> {
    let words = (any_text(), any_text(), any_text());
    let there = (words, prop::option::of(any_text()), prop::option::of(any_text()), any::<bool>()).prop_map(
        |((phase, reason, message), node, nominated_node, created_with_node)| {
            let scheduled =
                ShownCondition { status: "False".to_owned(), reason, message, time: Some(samples::at(500)) };
            let facts = PodFacts {
                node,
                nominated_node,
                created_with_node,
                phase,
                scheduled: Some(scheduled),
                ..pod(None)
            };
            PodState::There(Box::new(facts))
        },
    );
    prop_oneof![there, any_text().prop_map(|why| PodState::NotAsked { why })]
}

proptest! {
    #[test]
    fn no_input_makes_it_fail_or_print_what_a_terminal_obeys(
        (standing, calls, top) in (standing(), prop::collection::vec(call(), 0..6), 0..3_usize),
        (gateway, asked) in (any_text(), prop::option::of(any_text())),
    ) {
        let case = samples::of(standing, vec![answer(&gateway, calls)], asked.as_deref());
        let text = text(&case, top);
        let obeyed = text.lines().flat_map(str::chars).find(|c| c.is_control() || *c == '\u{202e}');
        prop_assert_eq!(obeyed, None, "{:?}", text);
        prop_assert!(!text.is_empty() && !text.lines().any(|line| line.ends_with(' ')), "{:?}", text);
    }
}

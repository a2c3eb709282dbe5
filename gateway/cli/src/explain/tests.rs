//! Exact output for people and programs.

mod documented;
mod hostile;

use extender_gateway_api::explain::{
    pod::{PodFacts, PodState},
    samples::{self, answer, backend, bind, case, decision, failed, filter, node, pod, prioritize, refused},
};
use extender_gateway_api::{BackendPart, Decision, NodeChange, NodePart, NodeVerdict};

use super::*;

/// The text for the evidence.
fn text(case: &Evidence, top: usize) -> String {
    Printed { explanation: Explanation::of(case), top, policy_pages: &[] }.to_string()
}

#[test]
fn a_rule_that_rejects_is_behind_its_reason() {
    let mut call = filter(1, &[("a", Some("full")), ("b", Some("full")), ("c", None)]);
    let verdict = call.nodes[0].backends.get_mut("zones").unwrap();
    verdict.rule = Some("tenant quota".to_owned());
    let shown = text(&case(pod(None), vec![call]), 10);
    assert!(shown.contains("a         zones  full (rule tenant quota)\n"), "{shown}");
    assert!(shown.contains("b         zones  full\n"), "{shown}");
}

#[test]
fn an_answer_that_was_kept_for_equal_pods_is_told() {
    const SENTENCE: &str = "\nkube-scheduler's plugin gave the pod the answers of an equal pod, which had been asked about less than a second before.\n";
    let shown = |kept: [bool; 2]| {
        let calls = [filter(1, &[("a", None), ("b", None)]), prioritize(1, &[("a", 10), ("b", 7)])];
        let calls = calls.into_iter().zip(kept).map(|(call, kept)| Decision { kept, ..call });
        text(&case(pod(None), calls.collect()), 10)
    };
    // Scores that depend on the nodes that are left are asked for each pod.
    for kept in [[true, true], [true, false]] {
        assert_eq!(shown(kept).matches(SENTENCE).count(), 1, "{}", shown(kept));
    }
    assert!(!shown([false, false]).contains("equal pod"), "{}", shown([false, false]));
}

#[test]
fn what_a_backend_in_shadow_would_reject_is_told_with_its_rule() {
    let mut call = filter(1, &[("a", Some("full")), ("b", None), ("c", None)]);
    let shadow = BackendPart { mode: "Shadow".to_owned(), rejected: 2, ..backend("racks", 3) };
    call.backends.push(shadow);
    for (at, rule) in [(0, Some("drain")), (1, Some("drain")), (2, None)] {
        let rejected = (at < 2).then(|| "rack is drained".to_owned());
        let verdict = NodeVerdict {
            accepted: at == 2,
            rejected,
            rule: rule.map(str::to_owned),
            ..NodeVerdict::default()
        };
        call.nodes[at].backends.insert("racks".to_owned(), verdict);
    }
    let shown = text(&case(pod(None), vec![call]), 10);
    let expected = "
IN SHADOW  BY     WHY                           NODES
        2  racks  rack is drained (rule drain)  a, b
";
    assert!(shown.ends_with(expected), "{shown}");
}

#[test]
fn a_pod_that_was_placed() {
    let calls = vec![
        filter(10, &[("a", None), ("b", None), ("c", Some("zone is drained"))]),
        prioritize(11, &[("a", 10), ("b", 7)]),
        bind(12, "a"),
    ];
    let expected = "\
Pod shop/web-0 is on a.
Last call 9 min 48 s ago (2026-11-21 23:00:12 UTC) by gateway-0; the log has 1 attempt.
Latest attempt: 3 of 5 nodes were offered, 2 left, 1 rejected; a has the highest total, 20; bound to a.

CALL        BACKEND  MODE     ASKED  KNOWN  REJECTED    TIME  ANSWER
filter      zones    Enforce      3      0         1  1.2 ms
prioritize  zones    Enforce      2      0         -  1.2 ms  weight 2, normalization None
bind        binder   Enforce      -      -         -  1.2 ms  bound

   NODE  TOTAL  zones
*  a        20  10 → 10 × 2
   b        14   7 →  7 × 2
* the pod is here

REJECTED  BY     WHY
c         zones  zone is drained
";
    assert_eq!(text(&case(pod(Some("a")), calls), 10), expected);
}

#[test]
fn what_hooks_changed_is_told() {
    let hook = |hook: &str, asked, part: BackendPart| BackendPart {
        hook: Some(hook.to_owned()),
        ..BackendPart { asked, ..part }
    };
    let of_pod =
        BackendPart { pod_change: Some("label team=a: by namespace".to_owned()), ..backend("teams", 0) };
    let of_nodes = BackendPart { changed: 2, ..backend("reservations", 3) };
    let mut call = filter(10, &[("a", None), ("b", Some("full")), ("c", None)]);
    call.backends.insert(0, hook("beforeFilter", 0, of_pod));
    call.backends.insert(1, hook("beforeFilterNodes", 3, of_nodes));
    for (at, change) in [(0, "+4 cpu: reserved"), (2, "+4 cpu: reserved")] {
        let (backend, change) = ("reservations".to_owned(), change.to_owned());
        call.nodes[at].changes.push(NodeChange { backend, change });
    }
    let mut scores = prioritize(11, &[("a", 10), ("c", 7)]);
    scores.backends.insert(0, hook("beforeScore", 2, backend("reservations", 2)));
    let shown = text(&case(pod(None), vec![call, scores]), 10);
    let expected = "
CALL               BACKEND       MODE     ASKED  KNOWN  REJECTED    TIME  ANSWER
beforeFilter       teams         Enforce      -      -         -  1.2 ms  pod: label team=a: by namespace
beforeFilterNodes  reservations  Enforce      3      0         -  1.2 ms  2 nodes changed
filter             zones         Enforce      3      0         1  1.2 ms
beforeScore        reservations  Enforce      2      0         -  1.2 ms  changed nothing
prioritize         zones         Enforce      2      0         -  1.2 ms  weight 2, normalization None

CHANGED  BY            HOW               NODES
      2  reservations  +4 cpu: reserved  a, c

  NODE  TOTAL  zones
  a        20  10 → 10 × 2
  c        14   7 →  7 × 2

REJECTED  BY     WHY
b         zones  full
";
    assert!(shown.ends_with(expected), "{shown}");
}

#[test]
fn a_pod_that_nobody_took() {
    let mut call = filter(10, &[("a", Some("full")), ("b", Some("full"))]);
    let racks = BackendPart {
        failure: Some(failed("late", "no answer within 200 ms", "ignore")),
        seconds: 0.2,
        ..backend("racks", 2)
    };
    call.backends.push(racks);
    let preempt = Decision { offered: 2, left: Some(0), ..decision("preempt", 11) };
    let calls = vec![filter(2, &[("a", Some("full"))]), call, preempt];
    let expected = "\
Pod shop/web-0 is not scheduled (Pending).
Last call 9 min 49 s ago (2026-11-21 23:00:11 UTC) by gateway-0; the log has 2 attempts, the first 9 min 58 s ago.
Latest attempt: 2 of 5 nodes were offered, all rejected; preemption: 0 of 2 candidates left.
PodScheduled: Unschedulable: 0/5 nodes are available: 5 Insufficient cpu.

CALL    BACKEND  MODE     ASKED  KNOWN  REJECTED    TIME  ANSWER
filter  zones    Enforce      2      0         2  1.2 ms
        racks    Enforce      2      0         0  200 ms  late: no answer within 200 ms; it was ignored

REJECTED  BY     WHY
a         zones  full
b         zones  full
";
    assert_eq!(text(&case(refused(11), calls), 10), expected);
}

#[test]
fn a_call_that_failed() {
    let zones =
        BackendPart { failure: Some(failed("unreachable", "cannot connect", "fail")), ..backend("zones", 2) };
    let call = Decision {
        outcome: "backend".into(),
        message: Some("extender-gateway: backend zones failed filter".into()),
        left: None,
        backends: vec![zones],
        nodes: vec![node("a"), node("b")],
        ..filter(10, &[("a", None), ("b", None)])
    };
    let text = text(&case(refused(10), vec![call]), 10);
    let outcome = "Latest attempt: 2 of 5 nodes were offered; filter ended with an error (backend): extender-gateway: backend \
                   zones failed filter.\n";
    assert!(text.contains(outcome), "{text}");
    assert!(text.ends_with("  unreachable: cannot connect; the call failed\n"), "{text}");
}

#[test]
fn many_nodes_are_cut_and_grouped() {
    let names: Vec<String> = (1..=9).map(|number| format!("n{number}")).collect();
    let drained = |at: usize| (at > 2).then_some(if at == 8 { "full" } else { "zone is drained" });
    let nodes: Vec<_> = names.iter().enumerate().map(|(at, name)| (name.as_str(), drained(at))).collect();
    let calls = || vec![filter(10, &nodes), prioritize(11, &[("n1", 3), ("n2", 9), ("n3", 5)])];
    let found = text(&case(pod(Some("n1")), calls()), 1);
    let expected = "
   NODE  TOTAL  zones
   n2       18  9 → 9 × 2
*  n1        6  3 → 3 × 2
* the pod is here
1 more node; --top 0 shows all

REJECTED  BY     WHY              NODES
       5  zones  zone is drained  n4, n5, n6 and 2 more
1 more reason; --top 0 shows all
";
    assert!(found.ends_with(expected), "{found}");
    let all = text(&case(pod(Some("n1")), calls()), 0);
    assert!(
        all.ends_with("n8        zones  zone is drained\nn9        zones  full\n") && !all.contains("--top"),
        "{all}"
    );
}

#[test]
fn nodes_with_the_same_scores_share_a_row_and_equal_totals_are_sorted_by_name() {
    let scores = [("n9", 3), ("n4", 3), ("n2", 3), ("n7", 3), ("n1", 3), ("n8", 5), ("n6", 5)];
    let found = text(&case(pod(Some("n4")), vec![prioritize(11, &scores)]), 10);
    let expected = "
   NODE                  TOTAL  zones
   n6                       10  5 → 5 × 2
   n8                       10  5 → 5 × 2
   n1                        6  3 → 3 × 2
   n2                        6  3 → 3 × 2
*  n4                        6  3 → 3 × 2
   n7                        6  3 → 3 × 2
   n9                        6  3 → 3 × 2
* the pod is here
";
    let without_padding = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(without_padding(&found).ends_with(&without_padding(expected)), "{found}");
    let found = text(&case(pod(Some("n8")), vec![prioritize(11, &scores)]), 10);
    assert!(found.contains("   n1, n2, n4 and 2 more      6  3 → 3 × 2\n"), "{found}");
}

#[test]
fn every_word_about_one_node() {
    let mut scored = prioritize(11, &[("a", 10), ("b", 7)]);
    scored
        .backends
        .push(BackendPart { failure: Some(failed("reset", "closed", "ignore")), ..backend("racks", 2) });
    let mut preempt =
        Decision { offered: 1, left: Some(1), backends: vec![backend("zones", 1)], ..decision("preempt", 5) };
    let verdict = NodeVerdict { victims: Some(2), ..NodeVerdict::default() };
    preempt.nodes = vec![NodePart { backends: [("zones".to_owned(), verdict)].into(), ..node("b") }];
    let calls = vec![
        filter(1, &[("a", None)]),
        filter(4, &[("a", None), ("b", Some("zone is drained"))]),
        preempt,
        filter(10, &[("a", None), ("b", None)]),
        scored,
        bind(12, "b"),
    ];
    let standing = PodState::There(Box::new(pod(Some("b"))));
    let case = samples::of(standing, vec![answer("gateway-0", calls)], Some("b"));
    let expected = "
Answers for b:
ATTEMPT                  CALL        BACKEND  ANSWER
2026-11-21 23:00:10 UTC  filter      zones    accepted
                         prioritize  zones    7 → 7 × 2 = 14
                         prioritize  racks    failed (reset: closed)
                         prioritize  -        total 14, place 2 of 2 nodes
                         bind        binder   bound
2026-11-21 23:00:04 UTC  filter      zones    rejected: zone is drained
                         filter      -        rejected by zones; reported reason: zone is drained
                         preempt     zones    2 pods to evict
2026-11-21 23:00:01 UTC  filter      -        not offered (1 of 5 nodes was)
";
    let found = text(&case, 10);
    assert!(found.ends_with(expected) && !found.contains("TOTAL"), "{found}");
    let latest = text(&case, 1);
    assert!(latest.ends_with("bound\n2 more attempts; --top 0 shows all\n"), "{latest}");
}

#[test]
fn where_a_pod_is_in_words() {
    let first = |standing: PodState, calls: Vec<Decision>| {
        let text = text(&samples::of(standing, vec![answer("gateway-0", calls)], None), 10);
        text.lines().next().unwrap().to_owned()
    };
    let there = |pod: PodFacts| first(PodState::There(Box::new(pod)), Vec::new());
    let done = PodFacts { phase: "Succeeded".into(), ..pod(Some("a")) };
    assert_eq!(there(done), "Pod shop/web-0 is on a (Succeeded).");
    let nominated = PodFacts { nominated_node: Some("b".into()), ..pod(None) };
    assert_eq!(there(nominated), "Pod shop/web-0 is not scheduled (Pending); b is nominated for it.");
    let unasked = || PodState::NotAsked { why: "no kubeconfig".into() };
    assert_eq!(first(unasked(), vec![filter(1, &[])]), "Pod shop/web-0: location unknown.");
    let bound = "Pod shop/web-0 was bound to a according to the bind call.";
    assert_eq!(first(unasked(), vec![bind(1, "a")]), bound);
    let gone = PodState::Gone { near: Vec::new(), elsewhere: Vec::new() };
    assert_eq!(first(gone, vec![filter(1, &[])]), "Pod shop/web-0 no longer exists.");
}

#[test]
fn attempts_of_all_replicas_are_one_story() {
    let answers = vec![
        answer("gateway-1", vec![bind(12, "a"), filter(10, &[("a", None), ("b", None)])]),
        answer("gateway-0", vec![prioritize(11, &[("a", 1), ("b", 0)]), filter(2, &[("a", Some("full"))])]),
    ];
    let case = samples::of(PodState::There(Box::new(pod(Some("a")))), answers, None);
    let gateways: Vec<_> = case.attempts[0].calls.iter().map(|call| call.gateway.as_str()).collect();
    assert_eq!((case.attempts.len(), gateways), (2, vec!["gateway-1", "gateway-0", "gateway-1"]));
    assert!(text(&case, 10).contains("(2026-11-21 23:00:12 UTC) by gateway-1; the log has 2 attempts, "));
}

#[test]
fn a_pod_that_nobody_knows() {
    let unknown =
        |standing| render::unknown(&samples::of(standing, vec![answer("gateway-0", Vec::new())], None));
    let gone = |near: &[&str], elsewhere: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        unknown(PodState::Gone { near: owned(near), elsewhere: owned(elsewhere) })
    };
    let nowhere = "pod web-0 not found in namespace shop, and no gateway has decisions for it; ";
    for (near, elsewhere, end) in [
        (&[] as &[&str], &[] as &[&str], "`kubectl get pods --all-namespaces` lists all pods"),
        (&["web-1", "web-2"], &[], "similar names there: web-1, web-2"),
        (&["web-1"], &["test"], "namespace test has one: set -n test"),
        (&[], &["test", "live"], "web-0 is in the namespaces test, live: choose one with -n"),
    ] {
        let text = gone(near, elsewhere);
        assert!(text.starts_with(&format!("{nowhere}{end}")), "{text}");
    }
    let text = unknown(PodState::NotAsked { why: "--no-cluster is set".into() });
    let begin = "no gateway has decisions for pod web-0 in namespace shop; check the namespace (-n)\n- The decision \
                 log of gateway-0 begins at 2026-11-21 23:00:00 UTC, when the gateway was started.\n- No data from the apiserver";
    assert!(text.starts_with(begin), "{text}");
}

#[test]
fn programs_read_the_same_as_json_and_as_yaml() {
    let case = case(pod(Some("a")), vec![filter(10, &[("a", None), ("b", Some("it's: \"full\" #1"))])]);
    let explanation = Printed { explanation: Explanation::of(&case), top: 0, policy_pages: &[] };
    let written = |output: Output| {
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        output.write(&explanation, &mut Console { out: &mut out, notes: &mut notes }).unwrap();
        String::from_utf8(out).unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&written(Output::Json)).unwrap();
    let yaml: serde_json::Value = serde_saphyr::from_str(&written(Output::Yaml)).unwrap();
    assert_eq!(json, yaml);
    let call = &json["attempts"][0]["calls"][0];
    assert_eq!((&json["kind"], &json["pod"]["state"]), (&"Explanation".into(), &"There".into()));
    assert_eq!((&json["pod"]["node"], &call["gateway"]), (&"a".into(), &"gateway-0".into()));
    let decision: Decision = serde_json::from_value(call.clone()).unwrap();
    assert_eq!(decision, case.attempts[0].calls[0].decision);
    assert!(json["notes"][0].as_str().unwrap().starts_with("One feasible node: not scored."));
}

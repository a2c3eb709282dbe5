//! Hooks change what the policies of a call are told, and nothing else.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use bytes::Bytes;
use extender_policy_api::v1beta1::{
    self as api, ChangeResponse, ChangedPart, FilterRequest, GetInfoResponse, MapReads, NodeChange,
    PodAffinity, PodAffinityTerm, PodChange, PodFacts, PodPart, PodReads, Reads, Resources, Scope, Taint,
    TopologySpread, TopologySpreadConstraint, Verb, VerbInfo,
};
use prost::Message;
use serde_json::{Value, json};

use crate::support::{
    Gateway,
    admin::Seen,
    backend::{Act, Scripted, configured, filtered, info, names, result, rows, scored},
    checking,
    function::{about, about_objects, labelled, sibling},
    pod, reading,
};

const WATCH: &str = "nodes: {source: Watch}\nbackends:\n";
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Everything that a hook can change.
pub(crate) fn changeable(verb: Verb) -> Vec<i32> {
    let pod = [
        ChangedPart::PodLabels,
        ChangedPart::PodNodeSelector,
        ChangedPart::PodNodeAffinity,
        ChangedPart::PodTolerations,
        ChangedPart::PodRequests,
        ChangedPart::PodAnnotations,
        ChangedPart::PodAffinity,
        ChangedPart::PodTopologySpread,
    ];
    let node = [
        ChangedPart::NodeLabels,
        ChangedPart::NodeTaints,
        ChangedPart::NodeAllocatable,
        ChangedPart::NodeUsage,
    ];
    let parts = match verb {
        Verb::BeforeFilter => pod.to_vec(),
        Verb::BeforeFilterNodes => node.to_vec(),
        _ => [&pod[..], &node].concat(),
    };
    parts.into_iter().map(Into::into).collect()
}

/// A backend that filters and scores, and has these hooks.
pub(crate) fn hooks(verbs: &[Verb]) -> GetInfoResponse {
    let mut info = info(reading::facts());
    info.services.push("extender.policy.v1beta1.HookService".to_owned());
    info.verbs.extend(verbs.iter().map(|verb| VerbInfo {
        verb: (*verb).into(),
        reads: Some(if *verb == Verb::BeforeFilter { reading::pods() } else { reading::facts() }),
        scope: Scope::Node.into(),
        changes: changeable(*verb),
        ..VerbInfo::default()
    }));
    info
}

/// The same hooks, declared pure, except for changes of the pod before score.
pub(crate) fn pure_hooks(verbs: &[Verb]) -> GetInfoResponse {
    let mut info = GetInfoResponse { revision: "r1".to_owned(), ..hooks(verbs) };
    for verb in info.verbs.iter_mut().skip(2) {
        verb.set_effects(api::Effects::Pure);
        verb.reads = verb.reads.take().map(reading::without_identity);
        if verb.verb() != Verb::BeforeFilter {
            verb.changes = changeable(Verb::BeforeFilterNodes);
        }
    }
    info
}

fn labels(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn cpu(milli_cpu: i64) -> Resources {
    Resources { milli_cpu, ..Resources::default() }
}

fn pod_answer(change: PodChange) -> Act {
    Act::Message(
        ChangeResponse { result: Some(result(1)), pod: Some(change), nodes: Vec::new() }.encode_to_vec(),
    )
}

/// The answer to a hook about nodes that changes the nodes of these names.
fn nodes_answer(message: &Bytes, pod: Option<PodChange>, changes: Vec<(&str, NodeChange)>) -> Act {
    let names = names(message);
    let position = |name: &str| (0..).zip(&names).find(|(_, there)| *there == name).map(|(at, _)| at);
    let nodes = changes
        .into_iter()
        .filter_map(|(name, change)| Some(NodeChange { positions: vec![position(name)?], ..change }));
    let answer = ChangeResponse { result: Some(result(names.len())), pod, nodes: nodes.collect() };
    Act::Message(answer.encode_to_vec())
}

/// What a backend without an opinion answers.
pub(crate) fn agrees(verb: &str, message: &Bytes) -> Act {
    match verb {
        "Filter" => Act::Message(filtered(message, &[], "").encode_to_vec()),
        "Score" => Act::Message(scored(message, |_| 1).encode_to_vec()),
        "BeforeFilter" => pod_answer(PodChange::default()),
        _ => nodes_answer(message, None, Vec::new()),
    }
}

fn pod_facts(message: &Bytes) -> PodFacts {
    FilterRequest::decode(message.clone()).unwrap().pod.unwrap().facts.unwrap()
}

async fn gateway(backends: &str) -> Gateway {
    known(Gateway::start(&format!("{WATCH}{backends}")).await)
}

/// With nodes of 2 cpu.
fn known(gateway: Gateway) -> Gateway {
    for name in NAMES {
        let node = json!({
            "metadata": {"name": name, "labels": {"zone": name}},
            "spec": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "2"}},
        });
        gateway.table.apply(node.to_string().as_bytes()).unwrap();
    }
    gateway
}

async fn filter(gateway: &Gateway) -> Value {
    gateway.post("/filter", about(&pod(), &NAMES)).await.json()
}

/// What the first of two hooks changes.
fn label_and_room(verb: &str, message: &Bytes) -> Act {
    match verb {
        "BeforeFilter" => pod_answer(PodChange {
            set_labels: labels(&[("team", "a")]),
            add_requests: Some(cpu(500)),
            ..PodChange::default()
        }),
        "BeforeFilterNodes" => {
            let change = NodeChange { add_allocatable: Some(cpu(4_000)), ..NodeChange::default() };
            nodes_answer(message, None, vec![("b", change)])
        }
        _ => agrees(verb, message),
    }
}

/// Doubles what it is told, of the nodes a and b.
fn doubling(verb: &str, message: &Bytes) -> Act {
    match verb {
        "BeforeFilter" => {
            pod_answer(PodChange { add_requests: pod_facts(message).requests, ..PodChange::default() })
        }
        "BeforeFilterNodes" => {
            let rows = rows(message);
            let doubled = |name: &'static str| {
                let row = rows.iter().find(|row| row.name == name).unwrap();
                let change = NodeChange {
                    add_allocatable: row.facts.clone().unwrap().allocatable,
                    remove_taints: vec![Taint { key: "dedicated".to_owned(), ..Taint::default() }],
                    ..NodeChange::default()
                };
                (name, change)
            };
            nodes_answer(message, None, ["a", "b"].map(doubled).into())
        }
        _ => agrees(verb, message),
    }
}

#[tokio::test]
async fn policies_are_told_what_all_hooks_have_left_and_kube_scheduler_is_not() {
    let both = || hooks(&[Verb::BeforeFilter, Verb::BeforeFilterNodes]);
    let first = Scripted::start(both(), |verb, message| label_and_room(verb, &message)).await;
    let second = Scripted::start(both(), |verb, message| doubling(verb, &message)).await;
    let policy = Scripted::start(info(reading::facts()), |verb, message| agrees(verb, &message)).await;
    // The second is before the first in the effective order, and the policy before both.
    let backends = configured("first", &first, "beforeFilter: {}, beforeFilterNodes: {}")
        + &configured("second", &second, "beforeFilter: {}, beforeFilterNodes: {}, filter: {}")
        + &configured("policy", &policy, "filter: {}, score: {}");
    let gateway = gateway(&backends).await;
    let answer = filter(&gateway).await;
    assert_eq!((&answer["NodeNames"], &answer["Error"]), (&json!(NAMES), &json!("")), "{answer}");
    for backend in [&policy, &second] {
        let [message] = &backend.messages("Filter")[..] else { panic!("one call") };
        let facts = pod_facts(message);
        assert_eq!(facts.labels.unwrap().entries, labels(&[("app", "web"), ("team", "a")]));
        assert_eq!(facts.requests.unwrap().milli_cpu, 1_000);
        let told = rows(message).into_iter().map(|row| {
            let facts = row.facts.unwrap();
            (row.name, facts.allocatable.unwrap().milli_cpu, facts.taints.len())
        });
        let expected = [("a", 4_000, 0), ("b", 12_000, 0), ("c", 2_000, 1)];
        assert_eq!(
            told.collect::<Vec<_>>(),
            expected.map(|(name, cpu, taints)| (name.to_owned(), cpu, taints))
        );
        assert_eq!(FilterRequest::decode(message.clone()).unwrap().call.unwrap().snapshot, "");
    }
    gateway.post("/prioritize", about(&pod(), &NAMES)).await.json();
    let [message] = &policy.messages("Score")[..] else {
        panic!("what came with filter is about other nodes")
    };
    assert_eq!(
        pod_facts(message).labels.unwrap().entries,
        labels(&[("app", "web")]),
        "nothing is left of the changes for filter"
    );
    let told = rows(message).into_iter().map(|row| row.facts.unwrap().allocatable.unwrap().milli_cpu);
    assert_eq!(told.collect::<Vec<_>>(), [2_000; 3]);
}

/// What the first hook changes of a pod whose template has the annotations `team` and `example.com/queue`.
fn annotations_and_placement() -> PodChange {
    let zone = "topology.kubernetes.io/zone".to_owned();
    let term = PodAffinityTerm { topology_key: zone.clone(), ..PodAffinityTerm::default() };
    let spread = TopologySpreadConstraint { max_skew: 2, topology_key: zone, ..Default::default() };
    PodChange {
        set_annotations: labels(&[("tier", "gold"), ("example.com/pool", "a")]),
        remove_annotations: vec!["team".to_owned(), "example.com/queue".to_owned()],
        pod_affinity: Some(PodAffinity { anti_required: vec![term], ..PodAffinity::default() }),
        topology_spread: Some(TopologySpread { constraints: vec![spread] }),
        ..PodChange::default()
    }
}

/// Annotations by two keys and by a prefix, and where the pod is placed.
fn reads_of_annotations() -> Reads {
    let keys = ["team", "tier"].map(str::to_owned).to_vec();
    let annotations = MapReads { keys, prefixes: vec!["example.com/".to_owned()] };
    let parts = [PodPart::PodAffinity, PodPart::TopologySpread].map(i32::from).to_vec();
    let pod = PodReads { parts, annotations: Some(annotations), ..PodReads::default() };
    Reads { pod: Some(pod), node: reading::names().node }
}

/// The pod is as [`annotations_and_placement`] changes it.
fn assert_changed(message: &Bytes) {
    let facts = pod_facts(message);
    let annotations = facts.annotations.unwrap();
    assert_eq!((annotations.values, annotations.absent), (vec![String::new(), "gold".to_owned()], vec![0]));
    assert_eq!(annotations.entries, labels(&[("example.com/pool", "a")]));
    let change = annotations_and_placement();
    assert_eq!(facts.pod_affinity, change.pod_affinity);
    assert_eq!(facts.topology_spread, change.topology_spread.unwrap().constraints);
}

#[tokio::test]
async fn annotations_and_placement_near_pods_are_changed_for_later_hooks_and_policies() {
    let revised = |message: Bytes| {
        let mut answer = filtered(&message, &[], "");
        answer.result.as_mut().unwrap().revision = "r1".to_owned();
        Act::Message(answer.encode_to_vec())
    };
    let changes = Arc::new(Mutex::new(annotations_and_placement()));
    let next = Arc::clone(&changes);
    let first = Scripted::start(hooks(&[Verb::BeforeFilter]), move |verb, message| match verb {
        "BeforeFilter" => pod_answer(next.lock().unwrap().clone()),
        _ => agrees(verb, &message),
    });
    let mut second = hooks(&[Verb::BeforeFilter]);
    second.verbs[2].reads = Some(Reads { node: None, ..reads_of_annotations() });
    let second = Scripted::start(second, |verb, message| agrees(verb, &message));
    let mut pure = crate::support::function::pure(reads_of_annotations());
    pure.verbs.truncate(1);
    let policy = Scripted::start(pure, move |_, message| revised(message));
    let (first, second, policy) = (first.await, second.await, policy.await);
    let backends = configured("first", &first, "beforeFilter: {}")
        + &configured("second", &second, "beforeFilter: {}")
        + &configured("policy", &policy, "filter: {}");
    let seen = Seen::start(&format!("{WATCH}{backends}")).await;
    let gateway = &seen.gateway;
    for name in NAMES {
        gateway.table.apply(labelled(name, &json!({})).as_bytes()).unwrap();
    }
    let mut template = pod();
    template["metadata"]["annotations"] = json!({"team": "a", "example.com/queue": "q"});
    let ask = async || gateway.post("/filter", about(&template, &NAMES)).await.json();

    assert_eq!(ask().await["NodeNames"], json!(NAMES));
    assert_changed(&second.messages("BeforeFilter")[0]);
    assert_changed(&policy.messages("Filter")[0]);
    let call = seen.call(1).await;
    assert_eq!(
        call.backends[0].pod_change.as_deref(),
        Some(
            "no annotation team, no annotation example.com/queue, annotation example.com/pool=a, annotation tier=gold, another pod \
             affinity, another topology spread"
        )
    );
    // The same pod has a known answer; one that is changed otherwise is of another class.
    ask().await;
    assert_eq!(policy.messages("Filter").len(), 1);
    for (change, asked) in [
        (PodChange { topology_spread: Some(TopologySpread::default()), ..annotations_and_placement() }, 2),
        (PodChange { set_annotations: labels(&[("tier", "iron")]), ..PodChange::default() }, 3),
        (PodChange { pod_affinity: Some(PodAffinity::default()), ..PodChange::default() }, 4),
    ] {
        *changes.lock().unwrap() = change.clone();
        ask().await;
        assert_eq!(policy.messages("Filter").len(), asked, "{change:?}");
    }
    let facts = pod_facts(&policy.messages("Filter")[3]);
    assert_eq!(facts.pod_affinity, None, "without terms the pod has none");
    assert_eq!(facts.annotations.unwrap().values, ["a", ""]);
}

#[tokio::test]
async fn nodes_of_the_call_are_changed_too() {
    let hook = Scripted::start(hooks(&[Verb::BeforeFilterNodes]), |verb, message| match verb {
        "BeforeFilterNodes" => nodes_answer(
            &message,
            None,
            vec![("y", NodeChange { set_labels: labels(&[("zone", "changed")]), ..NodeChange::default() })],
        ),
        _ => agrees(verb, &message),
    });
    let hook = hook.await;
    let backends = configured("hook", &hook, "beforeFilterNodes: {}, filter: {}");
    let gateway = Gateway::start(&format!("nodes: {{source: Request}}\nbackends:\n{backends}")).await;
    for _ in 0..2 {
        let nodes = ["x", "y"].map(|name| labelled(name, &json!({"zone": "z"})));
        let answer = gateway.post("/filter", about_objects(&sibling(1), &nodes)).await.json();
        assert_eq!(answer["Nodes"]["items"][1]["metadata"]["labels"], json!({"zone": "z"}), "{answer}");
    }
    let told = hook.messages("Filter");
    assert_eq!(told.len(), 2);
    for message in &told {
        let zones: Vec<_> = rows(message)
            .into_iter()
            .map(|row| row.facts.unwrap().labels.unwrap().entries["zone"].clone())
            .collect();
        assert_eq!(zones, ["z", "changed"]);
    }
}

#[tokio::test]
async fn before_score_changes_what_is_scored() {
    let hook = Scripted::start(hooks(&[Verb::BeforeScore]), |verb, message| match verb {
        "BeforeScore" => nodes_answer(
            &message,
            Some(PodChange { remove_labels: vec!["app".to_owned()], ..PodChange::default() }),
            vec![("b", NodeChange { set_labels: labels(&[("zone", "best")]), ..NodeChange::default() })],
        ),
        "Score" => {
            let rows = rows(&message);
            let is_best = |name: &str| {
                rows.iter().any(|row| {
                    row.name == name && row.facts.clone().unwrap().labels.unwrap().entries["zone"] == "best"
                })
            };
            Act::Message(scored(&message, |name| if is_best(name) { 9 } else { 2 }).encode_to_vec())
        }
        _ => agrees(verb, &message),
    });
    let hook = hook.await;
    let gateway = gateway(&configured("hook", &hook, "beforeScore: {}, score: {}")).await;
    let answer = gateway.post("/prioritize", about(&pod(), &NAMES)).await.json();
    let scores: Vec<_> = answer.as_array().unwrap().iter().map(|host| host["Score"].clone()).collect();
    assert_eq!(scores, [2, 9, 2]);
    assert!(pod_facts(&hook.messages("Score")[0]).labels.is_none());
    assert!(hook.messages("Filter").is_empty());
}

#[tokio::test]
async fn the_failure_policy_decides_about_a_hook_that_fails() {
    let unchanged = NodeChange { positions: vec![0], ..NodeChange::default() };
    let twice =
        ChangeResponse { result: Some(result(3)), pod: None, nodes: vec![unchanged.clone(), unchanged] };
    let undeclared =
        ChangeResponse { result: Some(result(3)), pod: Some(annotations_and_placement()), nodes: Vec::new() };
    for (act, said) in [
        (Act::Status(14, "no data"), "UNAVAILABLE: no data"),
        (Act::Message(twice.encode_to_vec()), "position 0 is changed twice"),
        (
            Act::Message(undeclared.encode_to_vec()),
            "it changes pod annotations, which it does not declare; add that to the hook's changes in the handshake",
        ),
        (Act::Message(Vec::new()), "response has no result"),
        (Act::Hang, "no answer within 150 ms"),
    ] {
        for (policy, is_answered) in [("Fail", false), ("Ignore", true)] {
            let failing = act.clone();
            let script = move |verb: &str, message| match verb {
                "BeforeFilterNodes" => failing.clone(),
                _ => agrees(verb, &message),
            };
            let hook = Scripted::start(hooks(&[Verb::BeforeFilterNodes]), script).await;
            let settings = format!(
                "beforeFilterNodes: {{timeout: {}, failurePolicy: {policy}}}, filter: {{}}",
                act.timeout()
            );
            let gateway = gateway(&configured("hook", &hook, &settings)).await;
            let answer = filter(&gateway).await;
            let error = answer["Error"].as_str().unwrap();
            if is_answered {
                assert_eq!((error, &answer["NodeNames"]), ("", &json!(NAMES)), "{said}");
                assert_eq!(hook.asked("Filter"), [NAMES], "as they were");
            } else {
                let expected = format!("extender-gateway: backend hook failed beforeFilterNodes: {said}");
                assert_eq!(error, expected);
                assert!(hook.messages("Filter").is_empty(), "{said}");
            }
            let failures = format!(
                "backend_failures_total{{backend=\"hook\",verb=\"beforeFilterNodes\",kind=\"{}\",policy=\"{}\"}} 1",
                match act {
                    Act::Status(..) => "status",
                    Act::Hang => "late",
                    _ => "malformed",
                },
                policy.to_ascii_lowercase()
            );
            gateway.until_counted(said, &failures).await;
        }
    }
}

#[tokio::test]
async fn a_hook_of_the_pod_fails_like_the_others() {
    for (act, said) in [
        (Act::Message(Vec::new()), "response has no result"),
        (
            Act::Message(
                ChangeResponse { result: Some(result(3)), pod: None, nodes: Vec::new() }.encode_to_vec(),
            ),
            "evaluated 3 nodes, expected 1",
        ),
        (Act::Status(3, "no"), "INVALID_ARGUMENT: no"),
        (Act::Hang, "no answer within 150 ms"),
    ] {
        let failing = act.clone();
        let script = move |verb: &str, message| match verb {
            "BeforeFilter" => failing.clone(),
            _ => agrees(verb, &message),
        };
        let hook = Scripted::start(hooks(&[Verb::BeforeFilter]), script).await;
        let settings = format!("beforeFilter: {{timeout: {}}}, filter: {{}}", act.timeout());
        let gateway = gateway(&configured("hook", &hook, &settings)).await;
        let answer = filter(&gateway).await;
        assert_eq!(answer["Error"], format!("extender-gateway: backend hook failed beforeFilter: {said}"));
    }
}

#[tokio::test]
async fn a_failed_hook_before_score_is_ignored() {
    let hook = Scripted::start(hooks(&[Verb::BeforeScore]), |verb, message| match verb {
        "BeforeScore" => Act::Status(14, "no data"),
        _ => agrees(verb, &message),
    });
    let hook = hook.await;
    let gateway = gateway(&configured("hook", &hook, "beforeScore: {}, score: {}")).await;
    let answer = gateway.post("/prioritize", about(&pod(), &NAMES)).await.json();
    assert_eq!(answer[2], json!({"Host": "c", "Score": 1}), "{answer}");
}

#[tokio::test]
async fn hooks_run_only_for_pods_for_which_the_backend_counts() {
    let hook = || Scripted::start(hooks(&[Verb::BeforeFilter]), |verb, message| agrees(verb, &message));
    let (shadow, other, exempt, counts) = (hook().await, hook().await, hook().await, hook().await);
    let backends = configured("shadow", &shadow, "mode: Shadow, beforeFilter: {}")
        + &configured("other", &other, "match: {namespaces: [else]}, beforeFilter: {}")
        + &configured("counts", &counts, "beforeFilter: {}");
    let gateway = gateway(&backends).await;
    assert_eq!(filter(&gateway).await["NodeNames"], json!(NAMES));
    assert_eq!(gateway.post("/filter", about(&pod(), &[])).await.json()["Error"], "");
    assert_eq!(counts.messages("BeforeFilter").len(), 1);
    for unasked in [&shadow, &other] {
        assert!(unasked.messages("BeforeFilter").is_empty());
    }
    let backends = configured("exempt", &exempt, "beforeFilter: {}");
    let gateway = known(Gateway::start(&format!("exempt: {{namespaces: [shop]}}\n{WATCH}{backends}")).await);
    assert_eq!(filter(&gateway).await["NodeNames"], json!(NAMES));
    assert!(exempt.messages("BeforeFilter").is_empty());
}

#[tokio::test]
async fn pure_hooks_are_remembered_and_answers_about_changed_nodes_are_not() {
    let hook =
        Scripted::start(pure_hooks(&[Verb::BeforeFilter, Verb::BeforeFilterNodes]), |verb, message| {
            let revised = |mut response: ChangeResponse| {
                response.result.as_mut().unwrap().revision = "r1".to_owned();
                Act::Message(response.encode_to_vec())
            };
            let answer = match verb {
                "BeforeFilter" => {
                    pod_answer(PodChange { set_labels: labels(&[("team", "a")]), ..PodChange::default() })
                }
                "BeforeFilterNodes" => nodes_answer(
                    &message,
                    None,
                    vec![("b", NodeChange { add_allocatable: Some(cpu(1_000)), ..NodeChange::default() })],
                ),
                _ => return agrees(verb, &message),
            };
            let Act::Message(answer) = answer else { panic!("an answer") };
            revised(ChangeResponse::decode(&*answer).unwrap())
        });
    let hook = hook.await;
    let mut pure = crate::support::function::pure(reading::facts());
    pure.verbs.truncate(1);
    let policy = Scripted::start(pure, |_, message| {
        let mut answer = filtered(&message, &[], "");
        answer.result.as_mut().unwrap().revision = "r1".to_owned();
        Act::Message(answer.encode_to_vec())
    });
    let policy = policy.await;
    let backends = configured("hook", &hook, "beforeFilter: {}, beforeFilterNodes: {}")
        + &configured("policy", &policy, "filter: {}");
    let gateway = gateway(&backends).await;
    for number in 0..3 {
        let answer = gateway.post("/filter", about(&sibling(number), &NAMES)).await.json();
        assert_eq!(answer["NodeNames"], json!(NAMES), "{answer}");
    }
    assert_eq!((hook.messages("BeforeFilter").len(), hook.asked("BeforeFilterNodes").len()), (1, 1));
    assert_eq!(policy.asked("Filter"), [vec!["a", "b", "c"], vec!["b"], vec!["b"]]);
    for message in policy.messages("Filter") {
        assert_eq!(pod_facts(&message).labels.unwrap().entries["team"], "a");
        let b = rows(&message).into_iter().find(|row| row.name == "b").unwrap();
        assert_eq!(b.facts.unwrap().allocatable.unwrap().milli_cpu, 3_000);
    }
    let known = r#"backend_known_nodes_total{backend="hook",verb="beforeFilterNodes",source="remembered"} 6"#;
    gateway.until_counted("known", known).await;
    gateway
        .until_counted("changed", r#"backend_changed_nodes_total{backend="hook",verb="beforeFilterNodes"} 3"#)
        .await;
}

#[tokio::test]
async fn a_hook_that_is_not_pure_is_found_out() {
    for verb in [Verb::BeforeFilter, Verb::BeforeFilterNodes] {
        let calls = AtomicU32::new(0);
        let hook = Scripted::start(pure_hooks(&[verb]), move |verb, message| {
            let call = calls.fetch_add(1, Ordering::Relaxed).to_string();
            let set_labels = labels(&[("call", &call)]);
            let answer = match verb {
                "BeforeFilter" => pod_answer(PodChange { set_labels, ..PodChange::default() }),
                _ => nodes_answer(
                    &message,
                    None,
                    vec![("a", NodeChange { set_labels, ..NodeChange::default() })],
                ),
            };
            let Act::Message(answer) = answer else { panic!("an answer") };
            let mut answer = ChangeResponse::decode(&*answer).unwrap();
            answer.result.as_mut().unwrap().revision = "r1".to_owned();
            Act::Message(answer.encode_to_vec())
        });
        let hook = hook.await;
        let (name, method) = match verb {
            Verb::BeforeFilter => ("beforeFilter", "BeforeFilter"),
            _ => ("beforeFilterNodes", "BeforeFilterNodes"),
        };
        let backends = configured("hook", &hook, &format!("{name}: {{}}"));
        let gateway = known(Gateway::start_paced(&format!("{WATCH}{backends}"), checking()).await);
        for number in 0..13 {
            gateway.post("/filter", about(&sibling(number), &NAMES)).await.json();
        }
        // The first, the check at the eleventh, and each after that.
        assert_eq!(hook.messages(method).len(), 4, "{name}");
        let counted = format!("backend_memory_disagreements_total{{backend=\"hook\",verb=\"{name}\"}} 1");
        gateway.until_counted(name, &counted).await;
    }
}

#[tokio::test]
async fn a_call_that_was_not_processed_is_tried_again() {
    for (verb, settings) in
        [("BeforeFilter", "beforeFilter: {}"), ("BeforeFilterNodes", "beforeFilterNodes: {}")]
    {
        let refused = Mutex::new(false);
        let script = move |called: &str, message: Bytes| {
            let is_first = called == verb && !std::mem::replace(&mut *refused.lock().unwrap(), true);
            if is_first { Act::Refuse } else { agrees(called, &message) }
        };
        let all = [Verb::BeforeFilter, Verb::BeforeFilterNodes];
        let one = Arc::new(Scripted::start(hooks(&all), script).await);
        let gateway = gateway(&configured("hook", &one, settings)).await;
        // There is no other address.
        let answer = filter(&gateway).await;
        assert!(answer["Error"].as_str().unwrap().contains("failed before"), "{answer}");
        assert_eq!(filter(&gateway).await["Error"], "");
    }
}

#[tokio::test]
async fn the_decision_log_has_what_hooks_changed() {
    let hook =
        Scripted::start(hooks(&[Verb::BeforeFilter, Verb::BeforeFilterNodes]), |verb, message| match verb {
            "BeforeFilter" => pod_answer(PodChange {
                set_labels: labels(&[("team", "a")]),
                reason: "by namespace".to_owned(),
                ..PodChange::default()
            }),
            "BeforeFilterNodes" => {
                let change = NodeChange { add_allocatable: Some(cpu(4_000)), ..NodeChange::default() };
                nodes_answer(&message, None, vec![("b", change.clone()), ("c", change)])
            }
            _ => Act::Message(filtered(&message, &["c"], "full").encode_to_vec()),
        });
    let hook = hook.await;
    let backends = configured("hook", &hook, "beforeFilter: {}, beforeFilterNodes: {}, filter: {}");
    let seen = Seen::start(&format!("{WATCH}{backends}")).await;
    let gateway = &seen.gateway;
    for name in NAMES {
        gateway.table.apply(labelled(name, &json!({})).as_bytes()).unwrap();
    }
    let answer = filter(gateway).await;
    assert_eq!(answer["NodeNames"], json!(["a", "b"]));
    let call = seen.call(1).await;
    let parts: Vec<_> = call
        .backends
        .iter()
        .map(|part| {
            (part.hook.as_deref(), part.asked, part.changed, part.pod_change.as_deref(), part.rejected)
        })
        .collect();
    assert_eq!(
        parts,
        [
            (Some("beforeFilter"), 0, 0, Some("label team=a: by namespace"), 0),
            (Some("beforeFilterNodes"), 3, 2, None, 0),
            (None, 3, 0, None, 1),
        ]
    );
    let changes = call.nodes.iter().map(|node| {
        let words: Vec<_> =
            node.changes.iter().map(|it| format!("{} by {}", it.change, it.backend)).collect();
        (node.name.as_str(), words.join(", "), node.rejected_by.as_deref())
    });
    let expected = [("a", "", None), ("b", "+4 cpu by hook", None), ("c", "+4 cpu by hook", Some("hook"))];
    assert_eq!(changes.collect::<Vec<_>>(), expected.map(|(name, words, by)| (name, words.to_owned(), by)));
}

#[tokio::test]
async fn a_hook_that_contradicts_itself_is_not_called() {
    let mut info = hooks(&[Verb::BeforeFilterNodes]);
    info.verbs[2].changes.push(ChangedPart::PodLabels.into());
    let hook = Scripted::start(info, |verb, message| agrees(verb, &message)).await;
    let gateway = gateway(&configured("hook", &hook, "beforeFilterNodes: {}")).await;
    let error = filter(&gateway).await["Error"].as_str().unwrap().to_owned();
    assert_eq!(
        error,
        "extender-gateway: backend hook failed beforeFilterNodes: declares that beforeFilterNodes changes pod labels, but it is about \
         nodes alone"
    );
    assert!(hook.messages("BeforeFilterNodes").is_empty());
}

#[tokio::test]
async fn nodes_that_a_hook_is_not_told_of_stay_as_they_are_and_are_recorded() {
    let hook = Scripted::start(hooks(&[Verb::BeforeFilterNodes]), |verb, message| match verb {
        "BeforeFilterNodes" => {
            let change = NodeChange { set_labels: labels(&[("zone", "changed")]), ..NodeChange::default() };
            nodes_answer(&message, None, vec![("b", change)])
        }
        _ => agrees(verb, &message),
    });
    let hook = hook.await;
    let policy = Scripted::start(info(reading::names()), |verb, message| agrees(verb, &message)).await;
    let backends =
        configured("hook", &hook, "beforeFilterNodes: {}") + &configured("policy", &policy, "filter: {}");
    let seen = Seen::start(&format!("{WATCH}{backends}")).await;
    for name in ["a", "b"] {
        seen.gateway.table.apply(labelled(name, &json!({})).as_bytes()).unwrap();
    }
    // The gateway does not know the first one.
    let answer = seen.gateway.post("/filter", about(&pod(), &["new", "a", "b"])).await.json();
    assert_eq!(answer["NodeNames"], json!(["new", "a", "b"]), "{answer}");
    assert_eq!(hook.asked("BeforeFilterNodes"), [["a", "b"]]);
    let call = seen.call(1).await;
    let changed: Vec<_> = call.nodes.iter().filter(|node| !node.changes.is_empty()).collect();
    assert_eq!(changed.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!((call.backends[0].asked, call.backends[0].changed, call.left), (2, 1, Some(3)));
}

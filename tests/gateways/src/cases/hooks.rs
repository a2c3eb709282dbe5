//! Hooks: what they change is seen by later hooks and by the verbs of the call alone.

use extender_policy_api::v1beta1::{
    self as api, ChangedPart, MapReads, NodeChange, PodChange, PodPart, Resources, Verb, VerbInfo,
};
use futures_util::future::BoxFuture;
use serde_json::json;

use crate::{
    answers::change,
    backend::{Act, Received},
    case::{Case, Check, Declared, Group, Nodes, case, ensure, equal, table},
    scene::{about, backend, info, node, reads, strings, verb},
    stage::Stage,
};

const NODES: [&str; 3] = ["n1", "n2", "n3"];

pub(crate) fn group() -> Group {
    const ORDER: &str = "60: Hooks run, and changes are applied, in the order of the backends";
    let mut cases = table!(case:
        "hooks.order" [ORDER, "hooks.proto: 1. kube-scheduler calls filter."]
            "hooks about the pod run first, then those about nodes, in the order of the backends, then filters" => order;
        "hooks.pod" [ORDER, "60: A label or annotation whose key a verb declares is changed"]
            "later hooks and filters see a changed pod" => pod_changes;
        "hooks.nodes" [ORDER] "later hooks and filters see changed nodes, and the others unchanged" => node_changes;
        "hooks.sums" ["60: Sums are at least 0 and within the type's range"] "a sum of requests is at least 0" => sums;
        "hooks.removed-first" ["60: What is removed is removed before something is added"]
            "what is removed and set is set" => removed_first;
        "hooks.answer" ["hooks.proto: kube-scheduler does not see them"]
            "kube-scheduler gets the nodes that it offered" => answer;
        "hooks.score" ["hooks.proto: The gateway begins with what kube-scheduler sent"]
            "nothing is left of changes for filter when scores are wanted" => fresh_score;
    );
    cases.extend(wrong());
    let settings = |policy: &str| {
        let hook = json!({"timeout": "20s", "failurePolicy": policy});
        let plain = json!({"timeout": "20s"});
        json!({"filter": hook, "score": plain, "beforeFilter": hook, "beforeFilterNodes": hook, "beforeScore": plain})
    };
    let declared = |name, policy| -> Declared { backend(name, settings(policy), &hooking()) };
    let backends = vec![declared("one", "Fail"), declared("two", "Fail")];
    Group { nodes: Nodes::Calls, binds: false, backends, cases }
}

fn hooking() -> api::GetInfoResponse {
    let with_hook = |map: &mut Option<MapReads>| {
        let map = map.get_or_insert_default();
        map.keys.push("hook".into());
        map.keys.sort();
    };
    let mut reads = reads();
    with_hook(&mut reads.pod.get_or_insert_default().labels);
    with_hook(&mut reads.node.get_or_insert_default().labels);
    reads.pod.get_or_insert_default().parts = vec![PodPart::Requests.into()];
    let (pod, node) = ([ChangedPart::PodLabels, ChangedPart::PodRequests], [ChangedPart::NodeLabels]);
    let hook = |hook: Verb, changes: &[ChangedPart]| VerbInfo {
        changes: changes.iter().map(|change| (*change).into()).collect(),
        ..verb(hook)
    };
    let verbs = vec![
        verb(Verb::Filter),
        verb(Verb::Score),
        hook(Verb::BeforeFilter, &pod),
        hook(Verb::BeforeFilterNodes, &node),
        hook(Verb::BeforeScore, &node),
    ];
    let read = |mut verb: VerbInfo| {
        let node = verb.verb() != Verb::BeforeFilter;
        verb.reads = Some(api::Reads { node: reads.node.clone().filter(|_| node), ..reads.clone() });
        verb
    };
    let mut info = info(verbs.into_iter().map(read).collect());
    info.services = strings(&["extender.policy.v1beta1.HookService"]);
    info
}

/// The value of label `hook`; `None` if the object lacks it.
fn hooked(labels: Option<api::MapValues>, at: usize) -> Option<String> {
    let labels = labels?;
    (!labels.absent.contains(&u32::try_from(at).ok()?)).then(|| labels.values.get(at).cloned())?
}

/// Of the pod, whose keys are `app`, `hook` and `missing`.
fn of_pod(received: &Received) -> Option<String> {
    hooked(received.facts().labels, 1)
}

/// Of a node, whose keys are `hook` and `rack`.
fn of_node(received: &Received, name: &str) -> Option<String> {
    let row = received.rows.iter().find(|row| row.name == name)?;
    hooked(row.facts.clone()?.labels, 0)
}

fn pod_change(received: &Received, value: &str) -> Act {
    let set_labels = [("hook".to_owned(), value.to_owned())].into_iter().collect();
    change(received, Some(PodChange { set_labels, ..Default::default() }), Vec::new())
}

fn node_change(received: &Received, name: &str, value: &str) -> Act {
    let positions =
        (0..).zip(received.names()).filter(|(_, found)| *found == name).map(|(at, _)| at).collect();
    let set_labels = [("hook".to_owned(), value.to_owned())].into_iter().collect();
    change(received, None, vec![NodeChange { positions, set_labels, ..Default::default() }])
}

/// The last requests of both backends since then.
fn last(stage: &Stage, marks: [u64; 2], method: &str) -> Check<[Received; 2]> {
    let find = |name: &str, mark| -> Check<Received> {
        let found = stage.backend(name)?.since(mark, method).pop();
        found.ok_or_else(|| format!("{method} of backend {name} is not called").into())
    };
    Ok([find("one", marks[0])?, find("two", marks[1])?])
}

fn marks(stage: &Stage) -> Check<[u64; 2]> {
    Ok([stage.backend("one")?.mark(), stage.backend("two")?.mark()])
}

async fn order(stage: Stage) -> Check {
    let marks = marks(&stage)?;
    stage.filter_ok(&about(&NODES)).await?;
    let mut times = Vec::new();
    for hook in ["BeforeFilter", "BeforeFilterNodes"] {
        times.extend(last(&stage, marks, hook)?.map(|received| received.at));
    }
    ensure(times.is_sorted(), || "hooks do not run in order".into())?;
    let filters = last(&stage, marks, "Filter")?;
    ensure(filters.iter().all(|filter| times.iter().all(|time| *time < filter.at)), || {
        "a filter is called before a hook".into()
    })
}

async fn pod_changes(stage: Stage) -> Check {
    let marks = marks(&stage)?;
    stage.backend("one")?.on("BeforeFilter", |received| pod_change(received, "one"));
    stage.filter_ok(&about(&NODES)).await?;
    let [first, second] = last(&stage, marks, "BeforeFilter")?;
    equal("the label for the hooks", &[of_pod(&first), of_pod(&second)], &[None, Some("one".to_owned())])?;
    for method in ["BeforeFilterNodes", "Filter"] {
        for received in last(&stage, marks, method)? {
            equal(&format!("the label for {method}"), &of_pod(&received).as_deref(), &Some("one"))?;
        }
    }
    Ok(())
}

async fn node_changes(stage: Stage) -> Check {
    let marks = marks(&stage)?;
    stage.backend("one")?.on("BeforeFilterNodes", |received| node_change(received, "n2", "one"));
    stage.filter_ok(&about(&NODES)).await?;
    let [first, second] = last(&stage, marks, "BeforeFilterNodes")?;
    let seen = [&first, &second].map(|received| of_node(received, "n2"));
    equal("the label of n2 for the hooks", &seen, &[None, Some("one".to_owned())])?;
    for received in last(&stage, marks, "Filter")? {
        let seen = NODES.map(|name| of_node(&received, name));
        equal("the labels for filter", &seen, &[None, Some("one".to_owned()), None])?;
    }
    Ok(())
}

async fn sums(stage: Stage) -> Check {
    let marks = marks(&stage)?;
    stage.backend("one")?.on("BeforeFilter", |received| {
        let add_requests = Some(Resources { milli_cpu: -500, memory: 7, ..Default::default() });
        change(received, Some(PodChange { add_requests, ..Default::default() }), Vec::new())
    });
    stage.filter_ok(&about(&NODES)).await?;
    let requests = last(&stage, marks, "Filter")?[0].facts().requests.unwrap_or_default();
    equal("CPU and memory", &(requests.milli_cpu, requests.memory), &(0, 7))
}

async fn removed_first(stage: Stage) -> Check {
    let marks = marks(&stage)?;
    stage.backend("one")?.on("BeforeFilter", |received| {
        let set_labels = [("hook".to_owned(), "set".to_owned())].into_iter().collect();
        let remove_labels = strings(&["hook", "app"]);
        change(received, Some(PodChange { set_labels, remove_labels, ..Default::default() }), Vec::new())
    });
    stage.filter_ok(&about(&NODES)).await?;
    let labels = last(&stage, marks, "Filter")?[0].facts().labels.unwrap_or_default();
    equal(
        "values and absent positions",
        &(labels.values, labels.absent),
        &(strings(&["", "set", ""]), vec![0, 2]),
    )
}

async fn answer(stage: Stage) -> Check {
    stage.backend("one")?.on("BeforeFilterNodes", |received| node_change(received, "n2", "one"));
    let items = &stage.filter_ok(&about(&NODES)).await?.body["Nodes"]["items"];
    equal("the nodes", items, &json!(NODES.map(node)))
}

async fn fresh_score(stage: Stage) -> Check {
    let one = stage.backend("one")?;
    one.on("BeforeFilter", |received| pod_change(received, "filter"));
    one.on("BeforeFilterNodes", |received| node_change(received, "n2", "filter"));
    one.on("BeforeScore", |received| node_change(received, "n1", "score"));
    let (marks, body) = (marks(&stage)?, about(&NODES));
    stage.filter_ok(&body).await?;
    stage.prioritize(&body).await?;
    let [hook, _] = last(&stage, marks, "BeforeScore")?;
    equal("the labels for the hook", &(of_pod(&hook), of_node(&hook, "n2")), &(None, None))?;
    let [_, score] = last(&stage, marks, "Score")?;
    let seen = (of_node(&score, "n1"), of_node(&score, "n2"));
    equal("the labels for scores", &seen, &(Some("score".to_owned()), None))
}

/// Answers of hooks that are failures.
fn wrong() -> Vec<Case> {
    let answer = |evaluated, pod, nodes| {
        Act::answer(&api::ChangeResponse { result: Some(api::Result::answered(evaluated, "")), pod, nodes })
    };
    let labels = |key: &str| [(key.to_owned(), "v".to_owned())].into_iter().collect();
    let of_nodes = |positions: &[u32]| NodeChange {
        positions: positions.to_vec(),
        set_labels: labels("hook"),
        ..Default::default()
    };
    let selecting = PodChange { set_node_selector: labels("hook"), ..Default::default() };
    let empty_key = PodChange { set_labels: labels(""), ..Default::default() };
    let tainted = NodeChange {
        positions: vec![0],
        add_taints: vec![api::Taint { key: "k".into(), effect: "NoSchedule".into(), ..Default::default() }],
        ..Default::default()
    };
    table!(case:
        "hooks.undeclared-pod" ["58.1", "hooks.proto: A response that changes something else"]
            "a change of the pod that is not declared is a failure" => fails("BeforeFilter", answer(1, Some(selecting), vec![]));
        "hooks.undeclared-node" ["58.1", "hooks.proto: A response that changes something else"]
            "a change of nodes that is not declared is a failure" => fails("BeforeFilterNodes", answer(3, None, vec![tainted]));
        "hooks.pod-evaluated" ["58.2"]
            "another number than 1 is a failure before filter" => fails("BeforeFilter", answer(3, None, vec![]));
        "hooks.nodes-evaluated" ["58.2"]
            "a wrong number of nodes is a failure" => fails("BeforeFilterNodes", answer(1, None, vec![]));
        "hooks.out-of-range" ["58.3"]
            "a position that no node has is a failure" => fails("BeforeFilterNodes", answer(3, None, vec![of_nodes(&[3])]));
        "hooks.changed-twice" ["58.3"]
            "a node that is changed twice is a failure" => fails("BeforeFilterNodes", answer(3, None, vec![of_nodes(&[0]), of_nodes(&[0])]));
        "hooks.empty-key" ["58.4", "58: Anything else is a failure"]
            "an empty key is a failure" => fails("BeforeFilter", answer(1, Some(empty_key), vec![]));
    )
}

fn fails(hook: &'static str, act: Act) -> impl Fn(Stage) -> BoxFuture<'static, Check> {
    move |stage| Box::pin(failure(stage, hook, act.clone()))
}

async fn failure(stage: Stage, hook: &'static str, act: Act) -> Check {
    stage.backend("one")?.always(hook, act);
    let filtered = stage.filter(&about(&NODES)).await?;
    ensure(filtered.kept.is_empty() && filtered.error.contains("one"), || {
        format!("{}; expected an error that names the backend", filtered.body)
    })
}

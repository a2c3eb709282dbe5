//! Preemption: backends drop candidates and victims, one after the other.

use std::collections::BTreeMap;

use extender_policy_api::v1beta1::{self as api, KeptCandidate, PreemptRequest, Verb};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::{
    backend::{Act, Received},
    case::{Case, Check, Group, Nodes, case, ensure, equal, table},
    scene::{backend, fresh, info, pod, reads, verb},
    stage::Stage,
};

/// The victims of the nodes in kube-scheduler's order, and how many violate budgets.
type Left = BTreeMap<String, (Vec<String>, i64)>;

pub(crate) fn group() -> Group {
    let mut preempt = verb(Verb::Preempt);
    let mut reads = reads();
    reads.node.get_or_insert_default().labels = None;
    preempt.reads = Some(reads);
    let info = info(vec![preempt]);
    let settings = |policy: &str| json!({"preempt": {"timeout": "20s", "failurePolicy": policy}});
    let mut cases = table!(case:
        "preempt.kept" ["16: The gateway keeps kube-scheduler's order and its counts"]
            "kept candidates and victims stay, in kube-scheduler's order" => kept_ones;
        "preempt.in-turn" ["16: Backends are called in turn"] "a backend gets what earlier ones left" => in_turn;
        "preempt.placeholder" ["16: A `placeholder` has no victims", "16.4"]
            "a candidate without victims is a placeholder, and stays" => placeholder;
        "preempt.uids" ["16: Victims carry facts if the gateway knows them"]
            "victims that are only known by their UID have nothing else" => uids;
        "preempt.objects" ["16: Victims carry facts if the gateway knows them"]
            "victims that kube-scheduler sends as objects have facts" => objects;
        "preempt.none" ["policy.proto: Empty: the pod must not preempt anywhere"]
            "without kept candidates nothing is evicted" => |stage| async move {
                stage.backend("first")?.on("Preempt", |received| answer(received, Vec::new()));
                equal("the candidates", &left(&stage, &by_uid()).await, &Left::new())
            };
    );
    cases.extend(wrong());
    cases.push(case(
        "preempt.without-victims",
        &["16: A candidate that is kept without victims is a failure"],
        "a candidate without victims is a failure, or dropped with failure policy Ignore",
        without_victims,
    ));
    let backends =
        vec![backend("first", settings("Fail"), &info), backend("second", settings("Ignore"), &info)];
    Group { nodes: Nodes::Calls, binds: false, backends, cases }
}

fn kept(position: u32, victims: &[u32]) -> KeptCandidate {
    KeptCandidate { position, victims: victims.to_vec(), ..Default::default() }
}

fn answer(received: &Received, kept: Vec<KeptCandidate>) -> Act {
    let result = Some(api::Result::answered(received.nodes().count, ""));
    Act::answer(&api::PreemptResponse { result, kept })
}

/// n1 with u1 and u2, of which one violates a budget, and n2 with u3.
fn by_uid() -> Value {
    let victims = |uids: &[&str], violations: i64| {
        let pods: Vec<_> = uids.iter().map(|uid| json!({"UID": uid})).collect();
        json!({"Pods": pods, "NumPDBViolations": violations})
    };
    let candidates = json!({"n1": victims(&["u1", "u2"], 1), "n2": victims(&["u3"], 0)});
    json!({"Pod": pod(&fresh()), "NodeNameToVictims": null, "NodeNameToMetaVictims": candidates})
}

fn whole() -> Left {
    let candidate =
        |uids: &[&str], violations| (uids.iter().map(|uid| (*uid).to_owned()).collect(), violations);
    [("n1".to_owned(), candidate(&["u1", "u2"], 1)), ("n2".to_owned(), candidate(&["u3"], 0))].into()
}

/// The candidates of the answer; none if kube-scheduler cannot read one, which evicts nothing, too.
async fn left(stage: &Stage, body: &Value) -> Left {
    let answered = stage.post("preempt", body).await.unwrap_or_default();
    let candidates = answered["NodeNameToMetaVictims"].as_object().cloned().unwrap_or_default();
    let read = |(name, candidate): (String, Value)| {
        let pods = candidate["Pods"].as_array().into_iter().flatten();
        let uids = pods.map(|pod| pod["UID"].as_str().unwrap_or_default().to_owned()).collect();
        (name, (uids, candidate["NumPDBViolations"].as_i64().unwrap_or_default()))
    };
    candidates.into_iter().map(read).collect()
}

/// The position of this node.
fn at(received: &Received, node: &str) -> u32 {
    let found = (0..).zip(received.names()).find(|(_, name)| *name == node);
    found.map_or(u32::MAX, |(position, _)| position)
}

async fn kept_ones(stage: Stage) -> Check {
    stage
        .backend("first")?
        .on("Preempt", |received| answer(received, vec![kept(at(received, "n1"), &[1, 0])]));
    let mut expected = whole();
    expected.remove("n2");
    equal("the candidates", &left(&stage, &by_uid()).await, &expected)
}

async fn in_turn(stage: Stage) -> Check {
    stage.backend("first")?.on("Preempt", |received| answer(received, vec![kept(at(received, "n1"), &[1])]));
    let second = stage.backend("second")?;
    let mark = second.mark();
    left(&stage, &by_uid()).await;
    let calls = second.since(mark, "Preempt");
    let asked: Vec<_> =
        calls.iter().map(|call| (call.names(), call.decode::<PreemptRequest>().candidates)).collect();
    let victims = vec![api::Victim { uid: "u2".into(), pod: None }];
    let candidate = api::Candidate { victims, pdb_violations: 1, placeholder: false };
    equal("what it is asked", &asked, &[(vec!["n1"], vec![candidate])])
}

async fn placeholder(stage: Stage) -> Check {
    let first = stage.backend("first")?;
    let mark = first.mark();
    let mut body = by_uid();
    body["NodeNameToMetaVictims"] = json!({"n1": {"Pods": [], "NumPDBViolations": 0}});
    let expected: Left = [("n1".to_owned(), (Vec::new(), 0))].into();
    equal("the candidates", &left(&stage, &body).await, &expected)?;
    let asked: Vec<_> =
        first.since(mark, "Preempt").iter().map(|call| call.decode::<PreemptRequest>().candidates).collect();
    equal("what a backend is asked", &asked, &[[api::Candidate { placeholder: true, ..Default::default() }]])
}

async fn victims(stage: &Stage, body: &Value) -> Check<Vec<api::Victim>> {
    let first = stage.backend("first")?;
    let mark = first.mark();
    left(stage, body).await;
    let asked = first.since(mark, "Preempt").pop().map(|call| call.decode::<PreemptRequest>());
    Ok(asked.unwrap_or_default().candidates.into_iter().flat_map(|candidate| candidate.victims).collect())
}

async fn uids(stage: Stage) -> Check {
    let mut victims = victims(&stage, &by_uid()).await?;
    victims.sort_by(|one, other| one.uid.cmp(&other.uid));
    let expected = ["u1", "u2", "u3"].map(|uid| api::Victim { uid: uid.into(), pod: None });
    equal("the victims", &victims, &expected)
}

async fn objects(stage: Stage) -> Check {
    let candidates = json!({"n1": {"Pods": [pod("victim")], "NumPDBViolations": 0}});
    let body = json!({"Pod": pod(&fresh()), "NodeNameToVictims": candidates, "NodeNameToMetaVictims": null});
    let victims = victims(&stage, &body).await?;
    let labels = |victim: &api::Victim| victim.pod.clone()?.facts?.labels.map(|labels| labels.values);
    let known: Vec<_> =
        victims.iter().map(|victim| (victim.uid.as_str(), labels(victim).unwrap_or_default())).collect();
    equal("UID and labels", &known, &[("victim", vec!["web".to_owned(), String::new()])])
}

/// What is kept in answers that are failures.
fn wrong() -> Vec<Case> {
    let added = KeptCandidate { added_uids: vec!["other".into()], ..kept(0, &[0]) };
    table!(case:
        "preempt.out-of-range" ["16: These are failures"]
            "a candidate that was not offered is a failure" => fails(vec![kept(2, &[0])]);
        "preempt.twice" ["16: These are failures"]
            "a candidate that is kept twice is a failure" => fails(vec![kept(0, &[0]), kept(0, &[0])]);
        "preempt.victim-out-of-range" ["16: These are failures"]
            "a victim that was not offered is a failure" => fails(vec![kept(0, &[9])]);
        "preempt.victim-twice" ["16: These are failures"]
            "a victim that is given twice is a failure" => fails(vec![kept(0, &[0, 0])]);
        "preempt.added" ["16: These are failures", "policy.proto: This is a failure unless the operator allows"]
            "added victims are a failure unless the operator allows them" => fails(vec![added]);
    )
}

fn fails(kept: Vec<KeptCandidate>) -> impl Fn(Stage) -> BoxFuture<'static, Check> {
    move |stage| Box::pin(failure(stage, kept.clone()))
}

async fn failure(stage: Stage, kept: Vec<KeptCandidate>) -> Check {
    for (name, expected) in [("second", whole()), ("first", Left::new())] {
        let kept = kept.clone();
        stage.backend(name)?.on("Preempt", move |received| answer(received, kept.clone()));
        equal(
            &format!("the candidates after a failure of {name}"),
            &left(&stage, &by_uid()).await,
            &expected,
        )?;
    }
    Ok(())
}

async fn without_victims(stage: Stage) -> Check {
    let bare = |received: &Received| {
        let (one, two) = (at(received, "n1"), at(received, "n2"));
        answer(received, vec![kept(one, &[0, 1]), kept(two, &[])])
    };
    stage.backend("second")?.on("Preempt", bare);
    let mut expected = whole();
    expected.remove("n2");
    equal("with Ignore", &left(&stage, &by_uid()).await, &expected)?;
    stage.backend("first")?.on("Preempt", bare);
    let left = left(&stage, &by_uid()).await;
    ensure(left.is_empty(), || format!("with Fail: {left:?}; expected nothing"))
}

//! Outcomes: backends get reports of how attempts ended, until they acknowledge it.

use extender_policy_api::v1beta1::{
    self as api, Effects, OutcomeKind, Purpose, ReportRequest, Verb, VerbInfo,
};
use serde_json::{Value, json};

use crate::{
    answers::rejecting,
    backend::{Act, Received},
    case::{Check, Group, Nodes, case, ensure, equal, table},
    scene::{backend, fresh, in_full, info, node, pod, strings, verb},
    stage::Stage,
};

const REPORTS: &str = "62: The gateway reports the pods about which it has sent";

pub(crate) fn group() -> Group {
    let filter = VerbInfo { effects: Effects::ChangesOutside.into(), ..verb(Verb::Filter) };
    let mut listed = info(vec![filter.clone()]);
    listed.services = strings(&["extender.policy.v1beta1.OutcomeService"]);
    let settings = json!({"filter": {"timeout": "20s", "failurePolicy": "Fail"}});
    let cases = table!(case:
        "outcomes.not-bound" [REPORTS, "outcomes.proto: The pod is not bound, and certainly will not be by this attempt"]
            "a pod that is left no node is not bound" => not_bound;
        "outcomes.superseded" ["outcomes.proto: Another attempt has begun before it was known how this one ended"]
            "another attempt supersedes the one before" => superseded;
        "outcomes.call" ["outcomes.proto: With an id of its own, PURPOSE_DECIDE, and without `reads`"]
            "reports have an id of their own" => call;
        "outcomes.again" ["outcomes.proto: An empty response acknowledges all outcomes"]
            "outcomes come again until they are acknowledged" => again;
        "outcomes.dropped" ["outcomes.proto: drops these outcomes; the text is logged"]
            "outcomes that a backend refuses are dropped" => dropped;
        "outcomes.order" ["outcomes.proto: At least one and at most OUTCOMES, in the order"]
            "outcomes are in order" => order;
        "outcomes.not-listed" ["outcomes.proto: Optional. A backend that serves it lists its full name"]
            "a backend that does not list the service gets no reports" => |stage| async move {
                not_bound(stage.clone()).await?;
                equal("reports", &stage.backend("unlisted")?.received("Report").len(), &0)
            };
    );
    let backends = vec![
        backend("listed", settings.clone(), &listed),
        backend("unlisted", settings, &info(vec![filter])),
    ];
    Group { nodes: Nodes::Calls, binds: false, backends, cases }
}

fn outcomes(calls: &[Received]) -> Vec<api::Outcome> {
    calls.iter().flat_map(|call| call.decode::<ReportRequest>().outcomes).collect()
}

fn body(name: &str) -> Value {
    in_full(&pod(name), &[node("n1"), node("n2")])
}

/// A pod that is rejected on all nodes; its name, and the id of the call.
async fn rejected(stage: &Stage) -> Check<(String, String)> {
    let (listed, name) = (stage.backend("listed")?, fresh());
    listed.on("Filter", rejecting(&["n1", "n2"], "no"));
    stage.filter_ok(&body(&name)).await?;
    let call = listed.received("Filter").last().map(Received::call).unwrap_or_default();
    Ok((name, call.id))
}

/// The outcomes of a pod when there are so many.
async fn reported(stage: &Stage, name: &str, count: usize) -> Check<Vec<api::Outcome>> {
    let of_pod = |calls: &[Received]| {
        let outcomes: Vec<_> = outcomes(calls).into_iter().filter(|outcome| outcome.uid == name).collect();
        (outcomes.len() >= count).then_some(outcomes)
    };
    stage.backend("listed")?.until("the outcome is reported", "Report", of_pod).await
}

async fn not_bound(stage: Stage) -> Check {
    let (name, call) = rejected(&stage).await?;
    let expected = api::Outcome {
        call,
        namespace: "shop".into(),
        name: name.clone(),
        uid: name.clone(),
        kind: OutcomeKind::NotBound.into(),
        node: String::new(),
    };
    equal("the outcomes", &reported(&stage, &name, 1).await?, &[expected])
}

async fn superseded(stage: Stage) -> Check {
    let (backend, name) = (stage.backend("listed")?, fresh());
    stage.filter_ok(&body(&name)).await?;
    let first = backend.received("Filter").last().map(Received::call).unwrap_or_default().id;
    stage.filter_ok(&body(&name)).await?;
    let outcome = reported(&stage, &name, 1).await?.remove(0);
    equal(
        "the first outcome",
        &(outcome.call.as_str(), outcome.kind()),
        &(first.as_str(), OutcomeKind::Superseded),
    )
}

async fn call(stage: Stage) -> Check {
    let (name, _) = rejected(&stage).await?;
    reported(&stage, &name, 1).await?;
    let report: ReportRequest =
        stage.backend("listed")?.received("Report").last().map(Received::decode).unwrap_or_default();
    let call = report.call.unwrap_or_default();
    equal("purpose and backend", &(call.purpose(), call.backend.as_str()), &(Purpose::Decide, "listed"))?;
    let filters: Vec<_> =
        stage.backend("listed")?.received("Filter").iter().map(|call| call.call().id).collect();
    let is_own = !call.id.is_empty() && !filters.contains(&call.id);
    ensure(is_own && call.reads.is_empty(), || {
        format!("the id {:?}, and {} bytes of `reads`", call.id, call.reads.len())
    })
}

async fn again(stage: Stage) -> Check {
    let backend = stage.backend("listed")?;
    backend.always("Report", Act::Status(14, "not now", ""));
    let (name, _) = rejected(&stage).await?;
    let twice = reported(&stage, &name, 2).await?;
    equal("the second", &twice[1], &twice[0])
}

async fn dropped(stage: Stage) -> Check {
    let backend = stage.backend("listed")?;
    backend.always("Report", Act::Status(3, "what?", "ERROR_REASON_INVALID_REQUEST"));
    let (name, _) = rejected(&stage).await?;
    reported(&stage, &name, 1).await?;
    backend.always("Report", Act::Message(Vec::new()));
    let (next, _) = rejected(&stage).await?;
    reported(&stage, &next, 1).await?;
    equal("reports of what was refused", &reported(&stage, &name, 1).await?.len(), &1)
}

async fn order(stage: Stage) -> Check {
    let backend = stage.backend("listed")?;
    backend.always("Report", Act::Status(14, "not now", ""));
    let mut names = Vec::new();
    for _ in 0..4 {
        names.push(rejected(&stage).await?.0);
    }
    backend.always("Report", Act::Message(Vec::new()));
    let listed = |calls: &[Received]| {
        let mut uids: Vec<String> = Vec::new();
        for outcome in outcomes(calls) {
            if names.contains(&outcome.uid) && !uids.contains(&outcome.uid) {
                uids.push(outcome.uid);
            }
        }
        (uids.len() == names.len()).then_some(uids)
    };
    equal("the pods", &backend.until("outcomes are reported", "Report", listed).await?, &names)
}

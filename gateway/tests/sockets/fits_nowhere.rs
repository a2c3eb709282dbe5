//! Pods that are rejected on all nodes: what kube-scheduler is told at each attempt, so that it neither retries in a
//! loop nor loses the reasons.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use extender_gateway_pace::cadences::Cadences;
use prost::Message;
use serde_json::{Value, json};

use crate::support::{
    Gateway, TEST_TIMEOUT,
    admin::Seen,
    backend::{Act, Scripted, configured, filtered, info},
    by_name,
    http::Client,
    program::{OWN, Program},
    reading, steady,
};

/// A backend that rejects all nodes, for a reason that counts its calls from 0.
async fn counting() -> Scripted {
    let attempt = AtomicUsize::new(0);
    Scripted::start(info(reading::names()), move |_, message| {
        let reason = format!("{} units are free", attempt.fetch_add(1, Ordering::Relaxed));
        Act::Message(filtered(&message, &["a", "b", "c"], &reason).encode_to_vec())
    })
    .await
}

/// The reply to a filter call about these nodes.
async fn reply(gateway: &Gateway, names: &[&str]) -> Value {
    let answer = gateway.post("/filter", by_name(names)).await.json();
    assert_eq!(answer["Error"], "", "{answer}");
    answer
}

/// The reasons in it that preemption does not change.
async fn reasons(gateway: &Gateway, names: &[&str]) -> Value {
    reply(gateway, names).await["FailedAndUnresolvableNodes"].clone()
}

#[tokio::test]
async fn changing_reasons_become_one_summary_and_at_last_an_error() {
    let only = counting().await;
    let configured = configured("only", &only, "filter: {}");
    let rest = format!("nodes: {{source: Request}}\nbackends:\n{configured}");
    let gateway = Gateway::start_paced(&rest, Cadences { refusals: TEST_TIMEOUT, ..steady() }).await;
    let first = "only: 0 units are free";
    assert_eq!(reasons(&gateway, &["a", "b"]).await, json!({"a": first, "b": first}));
    let summary = "no node passes the policies: only: 0 units are free (2)";
    for _ in 1..50 {
        assert_eq!(reasons(&gateway, &["a", "b"]).await, json!({"a": summary, "b": summary}));
    }
    gateway.until_counted("summaries", "extender_gateway_summarized_refusals_total 49").await;
    let error = gateway.post("/filter", by_name(&["a", "b"])).await.error();
    assert!(error.ends_with(&format!("the pod was retried too often in a short time; {summary}")), "{error}");
    gateway.until_counted("errors", "extender_gateway_repeated_refusals_total 1").await;
}

#[tokio::test]
async fn reasons_are_sent_as_given_if_the_operator_wants_it() {
    let only = counting().await;
    let configured = configured("only", &only, "filter: {}");
    let settings = "reasons: {changing: AsGiven, repeated: AsGiven}";
    let rest = format!("nodes: {{source: Request}}\n{settings}\nbackends:\n{configured}");
    let gateway = Gateway::start_paced(&rest, Cadences { refusals: TEST_TIMEOUT, ..steady() }).await;
    for attempt in 0..60 {
        let expected = format!("only: {attempt} units are free");
        assert_eq!(reasons(&gateway, &["a"]).await, json!({"a": expected}));
    }
}

/// Two policies in uneven shares: the first rejects `a` and `b`, the second the others.
async fn racks_and_quota(fields: &str) -> (Scripted, Scripted, Seen) {
    let racks = Scripted::refusing(&["a", "b"], "rack is being drained", 0).await;
    let quota = Scripted::refusing(&["a", "b", "c", "d", "e"], "tenant is over its quota", 0).await;
    let backends = configured("racks", &racks, "filter: {}") + &configured("quota", &quota, fields);
    let seen = Seen::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{backends}")).await;
    (racks, quota, seen)
}

const DRAINED: &str = "racks: rack is being drained";
const FULL: &str = "quota: tenant is over its quota";

#[tokio::test]
async fn counts_that_would_change_the_condition_lead_to_a_summary() {
    let (_racks, _quota, seen) = racks_and_quota("filter: {}").await;
    let first = json!({"a": DRAINED, "b": DRAINED, "c": FULL});
    assert_eq!(reasons(&seen.gateway, &["a", "b", "c"]).await, first);
    assert_eq!(reasons(&seen.gateway, &["b", "a", "c"]).await, first, "the condition is the same");
    let summary = format!("no node passes the policies: {DRAINED} (2), {FULL} (1)");
    for names in [["a", "c", "d"], ["a", "b", "c"], ["c", "d", "e"]] {
        let expected: Value = names.iter().map(|name| ((*name).to_owned(), json!(summary))).collect();
        assert_eq!(reasons(&seen.gateway, &names).await, expected);
    }
}

#[tokio::test]
async fn a_node_on_which_preemption_may_help_stays_one() {
    let (_racks, _quota, seen) = racks_and_quota("filter: {preemptionMayHelp: Honored}").await;
    reply(&seen.gateway, &["a", "b", "c"]).await;
    let answer = reply(&seen.gateway, &["a", "c", "d"]).await;
    let summary = format!("no node passes the policies: {DRAINED} (2), {FULL} (1)");
    assert_eq!(answer["FailedAndUnresolvableNodes"], json!({"a": summary}));
    assert_eq!(answer["FailedNodes"], json!({"c": summary, "d": summary}));
}

#[tokio::test]
async fn each_nodes_own_reason_is_explained_all_the_same() {
    let (_racks, _quota, seen) = racks_and_quota("filter: {}").await;
    for names in [["a", "b", "c"], ["a", "c", "d"]] {
        reply(&seen.gateway, &names).await;
    }
    let call = seen.call(2).await;
    let reason = |name: &str| {
        let node = call.nodes.iter().find(|node| node.name == name).unwrap();
        format!("{}: {}", node.rejected_by.as_ref().unwrap(), node.reason.as_ref().unwrap())
    };
    assert_eq!([reason("a"), reason("c"), reason("d")], [DRAINED, FULL, FULL]);
    let explained =
        seen.admin.send("GET", "/debug/explain?namespace=shop&pod=web-0", "").await.json().to_string();
    assert!(
        explained.contains("rack is being drained") && !explained.contains("no node passes"),
        "{explained}"
    );
}

#[tokio::test]
async fn a_pod_that_was_accepted_has_first_reasons_again() {
    let (_racks, _quota, seen) = racks_and_quota("filter: {}").await;
    for names in [["a", "b", "c"], ["a", "c", "d"]] {
        reply(&seen.gateway, &names).await;
    }
    assert_eq!(reply(&seen.gateway, &["a", "free"]).await["NodeNames"], json!(["free"]));
    assert_eq!(reasons(&seen.gateway, &["a", "c"]).await, json!({"a": DRAINED, "c": FULL}));
}

#[tokio::test]
async fn a_changed_policy_has_first_reasons_again() {
    let only = Arc::new(counting().await);
    let configuration = |args: &str| {
        format!(
            "{OWN}nodes: {{source: NamesOnly}}\ntimeouts: {{decision: 60s}}\n\
             backends:\n{}",
            configured("only", &only, &format!("args: {{rack: {args}}}, filter: {{timeout: 60s}}"))
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    fs::write(&file, configuration("one")).unwrap();
    let program = Program::start(&file).await;
    let mut client = Client::connect(program.extender).await;
    let mut reason = async || {
        let answer = client.post("/filter", by_name(&["a"]).as_bytes()).await.json();
        answer["FailedAndUnresolvableNodes"]["a"].as_str().unwrap().to_owned()
    };
    let summary = "no node passes the policies: only: 0 units are free (1)";
    assert_eq!(reason().await, "only: 0 units are free");
    assert_eq!(reason().await, summary);
    assert_eq!(reason().await, summary);
    fs::write(&file, configuration("two")).unwrap();
    program.signal("HUP").await;
    program.wrote("configuration reloaded", 1).await;
    assert_eq!(reason().await, "only: 3 units are free");
}

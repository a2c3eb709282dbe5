//! Objects with what Go reads and passes on, and objects that cannot be read: each costs itself, and status names it.

use bytes::Bytes;
use extender_gateway_api::Status;
use prost::Message;
use serde_json::json;

use crate::support::{
    admin::Seen,
    backend::{Act, Scripted, configured, filtered, info, scored},
    preempting::{self, gateway, sparing},
    reading,
};

/// What a kubelet or a tenant may write into `managedFields`.
fn strange_fields() -> Vec<u8> {
    let (open, close) = (r#"{"f:a":["#.repeat(4_900), "]}".repeat(4_900));
    let digits = "9".repeat(400);
    [
        b"[{\"fieldsV1\":{\"f:\xff\":".as_slice(),
        open.as_bytes(),
        b"1e400",
        close.as_bytes(),
        b",\"n\":",
        digits.as_bytes(),
        b"}}]",
    ]
    .concat()
}

fn strange(kind: &str) -> Vec<u8> {
    [format!("{{\"metadata\":{{{kind},\"managedFields\":").as_bytes(), &strange_fields(), b"}}"].concat()
}

/// A call with these nodes.
fn call(pod: &[u8], nodes: &[&[u8]]) -> Vec<u8> {
    [b"{\"Pod\":".as_slice(), pod, b",\"Nodes\":{\"items\":[", &nodes.join(&b','), b"]}}"].concat()
}

fn node(name: &str) -> Vec<u8> {
    json!({"metadata": {"name": name}}).to_string().into_bytes()
}

async fn problems(seen: &Seen) -> Vec<(String, String, String)> {
    let answer = seen.admin.send("GET", "/debug/status", "").await;
    let status: Status = serde_json::from_slice(&answer.body).unwrap();
    let unreadable =
        status.problems.into_iter().filter(|problem| problem.runbook.ends_with("#unreadable-object"));
    unreadable.map(|problem| (problem.about, problem.what, problem.remedy)).collect()
}

async fn policy() -> Scripted {
    let script = |verb: &str, message: Bytes| match verb {
        "Filter" => Act::Message(filtered(&message, &["n3"], "no").encode_to_vec()),
        _ => Act::Message(scored(&message, |_| 4).encode_to_vec()),
    };
    Scripted::start(info(reading::json()), script).await
}

async fn start(policy: &Scripted) -> Seen {
    let backend = configured("raw", policy, "filter: {timeout: 60s}, score: {timeout: 60s}");
    Seen::start(&format!("nodes: {{source: Request}}\nbackends:\n{backend}")).await
}

const POD: &[u8] = br#"{"metadata":{"name":"web","namespace":"shop","uid":"u-1"}}"#;

#[tokio::test]
async fn a_node_that_cannot_be_read_is_rejected_alone() {
    let policy = policy().await;
    let seen = start(&policy).await;
    let (n1, n3, n4) = (node("n1"), node("n3"), strange(r#""name":"n4""#));
    let bad = br#"{"metadata":{"name":"bad","labels":{"a":1}}}"#;
    let body = call(POD, &[&n1, bad, &n3, &n4]);
    // A second call has it in the table of nodes, or not.
    for calls in 1..=2 {
        let answer = seen.gateway.post("/filter", &body).await;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let rejected =
            r#""FailedAndUnresolvableNodes":{"bad":"node cannot be read by the gateway","n3":"raw: no"}"#;
        assert!(text.contains(rejected) && text.contains(r#""Error":"""#), "{text:.300}");
        assert!(answer.body.windows(n4.len()).any(|part| part == n4), "the others are as they were sent");
        let counted = format!("extender_gateway_unreadable_objects_total {calls}\n");
        seen.gateway.until_counted("the node", &counted).await;
    }
    let scores = seen.gateway.post("/prioritize", &body).await.json();
    assert_eq!(scores.as_array().unwrap().len(), 3, "{scores}");
    let found = problems(&seen).await;
    let (about, what, remedy) = &found[0];
    assert_eq!((found.len(), about.as_str()), (1, "node bad"));
    assert!(what.contains("Node.metadata.labels.a") && what.contains("expected a string"), "{what}");
    assert!(remedy.contains("kubectl get node bad --output yaml --show-managed-fields"), "{remedy}");
    assert!(remedy.contains("delete it") && !remedy.contains("apiserver"), "{remedy}");
    // It was readable before, and is again.
    let well = call(POD, &[&node("bad"), &n3]);
    let answer = seen.gateway.post("/filter", &well).await.json();
    assert_eq!(answer["FailedAndUnresolvableNodes"], json!({"n3": "raw: no"}));
    assert_eq!(problems(&seen).await, []);
    let answer = seen.gateway.post("/filter", &body).await;
    assert!(String::from_utf8_lossy(&answer.body).contains("cannot be read by the gateway"));
}

#[tokio::test]
async fn a_pod_that_cannot_be_read_costs_its_own_calls() {
    let policy = policy().await;
    let seen = start(&policy).await;
    let nodes = [node("n1"), node("n3")];
    let nodes = [&*nodes[0], &*nodes[1]];
    let bad = br#"{"metadata":{"name":"bad","namespace":"shop","labels":{}},"spec":{"priority":"x"}}"#;
    let error = seen.gateway.post("/filter", call(bad, &nodes)).await.error();
    assert!(error.contains("Pod.spec.priority"), "{error}");
    let pods = [POD.to_vec(), strange(r#""name":"odd","namespace":"shop","uid":"u-2""#)];
    for pod in pods {
        let answer = seen.gateway.post("/filter", call(&pod, &nodes)).await.json();
        assert_eq!(answer["FailedAndUnresolvableNodes"], json!({"n3": "raw: no"}));
    }
    let found = problems(&seen).await;
    let (about, _, remedy) = &found[0];
    assert_eq!((found.len(), about.as_str()), (1, "pod shop/bad"));
    assert!(remedy.contains("kubectl get pod bad --namespace shop"), "{remedy}");
    let well = br#"{"metadata":{"name":"bad","namespace":"shop"},"spec":{"priority":1}}"#;
    seen.gateway.post("/filter", call(well, &nodes)).await.json();
    assert_eq!(problems(&seen).await, []);
}

#[tokio::test]
async fn keys_match_in_any_letter_case() {
    let policy = policy().await;
    let backend =
        configured("raw", &policy, "match: {excludedNamespaces: [sandbox]}, filter: {timeout: 60s}");
    let seen = Seen::start(&format!("nodes: {{source: Request}}\nbackends:\n{backend}")).await;
    let nodes = [node("n3")];
    for (pod, asked) in [
        (r#"{"METADATA":{"NameSpace":"sandbox","NAME":"p"}}"#, false),
        (r#"{"metadata":{"name\u017fpace":"sandbox"}}"#, false),
        (r#"{"metadata":{"name_space":"sandbox"}}"#, true),
    ] {
        let answer = seen.gateway.post("/filter", call(pod.as_bytes(), &[&*nodes[0]])).await.json();
        assert_eq!(answer["FailedAndUnresolvableNodes"]["n3"].is_string(), asked, "{pod}: {answer}");
    }
}

#[tokio::test]
async fn a_victim_that_cannot_be_read_costs_itself() {
    let backend = sparing(&[], &[]).await;
    let gateway = gateway(preempting::REQUEST, &[("guard", &backend, "")]).await;
    let victims = [
        strange(r#""name":"odd","namespace":"shop","uid":"u1""#),
        br#"{"metadata":{"name":"bad","namespace":"shop","uid":"u2"},"spec":[]}"#.to_vec(),
        br#"{"metadata":{"uid":"u3"},"Metadata":{"labels":{}}}"#.to_vec(),
        br#"{"metadata":{"name":"web","uid":"u4"}}"#.to_vec(),
    ];
    let victims: Vec<&[u8]> = victims.iter().map(|victim| &**victim).collect();
    let body = [
        b"{\"Pod\":".as_slice(),
        POD,
        b",\"NodeNameToVictims\":{\"n1\":{\"Pods\":[",
        &victims.join(&b','),
        b"],\"NumPDBViolations\":0}}}",
    ];
    let answer = gateway.post("/preempt", body.concat()).await.json();
    assert_eq!(answer, preempting::left(&[("n1", &["u1", "u2", "u3", "u4"], 0)]));
    let sent = preempting::request(&backend.messages("Preempt")[0]).candidates.remove(0).victims;
    let read: Vec<_> = sent.iter().map(|victim| victim.pod.is_some()).collect();
    assert_eq!(read, [true, false, false, true]);
    gateway.until_counted("the victims", "extender_gateway_unreadable_objects_total 2\n").await;
}

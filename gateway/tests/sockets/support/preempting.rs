//! Common parts of tests of preempt: backends that keep and spare, and calls about two nodes.

use bytes::Bytes;
use extender_policy_api::v1beta1::{
    GetInfoResponse, KeptCandidate, PreemptRequest, PreemptResponse, Reads, Scope, Verb, VerbInfo,
    nodes::Form,
};
use prost::Message;
use serde_json::{Value, json};

use super::{
    Gateway,
    backend::{Act, Scripted, result},
    pod, reading,
};

pub(crate) fn info(reads: Reads) -> GetInfoResponse {
    let preempt = VerbInfo {
        verb: Verb::Preempt as i32,
        reads: Some(reads.clone()),
        scope: Scope::Node as i32,
        ..VerbInfo::default()
    };
    GetInfoResponse { verbs: vec![preempt], ..super::backend::info(reads) }
}

pub(crate) fn kept(position: u32, victims: &[u32]) -> KeptCandidate {
    KeptCandidate { position, victims: victims.into(), ..KeptCandidate::default() }
}

pub(crate) fn adding(position: u32, victims: &[u32], added: &[&str]) -> KeptCandidate {
    KeptCandidate { added_uids: added.iter().map(|&uid| uid.into()).collect(), ..kept(position, victims) }
}

pub(crate) fn answer(message: &Bytes, kept: Vec<KeptCandidate>) -> Act {
    let count = request(message).candidates.len();
    Act::Message(PreemptResponse { result: Some(result(count)), kept }.encode_to_vec())
}

pub(crate) fn request(message: &Bytes) -> PreemptRequest {
    PreemptRequest::decode(message.clone()).unwrap()
}

/// One that answers this to every call.
pub(crate) async fn keeping(reads: Reads, kept: Vec<KeptCandidate>) -> Scripted {
    Scripted::start(info(reads), move |_, message| answer(&message, kept.clone())).await
}

/// Keeps all nodes and victims except these.
pub(crate) async fn sparing(nodes: &'static [&'static str], uids: &'static [&'static str]) -> Scripted {
    Scripted::start(info(reading::names()), move |_, message| {
        let names = names(&message);
        let candidates = request(&message).candidates;
        let stay =
            (0..).zip(names.iter().zip(candidates)).filter(|(_, (name, _))| !nodes.contains(&name.as_str()));
        let kept = stay.map(|(position, (_, candidate))| {
            let victims =
                (0..).zip(candidate.victims).filter(|(_, victim)| !uids.contains(&victim.uid.as_str()));
            kept(position, &victims.map(|(at, _)| at).collect::<Vec<_>>())
        });
        answer(&message, kept.collect())
    })
    .await
}

pub(crate) fn names(message: &Bytes) -> Vec<String> {
    let Some(Form::Rows(rows)) = request(message).nodes.unwrap().form else { panic!("no rows") };
    rows.rows.into_iter().map(|row| row.name).collect()
}

/// The nodes and victims of each call of a backend.
pub(crate) fn asked(backend: &Scripted) -> Vec<Vec<(String, Vec<String>)>> {
    let victims = |message| {
        let candidates = request(message).candidates.into_iter();
        let uids = candidates.map(|one| one.victims.into_iter().map(|victim| victim.uid).collect());
        names(message).into_iter().zip(uids).collect()
    };
    backend.messages("Preempt").iter().map(victims).collect()
}

pub(crate) async fn gateway(source: &str, backends: &[(&str, &Scripted, &str)]) -> Gateway {
    let backends = backends.iter().map(|(name, backend, preempt)| {
        format!("- {{name: {name}, url: 'http://{}', preempt: {{{preempt}}}}}\n", backend.address)
    });
    let backends: Vec<String> = backends.collect();
    Gateway::start(&format!("{source}\nbackends:\n{}", backends.concat())).await
}

pub(crate) const REQUEST: &str = "nodes: {source: Request}";

pub(crate) fn map(nodes: &[(&str, &[&str], i64)]) -> Value {
    let victims = |(name, uids, violations): &(&str, &[&str], i64)| {
        let pods: Vec<Value> = uids.iter().map(|uid| json!({"UID": uid})).collect();
        ((*name).to_owned(), json!({"Pods": pods, "NumPDBViolations": violations}))
    };
    Value::Object(nodes.iter().map(victims).collect())
}

/// A call in names mode about n1 with u1 and u2, and n2 with u3.
pub(crate) fn call() -> String {
    let mut pod = pod();
    pod["spec"] = json!({"priority": 10});
    let candidates = map(&[("n1", &["u1", "u2"], 1), ("n2", &["u3"], 0)]);
    json!({"Pod": pod, "NodeNameToVictims": null, "NodeNameToMetaVictims": candidates}).to_string()
}

pub(crate) fn left(nodes: &[(&str, &[&str], i64)]) -> Value {
    json!({"NodeNameToMetaVictims": map(nodes)})
}

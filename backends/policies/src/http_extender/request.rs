//! The bodies that kube-scheduler would send: `ExtenderArgs`, `ExtenderPreemptionArgs` and `ExtenderBindingArgs` of
//! `k8s.io/kube-scheduler/extender/v1`. Objects are the JSON that the gateway got, byte for byte.

use std::collections::BTreeMap;

use extender_policy_sdk::{BindAsk, Candidate, Nodes, Pod};
use serde::Serialize;

const NO_POD: &str = "the gateway did not send the JSON of the pod";
const NO_NODE: &str = "the gateway does not know this node's JSON, which nodeCacheCapable: false sends; set nodes.source \
    to Watch or Request in its configuration";
const NO_VICTIM: &str = "the gateway does not know this victim, which nodeCacheCapable: false sends as an object; set \
    pods.source: Watch in its configuration";

/// The body of filter and prioritize.
pub(super) fn decide(pod: Pod<'_>, nodes: Nodes<'_>, node_cache_capable: bool) -> Result<Vec<u8>, String> {
    let pod = pod.raw_json().ok_or(NO_POD)?;
    let mut body = Vec::with_capacity(pod.len() + 64 * nodes.len());
    body.extend_from_slice(br#"{"Pod":"#);
    body.extend_from_slice(pod);
    if node_cache_capable {
        let names: Vec<_> = nodes.iter().map(|node| node.name()).collect();
        body.extend_from_slice(br#","Nodes":null,"NodeNames":"#);
        append(&mut body, &names);
    } else {
        body.extend_from_slice(br#","Nodes":{"metadata":{},"items":["#);
        for (at, node) in nodes.iter().enumerate() {
            let node_json = node.raw_json().ok_or_else(|| format!("node {:?}: {NO_NODE}", node.name()))?;
            body.extend_from_slice(if at == 0 { b"" } else { b"," });
            body.extend_from_slice(node_json);
        }
        body.extend_from_slice(br#"]},"NodeNames":null"#);
    }
    body.push(b'}');
    Ok(body)
}

/// The body of preempt.
pub(super) fn preempt(
    pod: Pod<'_>,
    candidates: &[Candidate<'_>],
    node_cache_capable: bool,
) -> Result<Vec<u8>, String> {
    let mut body = br#"{"Pod":"#.to_vec();
    body.extend_from_slice(pod.raw_json().ok_or(NO_POD)?);
    // Go writes maps in the order of their keys.
    let sorted = || candidates.iter().map(|candidate| (candidate.node().name(), candidate));
    if node_cache_capable {
        let victims: BTreeMap<_, _> =
            sorted().map(|(node, candidate)| (node, MetaVictims::of(candidate))).collect();
        body.extend_from_slice(br#","NodeNameToVictims":null,"NodeNameToMetaVictims":"#);
        append(&mut body, &victims);
    } else {
        body.extend_from_slice(br#","NodeNameToVictims":{"#);
        let sorted: BTreeMap<_, _> = sorted().collect();
        for (at, (node, candidate)) in sorted.into_iter().enumerate() {
            body.extend_from_slice(if at == 0 { b"" } else { b"," });
            append(&mut body, node);
            append_victims(&mut body, node, candidate)?;
        }
        body.extend_from_slice(br#"},"NodeNameToMetaVictims":null"#);
    }
    body.push(b'}');
    Ok(body)
}

/// The body of bind.
pub(super) fn bind(ask: BindAsk<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    append(
        &mut body,
        &BindingArgs {
            pod_name: ask.name(),
            pod_namespace: ask.namespace(),
            pod_uid: ask.uid(),
            node: ask.node(),
        },
    );
    body
}

fn append_victims(body: &mut Vec<u8>, node: &str, candidate: &Candidate<'_>) -> Result<(), String> {
    body.extend_from_slice(br#":{"Pods":["#);
    for (at, victim) in candidate.victims().enumerate() {
        let pod = victim.pod();
        let pod = pod.as_ref().and_then(Pod::raw_json);
        let pod = pod.ok_or_else(|| format!("victim {:?} on node {node:?}: {NO_VICTIM}", victim.uid()))?;
        body.extend_from_slice(if at == 0 { b"" } else { b"," });
        body.extend_from_slice(pod);
    }
    body.extend_from_slice(br#"],"NumPDBViolations":"#);
    append(body, &candidate.pdb_violations());
    body.push(b'}');
    Ok(())
}

/// `MetaVictims`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct MetaVictims<'a> {
    pods: Vec<MetaPod<'a>>,
    #[serde(rename = "NumPDBViolations")]
    pdb_violations: u32,
}

impl<'a> MetaVictims<'a> {
    fn of(candidate: &Candidate<'a>) -> Self {
        let pods = candidate.victims().map(|victim| MetaPod { uid: victim.uid() }).collect();
        Self { pods, pdb_violations: candidate.pdb_violations() }
    }
}

/// `MetaPod`.
#[derive(Serialize)]
struct MetaPod<'a> {
    #[serde(rename = "UID")]
    uid: &'a str,
}

/// `ExtenderBindingArgs`.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct BindingArgs<'a> {
    pod_name: &'a str,
    pod_namespace: &'a str,
    #[serde(rename = "PodUID")]
    pod_uid: &'a str,
    node: &'a str,
}

fn append(body: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(body, value).expect("texts and numbers can be written to memory");
}

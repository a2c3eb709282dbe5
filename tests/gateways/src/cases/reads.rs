//! A verb is sent what it declares, and nothing else.

use std::collections::BTreeMap;

use bytes::Bytes;
use extender_policy_api::v1beta1::{
    self as api, MapReads, MapValues, NodeFacts, NodePart, NodeReads, PodFacts, PodPart, PodReads, Resources,
    Taint, Toleration, Verb,
};
use serde_json::json;

use crate::{
    backend::Received,
    case::{Check, Group, Nodes, Stop, case, ensure, equal, table},
    scene::{backend, fresh, in_full, info, node, pod, strings, verb},
    stage::Stage,
    wire,
};

pub(crate) fn group() -> Group {
    let map = |keys: &[&str], prefixes: &[&str]| {
        Some(MapReads { keys: strings(keys), prefixes: strings(prefixes) })
    };
    let name = NodeReads { parts: vec![NodePart::Name.into()], ..Default::default() };
    let keys = (
        PodReads {
            labels: map(&["app", "missing"], &["ti"]),
            annotations: map(&[], &["example.com/"]),
            ..Default::default()
        },
        NodeReads { labels: map(&["missing", "rack"], &["example.com/"]), ..Default::default() },
    );
    let pod_parts =
        [PodPart::Identity, PodPart::Namespace, PodPart::Priority, PodPart::Requests, PodPart::Tolerations];
    let node_parts = [NodePart::Taints, NodePart::Unschedulable, NodePart::Allocatable];
    let parts = (
        PodReads { parts: pod_parts.map(Into::into).into(), ..Default::default() },
        NodeReads { parts: node_parts.map(Into::into).into(), ..Default::default() },
    );
    let everything = (
        PodReads { everything: true, ..Default::default() },
        NodeReads { everything: true, ..Default::default() },
    );
    let raw = (
        PodReads { parts: vec![PodPart::RawJson.into()], ..Default::default() },
        NodeReads { parts: vec![NodePart::RawJson.into()], ..Default::default() },
    );
    let declared = [
        ("name", (PodReads::default(), name)),
        ("keys", keys),
        ("parts", parts),
        ("everything", everything),
        ("raw", raw),
    ];
    let backends = declared.map(|(name, (pod, node))| {
        let reads = Some(api::Reads { pod: Some(pod), node: Some(node) });
        let settings = json!({"filter": {"timeout": "20s", "failurePolicy": "Fail"}});
        backend(name, settings, &info(vec![api::VerbInfo { reads, ..verb(Verb::Filter) }]))
    });
    let cases = table!(case:
        "reads.name" ["40: `facts` of a node is absent if at most the name is read", "40: The gateway sends the declared parts"]
            "a verb that reads the name is sent the name" => name_alone;
        "reads.keys" ["41: Their values are sent in that order, without keys", "41: A key that the object lacks has an empty value", "map.proto: The entries whose key begins with one of MapReads.prefixes"]
            "declared keys are sent as values, and entries of declared prefixes, and nothing else" => declared_keys;
        "reads.parts" ["info.proto: What a verb reads. The gateway sends this and nothing else"]
            "declared parts are sent, and nothing else" => declared_parts;
        "reads.everything" ["40: `everything` is explicit"] "everything has all labels and no annotations" => all_facts;
        "reads.raw" ["40: JSON is as its writer made it", "node.proto: The object's JSON, unchanged"]
            "JSON is the objects that kube-scheduler sent" => raw_json;
        "reads.siblings" ["30: `Pod.facts` contains nothing that differs between the pods of one template"]
            "pods of one template have equal facts" => siblings;
        "reads.equal-bytes" ["64: Equal facts have equal bytes in all requests of one gateway"]
            "equal facts have equal bytes, with fields and keys in order" => equal_bytes;
    );
    Group { nodes: Nodes::Calls, binds: false, backends: backends.into(), cases }
}

/// The request of this backend about node n1, in this JSON.
async fn asked(stage: &Stage, name: &str, body: &str) -> Check<Received> {
    let backend = stage.backend(name)?;
    let mark = backend.mark();
    stage.filter_ok(body).await?;
    backend.since(mark, "Filter").pop().ok_or_else(|| Stop::Failed(format!("{name} is not called")))
}

fn body(name: &str) -> String {
    in_full(&pod(name), &[node("n1")]).to_string()
}

fn entries(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Pod and node, without what is the same in each.
fn sent(received: &Received) -> (api::Pod, Vec<api::NodeRow>) {
    (received.pod(), received.rows.clone())
}

fn pod_of(facts: PodFacts) -> api::Pod {
    api::Pod { facts: Some(facts), ..Default::default() }
}

fn row_of(facts: NodeFacts) -> Vec<api::NodeRow> {
    vec![api::NodeRow { facts: Some(facts), ..Default::default() }]
}

async fn name_alone(stage: Stage) -> Check {
    let row = api::NodeRow { name: "n1".into(), ..Default::default() };
    let received = asked(&stage, "name", &body(&fresh())).await?;
    equal("pod and nodes", &sent(&received), &(pod_of(PodFacts::default()), vec![row]))
}

async fn declared_keys(stage: Stage) -> Check {
    let labels = MapValues {
        values: strings(&["web", ""]),
        absent: vec![1],
        entries: entries(&[("tier", "front")]).into_iter().collect(),
    };
    let annotations = entries(&[("example.com/team", "blue"), ("example.com/zone", "a")]);
    let annotations = MapValues { entries: annotations.into_iter().collect(), ..Default::default() };
    let facts = PodFacts { labels: Some(labels), annotations: Some(annotations), ..Default::default() };
    let labels = MapValues {
        values: strings(&["", "r-n1"]),
        absent: vec![0],
        entries: entries(&[("example.com/a", "1"), ("example.com/b", "2")]).into_iter().collect(),
    };
    let row = NodeFacts { labels: Some(labels), ..Default::default() };
    let received = asked(&stage, "keys", &body(&fresh())).await?;
    equal("pod and nodes", &sent(&received), &(pod_of(facts), row_of(row)))
}

async fn declared_parts(stage: Stage) -> Check {
    let name = fresh();
    let identity = api::PodIdentity {
        name: name.clone(),
        uid: name.clone(),
        claims: Vec::new(),
        created_seconds: Some(1_795_247_941),
    };
    let facts = PodFacts {
        namespace: "shop".into(),
        priority: Some(10),
        requests: Some(Resources { milli_cpu: 100, pods: 1, ..Default::default() }),
        tolerations: vec![Toleration { key: "spot".into(), operator: "Exists".into(), ..Default::default() }],
        ..Default::default()
    };
    let row = NodeFacts {
        taints: vec![Taint { key: "spot".into(), effect: "NoSchedule".into(), ..Default::default() }],
        unschedulable: Some(false),
        allocatable: Some(Resources { milli_cpu: 2_000, memory: 4 << 30, pods: 110, ..Default::default() }),
        ..Default::default()
    };
    let received = asked(&stage, "parts", &body(&name)).await?;
    let pod = api::Pod { identity: Some(identity), ..pod_of(facts) };
    equal("pod and nodes", &sent(&received), &(pod, row_of(row)))
}

async fn all_facts(stage: Stage) -> Check {
    let received = asked(&stage, "everything", &body(&fresh())).await?;
    let facts = received.facts();
    let labels = facts.labels.clone().unwrap_or_default().entries;
    equal(
        "labels of the pod",
        &labels.into_iter().collect::<BTreeMap<_, _>>(),
        &entries(&[("app", "web"), ("tier", "front")]),
    )?;
    let parts = (facts.namespace.as_str(), facts.priority, facts.tolerations.len(), facts.containers.len());
    equal("namespace, priority, tolerations and containers", &parts, &("shop", Some(10), 1, 1))?;
    let row = received.rows[0].clone();
    let node = row.facts.unwrap_or_default();
    equal("the node", &(row.name.as_str(), node.taints.len(), node.capacity.is_some()), &("n1", 1, true))?;
    equal("its labels", &node.labels.unwrap_or_default().entries.len(), &4)?;
    let more = facts.annotations.is_some() || node.annotations.is_some() || received.pod().identity.is_some();
    ensure(!more, || "annotations or the identity are sent, which are not declared".into())
}

async fn raw_json(stage: Stage) -> Check {
    let name = fresh();
    let received = asked(&stage, "raw", &body(&name)).await?;
    let read = |json: &[u8]| serde_json::from_slice::<serde_json::Value>(json).unwrap_or_default();
    equal("the pod", &read(&received.pod().raw_json), &pod(&name))?;
    equal("the node", &read(&received.rows[0].raw_json), &node("n1"))
}

/// `Pod.facts` and the first node's facts, as bytes.
fn bytes(received: &Received) -> (Bytes, Bytes) {
    (wire::field(&received.message, &[2, 2]), wire::field(&received.message, &[3, 2, 1, 2]))
}

async fn siblings(stage: Stage) -> Check {
    for name in ["keys", "everything"] {
        let one = bytes(&asked(&stage, name, &body(&fresh())).await?).0;
        let other = bytes(&asked(&stage, name, &body(&fresh())).await?).0;
        ensure(one == other && !one.is_empty(), || {
            format!("the facts of two pods of one template differ for {name}: {one:?} and {other:?}")
        })?;
    }
    Ok(())
}

async fn equal_bytes(stage: Stage) -> Check {
    let name = fresh();
    let ordered = body(&name);
    let swapped = ordered
        .replace(r#""example.com/a":"1","example.com/b":"2""#, r#""example.com/b":"2","example.com/a":"1""#)
        .replace(r#""app":"web","tier":"front""#, r#""tier":"front","app":"web""#);
    ensure(ordered != swapped, || "the suite's body has another form".into())?;
    for backend in ["keys", "everything"] {
        let one = bytes(&asked(&stage, backend, &ordered).await?);
        let other = bytes(&asked(&stage, backend, &swapped).await?);
        equal("the facts of the same objects with keys in another order", &one, &other)?;
        for (facts, labels) in [(&one.0, 18), (&one.1, 12)] {
            let numbers: Vec<_> = wire::fields(facts).into_iter().map(|(number, _)| number).collect();
            ensure(!numbers.is_empty() && numbers.is_sorted(), || {
                format!("the fields {numbers:?} are not in order")
            })?;
            let labels = wire::fields(&wire::field(facts, &[labels])).into_iter();
            let keys: Vec<_> = labels
                .filter(|(number, _)| *number == 3)
                .map(|(_, entry)| wire::field(&entry, &[1]))
                .collect();
            ensure(!keys.is_empty() && keys.is_sorted(), || format!("the keys {keys:?} are not in order"))?;
        }
    }
    Ok(())
}

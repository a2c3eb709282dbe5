//! What a verb does not declare. A pod and nodes are changed in one thing at a time; where a gateway would send the same as
//! before, the answer is the same, whatever else the request contains.

use std::{collections::BTreeMap, iter};

use extender_policy_api::v1beta1 as api;

use super::calls::same_unless_changing;
use crate::{
    case::{self, Case, Stop},
    declared::{ALL_BUT_BIND, Terms, Verb},
    objects::{Node, Pod, Vocabulary},
    question::{Question, Scene},
    sent::Extent,
    suite::Suite,
};

/// Pods that are asked about, in turn for each way of a change; the nodes of each, and of them those of a change.
const SCENES: usize = 2;
const NODES: usize = 40;
const FEW: usize = 8;

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        for ALL_BUT_BIND: "undeclared-data" Must ["40.1"] "what is not declared changes no answer" => undeclared;
    }
}

/// What is known of a pod or a node, and its change. The number is that of the way in which it is changed, and for nodes
/// that of the node besides.
struct Thing {
    name: &'static str,
    ways: usize,
    of_pod: fn(&mut Pod, usize, &Vocabulary),
    of_node: fn(&mut Node, usize, &Vocabulary),
}

const fn pod(name: &'static str, ways: usize, of_pod: fn(&mut Pod, usize, &Vocabulary)) -> Thing {
    Thing { name, ways, of_pod, of_node: |_, _, _| () }
}

const fn node(name: &'static str, ways: usize, of_node: fn(&mut Node, usize, &Vocabulary)) -> Thing {
    Thing { name, ways, of_pod: |_, _, _| (), of_node }
}

const NAMESPACES: [&str; 5] = ["kube-system", "default", "kube-public", "monitoring", "prod"];
const OWNERS: [&str; 5] = ["DaemonSet", "StatefulSet", "Job", "ReplicaSet", "Node"];
const CLASSES: [&str; 3] = ["system-cluster-critical", "system-node-critical", "low"];
const CLAIMS: [&str; 4] = ["data-web-0", "data", "claim", "cache"];
const PRIORITIES: [i32; 4] = [2_000_001_000, 1_000, 0, -10];
const STATUSES: [&str; 3] = ["Unknown", "True", "False"];
const AMOUNTS: [i64; 4] = [0, 1, 1 << 20, 1 << 50];

/// A way for each value that is likely.
const EACH_VALUE: usize = usize::MAX;

const THINGS: [Thing; 21] = [
    pod("labels of the pod", EACH_VALUE, |pod, way, words| pod.labels.extend(entries(words, way))),
    pod("annotations of the pod", EACH_VALUE, |pod, way, words| pod.annotations.extend(entries(words, way))),
    pod("name and UID of the pod", 4, |pod, way, _| {
        pod.identity.name = format!("web-{way}");
        pod.identity.uid = format!("uid of web-{way}");
    }),
    pod("the namespace", 5, |pod, way, _| pod.facts.namespace = NAMESPACES[way].into()),
    pod("the owner", 5, |pod, way, _| {
        pod.facts.owner = Some(api::OwnerReference { kind: OWNERS[way].to_owned(), ..Default::default() });
    }),
    pod("the priority", 4, |pod, way, _| pod.facts.priority = Some(PRIORITIES[way])),
    pod("the priority class", 3, |pod, way, _| pod.facts.priority_class_name = CLASSES[way].into()),
    pod("requests", 4, |pod, way, _| pod.facts.requests = Some(amount(way))),
    pod("tolerations", 2, |pod, way, _| {
        let all = api::Toleration { operator: "Exists".to_owned(), ..Default::default() };
        pod.facts.tolerations = vec![all; way];
    }),
    pod("the node selector", 1, |pod, _, _| pod.facts.node_selector.clear()),
    pod("the node affinity", 1, |pod, _, _| pod.facts.node_affinity = None),
    pod("claims", 4, |pod, way, _| {
        pod.identity.claims = vec![CLAIMS[way].to_owned()];
        let claim = CLAIMS[way].to_owned();
        pod.facts.volumes = vec![api::Volume { name: "data".to_owned(), claim, ..api::Volume::default() }];
    }),
    node("labels of nodes", FEW, |node, way, words| node.labels.extend(entries(words, way))),
    node("annotations of nodes", FEW, |node, way, words| node.annotations.extend(entries(words, way))),
    node("names of nodes", 1, |node, way, _| node.name = format!("gpu-{way}.internal")),
    node("taints", 1, |node, _, _| node.facts.taints.clear()),
    node("`unschedulable`", 1, |node, _, _| {
        node.facts.unschedulable = Some(node.facts.unschedulable != Some(true));
    }),
    node("conditions", 1, |node, way, _| {
        let condition = |name: &str| (name.to_owned(), STATUSES[way % 3].to_owned());
        node.facts.conditions = ["Ready", "DiskPressure"].map(condition).into();
    }),
    node("usage", 1, |node, way, _| node.usage.requested = Some(amount(way % 4))),
    node("nominated pods", 1, |node, way, _| node.nominated.requested = Some(amount(way % 4))),
    node("resources of nodes", 1, |node, way, _| {
        node.facts.allocatable = Some(amount(way % 4));
        node.facts.capacity = Some(amount(way % 4));
    }),
];

/// Each key, with another value each way.
fn entries(words: &Vocabulary, way: usize) -> impl Iterator<Item = (String, String)> {
    words.keys.iter().cloned().zip(words.values.iter().cycle().skip(way % words.values.len()).cloned())
}

fn amount(way: usize) -> api::Resources {
    let amount = AMOUNTS[way];
    let others = [("example.com/gpu".to_owned(), amount)].into();
    api::Resources { milli_cpu: amount, memory: amount, ephemeral_storage: amount, pods: amount, others }
}

impl Thing {
    fn change(&self, scene: &Scene, words: &Vocabulary, way: usize) -> Scene {
        let mut scene = scene.clone();
        let pods = iter::once(&mut scene.pod).chain(scene.victims.iter_mut().flatten());
        pods.for_each(|pod| (self.of_pod)(pod, way, words));
        let nodes = scene.nodes.iter_mut().zip(way * FEW..);
        nodes.for_each(|(node, number)| (self.of_node)(node, number, words));
        scene
    }
}

async fn undeclared(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let terms = suite.terms(verb)?;
    let mut objects = suite.objects();
    let likely = objects.likely();
    let sent = |scene: &Scene| Question::new(terms, scene, &suite.args);
    for number in 0..SCENES {
        let scene = Scene::random(&mut objects, NODES);
        same(suite, terms, &scene, [scene.clone()], "with data that is not declared").await?;
        let (few, one) = (scene.select(&[0, 1, 2, 3, 4, 5, 6, 7]), scene.select(&[0]));
        for thing in THINGS {
            // The keys that are not declared: none, if all of it is.
            let is_hidden = |keys: &[String]| {
                let words = Vocabulary {
                    keys: keys.to_vec(),
                    values: vec!["conformance".to_owned()],
                    own: BTreeMap::new(),
                };
                sent(&thing.change(&one, &words, 0)) == sent(&one)
            };
            let mut words = likely.clone();
            if !is_hidden(&words.keys) {
                words.keys.retain(|key| is_hidden(std::slice::from_ref(key)));
            }
            let ways = if words.keys.is_empty() { 0 } else { thing.ways.min(words.values.len()) };
            let changed = (number..ways).step_by(SCENES).map(|way| thing.change(&few, &words, way));
            let what = format!("with other data that is not declared: {}", thing.name);
            same(suite, terms, &few, changed, &what).await?;
        }
    }
    Ok(())
}

/// With all of it, each change of a scene gets the same answer as the scene, if a gateway would send the same.
async fn same(
    suite: &Suite,
    terms: Terms<'_>,
    scene: &Scene,
    changes: impl IntoIterator<Item = Scene, IntoIter: Send>,
    what: &str,
) -> Result<(), Stop> {
    let question = Question::new(terms, scene, &suite.args);
    let first = suite.ask(&question).await?;
    for changed in changes {
        if Question::new(terms, &changed, &suite.args) == question {
            let more = Question::with(terms, &changed, &suite.args, Extent::More);
            let answer = suite.ask(&more).await.map_err(|stop| stop.after(what))?;
            same_unless_changing(suite, &question, &first, &answer, what).await?;
        }
    }
    Ok(())
}

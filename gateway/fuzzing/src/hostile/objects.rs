//! Pods and nodes.

use extender_gateway_object::{limits, node, pod, view::PodFactsView};
use proptest::prelude::*;

use super::json;

use crate::objects;

const POD: &str = r#"{"metadata":{"name":"p","namespace":"n","uid":"u","labels":{"a":"b"},"annotations":{"x/y":"z"},
    "ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"r","uid":"o","controller":true}]},
    "spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"100m","memory":"1Gi","example.com/gpu":2}}}],
    "initContainers":[{"restartPolicy":"Always","resources":{"limits":{"cpu":1.5}}}],"overhead":{"cpu":"1e-3"},
    "priority":7,"priorityClassName":"high","nodeSelector":{"k":"v"},"schedulerName":"s","nodeName":"",
    "tolerations":[{"key":"t","operator":"Exists","effect":"NoExecute","tolerationSeconds":30}],
    "volumes":[{"name":"v","persistentVolumeClaim":{"claimName":"c","readOnly":true}},{"ephemeral":{}}]},
    "status":{"phase":"Pending","nominatedNodeName":"a"}}"#;
const NODE: &str = r#"{"metadata":{"name":"a","labels":{"zone":"b"},"annotations":null},
    "spec":{"unschedulable":true,"taints":[{"key":"k","value":"v","effect":"NoSchedule"}],"providerID":"x"},
    "status":{"capacity":{"cpu":"4","pods":110},"allocatable":{"cpu":"3900m","memory":"7Gi"},
    "conditions":[{"type":"Ready","status":"True"}]}}"#;

proptest! {
    #[test]
    fn a_pod_is_refused_or_has_facts(text in json(&[POD])) {
        objects::pod(&text);
    }

    #[test]
    fn a_node_is_refused_or_has_facts(text in json(&[NODE])) {
        objects::node(&text);
    }
}

/// Lists and maps of a pod, with `@` for the entries, and an entry with `~` for its number.
const OF_A_POD: [(&str, &str); 8] = [
    (r#"{"metadata":{"labels":{@}}}"#, r#""k~":"v""#),
    (r#"{"metadata":{"ownerReferences":[@]}}"#, r#"{"uid":"~"}"#),
    (r#"{"spec":{"containers":[@]}}"#, r#"{"name":"~","resources":{"limits":{"r~":"1"}}}"#),
    (
        r#"{"spec":{"initContainers":[@]}}"#,
        r#"{"restartPolicy":"Always","resources":{"requests":{"r~":"1"}}}"#,
    ),
    (r#"{"spec":{"containers":[{"resources":{"requests":{@}}}]}}"#, r#""r~":"0""#),
    (r#"{"spec":{"tolerations":[@]}}"#, r#"{"key":"~"}"#),
    (r#"{"spec":{"volumes":[@]}}"#, r#"{"name":"~","ephemeral":{}}"#),
    (r#"{"spec":{"nodeSelector":{@}}}"#, r#""k~":"v""#),
];
const OF_A_NODE: [(&str, &str); 4] = [
    (r#"{"metadata":{"name":"n","annotations":{@}}}"#, r#""k~":"v""#),
    (r#"{"metadata":{"name":"n"},"spec":{"taints":[@]}}"#, r#"{"key":"~"}"#),
    (r#"{"metadata":{"name":"n"},"status":{"capacity":{@}}}"#, r#""r~":"1""#),
    (r#"{"metadata":{"name":"n"},"status":{"conditions":[@]}}"#, r#"{"type":"~"}"#),
];

fn sized((object, entry): (&str, &str), count: usize) -> Vec<u8> {
    let entries: Vec<String> = (0..count).map(|at| entry.replace('~', &at.to_string())).collect();
    object.replace('@', &entries.join(",")).into_bytes()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn an_object_of_any_size_has_facts_or_is_refused_by_its_size(
        of_a_pod in prop::sample::select(&OF_A_POD[..]),
        of_a_node in prop::sample::select(&OF_A_NODE[..]),
        count in 0..2 * limits::MOST_ENTRIES,
    ) {
        let (pod_text, node_text) = (sized(of_a_pod, count), sized(of_a_node, count));
        let pod = pod::offered(&pod_text).map(|pod| pod.facts(&PodFactsView::complete()));
        let node = node::offered(&node_text).map(|node| node.facts());
        for refused in [pod.err(), node.err()] {
            prop_assert_eq!(refused.is_some(), count > limits::MOST_ENTRIES);
            let text = refused.map_or_else(String::new, |error| error.to_string());
            prop_assert!(text.is_empty() || text.contains("20000"), "{}", text);
        }
    }
}

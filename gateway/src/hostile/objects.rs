//! Pods and nodes.

use proptest::prelude::*;

use super::json;
use crate::object::{annotations::AnnotationPrefixes, node, pod};

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
        if let Ok(pod) = pod::parse(&text) {
            prop_assert_eq!(pod.identity().name, pod.name());
            prop_assert_eq!(pod.facts(&AnnotationPrefixes::default()).namespace, pod.namespace());
        }
    }

    #[test]
    fn a_node_is_refused_or_has_facts(text in json(&[NODE])) {
        if let Ok(node) = node::parse(&text) {
            let _ = node.facts(&AnnotationPrefixes::default());
        }
    }
}

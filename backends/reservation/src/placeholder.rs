//! The placeholder pod of a reservation, which kube-scheduler schedules in its place.
//!
//! It has of the template what decides where a pod can be, and nothing that runs: if it is bound after all, because this
//! policy is not the binder, its containers only wait. A scheduling gate keeps it from kube-scheduler until its UID is
//! recorded in the Reservation.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    object::{API_VERSION, KIND, Reservation},
    template,
};

/// The label of placeholder pods. Its value is the UID of the Reservation. It proves nothing.
pub(super) const LABEL: &str = "scheduling.extender-gateway.io/reservation";
/// The scheduling gate.
pub(super) const GATE: &str = "scheduling.extender-gateway.io/recorded";

/// What the pod has of the template's spec.
pub(super) const KEPT: [&str; 10] = [
    "affinity",
    "nodeSelector",
    "os",
    "preemptionPolicy",
    "priorityClassName",
    "resources",
    "runtimeClassName",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
];
/// What its containers have of the template's, besides their names.
pub(super) const KEPT_OF_CONTAINERS: [&str; 3] = ["ports", "resources", "restartPolicy"];

/// The most containers of each kind.
const MAX_CONTAINERS: usize = 64;
/// The user of containers, which never run.
const NOBODY: u32 = 65_534;
/// What `generateName` keeps of the Reservation's name.
const LONGEST_PREFIX: usize = 200;

#[derive(Default, Deserialize)]
#[serde(default, rename = "Template")]
struct PlaceholderTemplate {
    metadata: PlaceholderMetadata,
    spec: Map<String, Value>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename = "TemplateMetadata")]
struct PlaceholderMetadata {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

/// The pod to create for a template.
///
/// # Errors
/// The template is no pod template, or asks for what a placeholder cannot stand for; the text says what is wrong. The
/// apiserver checks the rest.
pub(super) fn pod(reservation: &Reservation, template: Value, image: &str) -> Result<Value, String> {
    let template: PlaceholderTemplate =
        serde_json::from_value(template).map_err(|error| format!("spec.template is invalid: {error}"))?;
    let PlaceholderTemplate { metadata: PlaceholderMetadata { mut labels, annotations }, spec: given } =
        template;
    template::check(&given)?;
    labels.insert(LABEL.to_owned(), reservation.uid.clone());
    let mut spec = Map::new();
    for field in KEPT {
        if let Some(value) = given.get(field) {
            spec.insert(field.to_owned(), value.clone());
        }
    }
    if let Some(node) = given.get("nodeName").and_then(Value::as_str) {
        template::require_node(&mut spec, node)?;
    }
    for field in ["containers", "initContainers"] {
        if let Some(containers) = given.get(field) {
            spec.insert(field.to_owned(), waiting(field, containers, image)?);
        }
    }
    spec.insert("schedulingGates".to_owned(), json!([{"name": GATE}]));
    // What the pod security standard `restricted` asks for; pods of Windows must not have it.
    if given.get("os").is_none_or(|os| os["name"] != "windows") {
        let security =
            json!({"runAsNonRoot": true, "runAsUser": NOBODY, "seccompProfile": {"type": "RuntimeDefault"}});
        spec.insert("securityContext".to_owned(), security);
    }
    spec.insert("terminationGracePeriodSeconds".to_owned(), 0.into());
    spec.insert("automountServiceAccountToken".to_owned(), false.into());
    spec.insert("enableServiceLinks".to_owned(), false.into());
    let end = reservation.name.floor_char_boundary(LONGEST_PREFIX);
    // What follows must not stand behind a point.
    let prefix = reservation.name[..end].trim_end_matches(['.', '-']);
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": format!("{prefix}-"),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": API_VERSION, "kind": KIND, "name": reservation.name, "uid": reservation.uid,
                "controller": true,
            }],
        },
        "spec": spec,
    }))
}

/// Containers with the requests of these that do nothing.
fn waiting(field: &str, containers: &Value, image: &str) -> Result<Value, String> {
    let wrong =
        || format!("spec.template.spec.{field} is invalid; expected at most {MAX_CONTAINERS} containers");
    let containers =
        containers.as_array().filter(|containers| containers.len() <= MAX_CONTAINERS).ok_or_else(wrong)?;
    let nothing_allowed = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let waiting = containers.iter().enumerate().map(|(at, container)| {
        let name = container.get("name").cloned().unwrap_or_else(|| format!("c{at}").into());
        let mut waits = json!({"name": name, "image": image, "securityContext": nothing_allowed});
        for kept in KEPT_OF_CONTAINERS {
            if let Some(value) = container.get(kept) {
                waits[kept] = value.clone();
            }
        }
        waits
    });
    Ok(waiting.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::parse;

    fn reservation() -> Reservation {
        let object = json!({"metadata": {"name": "web", "uid": "r-1", "resourceVersion": "7"}, "spec": {}});
        parse(object.to_string().as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn it_has_what_decides_about_nodes_and_nothing_that_runs() {
        let template = json!({
            "metadata": {"namespace": "shop", "labels": {"app": "web"}, "annotations": {"a": "b"}, "name": "x"},
            "spec": {
                "nodeName": "a", "serviceAccountName": "admin", "hostNetwork": false, "schedulerName": "other",
                "tolerations": [{"operator": "Exists"}], "volumes": [{"name": "v", "emptyDir": {}}],
                "containers": [{
                    "name": "web", "image": "web:1", "command": ["rm"], "resources": {"requests": {"cpu": "1"}},
                    "volumeMounts": [{"name": "v"}], "securityContext": {"privileged": true},
                }],
                "initContainers": [{"name": "side", "image": "side:1", "restartPolicy": "Always"}, {}],
            },
        });
        let pod = pod(&reservation(), template, "pause:1").unwrap();
        let container = |name: &str, more: Value| {
            let mut container = json!({
                "name": name, "image": "pause:1",
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            });
            container.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            container
        };
        let expected = json!({
            "schedulerName": "other", "tolerations": [{"operator": "Exists"}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},
            ]}}},
            "containers": [container("web", json!({"resources": {"requests": {"cpu": "1"}}}))],
            "initContainers": [
                container("side", json!({"restartPolicy": "Always"})), container("c1", json!({})),
            ],
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": NOBODY, "seccompProfile": {"type": "RuntimeDefault"},
            },
            "schedulingGates": [{"name": GATE}], "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false, "enableServiceLinks": false,
        });
        assert_eq!(pod["spec"], expected);
        assert_eq!(
            pod["metadata"],
            json!({
                "generateName": "web-", "labels": {"app": "web", LABEL: "r-1"}, "annotations": {"a": "b"},
                "ownerReferences": [{
                    "apiVersion": API_VERSION, "kind": KIND, "name": "web", "uid": "r-1", "controller": true,
                }],
            })
        );
    }

    #[test]
    fn what_is_no_template_is_told() {
        for (template, expected) in [
            (json!("pod"), "spec.template is invalid"),
            (json!({"metadata": {"labels": ["a"]}}), "spec.template is invalid"),
            (json!({"spec": {"containers": "all"}}), "spec.template.spec.containers is invalid"),
            (
                json!({"spec": {"initContainers": vec![json!({}); 65]}}),
                "initContainers is invalid; expected at most 64",
            ),
        ] {
            let error = pod(&reservation(), template, "pause:1").unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}

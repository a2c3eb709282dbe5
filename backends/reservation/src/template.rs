//! What a Reservation's template may say: what decides where its placeholder pod can be, and what has no effect as long as
//! nothing runs. Anything else is refused, because the room would not be what its user expects.

use serde_json::{Map, Value, json};

use super::placeholder::{KEPT, KEPT_OF_CONTAINERS};

/// What only matters to a pod that runs, or what follows from its classes.
const WITHOUT_EFFECT: [&str; 25] = [
    "activeDeadlineSeconds",
    "automountServiceAccountToken",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "hostAliases",
    "hostIPC",
    "hostPID",
    "hostUsers",
    "hostname",
    "hostnameOverride",
    "imagePullSecrets",
    "overhead",
    "priority",
    "readinessGates",
    "restartPolicy",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
    "terminationGracePeriodSeconds",
    "ephemeralContainers",
    "nominatedNodeName",
];
/// What is looked at.
const READ: [&str; 5] = ["containers", "hostNetwork", "initContainers", "nodeName", "volumes"];
/// The same of containers.
const WITHOUT_EFFECT_IN_CONTAINERS: [&str; 22] = [
    "args",
    "command",
    "env",
    "envFrom",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "name",
    "readinessProbe",
    "resizePolicy",
    "restartPolicyRules",
    "securityContext",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
    "workingDir",
];
/// The sources of volumes that every node has.
const ANYWHERE: [&str; 8] =
    ["configMap", "downwardAPI", "emptyDir", "hostPath", "image", "nfs", "projected", "secret"];

/// # Errors
/// The spec of the template says something that a placeholder pod cannot stand for; the text names it and what to do.
pub(super) fn check(spec: &Map<String, Value>) -> Result<(), String> {
    let at = |wrong| format!("spec.template.spec.{wrong}");
    for (field, value) in spec {
        let is_known =
            [&KEPT[..], &WITHOUT_EFFECT, &READ].iter().any(|known| known.contains(&field.as_str()));
        match field.as_str() {
            // What is there and says nothing.
            _ if value.is_null() => {}
            "hostNetwork" if *value == json!(true) => {
                return Err(at("hostNetwork is not honored; give the ports a hostPort instead".to_owned()));
            }
            "nodeName" if !value.is_string() => return Err(at("nodeName is not a string".to_owned())),
            "volumes" => volumes(value).map_err(at)?,
            "containers" | "initContainers" => containers(field, value).map_err(at)?,
            _ if is_known => {}
            _ => return Err(at(format!("{field} is not honored or unknown; remove it"))),
        }
    }
    Ok(())
}

fn containers(field: &str, containers: &Value) -> Result<(), String> {
    let known = [&KEPT_OF_CONTAINERS[..], &WITHOUT_EFFECT_IN_CONTAINERS];
    for (at, container) in containers.as_array().into_iter().flatten().enumerate() {
        let mut fields = container.as_object().into_iter().flatten();
        if let Some((unknown, _)) = fields.find(|(name, value)| {
            !value.is_null() && !known.iter().any(|known| known.contains(&name.as_str()))
        }) {
            return Err(format!("{field}[{at}].{unknown} is not honored or unknown; remove it"));
        }
        if container.pointer("/resources/claims").is_some_and(|claims| *claims != json!([])) {
            return Err(format!("{field}[{at}].resources.claims is not honored; devices are not reserved"));
        }
    }
    Ok(())
}

fn volumes(volumes: &Value) -> Result<(), String> {
    for (at, volume) in volumes.as_array().into_iter().flatten().enumerate() {
        let mut sources = volume.as_object().into_iter().flat_map(Map::keys).filter(|key| *key != "name");
        if let Some(source) = sources.find(|source| !ANYWHERE.contains(&source.as_str())) {
            return Err(format!(
                "volumes[{at}].{source} is not honored; remove the volume, and select its nodes by affinity"
            ));
        }
    }
    Ok(())
}

/// Adds to the affinity of a pod's spec that it must be on this node.
///
/// # Errors
/// The affinity has another form than that of a pod.
pub(super) fn require_node(spec: &mut Map<String, Value>, node: &str) -> Result<(), String> {
    let requirement = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let path = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    let wrong = || "spec.template.spec.affinity is not an affinity".to_owned();
    let mut at = spec;
    for field in path {
        let inner = at.entry(field).or_insert_with(|| json!({}));
        if inner.is_null() {
            *inner = json!({});
        }
        at = inner.as_object_mut().ok_or_else(wrong)?;
    }
    let Some(terms) = at.get_mut("nodeSelectorTerms") else {
        at.insert("nodeSelectorTerms".to_owned(), json!([{"matchFields": [requirement]}]));
        return Ok(());
    };
    for term in terms.as_array_mut().ok_or_else(wrong)? {
        let term = term.as_object_mut().ok_or_else(wrong)?;
        // An empty term selects nothing.
        if !term.is_empty() {
            let fields = term.entry("matchFields").or_insert_with(|| json!([]));
            fields.as_array_mut().ok_or_else(wrong)?.push(requirement.clone());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(spec: &Value) -> Result<(), String> {
        check(spec.as_object().unwrap())
    }

    #[test]
    fn what_a_placeholder_cannot_stand_for_is_refused() {
        for (spec, expected) in [
            (json!({"hostNetwork": true}), "spec.template.spec.hostNetwork is not honored"),
            (json!({"tolerationz": []}), "spec.template.spec.tolerationz is not honored or unknown"),
            (json!({"resourceClaims": [{"name": "gpu"}]}), "resourceClaims is not honored"),
            (json!({"schedulingGates": [{"name": "g"}]}), "schedulingGates is not honored"),
            (json!({"nodeName": 7}), "nodeName is not a string"),
            (
                json!({"containers": [{}, {"resorces": {}}]}),
                "containers[1].resorces is not honored or unknown",
            ),
            (
                json!({"initContainers": [{"resources": {"claims": [{"name": "g"}]}}]}),
                "claims is not honored",
            ),
            (
                json!({"volumes": [{"name": "v", "persistentVolumeClaim": {}}]}),
                "volumes[0].persistentVolumeClaim is",
            ),
        ] {
            let wrong = checked(&spec).unwrap_err();
            assert!(wrong.contains(expected), "{wrong}");
        }
        let usual = json!({
            "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "volumes": [{"name": "v", "configMap": {}}],
            "resourceClaims": null, "nodeName": "a",
            "containers": [{"name": "c", "image": "i", "env": [], "livenessProbe": {}, "resources": {"claims": []}}],
        });
        assert_eq!(checked(&usual), Ok(()));
    }

    #[test]
    fn a_node_is_required_besides_every_term() {
        let on = json!([{"key": "metadata.name", "operator": "In", "values": ["a"]}]);
        let terms = |terms: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}});
        let zone = json!([{"key": "zone", "operator": "Exists"}]);
        for (given, expected) in [
            (json!({}), terms(json!([{"matchFields": on}]))),
            (json!({"affinity": {"nodeAffinity": null}}), terms(json!([{"matchFields": on}]))),
            (
                terms(json!([{"matchExpressions": zone}, {}])),
                terms(json!([{"matchExpressions": zone, "matchFields": on}, {}])),
            ),
        ] {
            let mut spec = given.as_object().unwrap().clone();
            require_node(&mut spec, "a").unwrap();
            assert_eq!(Value::Object(spec), expected);
        }
        let mut wrong = json!({"affinity": 7}).as_object().unwrap().clone();
        assert!(require_node(&mut wrong, "a").is_err());
    }
}

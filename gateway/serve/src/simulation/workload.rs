//! The pod that a workload's controller would create: template, owner, name and labels.

use serde_json::{Value, json};

/// The random end of a generated name. The letters are those of Kubernetes, and the same at each run.
const RANDOM: &str = "xxxxx";
/// Stands for the hash of a Deployment's template.
const HASH: &str = "xxxxxxxxxx";
/// Stands for the time in the name of a `CronJob`'s Job, in minutes since 1970.
const MINUTES: &str = "29000000";

/// A workload's pod, apart from its template.
struct Created {
    /// The kind and name of its controller.
    owner: (&'static str, String),
    name: String,
    /// The labels that the controller adds.
    labels: Vec<(&'static str, String)>,
}

/// Whether objects of this kind are pods or have a template for pods.
pub(super) fn has_pods(kind: &str) -> bool {
    kind == "Pod" || template(kind).is_some()
}

/// Whether an `apiVersion` is one of the pods and workloads of Kubernetes, or absent: others have Jobs, too.
pub(super) fn is_of_kubernetes(version: &str) -> bool {
    let group = version.split_once('/').map_or("", |(group, _)| group);
    matches!(group, "" | "apps" | "batch" | "extensions")
}

/// The path to the template of a workload.
fn template(kind: &str) -> Option<&'static str> {
    match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Job" => Some("/spec/template"),
        "CronJob" => Some("/spec/jobTemplate/spec/template"),
        _ => None,
    }
}

/// A pod of this object, which is of a kind that has pods.
///
/// # Errors
/// What is missing, with what is expected.
pub(super) fn pod_of(mut object: Value) -> Result<Value, String> {
    let kind = object["kind"].as_str().unwrap_or_default().to_owned();
    let Some(path) = template(&kind) else {
        name_generated(&mut object)?;
        return Ok(object);
    };
    let name = object["metadata"]["name"].as_str().filter(|name| !name.is_empty());
    let name = name.ok_or("metadata.name is missing; expected the name of the workload")?.to_owned();
    let field = path.trim_start_matches('/').replace('/', ".");
    let mut pod = object
        .pointer_mut(path)
        .filter(|template| template["spec"].is_object())
        .map(Value::take)
        .ok_or_else(|| format!("{field}.spec is missing; expected the template of its pods"))?;
    if pod["metadata"].is_null() {
        pod["metadata"] = json!({});
    }
    if !pod["metadata"].is_object()
        || !(pod["metadata"]["labels"].is_null() || pod["metadata"]["labels"].is_object())
    {
        return Err(format!("{field}.metadata is invalid; expected a mapping with labels"));
    }
    if kind == "StatefulSet" {
        claim_volumes(&object["spec"]["volumeClaimTemplates"], &name, &mut pod)?;
    }
    let Created { owner: (owner, owner_name), name, labels } = created(&kind, &name);
    let metadata = &mut pod["metadata"];
    metadata["name"] = json!(name);
    metadata["namespace"] = object["metadata"]["namespace"].take();
    metadata["ownerReferences"] = json!([{
        "apiVersion": if owner == "Job" { "batch/v1" } else { "apps/v1" },
        "kind": owner,
        "name": owner_name,
        "uid": "00000000-0000-4000-8000-0000000000ff",
        "controller": true,
        "blockOwnerDeletion": true,
    }]);
    if let Some(generated) = name.strip_suffix(RANDOM) {
        metadata["generateName"] = json!(generated);
    }
    for (key, value) in labels {
        metadata["labels"][key] = json!(value);
    }
    Ok(pod)
}

/// Gives a pod with `generateName` a name.
fn name_generated(pod: &mut Value) -> Result<(), String> {
    let metadata = &mut pod["metadata"];
    let has = |field: &str| metadata[field].as_str().filter(|text| !text.is_empty());
    match (has("name"), has("generateName")) {
        (Some(_), _) => {}
        (None, Some(prefix)) => metadata["name"] = json!(format!("{prefix}{RANDOM}")),
        (None, None) => return Err("metadata.name is missing; expected the name of the pod".to_owned()),
    }
    Ok(())
}

fn created(kind: &str, name: &str) -> Created {
    let named = |owner, name: String| Created {
        name: format!("{name}-{RANDOM}"),
        owner: (owner, name),
        labels: Vec::new(),
    };
    let of_job = |job: String| Created {
        labels: vec![("batch.kubernetes.io/job-name", job.clone()), ("job-name", job.clone())],
        ..named("Job", job)
    };
    match kind {
        "Deployment" => Created {
            labels: vec![("pod-template-hash", HASH.to_owned())],
            ..named("ReplicaSet", format!("{name}-{HASH}"))
        },
        "StatefulSet" => {
            let pod = format!("{name}-0");
            let labels = vec![
                ("statefulset.kubernetes.io/pod-name", pod.clone()),
                ("apps.kubernetes.io/pod-index", "0".to_owned()),
            ];
            Created { owner: ("StatefulSet", name.to_owned()), name: pod, labels }
        }
        "Job" => of_job(name.to_owned()),
        "CronJob" => of_job(format!("{name}-{MINUTES}")),
        "DaemonSet" => named("DaemonSet", name.to_owned()),
        _ => named("ReplicaSet", name.to_owned()),
    }
}

/// The volumes of a `StatefulSet`'s claims. Mirrors `updateStorage` of its controller.
fn claim_volumes(templates: &Value, set: &str, pod: &mut Value) -> Result<(), String> {
    let names = templates.as_array().into_iter().flatten();
    let names = names.filter_map(|template| template["metadata"]["name"].as_str());
    let claims: Vec<Value> = names
        .map(|name| json!({ "name": name, "persistentVolumeClaim": { "claimName": format!("{name}-{set}-0") } }))
        .collect();
    let volumes = &mut pod["spec"]["volumes"];
    match volumes {
        Value::Null if claims.is_empty() => {}
        Value::Null => *volumes = claims.into(),
        Value::Array(volumes) => volumes.extend(claims),
        _ => return Err("spec.template.spec.volumes is invalid; expected a list".to_owned()),
    }
    Ok(())
}

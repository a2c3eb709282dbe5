//! The pod of a simulation, from a file with a pod or a workload.

use std::path::Path;

use bytes::Bytes;
use extender_gateway_cluster::objects::{self, FileObject, SyntaxError, for_each};
use extender_gateway_object::pod;
use extender_gateway_object::text::clean;
use serde_json::{Map, Value, json};

use super::{files::FileProblem, workload};

const EXPECTED: &str = "expected a Pod, Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or CronJob";

/// A pod to be scheduled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulatedPod {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`; for a workload a name as its controller would generate it.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    pub(super) json: Bytes,
}

impl SimulatedPod {
    /// The pod of a file. `number` distinguishes it from the others of a simulation.
    ///
    /// # Errors
    /// The file does not have exactly one pod or workload, or a field of it is invalid.
    pub fn read(path: &Path, number: usize) -> Result<Self, FileProblem> {
        let problem = |problem: String| FileProblem::with_remedy(path, problem, EXPECTED);
        let text = objects::text(path).map_err(|error| problem(format!("cannot be read: {error}")))?;
        Self::of_text(&text, number).map_err(problem)
    }

    fn of_text(text: &str, number: usize) -> Result<Self, String> {
        let (object, place) = only(text)?;
        let mut pod = workload::pod_of(object).map_err(|wrong| format!("{place}: {wrong}"))?;
        complete(&mut pod, number);
        misspelt_containers(&pod).map_err(|wrong| format!("{place}: {wrong}"))?;
        let json = Bytes::from(pod.to_string());
        let parsed = pod::offered(&json).map_err(|error| {
            let error = error.to_string();
            // A position in the JSON, which nobody has seen.
            let error = error.split(" at line ").next().unwrap_or_default();
            format!("{place}: {error}; correct this field")
        })?;
        let [namespace, name, uid] = [parsed.namespace(), parsed.name(), parsed.uid()].map(ToOwned::to_owned);
        Ok(Self { namespace, name, uid, json })
    }
}

/// The only pod or workload of a text, and what it is called in messages. Other objects of a manifest, such as a Service,
/// are ignored.
fn only(text: &str) -> Result<(Value, String), String> {
    let mut found: Vec<(Value, String)> = Vec::new();
    let mut others = Vec::new();
    for_each(text, |FileObject { number, kind, json }| {
        let kind = kind.unwrap_or_else(|| "Pod".to_owned());
        if !workload::has_pods(&kind) {
            others.push(kind);
            return Ok(());
        }
        let mut object: Value = serde_json::from_str(json.get())?;
        let version = object["apiVersion"].as_str().unwrap_or_default();
        if !workload::is_of_kubernetes(version) {
            others.push(format!("{kind} of {version}"));
            return Ok(());
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let place = format!("object {number} ({kind} {name})").replace(" )", ")");
        object["kind"] = json!(kind);
        found.push((object, place));
        Ok(())
    })
    .map_err(|error: SyntaxError| error.to_string())?;
    match found.len() {
        1 => Ok(found.remove(0)),
        0 if others.is_empty() => Err(format!("the file contains no object; {EXPECTED}")),
        0 => Err(format!("the file contains no pod, only {}; {EXPECTED}", counts(&others))),
        _ => {
            let places: Vec<_> = found.into_iter().map(|(_, place)| place).collect();
            Err(format!("the file contains more than one pod: {}; keep one of them", places.join(", ")))
        }
    }
}

/// Each kind once, with the number of its objects if there are several: `Node (3), Service`.
fn counts(kinds: &[String]) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for kind in kinds {
        match counted.iter_mut().find(|(known, _)| known == kind) {
            Some((_, count)) => *count += 1,
            None => counted.push((kind, 1)),
        }
    }
    let texts = counted.into_iter().map(|(kind, count)| match count {
        1 => clean(kind).into_owned(),
        _ => format!("{} ({count})", clean(kind)),
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// Fields that the apiserver refuses are ignored otherwise, but without its containers a pod requests nothing.
fn misspelt_containers(pod: &Value) -> Result<(), String> {
    const KNOWN: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
    let has_images = |value: &Value| {
        value.as_array().is_some_and(|list| list.iter().any(|item| item["image"].is_string()))
    };
    let fields = pod["spec"].as_object().into_iter().flatten();
    match fields.into_iter().find(|(name, value)| !KNOWN.contains(&name.as_str()) && has_images(value)) {
        Some((name, _)) => Err(format!("spec.{} is unknown; expected containers", clean(name))),
        None => Ok(()),
    }
}

/// Adds what the apiserver would, and removes what scheduling will set.
fn complete(pod: &mut Value, number: usize) {
    let Some(fields) = pod.as_object_mut() else { return };
    fields.remove("status");
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    if let Some(metadata) = metadata.as_object_mut() {
        default(metadata, "namespace", "default");
        default(metadata, "uid", &format!("00000000-0000-4000-8000-{number:012}"));
    }
    let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) else { return };
    spec.remove("nodeName");
    default(spec, "schedulerName", "default-scheduler");
    for containers in ["containers", "initContainers"] {
        let containers = spec.get_mut(containers).and_then(Value::as_array_mut);
        containers.into_iter().flatten().for_each(request_limits);
    }
}

fn default(fields: &mut Map<String, Value>, name: &str, value: &str) {
    let field = fields.entry(name).or_insert(Value::Null);
    if field.is_null() || field == "" {
        *field = json!(value);
    }
}

/// A container requests its limits unless it says otherwise. Mirrors `SetDefaults_Pod` of Kubernetes.
fn request_limits(container: &mut Value) {
    let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    let requests = resources.entry("requests").or_insert_with(|| json!({}));
    if requests.is_null() {
        *requests = json!({});
    }
    let Some(requests) = requests.as_object_mut() else { return };
    for (resource, amount) in limits {
        requests.entry(resource).or_insert(amount);
    }
}

#[cfg(test)]
mod tests;

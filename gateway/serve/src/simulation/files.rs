//! The files of a simulation: the nodes of the cluster, and the pods that run there.

use std::{fmt::Display, path::PathBuf};

use extender_config::echo;
use extender_gateway_cluster::{
    file::content,
    objects::{self, FileObject, SyntaxError, for_each},
    pods::{PodRelist, PodTable},
    table::{NodeRelist, NodeTable},
};
use extender_gateway_object::ObjectError;
use serde::Deserialize;
use serde_json::{Value, json};

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}", .path.display())]
pub struct FileProblem {
    path: PathBuf,
    problem: String,
}

impl FileProblem {
    pub(super) fn new(path: impl Into<PathBuf>, problem: impl Display) -> Self {
        Self { path: path.into(), problem: problem.to_string() }
    }

    /// A problem whose text does not say what is expected.
    pub(super) fn with_remedy(path: impl Into<PathBuf>, problem: impl Display, remedy: &str) -> Self {
        let problem = problem.to_string();
        let has_remedy = problem.contains("; ");
        Self::new(path, if has_remedy { problem } else { format!("{problem}; {remedy}") })
    }
}

const NODES: &str = "expected a file as written by `kubectl get nodes -o yaml`";
const PODS: &str = "expected a file as written by `kubectl get pods -A -o json`";

/// The cluster of a simulation.
#[derive(Debug)]
pub struct ClusterFiles {
    /// Its nodes.
    pub nodes: PathBuf,
    /// The pods that run there; `None` if that is not known.
    pub pods: Option<PathBuf>,
}

/// A read file of nodes.
#[derive(Debug)]
pub(super) struct Nodes {
    text: String,
    /// The names, in the file's order.
    pub(super) names: Vec<String>,
}

impl ClusterFiles {
    /// Fills the table with the nodes.
    pub(super) fn read_nodes(&self, table: &NodeTable) -> Result<Nodes, FileProblem> {
        let unusable = |problem: &dyn Display| FileProblem::with_remedy(&self.nodes, problem, NODES);
        let text =
            objects::text(&self.nodes).map_err(|error| unusable(&format!("cannot be read: {error}")))?;
        let mut names = Vec::new();
        let nodes = content::read_with(&text, table.relist(), |json| names.extend(name(json)));
        let nodes = nodes.map_err(|error| unusable(&error))?;
        table.replace(nodes);
        Ok(Nodes { text, names })
    }

    /// Fills the table with the pods; without a file, with none. `tried` are the UIDs of those that are to be scheduled.
    pub(super) fn read_pods(&self, table: &PodTable, tried: &[&str]) -> Result<(), FileProblem> {
        let mut pods = table.relist();
        if let Some(path) = &self.pods {
            let unusable = |problem: &dyn Display| FileProblem::with_remedy(path, problem, PODS);
            let text = objects::text(path).map_err(|error| unusable(&format!("cannot be read: {error}")))?;
            add_pods(&text, &mut pods, tried).map_err(|error| unusable(&error))?;
        }
        table.replace(pods);
        Ok(())
    }
}

impl Nodes {
    /// The nodes again, for a table that keeps more of them now.
    pub(super) fn relist(&self, table: &NodeTable) -> Option<NodeRelist> {
        // The same text was read before.
        content::read(&self.text, table.relist()).ok()
    }
}

/// The name of a node that was read.
fn name(json: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Node {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
    }
    serde_json::from_str(json).ok().map(|node: Node| node.metadata.name)
}

/// Why a text is not a file of pods.
#[derive(Debug, thiserror::Error)]
enum PodsError {
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    #[error("object {} is of kind {}, not Pod; keep pods alone in this file", .0, echo(.1))]
    Kind(usize, String),
    #[error("{0}: {1}")]
    Pod(String, ObjectError),
    #[error("the file contains no object; for an empty cluster write `[]`")]
    Empty,
}

/// Pods that have ended use nothing. Mirrors the field selector of the gateway's watch.
fn add_pods(text: &str, pods: &mut PodRelist, tried: &[&str]) -> Result<(), PodsError> {
    if !objects::has_documents(text) {
        return Err(PodsError::Empty);
    }
    for_each(text, |object: FileObject<'_>| {
        if let Some(kind) = object.kind.as_ref().filter(|kind| *kind != "Pod") {
            return Err(PodsError::Kind(object.number, kind.clone()));
        }
        let number = object.number;
        let mut pod: Value = serde_json::from_str(object.json.get()).map_err(SyntaxError::Json)?;
        let has_ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let is_tried = pod["metadata"]["uid"].as_str().is_some_and(|uid| tried.contains(&uid));
        if has_ended || is_tried {
            return Ok(());
        }
        // A pod that was written by hand has no UID, by which the table knows it.
        if let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.entry("uid").or_insert_with(|| json!(format!("pod-{number}")));
        }
        pods.add(pod.to_string().as_bytes()).map_err(|problem| PodsError::Pod(object.place("Pod"), problem))
    })
    .map(drop)
}

#[cfg(test)]
mod tests;

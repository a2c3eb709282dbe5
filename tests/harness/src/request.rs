//! Bodies exactly in kube-scheduler's form, and the file of nodes for `source: File`.
//!
//! A body is a pod part followed by a nodes part. They are separate because a caller combines many pods with few
//! lists of nodes, and a list of full nodes has megabytes. Mirrors `ExtenderArgs` of k8s.io/kube-scheduler as
//! `HTTPExtender` of kube-scheduler encodes it.

use std::{fs, io, path::Path};

use crate::{node::Node, pod::Pod};

/// The verb of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Which nodes may the pod run on?
    Filter,
    /// How good is each node?
    Prioritize,
}

impl Verb {
    /// Its path, with an `urlPrefix` that has no path.
    pub fn path(self) -> &'static str {
        match self {
            Self::Filter => "/filter",
            Self::Prioritize => "/prioritize",
        }
    }
}

/// The first part of every body.
pub fn pod_part(pod: &Pod) -> Vec<u8> {
    format!("{{\"Pod\":{}", pod.json).into_bytes()
}

/// The second part with `nodeCacheCapable: true`: names alone.
pub fn names_part<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Vec<u8> {
    let names: Vec<String> = nodes.into_iter().map(|node| format!("\"{}\"", node.name)).collect();
    format!(",\"Nodes\":null,\"NodeNames\":[{}]}}", names.join(",")).into_bytes()
}

/// The second part with `nodeCacheCapable: false`: whole objects.
pub fn objects_part<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Vec<u8> {
    let objects = joined(nodes);
    format!(",\"Nodes\":{{\"metadata\":{{}},\"items\":[{objects}]}},\"NodeNames\":null}}").into_bytes()
}

/// Writes the objects as a `NodeList`, the form that `kubectl get nodes -o json` prints.
pub fn write_node_list<'a>(path: &Path, objects: impl IntoIterator<Item = &'a str>) -> io::Result<()> {
    let objects: Vec<&str> = objects.into_iter().collect();
    let objects = objects.join(",");
    fs::write(path, format!("{{\"apiVersion\":\"v1\",\"kind\":\"NodeList\",\"items\":[{objects}]}}"))
}

fn joined<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> String {
    let objects: Vec<&str> = nodes.into_iter().map(|node| node.json.as_str()).collect();
    objects.join(",")
}

#[cfg(test)]
mod tests;

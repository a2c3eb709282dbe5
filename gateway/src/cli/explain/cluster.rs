//! Queries the apiserver for the pod and related objects.

use std::time::Duration;

use futures_util::future::OptionFuture;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client, api::ListParams};
use tokio::{join, time::timeout};

use super::pod::{PodFacts, PodState};
use crate::cli::apiserver::{ClusterClient, said};

/// The time limit of all queries.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time limit of optional queries.
const HINTS: Duration = Duration::from_secs(2);
/// How many names of a namespace are compared.
const MOST_NAMES: u32 = 5000;
/// How many similar names are shown.
const MOST_NEAR: usize = 3;
/// The least similarity of names (Jaro-Winkler, 1 for equal names): names that differ only in a generated suffix
/// are less similar.
const NEAR: f64 = 0.85;

/// The answers of the apiserver.
#[derive(Debug)]
pub(super) struct ClusterView {
    /// The pod's state.
    pub(super) standing: PodState,
    /// The number of nodes; `None` if unknown.
    pub(super) nodes: Option<u64>,
    /// Whether the node of `--node` exists; `None` without that option, or if unknown.
    pub(super) node_exists: Option<bool>,
}

impl ClusterView {
    /// Not queried.
    pub(super) fn unasked(why: &str) -> Self {
        let standing = PodState::NotAsked { why: why.to_owned() };
        Self { standing, nodes: None, node_exists: None }
    }

    /// Queries a pod and, if named, a node.
    pub(super) async fn of(
        apiserver: &ClusterClient,
        namespace: &str,
        name: &str,
        node: Option<&str>,
    ) -> Self {
        let client = &apiserver.client;
        let nodes: Api<Node> = Api::all(client.clone());
        let exists: OptionFuture<_> = node.map(|node| exists(&nodes, node)).into();
        let known = async { timeout(HINTS, count(&nodes)).await.ok().flatten() };
        let all = async { join!(standing(client, namespace, name), known, exists) };
        match timeout(PATIENCE, all).await {
            Ok((standing, nodes, node)) => Self { standing, nodes, node_exists: node.flatten() },
            Err(_) => Self::unasked("no response within 5 s"),
        }
    }
}

async fn standing(client: &Client, namespace: &str, name: &str) -> PodState {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    match pods.get_opt(name).await {
        Ok(Some(pod)) => PodState::There(Box::new(PodFacts::of(pod))),
        Ok(None) => {
            let hints = async { join!(near(&pods, name), elsewhere(client, name)) };
            let (near, elsewhere) = timeout(HINTS, hints).await.unwrap_or_default();
            PodState::Gone { near, elsewhere }
        }
        Err(error) => PodState::NotAsked { why: said(error) },
    }
}

/// Names similar to this one, the most similar first; none if pods cannot be listed.
async fn near(pods: &Api<Pod>, name: &str) -> Vec<String> {
    let listed = pods.list_metadata(&ListParams::default().limit(MOST_NAMES)).await;
    let names = listed.into_iter().flatten().filter_map(|pod| pod.metadata.name);
    nearest(name, names.collect())
}

/// The names similar to this one, the most similar first.
pub(super) fn nearest(name: &str, mut names: Vec<String>) -> Vec<String> {
    let likeness = |other: &String| strsim::jaro_winkler(name, other);
    names.retain(|other| likeness(other) >= NEAR);
    names.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)).then_with(|| a.cmp(b)));
    names.truncate(MOST_NEAR);
    names
}

/// The namespaces that have a pod with this name; none if pods cannot be listed.
async fn elsewhere(client: &Client, name: &str) -> Vec<String> {
    let pods: Api<Pod> = Api::all(client.clone());
    let params = ListParams::default().fields(&format!("metadata.name={name}")).limit(MOST_NAMES);
    let listed = pods.list_metadata(&params).await;
    listed.into_iter().flatten().filter_map(|pod| pod.metadata.namespace).collect()
}

/// The number of nodes, from a list with one item and its count of remaining items.
async fn count(nodes: &Api<Node>) -> Option<u64> {
    let listed = nodes.list_metadata(&ListParams::default().limit(1)).await.ok()?;
    let rest = listed.metadata.remaining_item_count.unwrap_or_default();
    Some(listed.items.len() as u64 + u64::try_from(rest).ok()?)
}

async fn exists(nodes: &Api<Node>, name: &str) -> Option<bool> {
    nodes.get_metadata_opt(name).await.ok().map(|node| node.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found() {
        let names = || ["web-0", "web-1", "web-7d4b9c-x2x8k", "db-0"].map(str::to_owned).to_vec();
        assert_eq!(nearest("web-2", names()), ["web-0", "web-1"]);
        assert_eq!(nearest("web-7d4b9c-zzzzz", names()), ["web-7d4b9c-x2x8k"]);
        assert_eq!(nearest("cache", names()), [""; 0]);
    }
}

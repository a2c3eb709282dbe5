//! Keeps the node table and the pod table up to date from kube-apiserver.
//!
//! Objects are listed in pages and then watched. Each is read from its own JSON by [`extender_gateway_object`], like one from a
//! call or a file; typed objects are never built. While the apiserver is unavailable, the tables keep their objects.

mod answer;
mod lines;
mod state;
mod watcher;

use std::{convert::Infallible, sync::Arc};

use extender_gateway_object::ObjectError;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Client, Resource};

use self::{state::Pauses, watcher::Watcher};
use super::{
    SourceHealth,
    head::ObjectHead,
    pods::{PodRelist, PodTable},
    table::{NodeRelist, NodeTable},
    unreadable::{ObjectName, Unreadable},
};

/// Keeps the node table up to date. Logs when failures begin, change or end.
pub async fn nodes(table: Arc<NodeTable>, client: Client) -> Infallible {
    watch_nodes(&table, client, Pauses::default()).await
}

/// Keeps the pod table up to date, like [`nodes`].
pub async fn pods(table: Arc<PodTable>, client: Client) -> Infallible {
    Watcher::new(&*table, client, Pauses::default()).run().await
}

/// Applies the lines of a response to a table, as those of a watch.
pub async fn follow_nodes(
    table: &NodeTable,
    client: Client,
    body: kube::client::Body,
) -> Result<(), extender_apiserver::RequestError> {
    let mut watcher = Watcher::new(table, client, Pauses::default());
    watcher.follow(lines::Lines::new(body), tokio::time::Instant::now()).await
}

/// Lists and watches once.
pub async fn follow_once(
    nodes: &NodeTable,
    pods: &PodTable,
    client: &Client,
) -> Result<(), extender_apiserver::RequestError> {
    Watcher::new(nodes, client.clone(), Pauses::default()).once().await?;
    Watcher::new(pods, client.clone(), Pauses::default()).once().await
}

async fn watch_nodes(table: &NodeTable, client: Client, pauses: Pauses) -> Infallible {
    // Before the first list begins, so that no request for JSON is missed.
    let mut raw_wanted = table.raw_wanted();
    let mut watcher = Watcher::new(table, client, pauses);
    loop {
        tokio::select! {
            never = watcher.run() => return never,
            Ok(()) = raw_wanted.changed() => tracing::debug!("listing nodes again: a backend requests their JSON"),
        }
        watcher.list_again();
    }
}

/// A table that a watch fills.
trait WatchedTable {
    /// The resource of its objects, in the apiserver and in logs.
    const OBJECTS: &'static str;
    /// The kind of its objects.
    const KIND: &'static str;
    /// The field selector of lists and watches.
    const FIELDS: Option<&'static str>;
    /// The type of its objects, for their URL.
    type Kind: Resource<DynamicType = ()>;
    /// A list that is being received.
    type List;

    fn begin(&self) -> Self::List;
    fn add(list: &mut Self::List, json: &[u8]) -> Result<(), ObjectError>;
    /// An object of the list cannot be read.
    fn keep(_: &mut Self::List, _: &ObjectHead) {}
    /// Replaces all objects by those of the list.
    fn replace(&self, list: Self::List);
    fn apply(&self, json: &[u8]) -> Result<(), ObjectError>;
    fn remove(&self, object: &ObjectHead);
    /// An object cannot be read.
    fn reject(&self, object: ObjectName, error: &str);
    fn unreadable(&self) -> &Unreadable;
    /// The number of objects.
    fn count(&self) -> usize;
    fn source_health(&self) -> &SourceHealth;
}

impl WatchedTable for NodeTable {
    const OBJECTS: &'static str = "nodes";
    const KIND: &'static str = "Node";
    const FIELDS: Option<&'static str> = None;
    type Kind = Node;
    type List = NodeRelist;

    fn begin(&self) -> Self::List {
        self.relist()
    }

    fn add(list: &mut Self::List, json: &[u8]) -> Result<(), ObjectError> {
        list.add(json).map(drop)
    }

    fn replace(&self, list: Self::List) {
        self.replace(list);
    }

    fn apply(&self, json: &[u8]) -> Result<(), ObjectError> {
        self.apply(json).map(drop)
    }

    fn remove(&self, object: &ObjectHead) {
        self.remove(&object.name);
    }

    fn reject(&self, object: ObjectName, error: &str) {
        self.reject(object, error);
    }

    fn unreadable(&self) -> &Unreadable {
        &self.unreadable
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn source_health(&self) -> &SourceHealth {
        &self.source_health
    }
}

impl WatchedTable for PodTable {
    const OBJECTS: &'static str = "pods";
    const KIND: &'static str = "Pod";
    /// Pods that have ended use no resources and are not evicted. Mirrors `newPodInformer` of kube-scheduler.
    const FIELDS: Option<&'static str> = Some("status.phase!=Succeeded,status.phase!=Failed");
    type Kind = Pod;
    type List = PodRelist;

    fn begin(&self) -> Self::List {
        self.relist()
    }

    fn add(list: &mut Self::List, json: &[u8]) -> Result<(), ObjectError> {
        list.add(json)
    }

    /// What is known of it stays: its requests still count.
    fn keep(list: &mut Self::List, object: &ObjectHead) {
        list.keep(object.uid.clone());
    }

    fn replace(&self, list: Self::List) {
        self.replace(list);
    }

    fn apply(&self, json: &[u8]) -> Result<(), ObjectError> {
        self.apply(json)
    }

    fn remove(&self, object: &ObjectHead) {
        self.remove(&object.uid);
        self.unreadable.remove(Self::KIND, &object.namespace, &object.name);
    }

    /// What is known of it stays: its requests still count.
    fn reject(&self, object: ObjectName, error: &str) {
        self.unreadable.add(object, error);
    }

    fn unreadable(&self) -> &Unreadable {
        &self.unreadable
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn source_health(&self) -> &SourceHealth {
        &self.source_health
    }
}

#[cfg(test)]
mod tests;

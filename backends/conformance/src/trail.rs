//! Which request was on its way when the backend ended.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use extender_policy_api::v1beta1 as api;
use prost::Message as _;

use crate::declared::ABOUT_NODES;

/// A request that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    /// Such as `Filter`.
    pub(crate) method: String,
    pub(crate) message: Bytes,
}

/// The requests on all connections that count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trail(Arc<Mutex<Steps>>);

#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) last: Option<Sent>,
    /// The first one of a case whose connection was lost before it was answered.
    pub(crate) lost: Option<Sent>,
}

impl Trail {
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Steps) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, message } = self;
        write!(f, "{method}")?;
        if ABOUT_NODES.iter().any(|verb| verb.title() == method) {
            // The nodes have the same number in the requests of all verbs.
            let nodes = api::ScoreRequest::decode(message.clone()).ok().and_then(|request| request.nodes);
            write!(f, " about {}", counted(nodes.map_or(0, |nodes| nodes.count)))?;
        }
        write!(f, " with {} bytes", message.len())
    }
}

/// `1 node`, `2 nodes`.
pub(crate) fn counted(nodes: u32) -> String {
    if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") }
}

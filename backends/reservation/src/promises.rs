//! What pods were promised of reservations: the hook tells how much of a reservation a pod gets, others look whether the
//! node has room for the rest, and then the pod is bound. With less of the reservation by then, it could take room of others.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use extender_policy_sdk::Resources;
use tokio::time::Instant;

/// How long a promise is kept, and how many: the gateway asks about the node a moment before it binds.
const KEPT: Duration = Duration::from_mins(1);
const MAX_PROMISES: usize = 10_000;

/// The latest promise to each pod.
#[derive(Debug, Default)]
pub(super) struct Promises(Mutex<HashMap<String, Promise>>);

#[derive(Debug)]
struct Promise {
    node: String,
    part: Resources,
    made: Instant,
}

impl Promises {
    /// The pod with this UID was promised this part on the node.
    pub(super) fn keep(&self, uid: &str, node: &str, part: Resources) {
        if uid.is_empty() {
            return;
        }
        let (node, made) = (node.to_owned(), Instant::now());
        let mut promises = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if promises.len() >= MAX_PROMISES {
            promises.retain(|_, promise| promise.made.elapsed() < KEPT);
        }
        if promises.len() < MAX_PROMISES {
            promises.insert(uid.to_owned(), Promise { node, part, made });
        }
    }

    /// What was promised on this node; `None` if this replica has not promised anything.
    pub(super) fn take(&self, uid: &str, node: &str) -> Option<Resources> {
        let promise = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid)?;
        (promise.node == node && promise.made.elapsed() < KEPT).then_some(promise.part)
    }
}

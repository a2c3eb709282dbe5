//! Remembers the responses for pods that fit nowhere, for a while.
//!
//! kube-scheduler retries a rejected pod immediately when its condition changes, and the condition contains the
//! reasons: a text that differs between attempts makes it retry the pod hundreds of times a second. So a node's
//! first text is kept for a while (`first_reasons`). The condition also counts nodes over a changing sample, so a
//! pod may still be retried too often; then the call returns an error, and kube-scheduler backs off (`backoff`).
//!
//! Both have separate memory limits: the pacing of a pod takes 300 bytes, its texts may take megabytes.

mod backoff;
mod first_reasons;

use std::hash::{BuildHasher, RandomState};

use extender_gateway_core::filter::Rejected;
use parking_lot::Mutex;
use tokio::time::Instant;

pub(super) use self::backoff::{AttemptScope, Pace};
use self::{backoff::Paces, first_reasons::FirstReasons};
use crate::{
    cadences::Cadences,
    wire::{Names, reply::Reason},
};

/// The latest attempts to place pods that fit nowhere. Shared by all configurations of a process.
#[derive(Debug)]
pub struct RetryPacing {
    paces: Mutex<Paces>,
    texts: Mutex<FirstReasons>,
    /// Hashes pods' UIDs, which may have any length. Keyed, so that callers cannot cause collisions.
    hasher: RandomState,
}

/// The changes to the texts of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HeldReasons {
    /// Nodes whose text had changed and was restored.
    pub(super) changed: usize,
    /// Nodes whose text could not be kept for lack of memory.
    pub(super) forgotten: usize,
}

impl RetryPacing {
    /// No attempts yet.
    pub fn new(cadences: &Cadences) -> Self {
        Self {
            paces: Mutex::new(Paces::new(cadences.refusals)),
            texts: Mutex::new(FirstReasons::new(cadences.first_texts)),
            hasher: RandomState::new(),
        }
    }

    /// Records that a pod was rejected on all nodes of a call.
    pub(super) fn refused(&self, pod: &str, about: AttemptScope) -> Pace {
        self.paces.lock().refused(self.hasher.hash_one(pod), about, Instant::now())
    }

    /// Gives nodes the text from the pod's first attempt. `backends` are the names behind the groups of `rejected`.
    pub(super) fn hold(
        &self,
        pod: &str,
        names: &Names,
        backends: &[&str],
        rejected: (&mut Rejected, &mut Vec<Reason>),
    ) -> HeldReasons {
        self.texts.lock().hold(self.hasher.hash_one(pod), Instant::now(), (names, backends), rejected)
    }
}

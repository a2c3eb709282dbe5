//! What a controller gets while its replica leads.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use kube::Client;

/// A term of leadership: from when the lease was obtained until it is lost. Clones are the same term.
///
/// # Fencing
///
/// Leadership alone does not exclude that two replicas write at the same time for a moment: a process that was paused (a
/// stopped container, a virtual machine that moves) can continue in the middle of a write after another replica has
/// taken over, and clocks run at different speeds. A controller that must exclude this uses one of these:
///
/// - **Preconditions**: it sends updates with the `resourceVersion` that it has read, and deletes with
///   `preconditions`. A write that is based on an old state is then refused with a conflict.
/// - **A token**: it writes [`transitions`](Self::transitions) with what it writes, to a system that refuses a number
///   smaller than the largest one that it has seen.
#[derive(Clone)]
pub struct Leading {
    pub(crate) client: Client,
    pub(crate) lease: Arc<str>,
    pub(crate) identity: Arc<str>,
    pub(crate) transitions: u64,
    pub(crate) leads: Arc<AtomicBool>,
}

impl Leading {
    /// A client for the apiserver of the lease. It retries nothing. Its tasks end with the term.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The lease, as NAMESPACE/NAME.
    pub fn lease(&self) -> &str {
        &self.lease
    }

    /// This replica's name as the holder of the lease.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// How often the lease was obtained before this term: the fencing token. A later term has a larger one, also of the same
    /// replica, unless the Lease was deleted.
    pub fn transitions(&self) -> u64 {
        self.transitions
    }

    /// Whether the term has not ended. For work on other threads, such as in `tokio::task::spawn_blocking`, which cannot
    /// be cancelled and asks between its steps.
    pub fn leads(&self) -> bool {
        self.leads.load(SeqCst)
    }
}

impl std::fmt::Debug for Leading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { lease, identity, transitions, .. } = self;
        let mut leading = f.debug_struct("Leading");
        leading.field("lease", lease).field("identity", identity).field("transitions", transitions);
        leading.finish_non_exhaustive()
    }
}

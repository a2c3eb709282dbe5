//! The versions of a policy that is replaced while running: the latest one, and those that may still be asked for. A
//! request is encoded with one declaration, and can be read with no other.

use std::{iter, sync::Arc};

use arc_swap::ArcSwap;

use super::Prepared;

/// The earlier versions that are kept. Gateways repeat the handshake within a second, so there is rarely more than
/// one in use.
const MAX_EARLIER: usize = 16;

/// All versions in use.
pub(super) struct Versions {
    current: ArcSwap<Chain>,
}

/// No two of them declare the same.
struct Chain {
    latest: Arc<Prepared>,
    /// The latest one first.
    earlier: Vec<Arc<Prepared>>,
}

impl Versions {
    pub(super) fn new(first: Arc<Prepared>) -> Self {
        Self { current: ArcSwap::from_pointee(Chain { latest: first, earlier: Vec::new() }) }
    }

    pub(super) fn latest(&self) -> Arc<Prepared> {
        Arc::clone(&self.current.load().latest)
    }

    /// The latest version with this property.
    pub(super) fn find(&self, fits: impl Fn(&Prepared) -> bool) -> Option<Arc<Prepared>> {
        self.current.load().iter().find(|version| fits(version)).map(Arc::clone)
    }

    pub(super) fn add(&self, version: &Arc<Prepared>) {
        self.current.rcu(|chain| chain.with(Arc::clone(version)));
    }
}

impl Chain {
    fn iter(&self) -> impl Iterator<Item = &Arc<Prepared>> {
        iter::once(&self.latest).chain(&self.earlier)
    }

    /// An earlier version that declares the same is never needed again.
    fn with(&self, latest: Arc<Prepared>) -> Self {
        let other = |version: &&Arc<Prepared>| !version.declaration.reads_as(&latest.declaration);
        let earlier = self.iter().filter(other).take(MAX_EARLIER).map(Arc::clone).collect();
        Self { latest, earlier }
    }
}

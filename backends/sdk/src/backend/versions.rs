//! The versions of a policy that is replaced while running: the latest one, and those that may still be asked for. A
//! request is encoded with one declaration, and can be read with no other.

use std::{iter, sync::Arc};

use arc_swap::ArcSwap;

use super::{Declared, Prepared};
use crate::{DeclarationError, Policy};

/// The earlier versions that are kept. Gateways repeat the handshake within a second, so there is rarely more than
/// one in use.
const MAX_EARLIER: usize = 16;

/// All versions in use.
pub(super) struct Versions {
    current: ArcSwap<Chain>,
    declared: Declared,
}

/// No two of them declare the same.
struct Chain {
    latest: Arc<Prepared>,
    /// The latest one first.
    earlier: Vec<Arc<Prepared>>,
}

impl Versions {
    pub(super) fn new(first: Box<dyn Policy>, declared: Declared) -> Result<Self, DeclarationError> {
        let chain = Chain { latest: Prepared::new(first, declared)?, earlier: Vec::new() };
        Ok(Self { current: ArcSwap::from_pointee(chain), declared })
    }

    /// The latest one so far.
    pub(super) fn newest(&self) -> Arc<Prepared> {
        Arc::clone(&self.current.load().latest)
    }

    /// The one that answers from now on, which may have taken the place of the one before.
    pub(super) fn latest(&self) -> Result<Arc<Prepared>, DeclarationError> {
        let asked = self.newest();
        let Some(policy) = asked.policy.current() else { return Ok(asked) };
        let newer = Prepared::new(policy, self.declared)?;
        // Unless another call has replaced it meanwhile.
        self.current.rcu(|chain| {
            if Arc::ptr_eq(&chain.latest, &asked) {
                Arc::new(chain.with(Arc::clone(&newer)))
            } else {
                Arc::clone(chain)
            }
        });
        Ok(self.newest())
    }

    /// The latest version with this property.
    pub(super) fn find(&self, fits: impl Fn(&Prepared) -> bool) -> Option<Arc<Prepared>> {
        self.current.load().iter().find(|version| fits(version)).map(Arc::clone)
    }

    pub(super) fn replace(&self, policy: Box<dyn Policy>) -> Result<(), DeclarationError> {
        let version = Prepared::new(policy, self.declared)?;
        self.current.rcu(|chain| chain.with(Arc::clone(&version)));
        Ok(())
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

#[cfg(test)]
mod tests {
    use std::{convert::identity, sync::OnceLock};

    use super::*;
    use crate::{Info, Verb};

    struct Renewed(&'static str, fn() -> Option<Box<dyn Policy>>);

    impl Policy for Renewed {
        fn info(&self) -> Info {
            let info = Info::new("renewed", "1").revision(self.0);
            if self.0.is_empty() { info } else { info.filters(Verb::per_node()) }
        }

        fn current(&self) -> Option<Box<dyn Policy>> {
            (self.1)()
        }
    }

    fn revision(versions: &Versions) -> String {
        versions.latest().unwrap().declaration.response.revision.clone()
    }

    #[test]
    fn a_policy_that_is_replaced_while_it_names_a_newer_one_stays_replaced() {
        static VERSIONS: OnceLock<Versions> = OnceLock::new();
        let current: fn() -> Option<Box<dyn Policy>> = || {
            VERSIONS.get()?.replace(Box::new(Renewed("by the program", || None))).unwrap();
            Some(Box::new(Renewed("by itself", || None)))
        };
        let versions = Versions::new(Box::new(Renewed("first", current)), identity).unwrap();
        assert_eq!(revision(VERSIONS.get_or_init(|| versions)), "by the program");
    }

    #[test]
    fn a_mistake_in_a_newer_one_leaves_the_old_one() {
        let newer: fn() -> Option<Box<dyn Policy>> = || Some(Box::new(Renewed("", || None)));
        let versions = Versions::new(Box::new(Renewed("first", newer)), identity).unwrap();
        assert!(versions.latest().is_err());
        assert_eq!(versions.newest().declaration.response.revision, "first");
        versions.replace(Box::new(Renewed("second", || None))).unwrap();
        assert_eq!(revision(&versions), "second");
    }
}

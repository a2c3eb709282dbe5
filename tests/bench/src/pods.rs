//! The pods of the calls: of few Deployments, or all different.

use std::{borrow::Cow, cell::Cell};

use extender_harness::{pod::ReplicaSet, request::pod_part};

/// Pods of Deployments that are sent in turn.
const SIBLINGS: usize = 256;

/// The source of pods.
#[derive(Debug)]
pub enum Pods {
    /// Pods of four Deployments in turn, as when several are scaled up at once: after the first calls only their
    /// names are new.
    OfDeployments(Vec<Vec<u8>>),
    /// Each pod has a label that no pod had before it, in the whole run: no answer about it is cached. The number
    /// of the next one.
    AllDifferent(Cell<u64>),
}

impl Pods {
    /// Pods of four Deployments.
    pub fn of_deployments() -> Self {
        let apps = ["checkout", "payments", "search", "storefront"];
        let mut sets: Vec<ReplicaSet> = (1..).zip(apps).map(|(seed, app)| set(app, &[], seed)).collect();
        Self::OfDeployments((0..SIBLINGS).map(|number| pod_part(&sets[number % apps.len()].pod())).collect())
    }

    /// Pods that are all different.
    pub fn all_different() -> Self {
        Self::AllDifferent(Cell::new(0))
    }

    /// The beginning of the body of the call with this number.
    pub fn part(&self, number: usize) -> Cow<'_, [u8]> {
        match self {
            Self::OfDeployments(pods) => Cow::Borrowed(&pods[number % pods.len()]),
            Self::AllDifferent(next) => {
                let number = next.replace(next.get() + 1);
                let ticket = number.to_string();
                Cow::Owned(pod_part(&set("job", &[("acme.io/ticket", &ticket)], number).pod()))
            }
        }
    }
}

fn set(app: &str, further: &[(&str, &str)], seed: u64) -> ReplicaSet {
    let labels = [&[("acme.io/tenant", "tenant-0")], further].concat();
    ReplicaSet::new("shop", app, &labels, seed)
}

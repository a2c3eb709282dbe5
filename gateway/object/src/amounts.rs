//! Lists of resources: as stated in an object, their sums and maxima, and the contract's form.

use std::collections::BTreeMap;

use extender_policy_api::v1beta1::{NonZero, Resources};
use serde::Deserialize;

use super::{json::Map, quantity::Quantity};

pub(super) type ResourceList<'a> = Map<'a, Quantity>;

/// Mirrors `corev1.ResourceRequirements`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Requirements<'a> {
    #[serde(borrow)]
    pub(super) requests: ResourceList<'a>,
    pub(super) limits: ResourceList<'a>,
}

impl Requirements<'_> {
    /// The requests. Limits are not needed: the apiserver has used them for missing requests.
    pub(super) fn requests(&self) -> Amounts<'_> {
        Amounts::of(&self.requests)
    }
}

/// Amounts by resource name. An ordered map: a pod may name tens of thousands of resources, and sums must stay n
/// log n without a hash that a pod's author could attack. A handful of names is one tree node with a linear search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Amounts<'s> {
    pub(super) by_name: BTreeMap<&'s str, Quantity>,
}

impl<'s> Amounts<'s> {
    /// The amounts that an object states. The last of equal names counts.
    pub(super) fn of(list: &'s ResourceList<'_>) -> Self {
        let mut by_name = BTreeMap::new();
        for (name, quantity) in list.iter() {
            by_name.insert(name, *quantity);
        }
        Self { by_name }
    }

    /// The amount of one resource; zero if it is not named.
    pub(super) fn amount(&self, name: &str) -> Quantity {
        self.by_name.get(name).copied().unwrap_or_default()
    }

    /// Adds these amounts for resources that are not named, not even with zero. Mirrors `applyNonMissing`.
    #[must_use]
    pub(super) fn or(mut self, missing: &Self) -> Self {
        for (name, quantity) in &missing.by_name {
            self.by_name.entry(name).or_insert(*quantity);
        }
        self
    }

    /// Adds each amount to the one of the same name. Mirrors `addResourceList`.
    pub(super) fn add(&mut self, other: &Self) {
        for (name, quantity) in &other.by_name {
            let amount = self.by_name.entry(name).or_default();
            *amount = amount.plus(*quantity);
        }
    }

    /// Adds the amounts of those resources that are named here. The time depends on the names here, not on those in
    /// `other`.
    pub(super) fn add_to_named(&mut self, other: &Self) {
        for (name, amount) in &mut self.by_name {
            *amount = amount.plus(other.amount(name));
        }
    }

    /// Keeps the larger of the amounts of the same name. Mirrors `maxResourceList`.
    pub(super) fn raise_to(&mut self, other: &Self) {
        for (name, quantity) in &other.by_name {
            let amount = self.by_name.entry(name).or_insert(*quantity);
            *amount = (*amount).max(*quantity);
        }
    }

    /// Converts to the contract's units. Mirrors kube-scheduler's `Resource.Add`, except that resources unknown to
    /// it are also kept.
    pub(super) fn resources(&self) -> Resources {
        let mut resources = Resources::default();
        for (name, quantity) in &self.by_name {
            match *name {
                "cpu" => resources.milli_cpu = quantity.milli_value(),
                "memory" => resources.memory = quantity.value(),
                "ephemeral-storage" => resources.ephemeral_storage = quantity.value(),
                "pods" => resources.pods = quantity.value(),
                other => {
                    resources.others.insert(other.to_owned(), quantity.value());
                }
            }
        }
        resources
    }

    /// Only CPU and memory, in the contract's units.
    pub(super) fn nonzero(&self) -> NonZero {
        NonZero { milli_cpu: self.amount("cpu").milli_value(), memory: self.amount("memory").value() }
    }
}

//! Lists of resources: what an object says about them, sums and maxima, and the contract's form.

use std::collections::BTreeMap;

use extender_policy_api::v1alpha1::{NonZero, Resources};
use serde::Deserialize;

use super::{json::Map, quantity::Quantity};

/// `corev1.ResourceList` as it is written in an object.
pub(super) type ResourceList<'a> = Map<'a, Quantity>;

/// Mirrors `corev1.ResourceRequirements`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Requirements<'a> {
    #[serde(borrow)]
    pub(super) requests: ResourceList<'a>,
    #[serde(borrow)]
    pub(super) limits: ResourceList<'a>,
}

impl Requirements<'_> {
    /// Not the limits: where requests are missing, the apiserver has filled them in from these.
    pub(super) fn requests(&self) -> Amounts<'_> {
        Amounts::of(&self.requests)
    }
}

/// Amounts by resource name. An ordered map: a pod may name tens of thousands of resources, and sums must stay n log n
/// without depending on a hash that a pod's author could attack. A handful of names is one tree node, found by walking.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Amounts<'s>(BTreeMap<&'s str, Quantity>);

impl<'s> Amounts<'s> {
    /// The amounts that an object states. The last of equal names counts.
    pub(super) fn of(list: &'s ResourceList<'_>) -> Self {
        let mut amounts = Self::default();
        for (name, quantity) in list.iter() {
            amounts.set(name, *quantity);
        }
        amounts
    }

    /// Whether no resource is named.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the resource is named, whatever the amount.
    pub(super) fn names(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The amount of one resource; nothing when it is not named.
    pub(super) fn amount(&self, name: &str) -> Quantity {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// The amounts in the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'s str, Quantity)> {
        self.0.iter().map(|(name, quantity)| (*name, *quantity))
    }

    /// Keeps the resources whose names are wanted.
    pub(super) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.0.retain(|name, _| wanted(name));
    }

    /// With these where the resource is not named, not even with nothing. Mirrors `applyNonMissing`.
    #[must_use]
    pub(super) fn or(mut self, missing: &Self) -> Self {
        for (name, quantity) in missing.iter() {
            self.0.entry(name).or_insert(quantity);
        }
        self
    }

    /// Replaces or adds one amount.
    pub(super) fn set(&mut self, name: &'s str, quantity: Quantity) {
        self.0.insert(name, quantity);
    }

    /// Adds each amount to the one of the same name. Mirrors `addResourceList`.
    pub(super) fn add(&mut self, other: &Self) {
        for (name, quantity) in other.iter() {
            let amount = self.0.entry(name).or_default();
            *amount = amount.plus(quantity);
        }
    }

    /// Adds those of the amounts whose resources are named here. Takes time by the names here, however many the others
    /// are.
    pub(super) fn add_to_named(&mut self, other: &Self) {
        for (name, amount) in &mut self.0 {
            *amount = amount.plus(other.amount(name));
        }
    }

    /// Keeps the larger of the amounts of the same name. Mirrors `maxResourceList`.
    pub(super) fn raise_to(&mut self, other: &Self) {
        for (name, quantity) in other.iter() {
            self.0.entry(name).and_modify(|amount| *amount = quantity.max(*amount)).or_insert(quantity);
        }
    }

    /// In the contract's units. Mirrors `Resource.Add` of kube-scheduler, except that resources that it does
    /// not know are kept too.
    pub(super) fn resources(&self) -> Resources {
        let mut resources = Resources::default();
        for (name, quantity) in &self.0 {
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

    /// CPU and memory alone, in the contract's units.
    pub(super) fn nonzero(&self) -> NonZero {
        NonZero { milli_cpu: self.amount("cpu").milli_value(), memory: self.amount("memory").value() }
    }
}

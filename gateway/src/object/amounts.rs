//! Lists of resources: what an object says about them, sums and maxima, and the contract's form.

use extender_policy_api::v1alpha1::{NonZero, Resources};

use super::{json::Map, quantity::Quantity};

/// `corev1.ResourceList` as it is written in an object.
pub(super) type ResourceList<'a> = Map<'a, Quantity>;

/// Amounts by resource name, each name once, in the order in which they came. A handful at most, so finding
/// one by walking is faster than a map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Amounts<'s>(Vec<(&'s str, Quantity)>);

impl<'s> Amounts<'s> {
    /// What an object says. Of equal names the last one counts.
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
        self.0.iter().any(|(known, _)| *known == name)
    }

    /// The amount of one resource; nothing when it is not named.
    pub(super) fn amount(&self, name: &str) -> Quantity {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map_or(Quantity::default(), |(_, quantity)| *quantity)
    }

    /// The amounts by name, in the order in which they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'s str, Quantity)> {
        self.0.iter().copied()
    }

    /// Keeps the resources whose names are wanted.
    pub(super) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.0.retain(|(name, _)| wanted(name));
    }

    /// With these where the resource is not named, not even with nothing. Mirrors `applyNonMissing`.
    #[must_use]
    pub(super) fn or(mut self, missing: &Self) -> Self {
        for (name, quantity) in missing.iter() {
            if !self.names(name) {
                self.set(name, quantity);
            }
        }
        self
    }

    /// Replaces or adds one amount.
    pub(super) fn set(&mut self, name: &'s str, quantity: Quantity) {
        self.merge(name, quantity, |_, new| new);
    }

    /// Adds each amount to the one of the same name. Mirrors `addResourceList`.
    pub(super) fn add(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            self.merge(name, *quantity, Quantity::plus);
        }
    }

    /// Keeps the larger of the amounts of the same name. Mirrors `maxResourceList`.
    pub(super) fn raise_to(&mut self, other: &Self) {
        for (name, quantity) in &other.0 {
            self.merge(name, *quantity, Ord::max);
        }
    }

    fn merge(&mut self, name: &'s str, quantity: Quantity, with: fn(Quantity, Quantity) -> Quantity) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, amount)) => *amount = with(*amount, quantity),
            None => self.0.push((name, quantity)),
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

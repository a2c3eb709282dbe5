//! What one pod takes from its node, compactly, and sums of that.

use std::collections::BTreeMap;

use extender_policy_api::v1alpha1::{NodeUsage, NonZero, Resources};

use crate::object::Share;

/// What one pod takes. There may be hundreds of thousands, so maps become slices.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Taken {
    milli_cpu: i64,
    memory: i64,
    ephemeral_storage: i64,
    nonzero_milli_cpu: i64,
    nonzero_memory: i64,
    /// In the order of their names, none of them nothing. Most pods have none.
    others: Box<[(Box<str>, i64)]>,
}

impl Taken {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.others.iter().map(|(name, _)| &**name)
    }

    pub(super) fn new(share: Share) -> Self {
        let Resources { milli_cpu, memory, ephemeral_storage, pods: _, others } = share.requested;
        Self {
            milli_cpu,
            memory,
            ephemeral_storage,
            nonzero_milli_cpu: share.nonzero.milli_cpu,
            nonzero_memory: share.nonzero.memory,
            // A pod that requests nothing of a resource does not take it.
            others: others
                .into_iter()
                .filter(|(_, amount)| *amount != 0)
                .map(|(name, amount)| (name.into_boxed_str(), amount))
                .collect(),
        }
    }
}

/// What the pods on one node take. Wider than the amounts, so that a sum never ends at a bound from which it
/// could not come back.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    fixed: FixedSums,
    others: BTreeMap<Box<str>, Other>,
}

/// The sums that every node has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct FixedSums {
    pods: u32,
    milli_cpu: i128,
    memory: i128,
    ephemeral_storage: i128,
    nonzero_milli_cpu: i128,
    nonzero_memory: i128,
}

/// A sum that exists as long as some pod requests the resource.
#[derive(Debug, Default, PartialEq, Eq)]
struct Other {
    amount: i128,
    pods: u32,
}

/// Earlier sums of a node, as far as they may have changed since: its size goes by what changed, not by what the
/// node has.
#[derive(Debug)]
pub(super) struct Earlier {
    fixed: FixedSums,
    others: BTreeMap<Box<str>, i128>,
}

impl Sums {
    /// Whether there are no pods.
    pub(super) fn is_empty(&self) -> bool {
        self.fixed.pods == 0
    }

    /// How many resources besides the fixed ones it has sums of.
    pub(super) fn others(&self) -> usize {
        self.others.len()
    }

    /// Names of the resources besides the fixed ones that pods take something of.
    pub(super) fn other_names(&self) -> impl Iterator<Item = &str> {
        self.others.keys().map(|name| &**name)
    }

    /// One pod more.
    pub(super) fn add(&mut self, taken: &Taken) {
        self.fixed.pods += 1;
        self.fixed.change(taken, 1);
        for (name, amount) in &taken.others {
            let other = self.others.entry(name.clone()).or_default();
            other.pods += 1;
            other.amount += i128::from(*amount);
        }
    }

    /// One pod less, which was added before.
    pub(super) fn subtract(&mut self, taken: &Taken) {
        self.fixed.pods -= 1;
        self.fixed.change(taken, -1);
        for (name, amount) in &taken.others {
            let Some(other) = self.others.get_mut(name) else { continue };
            other.pods -= 1;
            other.amount -= i128::from(*amount);
            if other.pods == 0 {
                self.others.remove(name);
            }
        }
    }

    fn amount(&self, name: &str) -> i128 {
        self.others.get(name).map_or(0, |other| other.amount)
    }

    /// In the contract's form, held at the ends of its type. Of the other resources those that `shown` names.
    pub(super) fn usage<'s>(&'s self, shown: impl Iterator<Item = &'s str>) -> NodeUsage {
        let fixed = &self.fixed;
        let others = shown.filter_map(|name| {
            let (name, other) = self.others.get_key_value(name)?;
            Some((name.to_string(), saturate(other.amount)))
        });
        let requested = Resources {
            milli_cpu: saturate(fixed.milli_cpu),
            memory: saturate(fixed.memory),
            ephemeral_storage: saturate(fixed.ephemeral_storage),
            pods: i64::from(fixed.pods),
            others: others.collect(),
        };
        let nonzero =
            NonZero { milli_cpu: saturate(fixed.nonzero_milli_cpu), memory: saturate(fixed.nonzero_memory) };
        NodeUsage { requested: Some(requested), nonzero: Some(nonzero) }
    }
}

impl FixedSums {
    fn change(&mut self, taken: &Taken, sign: i128) {
        self.milli_cpu += sign * i128::from(taken.milli_cpu);
        self.memory += sign * i128::from(taken.memory);
        self.ephemeral_storage += sign * i128::from(taken.ephemeral_storage);
        self.nonzero_milli_cpu += sign * i128::from(taken.nonzero_milli_cpu);
        self.nonzero_memory += sign * i128::from(taken.nonzero_memory);
    }
}

impl Earlier {
    /// The sums as they are before they change.
    pub(super) fn of(sums: &Sums) -> Self {
        Self { fixed: sums.fixed, others: BTreeMap::new() }
    }

    /// Before the sums of these resources change.
    pub(super) fn remember<'n>(&mut self, sums: &Sums, names: impl Iterator<Item = &'n str>) {
        for name in names {
            if !self.others.contains_key(name) {
                self.others.insert(name.into(), sums.amount(name));
            }
        }
    }

    /// Whether the sums are what they were.
    pub(super) fn is_same(&self, sums: &Sums) -> bool {
        self.fixed == sums.fixed && self.others.iter().all(|(name, amount)| sums.amount(name) == *amount)
    }
}

fn saturate(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX })
}

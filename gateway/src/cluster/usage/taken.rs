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
    pub(super) fn new(share: Share) -> Self {
        let Resources { milli_cpu, memory, ephemeral_storage, pods: _, others } = share.requested;
        Self {
            milli_cpu,
            memory,
            ephemeral_storage,
            nonzero_milli_cpu: share.nonzero.milli_cpu,
            nonzero_memory: share.nonzero.memory,
            // Of nothing any pod may name tens of thousands, which would stand in its node's row in every call; what it
            // really takes, the node has.
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
    pods: u32,
    milli_cpu: i128,
    memory: i128,
    ephemeral_storage: i128,
    nonzero_milli_cpu: i128,
    nonzero_memory: i128,
    others: BTreeMap<Box<str>, Other>,
}

/// A sum that is there as long as some pod takes something of the resource.
#[derive(Debug, Default, PartialEq, Eq)]
struct Other {
    amount: i128,
    pods: u32,
}

impl Sums {
    /// Whether there are no pods.
    pub(super) fn is_empty(&self) -> bool {
        self.pods == 0
    }

    /// One pod more.
    pub(super) fn add(&mut self, taken: &Taken) {
        self.pods += 1;
        self.change(taken, 1);
        for (name, amount) in &taken.others {
            let other = self.others.entry(name.clone()).or_default();
            other.pods += 1;
            other.amount += i128::from(*amount);
        }
    }

    /// One pod less, which was added before.
    pub(super) fn subtract(&mut self, taken: &Taken) {
        self.pods -= 1;
        self.change(taken, -1);
        for (name, amount) in &taken.others {
            let Some(other) = self.others.get_mut(name) else { continue };
            other.pods -= 1;
            other.amount -= i128::from(*amount);
            if other.pods == 0 {
                self.others.remove(name);
            }
        }
    }

    fn change(&mut self, taken: &Taken, sign: i128) {
        self.milli_cpu += sign * i128::from(taken.milli_cpu);
        self.memory += sign * i128::from(taken.memory);
        self.ephemeral_storage += sign * i128::from(taken.ephemeral_storage);
        self.nonzero_milli_cpu += sign * i128::from(taken.nonzero_milli_cpu);
        self.nonzero_memory += sign * i128::from(taken.nonzero_memory);
    }

    /// In the contract's form, held at the ends of its type.
    pub(super) fn usage(&self) -> NodeUsage {
        let others = self.others.iter().map(|(name, other)| (name.to_string(), saturate(other.amount)));
        let requested = Resources {
            milli_cpu: saturate(self.milli_cpu),
            memory: saturate(self.memory),
            ephemeral_storage: saturate(self.ephemeral_storage),
            pods: i64::from(self.pods),
            others: others.collect(),
        };
        let nonzero =
            NonZero { milli_cpu: saturate(self.nonzero_milli_cpu), memory: saturate(self.nonzero_memory) };
        NodeUsage { requested: Some(requested), nonzero: Some(nonzero) }
    }
}

fn saturate(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX })
}

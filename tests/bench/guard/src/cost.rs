//! What a call costs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is counted, and what the ceilings' file calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// How often memory was allocated.
    Allocations,
    /// How many bytes that were.
    Bytes,
    /// How many instructions the processor was given.
    Instructions,
    /// How often the thread went to sleep because nothing was left to do.
    Wakeups,
}

/// What one call costs, as far as it was counted.
pub type Costs = BTreeMap<Unit, u64>;

impl Unit {
    /// Its name in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::Allocations => "allocations",
            Self::Bytes => "bytes allocated",
            Self::Instructions => "instructions",
            Self::Wakeups => "wake-ups",
        }
    }

    /// What is allowed on top of a recorded number, in percent. Chunks of a large body come in different
    /// sizes, and hash tables grow at different times: a few allocations more are much among some hundred, and
    /// their instructions are little among a million. What varies those is how often the gateway wakes for three
    /// answers, each time some 1 %: the peers do not wait for a gateway in another process to sleep.
    pub fn slack(self) -> u64 {
        match self {
            Self::Allocations | Self::Bytes | Self::Wakeups => 5,
            Self::Instructions => 3,
        }
    }
}

/// What one call costs the gateway's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// How often memory was allocated.
    pub allocations: u64,
    /// How many bytes that were.
    pub bytes: u64,
    /// How often the thread went to sleep because nothing was left to do.
    pub wakeups: u64,
}

impl Cost {
    /// What the calls have in common: the median of allocations, since a timer that fires during one call is
    /// no part of all, and the least of wake-ups, since a busy kernel delivers in pieces what came as one.
    ///
    /// There is at least one cost.
    pub fn common(costs: &[Self]) -> Self {
        Self {
            allocations: median(costs, |cost| cost.allocations),
            bytes: median(costs, |cost| cost.bytes),
            wakeups: costs.iter().map(|cost| cost.wakeups).min().unwrap_or_default(),
        }
    }

    /// The same, by unit.
    pub fn by_unit(self) -> Costs {
        let Self { allocations, bytes, wakeups } = self;
        [(Unit::Allocations, allocations), (Unit::Bytes, bytes), (Unit::Wakeups, wakeups)].into()
    }
}

fn median(costs: &[Cost], of: impl Fn(&Cost) -> u64) -> u64 {
    let mut values: Vec<u64> = costs.iter().map(of).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_medians_and_wakeups_the_least() {
        let cost = |allocations, bytes, wakeups| Cost { allocations, bytes, wakeups };
        let costs = [cost(1, 30, 9), cost(9, 10, 6), cost(2, 20, 7), cost(0, 0, 8), cost(7, 25, 8)];
        assert_eq!(Cost::common(&costs), cost(2, 20, 6));
    }
}

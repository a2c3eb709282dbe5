//! The cost of a call.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The counted units, and their names in the ceilings' file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// How often memory was allocated.
    Allocations,
    /// How many bytes that were.
    Bytes,
    /// How many instructions were executed.
    Instructions,
    /// How often the thread went to sleep because there was no work left.
    Wakeups,
}

/// The counted costs of one call.
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

    /// The tolerance on top of a recorded number, in percent. Chunks of a large body come in different sizes, and
    /// hash tables grow at different times: a few more allocations are much among some hundred, and their
    /// instructions are little among a million. Instructions vary with how often the gateway wakes for three
    /// answers, some 1 % each time: the peers do not wait for a gateway in another process to sleep.
    pub fn slack(self) -> u64 {
        match self {
            Self::Allocations | Self::Bytes | Self::Wakeups => 5,
            Self::Instructions => 3,
        }
    }
}

/// The cost of one call for the gateway's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// How often memory was allocated.
    pub allocations: u64,
    /// How many bytes that were.
    pub bytes: u64,
    /// How often the thread went to sleep because there was no work left.
    pub wakeups: u64,
}

impl Cost {
    /// The typical cost of the calls: the median of allocations, since a timer that fires during one call is not a
    /// part of all, and the least number of wake-ups, since a busy kernel splits what arrived together.
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

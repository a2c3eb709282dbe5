//! Scores a node by the requested share of each resource. Mirrors `resourceAllocationScorer` of kube-scheduler and
//! its strategies, integers and rounding included.

mod balance;

use extender_policy_sdk::{Node, NodeUsage, NonZero, Resources};

use super::{NOTHING, shape::Shape};
use crate::resource::Resource;

/// The best score; the least is 0.
pub(super) const MAX_SCORE: i32 = 100;
const WHOLE: i64 = 100;

/// The operator's scoring strategy.
#[derive(Debug, PartialEq)]
pub(super) struct Strategy {
    pub(super) aim: Aim,
    /// The resources that count.
    pub(super) resources: Vec<Weighted>,
}

/// Which nodes score high.
#[derive(Debug, PartialEq)]
pub(super) enum Aim {
    /// Those that have much left.
    LeastAllocated,
    /// Those that are nearly full.
    MostAllocated,
    /// As the operator's function defines.
    RequestedToCapacityRatio(Shape),
    /// Those whose resources would be used evenly.
    BalancedAllocation,
}

/// The weight of a resource relative to the others.
#[derive(Debug, PartialEq)]
pub(super) struct Weighted {
    pub(super) resource: Resource,
    /// 1 to 100; 1 for `BalancedAllocation`.
    pub(super) weight: i64,
}

impl Strategy {
    /// What to compute for each node for a pod with these requests. Extended resources that the pod does not
    /// request do not count. For `BalancedAllocation` nothing counts if the pod requests nothing; otherwise all
    /// such pods would go to one node.
    pub(super) fn question(&self, requests: &Resources, nonzero: &NonZero) -> AllocationQuestion<'_> {
        let asked = Counted { exact: requests, nonzero };
        let parts = self.resources.iter().map(|weighted| Part {
            resource: &weighted.resource,
            weight: weighted.weight,
            asked: asked.of(&weighted.resource, &self.aim),
        });
        let parts: Vec<_> = parts.filter(|part| part.asked != 0 || !part.resource.is_scalar()).collect();
        let best_effort = self.aim == Aim::BalancedAllocation && parts.iter().all(|part| part.asked == 0);
        AllocationQuestion { aim: &self.aim, parts: if best_effort { Vec::new() } else { parts } }
    }
}

/// The requests as written, and CPU and memory with defaults for containers that request nothing.
#[derive(Clone, Copy)]
struct Counted<'a> {
    exact: &'a Resources,
    nonzero: &'a NonZero,
}

impl Counted<'_> {
    fn of(self, resource: &Resource, aim: &Aim) -> i64 {
        match (aim, resource) {
            (Aim::BalancedAllocation, _) | (_, Resource::EphemeralStorage | Resource::Scalar(_)) => {
                resource.amount(self.exact)
            }
            (_, Resource::Cpu) => self.nonzero.milli_cpu,
            (_, Resource::Memory) => self.nonzero.memory,
        }
    }
}

/// A pod's requests as a strategy sees them.
#[derive(Debug)]
pub(super) struct AllocationQuestion<'a> {
    aim: &'a Aim,
    /// Empty: every node gets 0.
    parts: Vec<Part<'a>>,
}

#[derive(Debug)]
struct Part<'a> {
    resource: &'a Resource,
    weight: i64,
    asked: i64,
}

impl AllocationQuestion<'_> {
    /// 0 to [`MAX_SCORE`]; 0 for a node whose usage is unknown.
    pub(super) fn score(&self, node: Node<'_>) -> i32 {
        let allocatable = node.allocatable().unwrap_or(&NOTHING);
        node.usage().map_or(0, |usage| self.score_with(allocatable, usage))
    }

    fn score_with(&self, allocatable: &Resources, usage: &NodeUsage) -> i32 {
        if self.parts.is_empty() {
            return 0;
        }
        let exact = usage.requested.as_ref().unwrap_or(&NOTHING);
        let used = Counted { exact, nonzero: &usage.nonzero.unwrap_or_default() };
        let load = |part: &Part<'_>| {
            let (capacity, before) = (part.resource.amount(allocatable), used.of(part.resource, self.aim));
            let after = before.saturating_add(part.asked);
            (capacity != 0).then_some(Load { capacity, before, after, weight: part.weight })
        };
        let loads: Vec<_> = self.parts.iter().filter_map(load).collect();
        i32::try_from(self.aim.score(&loads)).map_or(0, |score| score.clamp(0, MAX_SCORE))
    }
}

/// One resource of a node, in its units.
struct Load {
    /// Never 0.
    capacity: i64,
    /// Requested without the pod.
    before: i64,
    /// Requested with the pod.
    after: i64,
    weight: i64,
}

impl Aim {
    fn score(&self, loads: &[Load]) -> i64 {
        match self {
            Self::LeastAllocated => mean(loads, least),
            Self::MostAllocated => mean(loads, most),
            Self::RequestedToCapacityRatio(shape) => ratio(loads, shape),
            Self::BalancedAllocation => balance::score(loads),
        }
    }
}

/// Mirrors `leastRequestedScore`.
fn least(load: &Load) -> i64 {
    if load.after > load.capacity {
        0
    } else {
        hundredths(load.capacity.saturating_sub(load.after), load.capacity)
    }
}

/// Mirrors `mostRequestedScore`: pods that request nothing count with defaults, so more can be requested than
/// exists.
fn most(load: &Load) -> i64 {
    hundredths(load.after.min(load.capacity), load.capacity)
}

/// Mirrors `buildRequestedToCapacityRatioScorerFunction`: resources with a score of 0 do not count.
fn ratio(loads: &[Load], shape: &Shape) -> i64 {
    let scored = loads.iter().map(|load| (shape.at(most(load)), load.weight)).filter(|(score, _)| *score > 0);
    let (sum, weights) =
        scored.fold((0, 0), |(sum, weights), (score, weight)| (sum + score * weight, weights + weight));
    // Half away from zero, as `math.Round` of the quotient: both are small and not negative.
    if weights == 0 { 0 } else { (2 * sum + weights) / (2 * weights) }
}

/// The weighted mean, rounded down.
fn mean(loads: &[Load], score: impl Fn(&Load) -> i64) -> i64 {
    let weights: i64 = loads.iter().map(|load| load.weight).sum();
    let sum: i64 = loads.iter().map(|load| score(load) * load.weight).sum();
    if weights == 0 { 0 } else { sum / weights }
}

/// In 128 bits: hundredths of some petabytes do not fit into 64 bits, where kube-scheduler's sum wraps around.
fn hundredths(part: i64, whole: i64) -> i64 {
    let hundredths = i128::from(part) * i128::from(WHOLE) / i128::from(whole);
    i64::try_from(hundredths).unwrap_or(WHOLE).clamp(0, WHOLE)
}

#[cfg(test)]
mod tests;

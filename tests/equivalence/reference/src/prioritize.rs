//! Prioritize: every extender is called, and their scores are weighted and added. Mirrors `prioritizeNodes`.

use std::collections::BTreeMap;

use num_bigint::BigInt;
use num_rational::Ratio;

use crate::{
    filter::distinct,
    interest,
    model::{Best, Differences, Extender, Node, Normalize, Pod, Score},
};

/// An exact number.
pub type Fraction = Ratio<BigInt>;

/// The largest number that kube-scheduler can multiply by 10 without overflow, on either side of 0.
const LARGEST: i64 = i64::MAX / 10;

/// The result of a prioritize call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prioritized {
    /// Which extenders were called about which nodes, in the configured order.
    pub asked: Vec<(usize, Vec<Node>)>,
    /// Those of them that failed, and were ignored.
    pub failures: Vec<usize>,
    /// The exact sums, of the nodes that some extender lists.
    pub sums: BTreeMap<Node, Fraction>,
    /// The list of one extender that replaces all of them: the nodes that some extender lists, in the order and as
    /// often as they were offered. Only these get the random number that breaks ties.
    pub list: Vec<(Node, i64)>,
}

/// Calls the extenders about these nodes.
pub fn prioritize(
    extenders: &[Extender],
    (pod, differences): (&Pod, &Differences),
    offered: &[Node],
) -> Prioritized {
    let (mut asked, mut failures, mut sums) = (Vec::new(), Vec::new(), BTreeMap::new());
    for (position, extender) in interest::in_turn(extenders, (pod, differences), |_| false) {
        let Some(score) = &extender.score else {
            // `HTTPExtender.Prioritize` without `prioritizeVerb`.
            for node in offered {
                *sums.entry(*node).or_insert_with(|| whole(0)) += whole(0);
            }
            continue;
        };
        let set: Vec<Node> =
            distinct(offered).into_iter().filter(|node| !score.blind.contains(node)).collect();
        if set.is_empty() {
            continue;
        }
        asked.push((position, set.clone()));
        if score.failing.fails(set.len()) {
            failures.push(position);
            continue;
        }
        for (node, points) in set.iter().zip(points(score, &set)) {
            *sums.entry(*node).or_insert_with(|| whole(0)) += points * whole(score.weight);
        }
    }
    let list = offered.iter().filter_map(|node| Some((*node, rounded(sums.get(node)?)))).collect();
    Prioritized { asked, failures, sums, list }
}

/// The points of each node of a set before they are weighted.
pub fn points(score: &Score, set: &[Node]) -> Vec<Fraction> {
    let (lowest, highest) = score.range;
    let clamped = |raw: i32| raw.max(lowest.unwrap_or(i32::MIN)).min(highest.unwrap_or(i32::MAX));
    let scores: Vec<i32> = score.rule.scores(set).into_iter().map(clamped).collect();
    let (from, to) = match score.normalize {
        Normalize::None => return scores.into_iter().map(whole).collect(),
        Normalize::Range => (lowest.unwrap_or(0), highest.unwrap_or(0)),
        Normalize::Max => (0, scores.iter().copied().max().unwrap_or(0)),
        Normalize::MinMax => {
            (scores.iter().copied().min().unwrap_or(0), scores.iter().copied().max().unwrap_or(0))
        }
    };
    let scaled = |raw: i32| whole(10) * (whole(raw) - whole(from)) / (whole(to) - whole(from));
    let straight = |raw: i32| if to > from { scaled(raw) } else { whole(0) };
    let directed = |points: Fraction| match score.best {
        Best::Largest => points,
        Best::Least => whole(10) - points,
    };
    scores.into_iter().map(straight).map(directed).collect()
}

/// Half away from zero, and within kube-scheduler's limits.
fn rounded(sum: &Fraction) -> i64 {
    let nearest = sum.round().to_integer();
    let bound = BigInt::from(LARGEST);
    let bounded = nearest.clamp(-bound.clone(), bound);
    i64::try_from(&bounded).unwrap_or(LARGEST)
}

fn whole(number: impl Into<BigInt>) -> Fraction {
    Fraction::from_integer(number.into())
}

//! Combines the scores of one prioritize call.
//!
//! Each backend's raw scores are clamped to the range that it declares, normalized over the nodes that it
//! scored, weighted and added up. The sum is exact and rounded once, half away from zero: adding a backend
//! never changes another one's share. The reference is `prioritizeNodes` of kube-scheduler with one
//! extender for each backend: there, as here with [`Normalization::None`], a score counts `score × weight`.

mod exact;

/// How raw scores become 0 to 10.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Normalization {
    /// Unchanged.
    None,
    /// 10·(s − lo)/(hi − lo), with lo < hi the declared range.
    Range(Direction),
    /// 10·s/largest; 0 when the largest is not positive.
    Max(Direction),
    /// 10·(s − least)/(largest − least); 0 when they are equal.
    MinMax(Direction),
}

/// Which end of the raw scores is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The largest.
    LargestIsBest,
    /// The least: 10 minus the normalized score counts.
    LeastIsBest,
}

/// The range of raw scores that a backend declares; `None` for no bound on that side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Range {
    /// The least.
    pub least: Option<i32>,
    /// The largest.
    pub largest: Option<i32>,
}

impl Range {
    /// Brings every score into the range; returns how many were outside.
    pub fn clamp(self, scores: &mut [i32]) -> usize {
        let (least, largest) = (self.least.unwrap_or(i32::MIN), self.largest.unwrap_or(i32::MAX));
        let mut outside = 0;
        for score in scores.iter_mut().filter(|score| **score < least || **score > largest) {
            *score = if *score < least { least } else { largest };
            outside += 1;
        }
        outside
    }
}

/// One backend's scores and their weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ballot {
    /// Multiplies each normalized score; from 1 to 1,000,000.
    pub weight: u32,
    /// How raw scores become 0 to 10.
    pub normalization: Normalization,
    /// The declared range, to which the scores have been clamped.
    pub range: Range,
    /// The positions in the call of the nodes that were scored, ascending; `None` for all nodes.
    pub nodes: Option<Vec<u32>>,
    /// The raw scores of those nodes, in that order.
    pub scores: Vec<i32>,
}

/// The largest amount of a total: what kube-scheduler can multiply by 10 (`MaxNodeScore /
/// MaxExtenderPriority`) without overflow.
pub const LARGEST_TOTAL: i64 = i64::MAX / 10;

/// The total of each of `count` nodes; `None` for a node that no backend scored.
pub fn totals(count: usize, ballots: &[&Ballot]) -> Vec<Option<i64>> {
    let shares: Vec<_> = ballots.iter().map(|ballot| Share::of(ballot, ballot.weight)).collect();
    exact::totals(count, ballots, &shares)
}

/// Gives 0 to the nodes that no backend scored. `HTTPExtender.Prioritize` of kube-scheduler does this for an
/// extender without `prioritizeVerb`, and it matters: only nodes that some extender lists get the random number
/// that breaks ties, so an unlisted node loses every tie against a listed one.
pub fn list_all(totals: &mut [Option<i64>]) {
    for total in totals {
        total.get_or_insert(0);
    }
}

/// The normalized score before weighting, for people: the decision itself adds exact fractions.
pub fn normalized(ballot: &Ballot) -> impl Fn(i32) -> f64 {
    let share = Share::of(ballot, 1);
    #[allow(clippy::cast_precision_loss, reason = "a number to be looked at")]
    move |score| share.numerator(score) as f64 / share.denominator as f64
}

/// A weighted, normalized score as a fraction: (offset + slope · s) / denominator.
struct Share {
    offset: i128,
    slope: i128,
    /// Positive.
    denominator: u64,
    /// No score of the ballot is farther from 0.
    farthest: i128,
}

impl Share {
    fn of(ballot: &Ballot, weight: u32) -> Self {
        let least = i128::from(ballot.scores.iter().copied().min().unwrap_or(0));
        let largest = i128::from(ballot.scores.iter().copied().max().unwrap_or(0));
        let (offset, slope, denominator, direction) = match ballot.normalization {
            Normalization::None => (0, 1, 1, Direction::LargestIsBest),
            Normalization::Range(direction) => {
                let least = i128::from(ballot.range.least.unwrap_or(0));
                let span = i128::from(ballot.range.largest.unwrap_or(0)) - least;
                scaled(least, span, direction)
            }
            Normalization::Max(direction) => scaled(0, largest, direction),
            Normalization::MinMax(direction) => scaled(least, largest - least, direction),
        };
        let farthest = least.abs().max(largest.abs());
        Self { farthest, ..Self::new(offset, slope, denominator, direction).weighed(weight) }
    }

    fn new(offset: i128, slope: i128, denominator: i128, direction: Direction) -> Self {
        let (offset, slope) = match direction {
            Direction::LargestIsBest => (offset, slope),
            Direction::LeastIsBest => (10 * denominator - offset, -slope),
        };
        let denominator = u64::try_from(denominator).expect("a span of 32-bit numbers is positive here");
        Self { offset, slope, denominator, farthest: 0 }
    }

    fn weighed(mut self, weight: u32) -> Self {
        self.offset *= i128::from(weight);
        self.slope *= i128::from(weight);
        self
    }

    fn numerator(&self, score: i32) -> i128 {
        self.offset + self.slope * i128::from(score)
    }
}

/// 10·(s − from)/span as (offset, slope, denominator, direction); 0 when the span is not positive.
fn scaled(from: i128, span: i128, direction: Direction) -> (i128, i128, i128, Direction) {
    if span > 0 { (-10 * from, 10, span, direction) } else { (0, 0, 1, direction) }
}

#[cfg(test)]
mod tests;

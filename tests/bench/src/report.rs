//! The results, for people as a table and for programs as JSON.

use serde::Serialize;

use crate::{
    fleet::FleetReport,
    measure::Series,
    observed::Comparison,
    statistics::{Spread, percentile},
    usage::Usage,
};

pub use self::table::Table;

mod table;

/// The most that a call in names mode may take, as a multiple of the floor with three empty gRPC calls.
pub const BUDGET: f64 = 2.5;

/// The whole report.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The number of rounds.
    pub rounds: usize,
    /// `p50` may be at most this many times the floor with three empty gRPC calls (names mode).
    pub budget: f64,
    /// One for each case.
    pub cases: Vec<Line>,
    /// The processor time of the gateway with full observability may be at most this many times that of the gateway
    /// without it.
    pub observability_budget: f64,
    /// The cost of observability.
    pub observability: Vec<Comparison>,
    /// A large cluster with many policies.
    pub fleet: Option<FleetReport>,
}

/// The results of one case.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// For example "filter 420 names".
    pub case: String,
    /// The floor, three empty gRPC calls, then the gateway's roles.
    pub columns: Vec<Column>,
}

/// The results of one contender.
#[derive(Debug, Clone, Serialize)]
pub struct Column {
    /// For example "pure, warm".
    pub name: &'static str,
    /// How many calls were made.
    pub calls: usize,
    /// Median of all calls, in microseconds.
    pub p50: f64,
    /// 99th percentile of all calls, in microseconds.
    pub p99: f64,
    /// The median over the floor's, of each round. None for the first two columns.
    pub ratio_to_floor: Option<Spread>,
    /// The median over the floor's and the empty calls' together, of each round.
    pub ratio_to_floor_and_calls: Option<Spread>,
    /// The cost of a call for each of its groups of processes.
    pub cost: Vec<Cost>,
}

/// The average cost of a call for some processes.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Cost {
    /// The processes.
    pub of: &'static str,
    /// Processor time in microseconds.
    pub processor: f64,
    /// How often a thread went to sleep.
    pub voluntary_switches: f64,
    /// How often a thread was preempted.
    pub involuntary_switches: f64,
}

impl Line {
    /// Combines the measurements of the same rounds.
    pub fn new(case: String, floor: &Series, calls: &Series, roles: &[(&'static str, Series)]) -> Self {
        let mut columns = vec![Column::of("floor", floor), Column::of("3 empty gRPC", calls)];
        columns.extend(roles.iter().map(|(name, series)| Column {
            ratio_to_floor: Some(series.over(floor.round_medians.iter().copied())),
            ratio_to_floor_and_calls: Some(series.over(sums(floor, calls))),
            ..Column::of(name, series)
        }));
        Self { case, columns }
    }
}

fn sums(one: &Series, other: &Series) -> impl Iterator<Item = f64> {
    one.round_medians.iter().zip(&other.round_medians).map(|(one, other)| one + other)
}

impl Series {
    /// The medians of the rounds relative to those of another contender.
    fn over(&self, bases: impl Iterator<Item = f64>) -> Spread {
        Spread::of(self.round_medians.iter().zip(bases).map(|(median, base)| median / base))
    }
}

impl Column {
    fn of(name: &'static str, series: &Series) -> Self {
        let calls = series.latencies.len();
        Self {
            name,
            calls,
            p50: percentile(&series.latencies, 50),
            p99: percentile(&series.latencies, 99),
            ratio_to_floor: None,
            ratio_to_floor_and_calls: None,
            cost: series.usage.iter().map(|(group, usage)| Cost::of(group, *usage, calls)).collect(),
        }
    }
}

impl Cost {
    #[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
    fn of(of: &'static str, usage: Usage, calls: usize) -> Self {
        let a_call = |count: u64| count as f64 / calls as f64;
        Self {
            of,
            processor: a_call(usage.processor),
            voluntary_switches: a_call(usage.voluntary_switches),
            involuntary_switches: a_call(usage.involuntary_switches),
        }
    }

    /// Of both kinds.
    pub fn switches(&self) -> f64 {
        self.voluntary_switches + self.involuntary_switches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(round_medians: [f64; 2], switches: u64) -> Series {
        let usage = Usage { processor: 100, voluntary_switches: switches, involuntary_switches: 2 };
        Series {
            round_medians: round_medians.to_vec(),
            latencies: round_medians.to_vec(),
            usage: vec![("us", usage)],
        }
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let (gateway, floor) = (series([30.0, 80.0], 6), series([10.0, 20.0], 0));
        let roles = [("pure, warm", gateway)];
        let line = Line::new("filter".to_owned(), &floor, &series([5.0, 20.0], 0), &roles);
        let [floor, calls, warm] = &line.columns[..] else { panic!("{line:?}") };
        assert_eq!((floor.ratio_to_floor, calls.ratio_to_floor), (None, None));
        assert_eq!(warm.ratio_to_floor, Some(Spread { least: 3.0, median: 3.0, largest: 4.0 }));
        assert_eq!(warm.ratio_to_floor_and_calls, Some(Spread { least: 2.0, median: 2.0, largest: 2.0 }));
        let cost = warm.cost[0];
        assert_eq!((cost.processor.to_string(), cost.switches().to_string()), ("50".into(), "4".into()));
    }
}

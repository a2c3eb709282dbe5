//! What was measured, for people as a table and for programs as JSON.

use serde::Serialize;

use crate::{
    measure::Series,
    statistics::{Spread, percentile},
    usage::Usage,
};

pub use self::table::Table;

mod table;

/// The most that a call may take, as a multiple of the floor with three empty gRPC calls.
pub const BUDGET: f64 = 2.5;

/// The whole report.
#[derive(Debug, Serialize)]
pub struct Report {
    /// How often everybody was asked in turn.
    pub rounds: usize,
    /// `p50` may be at most this many times the floor with three empty gRPC calls (names mode).
    pub budget: f64,
    /// One for each case.
    pub cases: Vec<Line>,
}

/// What was measured for one case.
#[derive(Debug, Clone, Serialize)]
pub struct Line {
    /// Such as "filter 420 names".
    pub case: String,
    /// The gateway with three policies.
    pub gateway: Figures,
    /// The echo extender.
    pub floor: Figures,
    /// Three empty gRPC calls in parallel.
    pub empty_calls: Figures,
    /// The gateway's median over the floor's, of each round.
    pub ratio_to_floor: Spread,
    /// The gateway's median over the floor's and the empty calls' together, of each round.
    pub ratio_to_floor_and_calls: Spread,
}

/// What was measured for one of those who were asked.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// How many calls were made.
    pub calls: usize,
    /// Median of all calls, in microseconds.
    pub p50: f64,
    /// 99th percentile of all calls, in microseconds.
    pub p99: f64,
    /// What a call costs each of its groups of processes.
    pub cost: Vec<Cost>,
}

/// What a call costs some processes, on average.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Cost {
    /// Which processes.
    pub of: &'static str,
    /// Processor time in microseconds.
    pub processor: f64,
    /// Context switches of both kinds.
    pub switches: f64,
}

impl Line {
    /// Puts together what was measured in the same rounds.
    pub fn new(case: String, gateway: &Series, floor: &Series, empty_calls: &Series) -> Self {
        let rounds = || gateway.round_medians.iter().zip(&floor.round_medians);
        let to_floor = rounds().map(|(gateway, floor)| gateway / floor);
        let to_both = rounds()
            .zip(&empty_calls.round_medians)
            .map(|((gateway, floor), empty)| gateway / (floor + empty));
        Self {
            case,
            gateway: Figures::of(gateway),
            floor: Figures::of(floor),
            empty_calls: Figures::of(empty_calls),
            ratio_to_floor: Spread::of(to_floor),
            ratio_to_floor_and_calls: Spread::of(to_both),
        }
    }
}

impl Figures {
    fn of(series: &Series) -> Self {
        let calls = series.latencies.len();
        Self {
            calls,
            p50: percentile(&series.latencies, 50),
            p99: percentile(&series.latencies, 99),
            cost: series.usage.iter().map(|(group, usage)| Cost::of(group, *usage, calls)).collect(),
        }
    }
}

impl Cost {
    #[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
    fn of(of: &'static str, usage: Usage, calls: usize) -> Self {
        let calls = calls as f64;
        let switches = usage.voluntary_switches + usage.involuntary_switches;
        Self { of, processor: usage.processor as f64 / calls, switches: switches as f64 / calls }
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
        let line = Line::new("filter".to_owned(), &gateway, &floor, &series([5.0, 20.0], 0));
        assert_eq!(line.ratio_to_floor, Spread { least: 3.0, median: 3.0, largest: 4.0 });
        assert_eq!(line.ratio_to_floor_and_calls, Spread { least: 2.0, median: 2.0, largest: 2.0 });
        let cost = line.gateway.cost[0];
        assert_eq!((cost.processor.to_string(), cost.switches.to_string()), ("50".into(), "4".into()));
    }
}

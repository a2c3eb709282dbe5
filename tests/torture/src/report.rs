//! What was measured, as a table of Markdown.

use std::{fmt::Write as _, time::Duration};

use crate::{attack::Attack, honest::Calls};

/// The most memory that a large request takes, as a multiple of its body.
const MOST_AMPLIFICATION: u64 = 10;
/// The most memory that an attack by connections takes besides: that of the connections that the gateway admits.
const MOST_OF_CONNECTIONS: u64 = 256 << 20;
/// The latest that 99 of 100 honest calls are answered during an attack.
const LATEST: Duration = Duration::from_millis(100);

/// The share of calls that are faster than the slow ones.
const SLOW: f64 = 0.99;

/// One attack.
pub(crate) struct Row {
    attack: Attack,
    /// Honest calls before and after it, and meanwhile.
    pub(crate) quiet: Calls,
    pub(crate) attacked: Calls,
    /// By how much the 99th percentile rises, of each round.
    rises: Vec<f64>,
    /// The gateway's memory at the start, the most that was seen during the attack, and its peak.
    begin: u64,
    pub(crate) resident: u64,
    pub(crate) peak: u64,
    /// Of one body, 0 for attacks by connections.
    pub(crate) bytes: usize,
}

impl Row {
    pub(crate) fn new(attack: Attack, begin: u64) -> Self {
        let (quiet, attacked) = (Calls::default(), Calls::default());
        Self { attack, quiet, attacked, rises: Vec::new(), begin, resident: 0, peak: 0, bytes: 0 }
    }

    /// Adds the calls of a round: before the attack, meanwhile, and after it.
    pub(crate) fn add(&mut self, before: Calls, meanwhile: Calls, after: Calls) {
        let slow = |calls: &Calls| calls.quantile(SLOW).as_secs_f64();
        self.rises.push(slow(&meanwhile) / f64::midpoint(slow(&before), slow(&after)) - 1.0);
        self.quiet += before;
        self.quiet += after;
        self.attacked += meanwhile;
    }

    /// The median of the rounds, in percent: other work of the machine changes single ones.
    fn rise(&self) -> f64 {
        let mut rises = self.rises.clone();
        rises.sort_unstable_by(f64::total_cmp);
        rises.get(rises.len() / 2).copied().unwrap_or_default() * 100.0
    }

    /// Whether no honest call failed, and memory is within its limit.
    pub(crate) fn is_good(&self) -> bool {
        let most = match self.bytes as u64 {
            0 => MOST_OF_CONNECTIONS,
            bytes => bytes * MOST_AMPLIFICATION,
        };
        self.quiet.failed + self.attacked.failed == 0 && self.peak.saturating_sub(self.begin) <= most
    }

    pub(crate) fn is_in_time(&self) -> bool {
        self.attacked.quantile(SLOW) <= LATEST
    }
}

pub(crate) fn table(rows: &[Row]) -> String {
    let mut table = String::from(
        "| attack | honest p50, p99 ms | meanwhile | rise of p99, median of rounds | failed | memory MB: before, peak | by body |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let ms = |calls: &Calls, share| calls.quantile(share).as_secs_f64() * 1_000.0;
        let megabytes = |bytes: u64| bytes / 1_000_000;
        let amplification = match row.bytes as u64 {
            0 => "–".to_owned(),
            bytes => format!("{} ×", row.peak.saturating_sub(row.begin) / bytes),
        };
        // Writing to a `String` does not fail.
        let _ = writeln!(
            table,
            "| {} | {:.2}, {:.2} | {:.2}, {:.2} | {:+.0} % | {} | {}, {} | {amplification} |",
            row.attack.name(),
            ms(&row.quiet, 0.5),
            ms(&row.quiet, SLOW),
            ms(&row.attacked, 0.5),
            ms(&row.attacked, SLOW),
            row.rise(),
            row.quiet.failed + row.attacked.failed,
            megabytes(row.begin),
            megabytes(row.peak),
        );
    }
    table
}

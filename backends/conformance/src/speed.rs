//! How fast a backend answers: the time of calls one after the other, and how many it answers in a second.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::try_join_all;

use crate::{
    case::{Stop, skipped},
    client::{Extras, shown},
    declared::Verb,
    suite::Suite,
    table::{Table, by_table, filled, ids},
};

/// Calls at once when the backend is loaded.
const AT_ONCE: usize = 8;

/// How the nodes come with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the request.
    Rows,
    /// By their ids in a table that the backend holds.
    Table,
}

impl Mode {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Rows, Self::Table];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Table => "table",
        }
    }
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Of each call to the first process, one after the other.
    pub times: Vec<Duration>,
    /// Calls a second of the first process, several at once; one number for each round.
    pub rates: Vec<f64>,
    /// The same of all processes together; empty if there is one alone.
    pub together: Vec<f64>,
}

impl Measured {
    /// The time within which this share of the calls was answered, such as 0.99.
    pub fn quantile(&self, share: f64) -> Duration {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a position in a list of thousands"
        )]
        let at = (sorted.len() as f64 * share) as usize;
        sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
    }

    /// With another round.
    pub fn add(&mut self, round: Self) {
        self.times.extend(round.times);
        self.rates.extend(round.rates);
        self.together.extend(round.together);
    }
}

/// The median of the rounds' calls a second; 0 without a round.
pub fn median(rates: &[f64]) -> f64 {
    let mut sorted = rates.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Asks filter about this many nodes, or score if filter is not declared. The suites are those of processes that serve
/// the same policy.
///
/// # Errors
///
/// Why nothing was measured: a call was not answered, or the backend has no such verb or no tables.
pub async fn measure(suites: &[Suite], mode: Mode, nodes: usize, calls: usize) -> Result<Measured, String> {
    round(suites, mode, nodes, calls).await.map_err(|stop| match stop {
        Stop::Failed(text) | Stop::Skipped(text) => text,
    })
}

async fn round(suites: &[Suite], mode: Mode, nodes: usize, calls: usize) -> Result<Measured, Stop> {
    let mut processes = Vec::new();
    for suite in suites {
        let process = Process::new(suite, mode, nodes).await?;
        process.repeat(calls / 10).await?;
        processes.push(process);
    }
    let mut measured = Measured::default();
    let Some(first) = processes.first() else { return Ok(measured) };
    for _ in 0..calls {
        let begun = Instant::now();
        first.call().await?;
        measured.times.push(begun.elapsed());
    }
    measured.rates.push(rate(std::slice::from_ref(first), calls).await?);
    if processes.len() > 1 {
        measured.together.push(rate(&processes, calls).await?);
    }
    for process in processes {
        process.close().await?;
    }
    Ok(measured)
}

/// Calls a second of several callers at once, which share the processes.
async fn rate(processes: &[Process<'_>], calls: usize) -> Result<f64, Stop> {
    let each = calls.div_ceil(AT_ONCE);
    let begun = Instant::now();
    try_join_all(processes.iter().cycle().take(AT_ONCE).map(|process| process.repeat(each))).await?;
    let answered = u32::try_from(each * AT_ONCE).unwrap_or(u32::MAX);
    Ok(f64::from(answered) / begun.elapsed().as_secs_f64())
}

/// A process with the question that it is asked.
struct Process<'a> {
    suite: &'a Suite,
    verb: Verb,
    message: Bytes,
    /// The nodes of the request, which decide how long the response may be.
    nodes: u32,
    table: Option<Table>,
}

impl<'a> Process<'a> {
    async fn new(suite: &'a Suite, mode: Mode, nodes: usize) -> Result<Self, Stop> {
        let verb = [Verb::Filter, Verb::Score].into_iter().find(|verb| suite.declared.verb(*verb).is_some());
        let Some(verb) = verb else { return skipped("neither filter nor score is declared") };
        let (terms, scene) = (suite.terms(verb)?, suite.scene(nodes));
        if mode == Mode::Rows {
            let question = suite.question(verb, &scene)?;
            let (message, nodes) = (question.encode(), question.count());
            return Ok(Self { suite, verb, message, nodes, table: None });
        }
        if !suite.declared.holds_tables() || !terms.has_facts() {
            return skipped("the backend holds no tables for this verb");
        }
        let table = filled(suite, terms, &scene).await?;
        let question = by_table(suite, terms, &scene, table.refer(&ids(&scene)));
        // The answer is checked once, before it is only counted.
        suite.ask(&question).await?;
        let (message, nodes) = (question.encode(), question.count());
        Ok(Self { suite, verb, message, nodes, table: Some(table) })
    }

    async fn repeat(&self, calls: usize) -> Result<(), Stop> {
        for _ in 0..calls {
            self.call().await?;
        }
        Ok(())
    }

    async fn call(&self) -> Result<(), Stop> {
        let extras = Extras { nodes: self.nodes, ..Extras::default() };
        let answered = self.suite.client.verb(self.verb, self.message.clone(), extras).await?;
        answered.map(drop).map_err(|status| Stop::Failed(shown(&status)))
    }

    async fn close(self) -> Result<(), Stop> {
        match self.table {
            Some(table) => table.close().await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_rates() {
        let mut measured = Measured::default();
        assert_eq!((measured.quantile(0.5), median(&[]).to_bits()), (Duration::ZERO, 0));
        let times = (1..=100).map(Duration::from_millis).collect();
        measured.add(Measured { times, rates: vec![3.0, 1.0], together: vec![5.0] });
        measured.add(Measured { rates: vec![2.0], ..Measured::default() });
        assert_eq!(measured.quantile(0.5), Duration::from_millis(51));
        assert_eq!(measured.quantile(0.99), Duration::from_millis(100));
        assert_eq!(median(&measured.rates).to_bits(), 2.0_f64.to_bits());
        assert_eq!(median(&measured.together).to_bits(), 5.0_f64.to_bits());
    }
}

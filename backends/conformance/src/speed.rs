//! How fast a backend answers: the time of calls one after the other, and how many it answers in a second.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::try_join_all;

use crate::{
    case::{Stop, skipped},
    client::Extras,
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
    /// Of each call, one after the other.
    pub times: Vec<Duration>,
    /// Calls a second, several at once; one number for each round.
    pub rates: Vec<f64>,
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

    /// The median of the rounds' calls a second.
    pub fn rate(&self) -> f64 {
        let mut sorted = self.rates.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }

    /// With another round.
    pub fn add(&mut self, round: Self) {
        self.times.extend(round.times);
        self.rates.extend(round.rates);
    }
}

/// Asks filter about this many nodes, or score if filter is not declared.
///
/// # Errors
///
/// Why nothing was measured: a call was not answered, or the backend has no such verb or no tables.
pub async fn measure(suite: &Suite, mode: Mode, nodes: usize, calls: usize) -> Result<Measured, String> {
    round(suite, mode, nodes, calls).await.map_err(|stop| match stop {
        Stop::Failed(text) | Stop::Skipped(text) => text,
    })
}

async fn round(suite: &Suite, mode: Mode, nodes: usize, calls: usize) -> Result<Measured, Stop> {
    let verb = [Verb::Filter, Verb::Score].into_iter().find(|verb| suite.declared.verb(*verb).is_some());
    let Some(verb) = verb else { return skipped("neither filter nor score is declared") };
    let (message, table) = asked(suite, verb, mode, nodes).await?;
    for _ in 0..calls / 10 {
        call(suite, verb, &message).await?;
    }
    let mut measured = Measured::default();
    for _ in 0..calls {
        let begun = Instant::now();
        call(suite, verb, &message).await?;
        measured.times.push(begun.elapsed());
    }
    let begun = Instant::now();
    let each = calls.div_ceil(AT_ONCE);
    try_join_all((0..AT_ONCE).map(|_| repeated(suite, verb, &message, each))).await?;
    let answered = u32::try_from(each * AT_ONCE).unwrap_or(u32::MAX);
    measured.rates.push(f64::from(answered) / begun.elapsed().as_secs_f64());
    if let Some(table) = table {
        table.close().await?;
    }
    Ok(measured)
}

async fn asked(suite: &Suite, verb: Verb, mode: Mode, nodes: usize) -> Result<(Bytes, Option<Table>), Stop> {
    let (terms, scene) = (suite.terms(verb)?, suite.scene(nodes));
    if mode == Mode::Rows {
        return Ok((suite.question(verb, &scene)?.encode(), None));
    }
    if !suite.declared.holds_tables() || !terms.has_facts() {
        return skipped("the backend holds no tables for this verb");
    }
    let table = filled(suite, terms, &scene).await?;
    let question = by_table(suite, terms, &scene, table.refer(&ids(&scene)));
    // The answer is checked once, before it is only counted.
    suite.ask(&question).await?;
    Ok((question.encode(), Some(table)))
}

async fn repeated(suite: &Suite, verb: Verb, message: &Bytes, calls: usize) -> Result<(), Stop> {
    for _ in 0..calls {
        call(suite, verb, message).await?;
    }
    Ok(())
}

async fn call(suite: &Suite, verb: Verb, message: &Bytes) -> Result<(), Stop> {
    let answered = suite.client.verb(verb, message.clone(), Extras::default()).await?;
    answered.map(drop).map_err(|status| Stop::Failed(crate::client::shown(&status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_rates() {
        let mut measured = Measured::default();
        assert_eq!((measured.quantile(0.5), measured.rate().to_bits()), (Duration::ZERO, 0));
        measured
            .add(Measured { times: (1..=100).map(Duration::from_millis).collect(), rates: vec![3.0, 1.0] });
        measured.add(Measured { times: Vec::new(), rates: vec![2.0] });
        assert_eq!(measured.quantile(0.5), Duration::from_millis(51));
        assert_eq!(measured.quantile(0.99), Duration::from_millis(100));
        assert_eq!(measured.rate().to_bits(), 2.0_f64.to_bits());
    }
}

//! A round of calls: one after the other, and several at once.

use std::time::Instant;

use futures_util::future::try_join_all;
use policy_conformance::{Mode, Probe, Suite};

/// Calls at once when the backend is loaded.
const AT_ONCE: usize = 8;

/// What was measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// The milliseconds of each call to the first process, one after the other.
    pub(crate) times: Vec<f64>,
    /// Calls a second of the first process, several at once; one number for each round.
    pub(crate) rates: Vec<f64>,
    /// The same of all processes together; empty if there is one alone.
    pub(crate) together: Vec<f64>,
}

impl Measured {
    /// With another round.
    pub(crate) fn add(&mut self, round: Self) {
        self.times.extend(round.times);
        self.rates.extend(round.rates);
        self.together.extend(round.together);
    }
}

/// Asks filter about this many nodes, or score if filter is not declared. The suites are those of processes that serve
/// the same policy.
pub(crate) async fn measure(
    suites: &[Suite],
    mode: Mode,
    nodes: usize,
    calls: usize,
) -> Result<Measured, String> {
    let mut processes = Vec::new();
    for suite in suites {
        let process = Probe::new(suite, mode, nodes).await?;
        repeat(&process, calls / 10).await?;
        processes.push(process);
    }
    let mut measured = Measured::default();
    let Some(first) = processes.first() else { return Ok(measured) };
    for _ in 0..calls {
        let begun = Instant::now();
        first.call().await?;
        measured.times.push(begun.elapsed().as_secs_f64() * 1_000.0);
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
async fn rate(processes: &[Probe<'_>], calls: usize) -> Result<f64, String> {
    let each = calls.div_ceil(AT_ONCE);
    let begun = Instant::now();
    try_join_all(processes.iter().cycle().take(AT_ONCE).map(|process| repeat(process, each))).await?;
    let answered = u32::try_from(each * AT_ONCE).unwrap_or(u32::MAX);
    Ok(f64::from(answered) / begun.elapsed().as_secs_f64())
}

async fn repeat(process: &Probe<'_>, calls: usize) -> Result<(), String> {
    for _ in 0..calls {
        process.call().await?;
    }
    Ok(())
}

//! How long calls take.

use std::time::{Duration, Instant};

use crate::case::Stop;

/// Calls that take longer than so many empty ones in the same moments are slow whatever else the machine does.
pub(crate) const EMPTY_CALLS: u32 = 5;

/// The least number of calls for a figure, and the time in which further ones are made.
const LEAST: usize = 3;
const BUDGET: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(1) };

/// The times of equal calls, one after the other.
#[derive(Clone, Debug)]
pub struct Timing {
    /// Such as `Filter`.
    pub method: &'static str,
    /// Of each call, if it is about nodes.
    pub nodes: Option<u32>,
    /// Ascending; empty if the request is larger than `max_request_bytes`.
    pub times: Vec<Duration>,
}

impl Timing {
    /// The time within which this share of the calls was answered, such as 0.99.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_precision_loss,
            clippy::cast_sign_loss,
            reason = "a position in a list of hundreds"
        )]
        let at = (self.times.len() as f64 * share) as usize;
        self.times.get(at).copied()
    }
}

/// The element in the middle; zero of none.
pub(crate) fn median(sorted: &[Duration]) -> Duration {
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Calls one after the other: as many as fit in a second, but not more than `most`, and at least three.
pub(crate) async fn repeated<F>(most: usize, call: impl Fn() -> F) -> Result<Vec<Duration>, Stop>
where
    F: Future<Output = Result<(), Stop>>,
{
    Ok(in_turn(most, call, async || Ok(())).await?.0)
}

/// The times of calls, and those of as many others, which come in turn with them.
pub(crate) async fn in_turn<F, G>(
    most: usize,
    call: impl Fn() -> F,
    other: impl Fn() -> G,
) -> Result<(Vec<Duration>, Vec<Duration>), Stop>
where
    F: Future<Output = Result<(), Stop>>,
    G: Future<Output = Result<(), Stop>>,
{
    let (begun, mut times, mut others) = (Instant::now(), Vec::new(), Vec::new());
    while times.len() < LEAST || times.len() < most && begun.elapsed() < BUDGET {
        let asked = Instant::now();
        call().await?;
        let between = Instant::now();
        other().await?;
        times.push(between - asked);
        others.push(between.elapsed());
    }
    times.sort_unstable();
    others.sort_unstable();
    Ok((times, others))
}

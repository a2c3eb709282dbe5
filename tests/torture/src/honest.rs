//! Calls as kube-scheduler makes them.

use std::time::{Duration, Instant};

use extender_harness::http::Connection;

use crate::stage::Stage;

/// A new connection is made for each so many calls, so that the door is open, too.
const CALLS_OF_A_CONNECTION: usize = 50;

/// How calls ended.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Of each call that was answered as it should be.
    pub(crate) times: Vec<Duration>,
    pub(crate) failed: usize,
}

impl Calls {
    /// The time within which this share of the calls was answered, such as 0.99.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        quantile(&self.times, share)
    }
}

/// The time within which this share was done, such as 0.99; zero if there is none.
pub(crate) fn quantile(times: &[Duration], share: f64) -> Duration {
    let mut sorted = times.to_vec();
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

/// One call after the other.
pub(crate) fn calls(stage: &Stage, count: usize) -> Calls {
    let mut calls = Calls::default();
    let mut connection = None;
    for number in 0..count {
        if number % CALLS_OF_A_CONNECTION == 0 {
            connection = None;
        }
        let begun = Instant::now();
        let opened = connection.take().map_or_else(|| Connection::open(stage.gateway.extender), Ok);
        let Ok(mut opened) = opened else {
            calls.failed += 1;
            continue;
        };
        let answered = opened.post("/filter", &[&stage.body]);
        if answered.is_ok_and(|answer| answer.status == 200 && is_decided(answer.body)) {
            calls.times.push(begun.elapsed());
            connection = Some(opened);
        } else {
            calls.failed += 1;
        }
    }
    calls
}

/// Whether filter was decided, and not answered with an error.
fn is_decided(body: &[u8]) -> bool {
    body.windows(10).any(|part| part == b"\"Error\":\"\"")
}

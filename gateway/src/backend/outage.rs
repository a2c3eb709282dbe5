//! Decides when an outage of a backend is logged: at its start, at the first failure of another kind, and then once
//! a minute, however many attempts to connect there are.

use std::time::Duration;

use extender_gateway_core::{BackendFailure, FailureKind};
use tokio::time::Instant;

use crate::config;

/// The time between two log lines.
const PAUSE: Duration = Duration::from_mins(1);

/// One outage of a backend.
#[derive(Debug, Default)]
pub(super) struct Outage {
    /// When it began and when it was last logged.
    said: Option<(Instant, Instant)>,
    /// The kinds of failures that were logged: after the operator fixes one cause, the next must be logged.
    kinds: Vec<FailureKind>,
}

impl Outage {
    /// Records a failed attempt and logs the outage if a line is due.
    pub(super) fn say(&mut self, backend: &config::BackendSettings, failure: &BackendFailure) {
        let Some(lasted) = self.turn(failure.kind) else { return };
        let (down, minutes) = match lasted.as_secs() / 60 {
            0 => ("down", String::new()),
            minutes => ("still down", format!(" for {minutes} min")),
        };
        tracing::warn!(
            backend = %backend.name,
            url = %backend.url,
            kind = failure.kind.as_str(),
            "backend is {down}{minutes}: {failure}; its failure policies apply until it is reachable"
        );
    }

    /// How long the backend has been down; `None` if it is too early to log it again.
    fn turn(&mut self, kind: FailureKind) -> Option<Duration> {
        let now = Instant::now();
        let (began, last) = *self.said.get_or_insert((now, now));
        let is_new = !self.kinds.contains(&kind);
        let due = is_new || now.duration_since(last) >= PAUSE;
        due.then(|| {
            self.said = Some((began, now));
            if is_new {
                self.kinds.push(kind);
            }
            now.duration_since(began)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_first_failure_is_said_and_then_one_a_minute() {
        let mut outage = Outage::default();
        let mut said = Vec::new();
        for attempt in 0..=100_u64 {
            if let Some(lasted) = outage.turn(FailureKind::Unreachable) {
                said.push((attempt * 2, lasted.as_secs()));
            }
            tokio::time::advance(Duration::from_secs(2)).await;
        }
        assert_eq!(said, [(0, 0), (60, 60), (120, 120), (180, 180)]);
    }

    #[tokio::test(start_paused = true)]
    async fn another_kind_of_failure_is_said_once() {
        let mut outage = Outage::default();
        let kinds =
            [FailureKind::Unreachable, FailureKind::Status, FailureKind::Unreachable, FailureKind::Status];
        let mut said = Vec::new();
        for kind in kinds {
            said.push(outage.turn(kind).is_some());
            tokio::time::advance(Duration::from_secs(2)).await;
        }
        assert_eq!(said, [true, true, false, false]);
    }
}

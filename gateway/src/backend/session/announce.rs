//! Log lines about a backend that is ready, limited to a burst and then one in each [`EVERY`]: a backend can change
//! its handshake with each answer, and reconnect as often as it likes.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{backend::info::Info, config};

/// The largest burst of announcements.
const AT_ONCE: u32 = 5;
/// The interval after which one more is written.
const EVERY: Duration = Duration::from_secs(30);

/// Limits the announcements of one backend over all of its sessions.
#[derive(Debug, Default)]
pub(super) struct Announcements(Mutex<Budget>);

/// A token bucket, and the number of lines that were suppressed since the last one.
#[derive(Debug, Default)]
struct Budget {
    used: u32,
    /// The start of the interval at whose end a used token is returned.
    since: Option<Instant>,
    suppressed: u64,
}

impl Announcements {
    /// Logs that a backend is ready, and the configured verbs that it cannot serve.
    pub(super) fn log(&self, settings: &config::BackendSettings, info: &Info) {
        let Some(similar) = self.turn() else { return };
        let (backend, name) = (&settings.name, &info.name);
        let (version, revision) = (&info.version, &info.revision);
        tracing::info!(%backend, name, version, revision, similar, "backend is ready");
        for verb in settings.verbs() {
            if let Some(failure) = info.refusal(verb) {
                let verb = verb.backend_name();
                tracing::error!(%backend, verb, "backend cannot serve this verb: it {failure}");
            }
        }
    }

    /// The number of announcements suppressed since the last one; `None` if this one is suppressed, too.
    fn turn(&self) -> Option<u64> {
        let mut budget = self.0.lock();
        let now = Instant::now();
        while let Some(since) = budget.since.filter(|since| now.duration_since(*since) >= EVERY) {
            budget.used = budget.used.saturating_sub(1);
            budget.since = (budget.used > 0).then_some(since + EVERY);
        }
        if budget.used == AT_ONCE {
            budget.suppressed += 1;
            return None;
        }
        budget.used += 1;
        budget.since.get_or_insert(now);
        Some(std::mem::take(&mut budget.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_logged_and_then_one_in_half_a_minute() {
        let announcements = Announcements::default();
        let mut logged = Vec::new();
        for second in 0..100_u64 {
            if let Some(similar) = announcements.turn() {
                logged.push((second, similar));
            }
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(logged, [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (30, 25), (60, 29), (90, 29)]);
        tokio::time::advance(Duration::from_hours(1)).await;
        let turns: Vec<_> = (0..6).map(|_| announcements.turn()).collect();
        assert_eq!(
            turns[1..],
            [Some(0), Some(0), Some(0), Some(0), None],
            "an hour brings no more than the first"
        );
    }
}

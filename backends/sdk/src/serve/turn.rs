//! Limits how often a line about the same problem is written.

use std::time::Duration;

use tokio::time::Instant;

/// A line about the same problem is written at most this often.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// When a problem was last logged.
#[derive(Debug, Default)]
pub(super) struct LogTurn(Option<Instant>);

impl LogTurn {
    /// Whether a line may be written now, which then counts as written.
    pub(super) fn may_log(&mut self) -> bool {
        let now = Instant::now();
        let may = self.0.is_none_or(|logged| now - logged >= LOG_INTERVAL);
        if may {
            self.0 = Some(now);
        }
        may
    }
}

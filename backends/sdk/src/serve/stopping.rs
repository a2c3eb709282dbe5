//! The stop of a server and of what runs beside it: each may begin it, and both then end.

use tokio::sync::watch;

/// Clones are the same stop.
#[derive(Clone, Debug)]
pub(super) struct Stopping(watch::Sender<bool>);

impl Stopping {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(super) fn begin(&self) {
        self.0.send_replace(true);
    }

    pub(super) fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it has begun.
    pub(super) async fn begun(self) {
        // The sender lives as long as `self`.
        drop(self.0.subscribe().wait_for(|begun| *begun).await);
    }
}

//! A stop that some tasks begin and others wait for.

use tokio::sync::watch;

/// Clones are the same stop.
#[derive(Clone, Debug)]
pub(crate) struct Stopping(watch::Sender<bool>);

impl Stopping {
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(false))
    }

    pub(crate) fn begin(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it has begun.
    pub(crate) async fn begun(self) {
        // The sender lives as long as `self`.
        drop(self.0.subscribe().wait_for(|begun| *begun).await);
    }
}

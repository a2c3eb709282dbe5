//! What a writer did to the table, and how a reader waits for it.

use tokio::sync::watch;

/// A change to a node or to the whole list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The table is as it was.
    Unchanged,
    /// Something that was not known is known now.
    Added,
    /// Something that was known is different, or gone.
    Changed,
}

/// The changes of a table since this was made.
#[derive(Debug)]
pub struct TableChanges(watch::Receiver<u64>);

impl TableChanges {
    pub(super) fn new(counter: watch::Receiver<u64>) -> Self {
        Self(counter)
    }

    /// Waits for a change that this has not told yet; several at once count as one. Safe to drop and to call
    /// again, on any runtime. Never returns once the table is gone.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

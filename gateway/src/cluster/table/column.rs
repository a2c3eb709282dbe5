//! A view of a table that is kept up for as long as something holds it.

use std::sync::Arc;

/// Where the rows of a registered view are. Means nothing to another table, nor once its [`Column`] is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ViewId(pub(super) usize);

/// A registered view. Its rows are dropped with the last clone of this, at the latest when the table is written to.
#[derive(Debug, Clone)]
pub struct Column {
    pub(super) id: ViewId,
    pub(super) held: Arc<()>,
}

impl Column {
    /// Where its rows are.
    pub fn id(&self) -> ViewId {
        self.id
    }

    /// Keeps it for as long as the table lives.
    #[cfg(test)]
    pub(crate) fn leak(self) -> ViewId {
        std::mem::forget(self.held);
        self.id
    }
}

impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.held, &other.held)
    }
}

impl Eq for Column {}

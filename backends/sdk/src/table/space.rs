//! Limits the bytes of all tables of a server.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Bytes that are left.
#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    left: AtomicUsize,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, left: AtomicUsize::new(limit) })
    }

    /// In bytes.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Takes this many bytes, if they are left.
    pub(super) fn take(self: &Arc<Self>, bytes: usize) -> Option<Space> {
        let less = |left: usize| left.checked_sub(bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
        Some(Space { budget: Arc::clone(self), bytes })
    }
}

/// Bytes in use. They are returned when this is dropped, which is when the memory is freed: a row that a call still
/// holds counts.
#[derive(Debug)]
pub(super) struct Space {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Drop for Space {
    fn drop(&mut self) {
        self.budget.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_can_be_taken_again() {
        let budget = Budget::new(10);
        let six = budget.take(6).unwrap();
        assert!(budget.take(5).is_none());
        let four = budget.take(4).unwrap();
        drop(six);
        assert!(budget.take(7).is_none());
        drop((budget.take(6).unwrap(), four));
        assert!(budget.take(10).is_some());
    }
}

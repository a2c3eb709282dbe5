//! The outcomes that a backend has not acknowledged.

use std::{collections::VecDeque, mem};

use bytes::Bytes;
use extender_policy_api::{
    limits::{OUTCOMES, PENDING_OUTCOMES},
    v1beta1::{Outcome, ReportRequest},
};
use prost::Message;

/// The outcomes, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Each as the request with it alone: encoded messages that are joined are one message.
    queue: VecDeque<Vec<u8>>,
    /// The number of the first one, counted from the start.
    first: u64,
    /// Those that were dropped because there were too many.
    dropped: usize,
}

/// What a request carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Batch {
    /// The outcomes as a field of the request.
    pub(super) field: Bytes,
    /// How many.
    pub(super) count: usize,
    /// The number of the first one after them.
    pub(super) end: u64,
}

impl Pending {
    /// Adds one. Drops the oldest if there are too many.
    pub(super) fn push(&mut self, outcome: Outcome) {
        if self.queue.len() == PENDING_OUTCOMES {
            self.remove_until(self.first + 1);
            self.dropped += 1;
        }
        self.queue.push_back(ReportRequest { call: None, outcomes: vec![outcome] }.encode_to_vec());
    }

    /// The first ones, as many as fit: at least one, if there is any.
    pub(super) fn batch(&self, most_bytes: usize) -> Option<Batch> {
        let mut field = Vec::new();
        let mut count = 0;
        for outcome in self.queue.iter().take(OUTCOMES) {
            if count > 0 && field.len() + outcome.len() > most_bytes {
                break;
            }
            field.extend_from_slice(outcome);
            count += 1;
        }
        (count > 0).then(|| Batch { field: field.into(), count, end: self.first + count as u64 })
    }

    /// Removes those before this number; others may have been dropped meanwhile.
    pub(super) fn remove_until(&mut self, end: u64) {
        while self.first < end && self.queue.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// The number of the next one.
    pub(super) fn end(&self) -> u64 {
        self.first + self.queue.len() as u64
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// How many were dropped since the last time.
    pub(super) fn take_dropped(&mut self) -> usize {
        mem::take(&mut self.dropped)
    }
}

//! The memory of all requests that are being read, decided and answered, limited together: each is limited in size, and
//! there may be thousands.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

/// The bytes of the bodies of all requests in progress.
#[derive(Debug, Default)]
pub(super) struct BytesInFlight(AtomicUsize);

/// What the body of one request has of them, until it is dropped.
#[derive(Debug)]
pub(super) struct BodyBytes {
    all: Arc<BytesInFlight>,
    /// The most of all requests together.
    most: usize,
    own: usize,
}

impl BytesInFlight {
    /// For a request of which nothing has arrived.
    pub(super) fn request(self: &Arc<Self>, most: usize) -> BodyBytes {
        BodyBytes { all: Arc::clone(self), most, own: 0 }
    }
}

impl BodyBytes {
    /// The most of all requests together.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Whether a body could have this many bytes now.
    pub(super) fn has_room_for(&self, bytes: usize) -> bool {
        let others = self.all.0.load(Relaxed).saturating_sub(self.own);
        others.saturating_add(bytes) <= self.most
    }

    /// Takes this many bytes in all; false if there are not as many left.
    pub(super) fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.own);
        let all = self.all.0.fetch_add(more, Relaxed).saturating_add(more);
        if all > self.most {
            self.all.0.fetch_sub(more, Relaxed);
            return false;
        }
        self.own += more;
        true
    }

    /// The body is dropped before its answer is sent.
    pub(super) fn release(&mut self) {
        self.all.0.fetch_sub(std::mem::take(&mut self.own), Relaxed);
    }
}

impl Drop for BodyBytes {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_for_all() {
        let all = Arc::<BytesInFlight>::default();
        let (mut one, mut other) = (all.request(100), all.request(100));
        assert!(one.grow_to(60) && one.grow_to(60), "the same size again takes nothing");
        assert!(!other.grow_to(41) && other.grow_to(40));
        assert!(one.has_room_for(60) && !one.has_room_for(61) && !other.has_room_for(41));
        one.release();
        drop(one);
        assert!(other.has_room_for(100) && other.grow_to(100));
        drop(other);
        assert_eq!(all.0.load(Relaxed), 0);
    }
}

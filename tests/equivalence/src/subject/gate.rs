//! Delays requests to backends, so that a case decides the order in which they are read.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

/// A gate in front of all backends of a case. Open at first.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    /// With their ranks.
    waiting: Vec<(u8, oneshot::Sender<()>)>,
}

impl Gate {
    /// Requests wait from now on.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
    }

    /// Lets all waiting and later requests through.
    pub(super) fn open(&self) {
        *self.lock() = State::default();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Returns when a request of this rank may be read.
    pub(super) async fn pass(&self, rank: u8) {
        let let_through = {
            let mut state = self.lock();
            if !state.is_closed {
                return;
            }
            let (sender, receiver) = oneshot::channel();
            state.waiting.push((rank, sender));
            receiver
        };
        self.arrived.notify_one();
        // An error means that the gate was opened.
        let _ = let_through.await;
    }

    /// Returns when a request waits.
    pub(super) async fn arrived(&self) {
        while self.lock().waiting.is_empty() {
            self.arrived.notified().await;
        }
    }

    /// Lets the waiting request with the lowest rank through.
    pub(super) fn let_one_through(&self) {
        let mut state = self.lock();
        let least = state.waiting.iter().enumerate().min_by_key(|(_, (rank, _))| *rank);
        if let Some((place, _)) = least {
            // The caller may have canceled.
            let _ = state.waiting.remove(place).1.send(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

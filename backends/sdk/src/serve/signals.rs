//! The signals that stop the process.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM (Kubernetes) and SIGINT (a terminal), watched from its creation.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Waits for the next one.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    /// Waits for two.
    pub(super) async fn twice(&mut self) {
        self.next().await;
        self.next().await;
    }
}

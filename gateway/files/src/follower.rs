//! Follows the content of a file. A change is reported when two consecutive reads return it, so that a file that is
//! still being written is not used: the beginning of a valid file can be valid, too.
//!
//! The content is read again each period instead of being watched: a `ConfigMap` is replaced by swapping a symbolic
//! link two folders up, and only the content shows reliably that it changed.

use std::{panic::resume_unwind, sync::Arc, time::Duration};

use tokio::{
    task::spawn_blocking,
    time::{Instant, Interval, MissedTickBehavior, interval_at},
};

/// Follows a value that is read from files.
pub struct Follower<T> {
    read: Arc<dyn Fn() -> T + Send + Sync>,
    reads: Interval,
    /// The previous read.
    previous: T,
    /// The value that was reported last.
    reported: T,
}

impl<T: Clone + PartialEq + Send + 'static> Follower<T> {
    /// Follows what `read` returns, starting from a value that is in use. `read` may block: it runs on a thread for
    /// that.
    pub fn new(in_use: T, period: Duration, read: impl Fn() -> T + Send + Sync + 'static) -> Self {
        let mut reads = interval_at(Instant::now() + period, period);
        // After a pause one read is enough.
        reads.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { read: Arc::new(read), reads, previous: in_use.clone(), reported: in_use }
    }

    /// Waits for a value that differs from the one reported last and has been read twice in a row. Cancel safe.
    pub async fn changed(&mut self) -> T {
        loop {
            self.reads.tick().await;
            let now = self.read_now().await;
            let settled = now == self.previous;
            self.previous = now.clone();
            if settled && now != self.reported {
                self.reported = now.clone();
                return now;
            }
        }
    }

    /// Reads immediately. A caller that uses the value without waiting for [`Follower::changed`] must call
    /// [`Follower::use_now`].
    pub async fn read_now(&self) -> T {
        let read = Arc::clone(&self.read);
        match spawn_blocking(move || read()).await {
            Ok(value) => value,
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // Only a runtime that shuts down cancels it, and drops this future as well.
            Err(_) => std::future::pending().await,
        }
    }

    /// From now on, changes from this value are reported.
    pub fn use_now(&mut self, value: T) {
        self.reported = value;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// A follower of a value that the test sets.
    fn follower(in_use: &'static str) -> (Follower<&'static str>, Arc<Mutex<Vec<&'static str>>>) {
        let reads = Arc::new(Mutex::new(Vec::new()));
        let script = Arc::clone(&reads);
        let next = move || {
            let mut script = script.lock().unwrap();
            // The last one stays.
            if script.len() > 1 { script.remove(0) } else { script[0] }
        };
        (Follower::new(in_use, Duration::from_secs(1), next), reads)
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_reported_when_two_reads_agree() {
        let (mut follower, reads) = follower("a");
        *reads.lock().unwrap() = vec!["a", "b", "bc", "bcd", "bcd"];
        assert_eq!(follower.changed().await, "bcd");
        // A value that appears only between two reads is not a change.
        *reads.lock().unwrap() = vec!["x", "bcd", "bcd", "a"];
        assert_eq!(follower.changed().await, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn a_value_that_is_used_already_is_no_change() {
        let (mut follower, reads) = follower("a");
        *reads.lock().unwrap() = vec!["b"];
        let now = follower.read_now().await;
        follower.use_now(now);
        *reads.lock().unwrap() = vec!["b", "b", "b", "c"];
        assert_eq!(follower.changed().await, "c");
    }
}

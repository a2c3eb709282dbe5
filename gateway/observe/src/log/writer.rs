//! Writes the log from a separate thread, so that an unread log costs log lines and never a call.
//!
//! Lines wait in a queue of limited size. A line that does not fit is dropped and counted; once lines are written
//! again, one line reports how many were lost. tracing-appender limits its queue in lines, which may be tables of
//! many kilobytes, does not count lines that could not be written, and prints on the calling thread at the end.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use jiff::Timestamp;
use parking_lot::{Condvar, Mutex};
use tracing_subscriber::fmt::MakeWriter;

/// The size of the queue in bytes: some thousand lines. The thread may hold as much again.
const CAPACITY: usize = 1 << 20;

/// The sending end of the queue.
#[derive(Debug, Clone, Default)]
pub(super) struct LogWriter(Arc<WriterState>);

#[derive(Debug, Default)]
struct WriterState {
    queue: Mutex<Queue>,
    /// Lines are available for the thread.
    filled: Condvar,
    /// Everything was written.
    emptied: Condvar,
    /// Lines lost since the start.
    lost: AtomicU64,
    /// When the last one was, in Unix seconds.
    last_lost: AtomicI64,
}

/// Lines that are not written yet.
#[derive(Debug, Default)]
struct Queue {
    text: Vec<u8>,
    lines: u64,
    /// Lines that did not fit and were not reported yet.
    dropped: u64,
    /// Whether the thread is writing lines that it took.
    writing: bool,
}

impl Queue {
    fn is_done(&self) -> bool {
        self.text.is_empty() && !self.writing
    }
}

impl LogWriter {
    /// Starts the thread that writes to `sink`. After lines were lost, it calls `report` with their number as soon
    /// as lines can be written again.
    pub(super) fn start(
        sink: impl Write + Send + 'static,
        report: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Self> {
        let writer = Self::default();
        let shared = Arc::clone(&writer.0);
        thread::Builder::new().name("log".to_owned()).spawn(move || shared.write(sink, report))?;
        Ok(writer)
    }

    /// Lines lost since the start.
    pub(super) fn lost(&self) -> u64 {
        self.0.lost.load(Relaxed)
    }

    /// When the last line was lost.
    pub(super) fn last_lost(&self) -> Option<Timestamp> {
        let last = Timestamp::from_second(self.0.last_lost.load(Relaxed)).ok();
        last.filter(|_| self.lost() > 0)
    }

    /// Waits until everything is written, at most this long.
    pub(super) fn flush_within(&self, timeout: Duration) {
        self.0.emptied.wait_while_for(&mut self.0.queue.lock(), |queue| !queue.is_done(), timeout);
    }
}

impl WriterState {
    fn lose(&self, lines: u64) {
        self.lost.fetch_add(lines, Relaxed);
        self.last_lost.store(Timestamp::now().as_second(), Relaxed);
    }

    fn write(&self, mut sink: impl Write, report: impl Fn(u64)) {
        let (mut text, mut unreported) = (Vec::new(), 0);
        loop {
            text.clear();
            let (lines, dropped) = self.take(&mut text);
            if sink.write_all(&text).is_ok() {
                unreported += dropped;
                if unreported > 0 {
                    report(std::mem::take(&mut unreported));
                }
            } else {
                // Reported when writing succeeds again: a report that cannot be written would cause the next one.
                self.lose(lines);
                unreported += dropped + lines;
            }
        }
    }

    /// Waits for lines and takes them all. Returns their number, and how many did not fit since the last time.
    fn take(&self, text: &mut Vec<u8>) -> (u64, u64) {
        let mut queue = self.queue.lock();
        queue.writing = false;
        if queue.is_done() {
            self.emptied.notify_all();
        }
        self.filled.wait_while(&mut queue, |queue| queue.text.is_empty());
        queue.writing = true;
        std::mem::swap(&mut queue.text, text);
        (std::mem::take(&mut queue.lines), std::mem::take(&mut queue.dropped))
    }
}

/// Every call of `write` is one line and succeeds.
impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut queue = self.0.queue.lock();
        if queue.text.len() + line.len() > CAPACITY {
            queue.dropped += 1;
            self.0.lose(1);
        } else {
            queue.text.extend_from_slice(line);
            queue.lines += 1;
            if !queue.writing {
                self.0.filled.notify_one();
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for LogWriter {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests;

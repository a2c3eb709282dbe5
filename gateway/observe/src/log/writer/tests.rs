//! Lines while the sink does not accept any.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};

use super::*;

/// A sink that reports each write and waits until the test decides whether it succeeds.
struct Gate {
    texts: SyncSender<Vec<u8>>,
    verdicts: Receiver<bool>,
}

impl Write for Gate {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        // The test may have ended.
        let _ = self.texts.send(text.to_vec());
        if self.verdicts.recv().unwrap_or(false) { Ok(text.len()) } else { Err(io::ErrorKind::Other.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Gated {
    writer: LogWriter,
    texts: Receiver<Vec<u8>>,
    verdicts: SyncSender<bool>,
    reports: Receiver<u64>,
}

impl Gated {
    fn start() -> Self {
        let ((wrote, texts), (verdicts, awaited)) = (sync_channel(64), sync_channel(64));
        let (reported, reports) = channel();
        let sink = Gate { texts: wrote, verdicts: awaited };
        let report = move |lost| {
            let _ = reported.send(lost);
        };
        let writer = LogWriter::start(sink, report).unwrap();
        Self { writer, texts, verdicts, reports }
    }

    fn line(&mut self, line: &[u8]) {
        self.writer.write_all(line).unwrap();
    }
}

#[test]
fn a_sink_that_is_stuck_costs_lines_and_they_are_counted_and_reported() {
    let mut gated = Gated::start();
    gated.line(b"first\n");
    assert_eq!(gated.texts.recv().unwrap(), b"first\n", "and now the thread waits");
    let line = vec![b'x'; CAPACITY / 4];
    for _ in 0..7 {
        gated.line(&line);
    }
    assert_eq!(gated.writer.lost(), 3, "four have room");
    gated.verdicts.send(true).unwrap();
    assert_eq!(gated.texts.recv().unwrap().len(), CAPACITY, "what waited is written in one piece");
    gated.verdicts.send(true).unwrap();
    assert_eq!(gated.reports.recv().unwrap(), 3);
    gated.line(b"last\n");
    assert_eq!(gated.texts.recv().unwrap(), b"last\n");
}

#[test]
fn lines_that_cannot_be_written_are_reported_once_writing_succeeds() {
    let mut gated = Gated::start();
    for verdict in [false, false, true] {
        gated.line(b"line\n");
        gated.texts.recv().unwrap();
        gated.verdicts.send(verdict).unwrap();
        gated.writer.flush_within(Duration::MAX);
    }
    assert_eq!((gated.writer.lost(), gated.reports.recv().unwrap()), (2, 2));
    assert!(gated.reports.try_recv().is_err());
}

#[test]
fn a_flush_ends_when_all_is_written_or_its_time_is_over() {
    let mut gated = Gated::start();
    gated.writer.flush_within(Duration::MAX);
    gated.line(b"line\n");
    gated.writer.flush_within(Duration::ZERO);
    gated.texts.recv().unwrap();
    gated.writer.flush_within(Duration::ZERO);
    gated.verdicts.send(true).unwrap();
    gated.writer.flush_within(Duration::MAX);
    assert!(gated.writer.0.queue.lock().is_done());
}

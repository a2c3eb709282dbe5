//! The output of a child: expected lines, and the end of its standard error.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// How many lines of standard error are kept.
const KEPT_LINES: usize = 40;

/// The lines of a child's standard output. They are read to the end even if they are no longer needed: a full pipe
/// would block the child.
#[derive(Debug)]
pub(super) struct Announcements {
    lines: Receiver<String>,
    seen: Vec<String>,
    deadline: Instant,
}

impl Announcements {
    /// Reads the output; lines are waited for until `within` from now.
    pub(super) fn of(output: impl Read + Send + 'static, within: Duration) -> Self {
        let (sender, lines) = mpsc::channel();
        // Reads on without a receiver.
        thread::spawn(move || for_each_line(output, |line| drop(sender.send(line))));
        Self { lines, seen: Vec::new(), deadline: Instant::now() + within }
    }

    /// The first line with this beginning, past or future.
    pub(super) fn beginning_with(&mut self, beginning: &str) -> Result<String, RecvTimeoutError> {
        if let Some(line) = self.seen.iter().find(|line| line.starts_with(beginning)) {
            return Ok(line.clone());
        }
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left)?;
            self.seen.push(line.clone());
            if line.starts_with(beginning) {
                return Ok(line);
            }
        }
    }
}

/// The last lines of a child's standard error.
#[derive(Debug)]
pub(super) struct Tail {
    lines: Arc<Mutex<VecDeque<String>>>,
    is_shown: Arc<AtomicBool>,
    reader: JoinHandle<()>,
}

impl Tail {
    /// Reads the output to its end, and keeps the last lines.
    pub(super) fn of(output: impl Read + Send + 'static) -> Self {
        let lines = Arc::new(Mutex::new(VecDeque::with_capacity(KEPT_LINES)));
        let is_shown = Arc::new(AtomicBool::new(false));
        let (kept, shown) = (Arc::clone(&lines), Arc::clone(&is_shown));
        let read = move |line: String| {
            if shown.load(Relaxed) {
                eprintln!("{line}");
            }
            keep(&kept, line);
        };
        let reader = thread::spawn(move || for_each_line(output, read));
        Self { lines, is_shown, reader }
    }

    /// Prints the lines to come on this process' standard error, too.
    pub(super) fn show(&self) {
        self.is_shown.store(true, Relaxed);
    }

    /// The lines so far.
    pub(super) fn text(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.is_empty() {
            return "(nothing)".to_owned();
        }
        lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
    }

    /// Waits until the output has ended, so that `text` is complete.
    pub(super) fn wait_for_end(&self, at_most: Duration) {
        let deadline = Instant::now() + at_most;
        while !self.reader.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn keep(lines: &Mutex<VecDeque<String>>, line: String) {
    let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
    if lines.len() == KEPT_LINES {
        lines.pop_front();
    }
    lines.push_back(line);
}

/// Output that is not UTF-8 is shown with replacement characters.
fn for_each_line(output: impl Read, mut act: impl FnMut(String)) {
    let mut lines = BufReader::new(output).split(b'\n');
    while let Some(Ok(line)) = lines.next() {
        act(String::from_utf8_lossy(&line).into_owned());
    }
}

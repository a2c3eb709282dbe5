//! The log of a gateway in the test's own thread.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

use tracing::{Level, subscriber::DefaultGuard};
use tracing_subscriber::fmt::MakeWriter;

/// The text so far.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    /// The log of this thread from now on, as long as the guard lives.
    pub(crate) fn here() -> (Self, DefaultGuard) {
        Self::at(Level::INFO)
    }

    /// The same from this level on.
    pub(crate) fn at(level: Level) -> (Self, DefaultGuard) {
        let written = Self::default();
        let lines = tracing_subscriber::fmt().with_max_level(level).with_ansi(false);
        let subscriber = lines.with_writer(written.clone()).finish();
        (written, tracing::subscriber::set_default(subscriber))
    }

    /// The lines that contain all of these.
    pub(crate) fn with(&self, parts: &[&str]) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let lines = text.lines().filter(|line| parts.iter().all(|part| line.contains(part)));
        lines.map(str::to_owned).collect()
    }
}

impl Write for Written {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Written {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

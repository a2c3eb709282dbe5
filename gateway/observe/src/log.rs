//! The log: one line per event, on standard error, so that standard output only has what scripts read.
//!
//! Nothing in a serving process writes to standard error directly, because that blocks if it is not read. Lines,
//! panics and the final message of a failing process go through [`writer`], which drops lines that do not fit.

mod writer;

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io::{self, IsTerminal, Write},
    panic::{PanicHookInfo, set_hook},
    sync::OnceLock,
    thread,
    time::Duration,
};

use extender_gateway_settings::{self as config, Choice, LogFormat, LogLevel};
use jiff::Timestamp;
use parking_lot::Mutex;
use tracing_subscriber::{EnvFilter, Layer, Registry, layer::SubscriberExt, reload, util::SubscriberInitExt};

use self::writer::LogWriter;

/// The log of the process.
static LOG: OnceLock<Log> = OnceLock::new();

struct Log {
    /// Changes the level while the process runs.
    filter: reload::Handle<EnvFilter, Registry>,
    level: Mutex<String>,
    writer: LogWriter,
}

/// The time for writing the last lines when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Writes the queued lines when it is dropped, for at most a second.
#[derive(Debug)]
#[must_use = "the last lines are written when it is dropped"]
pub struct Flush;

impl Drop for Flush {
    fn drop(&mut self) {
        if let Some(log) = LOG.get() {
            log.writer.flush_within(FLUSH_TIMEOUT);
        }
    }
}

/// Standard error, through the log's queue if there is a log, so that no write blocks.
#[derive(Debug)]
pub struct Stderr;

impl Write for Stderr {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        match LOG.get() {
            Some(log) => log.writer.clone().write(text),
            None => io::stderr().write(text),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        drop(Flush);
        Ok(())
    }
}

/// When a log line was last lost; `None` if none was.
pub fn last_lost() -> Option<Timestamp> {
    LOG.get()?.writer.last_lost()
}

/// Log lines lost since the start, because standard error was not read.
pub fn lost() -> u64 {
    LOG.get().map_or(0, |log| log.writer.lost())
}

/// The default filter: our lines of this level, and warnings of the libraries, with two exceptions. kube repeats at
/// each attempt what the watch logs once, and h2 warns of frames, of which a peer can send a hundred thousand a
/// second.
fn default_filter(level: LogLevel) -> String {
    let others = if level == LogLevel::Error { "error" } else { "warn" };
    let level = level.word();
    format!("{others},extender_gateway={level},extender_otlp={level},kube_client=off,h2=error")
}

/// Starts the log, panics included. `RUST_LOG` overrides the configured level. Does nothing the second time.
///
/// # Errors
/// The system cannot start a thread for it.
pub fn init(settings: &config::LogSettings) -> io::Result<Flush> {
    let variable = std::env::var("RUST_LOG").ok().filter(|directives| !directives.is_empty());
    let is_valid = |directives: &String| have_levels(directives) && EnvFilter::try_new(directives).is_ok();
    let level = variable.clone().filter(is_valid).unwrap_or_else(|| default_filter(settings.level));
    let invalid = variable.filter(|variable| *variable != level);
    let (filter, handle) = reload::Layer::new(EnvFilter::new(&level));
    let writer = LogWriter::start(io::stderr(), report_lost)?;
    // It would write its own errors to standard error.
    let lines = tracing_subscriber::fmt::layer().with_writer(writer.clone()).log_internal_errors(false);
    let lines = match settings.format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).boxed(),
    };
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        let _ = LOG.set(Log { filter: handle, level: Mutex::new(level), writer });
        set_hook(Box::new(log_panic));
    }
    if let Some(invalid) = invalid {
        tracing::warn!("RUST_LOG={invalid:?} is invalid and ignored: {EXPECTED}");
    }
    Ok(Flush)
}

fn report_lost(lost: u64) {
    tracing::warn!(
        lost,
        "log lines were lost because standard error was not read; check what collects the logs of this process"
    );
}

/// Logs what the standard library would write to standard error.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let text = panic.payload_as_str().unwrap_or("(a value that is not text)");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let backtrace = match Backtrace::capture() {
        backtrace if backtrace.status() == BacktraceStatus::Captured => format!("\n{backtrace}"),
        _ => String::new(),
    };
    let thread = thread::current();
    tracing::error!(thread = thread.name(), "panicked at {place}: {text}{backtrace}");
}

/// The valid levels.
const EXPECTED: &str = "expected error, warn, info, debug, a number from 0 to 10, or directives such as \
                        info,extender_gateway_backend=debug";

/// Whether each of these directives has a level. One without a level means `trace`, as that word does: lines of
/// that level are removed at compile time, and the library reports this in its own format, within the log.
fn have_levels(directives: &str) -> bool {
    let known = ["off", "error", "warn", "info", "debug"];
    let is_level = |part: &str| {
        let level = part.rsplit('=').next().unwrap_or_default().trim();
        known.iter().any(|known| level.eq_ignore_ascii_case(known))
    };
    directives.split(',').all(is_level)
}

/// The current filter, in the syntax of `RUST_LOG`.
pub fn level() -> String {
    LOG.get().map_or_else(String::new, |log| log.level.lock().clone())
}

/// Changes the level: one of the words of the configuration, a klog number (0 to 3 for info, higher for debug), or
/// directives in the syntax of `RUST_LOG`.
///
/// # Errors
/// The text is invalid, or there is no log.
pub fn set_level(text: &str) -> Result<String, String> {
    let directives = directives(text.trim())?;
    let filter =
        EnvFilter::try_new(&directives).map_err(|error| format!("{text:?} is not a log level: {error}"))?;
    let log = LOG.get().ok_or("this process writes no log")?;
    log.filter.reload(filter).map_err(|error| error.to_string())?;
    log.level.lock().clone_from(&directives);
    Ok(directives)
}

/// Applies the configured level.
pub fn configure(level: LogLevel) {
    // Without a log there is nowhere to report it.
    let _ = set_level(&default_filter(level));
}

/// The filter for the level of a [`set_level`].
fn directives(text: &str) -> Result<String, String> {
    if let Ok(verbosity) = text.parse::<u32>() {
        return Ok(default_filter(if verbosity < 4 { LogLevel::Info } else { LogLevel::Debug }));
    }
    if let Some((_, level)) = LogLevel::WORDS.iter().find(|(word, _)| *word == text) {
        return Ok(default_filter(*level));
    }
    if !have_levels(text) {
        return Err(format!("{text:?} is not a log level; {EXPECTED}"));
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_words_numbers_or_directives() {
        for (text, expected) in [
            ("debug", "warn,extender_gateway=debug,extender_otlp=debug,kube_client=off,h2=error"),
            ("4", "warn,extender_gateway=debug,extender_otlp=debug,kube_client=off,h2=error"),
            ("0", "warn,extender_gateway=info,extender_otlp=info,kube_client=off,h2=error"),
            ("error", "error,extender_gateway=error,extender_otlp=error,kube_client=off,h2=error"),
            ("extender_gateway=debug,h2=off", "extender_gateway=debug,h2=off"),
        ] {
            assert_eq!(directives(text).as_deref(), Ok(expected), "{text}");
            assert!(EnvFilter::try_new(expected).is_ok());
        }
        for text in ["", "loud", "extender_gateway=loud", "-1", "trace", "info,h2=TRACE", "extender_gateway"]
        {
            let wrong = directives(text).unwrap_err();
            assert!(wrong.contains("is not a log level; expected error, warn, info, debug"), "{wrong}");
        }
    }
}

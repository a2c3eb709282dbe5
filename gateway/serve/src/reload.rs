//! Replaces the configuration of a running gateway: when its file changes, also behind a `ConfigMap`'s symlinks,
//! and at SIGHUP.
//!
//! A change is used when two consecutive checks read the same content, so that a half-written file is not used: the
//! beginning of a valid file can be valid, too. SIGHUP means that the file is complete. Calls in progress finish
//! with the configuration that they started with. The configuration stays unchanged if the new one has mistakes,
//! changes fields that require a restart, or has settings that a backend rejects. In the last case it is retried:
//! the backend may be replaced by one that accepts them.

use std::{fmt::Display, path::PathBuf, sync::Arc, time::Duration};

use extender_gateway_admin::status::GatewayStatus;
use extender_gateway_api::RejectedBecause;
use extender_gateway_backend::handshake::{PreflightRefusal, refusals};
use extender_gateway_door::{Door, Served};
use extender_gateway_observe::{WaitingPods, waiting::PolicyChange};
use extender_gateway_scheduler_config::{Entries, entries};
use extender_gateway_settings::{Config, ConfigErrors, Content, NOT_SHOWN, changes, is_standard_input};
use extender_otlp::Sampler;
use tokio::{
    signal::unix::Signal,
    task::{JoinError, spawn_blocking},
    time::{Instant, Interval, MissedTickBehavior, interval},
};

use super::{assembly::Assembly, telemetry};

/// The interval between checks of the file. It is small, and only its content shows reliably whether it changed.
const CHECK: Duration = Duration::from_secs(1);
/// The interval between retries of settings that a backend has rejected.
const RETRY: Duration = Duration::from_secs(10);
/// The most changes in a log line.
const MAX_CHANGES: usize = 20;
/// A file that could not be read in this many checks in a row was not just being replaced.
const MAX_UNREADABLE: u32 = 5;

/// Follows the configuration file.
pub(super) struct Reload {
    path: PathBuf,
    seen: SeenContent,
    /// The configuration at the start.
    start: Config,
    /// The configuration in use.
    config: Config,
    /// The entries for kube-scheduler at the start, or those logged since.
    entries: Entries,
    assembly: Assembly,
    door: Arc<Door>,
    checks: Interval,
    hangups: Signal,
    /// The last logged rejection of settings by a backend, while they are retried.
    refused: Option<String>,
    /// The sampler if the file does not configure one.
    sampler: Sampler,
    gateway_status: Arc<GatewayStatus>,
}

/// Why the file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReloadCause {
    /// It has changed, or is retried.
    Check,
    /// SIGHUP: a log line is expected.
    Hangup,
}

/// The content of the file at earlier checks. Initially empty: the file may have changed since the start.
#[derive(Debug, Default)]
struct SeenContent {
    /// At the latest check; `None` if the file could not be read.
    last: Option<Content>,
    /// The content that was tried last, used or not.
    tried: Option<Content>,
    /// When that is retried.
    retry_at: Option<Instant>,
    /// The number of checks in a row in which the file could not be read.
    unreadable: u32,
}

impl SeenContent {
    /// Records the content at a check. Returns whether to try it: it is new, and unchanged since the previous
    /// check.
    fn check(&mut self, now: Option<Content>) -> bool {
        // A file that is missing for a moment, between two writes, is not a change.
        self.unreadable = if now.is_some() { 0 } else { self.unreadable.saturating_add(1) };
        let retry = self.retry_at.is_some_and(|at| at <= Instant::now());
        let is_new = now.is_some() && now == self.last && (now != self.tried || retry);
        let due = is_new || self.unreadable == MAX_UNREADABLE;
        self.last = now;
        due
    }
}

impl Reload {
    /// Reloads for a gateway that was just assembled from this file and serves at this door.
    pub(super) fn new(
        path: PathBuf,
        config: Config,
        hangups: Signal,
        assembly: Assembly,
        door: Arc<Door>,
        sampler: Sampler,
        gateway_status: Arc<GatewayStatus>,
    ) -> Self {
        let mut checks = interval(CHECK);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            path,
            seen: SeenContent::default(),
            start: config.clone(),
            entries: entries(&config),
            config,
            assembly,
            door,
            checks,
            hangups,
            refused: None,
            sampler,
            gateway_status,
        }
    }

    /// Follows the file indefinitely; returns only if a task panicked, which must stop the process.
    pub(super) async fn follow(mut self) -> JoinError {
        loop {
            let cause = tokio::select! {
                panicked = self.assembly.panicked() => return panicked,
                _ = self.checks.tick(), if !is_standard_input(&self.path) => ReloadCause::Check,
                _ = self.hangups.recv() => ReloadCause::Hangup,
            };
            if is_standard_input(&self.path) {
                tracing::warn!("cannot reload: the configuration was read from standard input");
                continue;
            }
            let path = self.path.clone();
            let content = match spawn_blocking(move || Content::read(&path)).await {
                Ok(content) => content,
                Err(panicked) => return panicked,
            };
            if cause == ReloadCause::Hangup || self.seen.check(content.as_ref().ok().cloned()) {
                self.reload(content, cause).await;
            }
        }
    }

    async fn reload(&mut self, content: Result<Content, ConfigErrors>, cause: ReloadCause) {
        let tried = content.as_ref().ok().cloned();
        let parsed = parsed(self.path.clone(), content).await.map_err(|why| (why, RejectedBecause::File));
        let config = parsed.and_then(|config| self.allowed(config));
        if tried != self.seen.tried {
            // The same rejection for another file is logged again.
            self.refused = None;
        }
        self.seen.tried = tried;
        self.seen.retry_at = None;
        match config {
            Ok(config) if config == self.config => self.unchanged(cause),
            Ok(config) => self.replace(config, cause).await,
            Err((why, because)) => self.refuse(&why, because),
        }
    }

    /// SIGHUP and the end of a rejected change get a log line; a file with a new timestamp does not.
    fn unchanged(&mut self, cause: ReloadCause) {
        self.refused = None;
        let was_rejected = self.gateway_status.take_refusal();
        if was_rejected || cause == ReloadCause::Hangup {
            let undone = if was_rejected { "; the rejected change was undone" } else { "" };
            tracing::info!(file = %self.path.display(), "configuration unchanged{undone}");
        } else {
            tracing::debug!(file = %self.path.display(), "configuration unchanged");
        }
    }

    async fn replace(&mut self, config: Config, cause: ReloadCause) {
        let refusals = refusals(&self.door.observer.metrics, &config, &self.config).await;
        if !refusals.is_empty() {
            return self.postpone(&refusals, cause);
        }
        match self.assembly.serve(&config).await {
            Ok(served) => self.take(config, served),
            Err(why) => self.refuse(&why, RejectedBecause::File),
        }
    }

    /// Schedules a retry. A repeated rejection with the same text is not logged.
    fn postpone(&mut self, refusals: &[PreflightRefusal], cause: ReloadCause) {
        self.seen.retry_at = Some(Instant::now() + RETRY);
        let why = refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        if cause == ReloadCause::Hangup || self.refused.as_ref() != Some(&why) {
            self.refuse(&why, RejectedBecause::Backend);
            self.refused = Some(why);
        }
    }

    fn take(&mut self, config: Config, served: Served) {
        let entries = entries(&config);
        if !entries.are_covered_by(&self.entries) {
            tracing::warn!(
                file = %self.path.display(),
                "kube-scheduler's extender configuration is out of date: run `extender-gateway scheduler-config`, update it and restart \
                 kube-scheduler"
            );
            self.entries = entries;
        }
        let settings = served.summary.settings.clone();
        let before = self.door.served.swap(Arc::new(served));
        telemetry::apply(&self.door.observer, self.sampler, &config, &self.config);
        self.gateway_status.record_load();
        report_changes(&self.door.observer.waiting, &self.config, &config);
        let changes = changes(&before.summary.settings, &settings, MAX_CHANGES);
        let changes = if changes.is_empty() { NOT_SHOWN.to_owned() } else { changes.join("; ") };
        self.config = config;
        self.refused = None;
        self.door.observer.metrics.process().configuration_reloads.add(["ok"], 1);
        tracing::info!(file = %self.path.display(), changes, "configuration reloaded");
    }

    fn refuse(&mut self, why: &dyn Display, because: RejectedBecause) {
        self.refused = None;
        self.door.observer.metrics.process().configuration_reloads.add(["refused"], 1);
        // Several mistakes are several lines, and an entry of the log is one.
        let why = why.to_string().trim_end().replace('\n', "; ");
        self.gateway_status.record_refusal(why.clone(), because);
        tracing::error!(file = %self.path.display(), "configuration change rejected, the previous one stays in use: {why}");
    }

    /// This configuration, if it does not require a restart.
    fn allowed(&self, config: Config) -> Result<Config, (String, RejectedBecause)> {
        let fixed = config.fixed_since_the_start(&self.start);
        if fixed.is_empty() {
            return Ok(config);
        }
        let fields = fixed.join(", ");
        let why = format!("{fields} cannot change while the gateway runs; restart it, or undo the change");
        Err((why, RejectedBecause::Fixed))
    }
}

/// Reports which backends may decide differently about waiting pods under the new configuration.
fn report_changes(waiting: &WaitingPods, before: &Config, now: &Config) {
    if before.without_backends() != now.without_backends() {
        waiting.all_changed();
        return;
    }
    for backend in before.backends.iter().filter(|backend| !now.backends.contains(backend)) {
        waiting.changed(backend.name.as_str(), PolicyChange::Configuration);
    }
}

/// The configuration in the file. It may have tens of thousands of values, and calls should not wait for it: it is
/// parsed on a thread that may block.
async fn parsed(path: PathBuf, content: Result<Content, ConfigErrors>) -> Result<Config, String> {
    let parsed = spawn_blocking(move || {
        content.and_then(|content| Config::of_file(&path, &content)).map_err(|mistakes| mistakes.to_string())
    });
    // A configuration that triggers a bug must not stop the process.
    parsed.await.unwrap_or_else(|panicked| Err(format!("cannot parse it: {panicked}")))
}

#[cfg(test)]
mod tests;

//! Replaces the configuration of a running gateway: when its file changes, also behind a `ConfigMap`'s symlinks,
//! and at SIGHUP.
//!
//! A change is used when two consecutive checks read the same content, so that a half-written file is not used: the
//! beginning of a valid file can be valid, too. SIGHUP means that the file is complete. Calls in progress finish
//! with the configuration that they started with. The configuration stays unchanged if the new one has mistakes,
//! changes fields that require a restart, or has settings that a backend rejects. In the last case it is retried:
//! the backend may be replaced by one that accepts them.

use std::{fmt::Display, path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    signal::unix::Signal,
    task::{JoinError, spawn_blocking},
    time::{Instant, Interval, MissedTickBehavior, interval},
};

use super::{assembly::Assembly, telemetry::TelemetryReload};
use crate::{
    admin::status::GatewayStatus,
    backend::handshake::{PreflightRefusal, refusals},
    config::{Config, ConfigErrors, Content, is_standard_input},
    door::{Door, Served},
    observe::Metrics,
    scheduler_config::{Entries, entries},
};

/// The interval between checks of the file. It is small, and only its content shows reliably whether it changed.
const LOOK: Duration = Duration::from_secs(1);
/// The interval between retries of settings that a backend has rejected.
const AGAIN: Duration = Duration::from_secs(10);

/// Follows the configuration file.
pub(super) struct Reload {
    path: PathBuf,
    seen: SeenContent,
    /// The configuration at the start.
    start: Config,
    /// The configuration in use.
    config: Config,
    /// The entries for kube-scheduler at the start, or those logged since.
    told: Entries,
    assembly: Assembly,
    door: Arc<Door>,
    metrics: Arc<Metrics>,
    looks: Interval,
    hangups: Signal,
    /// The last logged rejection of settings by a backend, while they are retried.
    refused: Option<String>,
    changes: TelemetryReload,
    gateway_status: Arc<GatewayStatus>,
}

/// Why the file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReloadCause {
    /// It has changed, or is retried.
    Look,
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
    again: Option<Instant>,
}

impl SeenContent {
    /// Records the content at a check. Returns whether to try it: it is new, and unchanged since the previous
    /// check.
    fn look(&mut self, now: Option<Content>) -> bool {
        // A file that is missing for a moment, between two writes, is not a change.
        let again = self.again.is_some_and(|again| again <= Instant::now());
        let due = now.is_some() && now == self.last && (now != self.tried || again);
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
        (assembly, door): (Assembly, Arc<Door>),
        (changes, gateway_status): (TelemetryReload, Arc<GatewayStatus>),
    ) -> Self {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (told, metrics) = (entries(&config), Arc::clone(&door.observer.metrics));
        let (start, seen) = (config.clone(), SeenContent::default());
        let refused = None;
        Self {
            path,
            seen,
            start,
            config,
            told,
            assembly,
            door,
            metrics,
            looks,
            hangups,
            refused,
            changes,
            gateway_status,
        }
    }

    /// Follows the file indefinitely; returns only if a task panicked, which must stop the process.
    pub(super) async fn follow(mut self) -> JoinError {
        loop {
            tokio::select! {
                panicked = self.assembly.panicked() => return panicked,
                _ = self.looks.tick(), if !is_standard_input(&self.path) => match self.read().await {
                    Ok(now) => if self.seen.look(now.as_ref().ok().cloned()) {
                        self.reload(now, ReloadCause::Look).await;
                    },
                    Err(panicked) => return panicked,
                },
                _ = self.hangups.recv() => if is_standard_input(&self.path) {
                    tracing::warn!("cannot reload: the configuration was read from standard input");
                } else {
                    match self.read().await {
                        Ok(now) => self.reload(now, ReloadCause::Hangup).await,
                        Err(panicked) => return panicked,
                    }
                },
            }
        }
    }

    /// Reads the file on a thread that may block.
    async fn read(&self) -> Result<Result<Content, ConfigErrors>, JoinError> {
        let path = self.path.clone();
        spawn_blocking(move || Content::read(&path)).await
    }

    async fn reload(&mut self, content: Result<Content, ConfigErrors>, cause: ReloadCause) {
        let tried = content.as_ref().ok().cloned();
        let config = parsed(self.path.clone(), content).await.and_then(|config| self.allowed(config));
        if tried != self.seen.tried {
            // The same rejection for another file is logged again.
            self.refused = None;
        }
        self.seen.tried = tried;
        self.seen.again = None;
        match config {
            Ok(config) if config == self.config => self.unchanged(cause),
            Ok(config) => self.replace(config, cause).await,
            Err(why) => self.refuse(&why),
        }
    }

    /// SIGHUP gets a log line; a file with a new timestamp does not.
    fn unchanged(&mut self, cause: ReloadCause) {
        self.refused = None;
        self.gateway_status.unchanged();
        match cause {
            ReloadCause::Hangup => tracing::info!(file = %self.path.display(), "configuration unchanged"),
            ReloadCause::Look => tracing::debug!(file = %self.path.display(), "configuration unchanged"),
        }
    }

    async fn replace(&mut self, config: Config, cause: ReloadCause) {
        let refusals = refusals(&self.metrics, &config.backends, &self.config.backends).await;
        if !refusals.is_empty() {
            return self.postpone(&refusals, cause);
        }
        match self.assembly.serve(&config).await {
            Ok(served) => self.take(config, served),
            Err(why) => self.refuse(&why),
        }
    }

    /// Schedules a retry. A repeated rejection with the same text is not logged.
    fn postpone(&mut self, refusals: &[PreflightRefusal], cause: ReloadCause) {
        self.seen.again = Some(Instant::now() + AGAIN);
        let why = refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        if cause == ReloadCause::Hangup || self.refused.as_ref() != Some(&why) {
            self.refuse(&why);
            self.refused = Some(why);
        }
    }

    fn take(&mut self, config: Config, served: Served) {
        let entries = entries(&config);
        if !entries.are_covered_by(&self.told) {
            tracing::warn!(
                file = %self.path.display(),
                "kube-scheduler's extender configuration is out of date: run `extender-gateway scheduler-config`, update it and restart \
                 kube-scheduler"
            );
            self.told = entries;
        }
        self.door.served.store(Arc::new(served));
        self.changes.apply(&config, &self.config);
        self.gateway_status.loaded();
        self.config = config;
        self.refused = None;
        self.metrics.reloaded("ok");
        tracing::info!(file = %self.path.display(), "configuration reloaded");
    }

    fn refuse(&mut self, why: &dyn Display) {
        self.refused = None;
        self.metrics.reloaded("refused");
        self.gateway_status.refused(why.to_string());
        tracing::error!(file = %self.path.display(), "configuration change rejected, the previous one stays in use: {why}");
    }

    /// This configuration, if it does not require a restart.
    fn allowed(&self, config: Config) -> Result<Config, String> {
        let fixed = config.fixed_since_the_start(&self.start);
        if fixed.is_empty() { Ok(config) } else { Err(needs_a_restart(&fixed)) }
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

fn needs_a_restart(fields: &[&str]) -> String {
    format!("{} cannot change while the gateway runs; restart it, or undo the change", fields.join(", "))
}

#[cfg(test)]
mod tests;

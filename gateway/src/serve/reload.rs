//! Replaces the configuration of a running gateway: when its file changes, also behind a `ConfigMap`'s
//! symlinks, and at SIGHUP.
//!
//! A change is used when it has rested from one look to the next, so that a file is not caught half written: the
//! beginning of a right file can be right, too. SIGHUP says that the file is whole. Calls that are under way finish
//! with the configuration that they began with. A file with mistakes, one that changes what only a start can
//! change, and one with settings that a backend refuses, leave everything as it was. The last is tried again: the
//! backend may be replaced by one that takes them.

use std::{fmt::Display, path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    signal::unix::Signal,
    task::{JoinError, spawn_blocking},
    time::{Instant, Interval, MissedTickBehavior, interval},
};

use super::{assembly::Assembly, telemetry::TelemetryReload};
use crate::{
    admin::status::GatewayStatus,
    backend::preflight::{PreflightRefusal, refusals},
    config::{Config, ConfigErrors, Content, is_standard_input},
    door::{Door, Served},
    observe::Metrics,
    scheduler_config::{Entries, entries},
};

/// How often the file is read. It is small, and nothing but its content tells for certain that it changed.
const LOOK: Duration = Duration::from_secs(1);
/// After how long settings that a backend has refused are tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// Follows the configuration file.
pub(super) struct Reload {
    path: PathBuf,
    seen: SeenContent,
    /// What the gateway was started with.
    start: Config,
    /// What is in use.
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
    /// It has changed, or is tried again.
    Look,
    /// Somebody wants it, and waits for a word.
    Hangup,
}

/// What was seen of the file. Nothing at first: it may have changed since the start.
#[derive(Debug, Default)]
struct SeenContent {
    /// At the last look; `None` where there was nothing to be read.
    last: Option<Content>,
    /// What was tried last, used or not.
    tried: Option<Content>,
    /// When that is tried again.
    again: Option<Instant>,
}

impl SeenContent {
    /// Takes what a look saw. Returns whether it is to be tried: it has rested, and is new.
    fn look(&mut self, now: Option<Content>) -> bool {
        // A file that is gone for a moment, between two writes, is not news.
        let again = self.again.is_some_and(|again| again <= Instant::now());
        let due = now.is_some() && now == self.last && (now != self.tried || again);
        self.last = now;
        due
    }
}

impl Reload {
    /// For a gateway that has just been assembled from this file and serves at this door.
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
            // Another file that is refused in the same words is news.
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

    /// The sender of a signal expects a log line; a touched file does not matter.
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

    /// Tries the settings again later. Backends that go on to refuse them in the same words are not news.
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

    /// This configuration, if this process can take it.
    fn allowed(&self, config: Config) -> Result<Config, String> {
        let fixed = config.fixed_since_the_start(&self.start);
        if fixed.is_empty() { Ok(config) } else { Err(needs_a_restart(&fixed)) }
    }
}

/// The configuration that the file holds. It may have tens of thousands of values, for which calls should not wait:
/// it is parsed on a thread that may block.
async fn parsed(path: PathBuf, content: Result<Content, ConfigErrors>) -> Result<Config, String> {
    let parsed = spawn_blocking(move || {
        content.and_then(|content| Config::of_file(&path, &content)).map_err(|mistakes| mistakes.to_string())
    });
    // A configuration that triggers a bug is no reason to stop.
    parsed.await.unwrap_or_else(|panicked| Err(format!("cannot parse it: {panicked}")))
}

fn needs_a_restart(fields: &[&str]) -> String {
    format!("{} cannot change while the gateway runs; restart it, or undo the change", fields.join(", "))
}

#[cfg(test)]
mod tests;

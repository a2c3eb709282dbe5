//! Replaces the configuration of a running gateway: when its file changes, also behind a `ConfigMap`'s
//! symlinks, and at SIGHUP.
//!
//! Calls that are under way finish with the configuration that they began with. A file with mistakes, and one
//! that changes what only a start can change, leave everything as it was.

use std::{fmt::Display, fs, io, path::PathBuf, sync::Arc, time::Duration};

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinError,
    time::{Interval, MissedTickBehavior, interval},
};

use super::assembly::Assembly;
use crate::{
    config::Config,
    door::{Door, Served},
    observe::Metrics,
    scheduler_config::{Entries, entries},
};

/// How often the file is read. It is small, and nothing but its content tells for certain that it changed.
const LOOK: Duration = Duration::from_secs(1);

/// Follows the configuration file.
pub(super) struct Reload {
    path: PathBuf,
    /// What was read last, used or not. Nothing at first: the file may have changed since the start.
    text: Option<Vec<u8>>,
    /// What is in use.
    config: Config,
    /// What kube-scheduler had to be told at the start.
    told: Entries,
    assembly: Assembly,
    door: Arc<Door>,
    metrics: Arc<Metrics>,
    looks: Interval,
    hangups: Signal,
}

impl Reload {
    /// For a gateway that has just been assembled from this file.
    pub(super) fn new(
        path: PathBuf,
        config: Config,
        assembly: Assembly,
        door: Arc<Door>,
    ) -> io::Result<Self> {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let metrics = Arc::clone(&door.metrics);
        let hangups = signal(SignalKind::hangup())?;
        let told = entries(&config);
        Ok(Self { path, text: None, config, told, assembly, door, metrics, looks, hangups })
    }

    /// Follows the file for ever; what comes back is a task that panicked, a reason to stop the process.
    pub(super) async fn follow(mut self) -> JoinError {
        loop {
            tokio::select! {
                panicked = self.assembly.panicked() => return panicked,
                _ = self.looks.tick() => {
                    // A file that is gone for a moment, between two writes, is not news.
                    if let Ok(text) = fs::read(&self.path) && self.text.as_ref() != Some(&text) {
                        self.text = Some(text);
                        self.reload().await;
                    }
                }
                _ = self.hangups.recv() => {
                    self.text = fs::read(&self.path).ok();
                    self.reload().await;
                }
            }
        }
    }

    async fn reload(&mut self) {
        match self.read() {
            Ok(config) if config == self.config => {
                tracing::debug!(file = %self.path.display(), "the configuration means what it meant");
            }
            Ok(config) => match self.assembly.serve(&config).await {
                Ok(served) => self.take(config, served),
                Err(why) => self.refuse(&why),
            },
            Err(why) => self.refuse(&why),
        }
    }

    fn take(&mut self, config: Config, served: Served) {
        if !entries(&config).are_covered_by(&self.told) {
            tracing::warn!(
                file = %self.path.display(),
                "kube-scheduler has to be told more than at the start: run `extender-gateway scheduler-config`"
            );
        }
        self.door.served.store(Arc::new(served));
        self.config = config;
        self.metrics.reloaded("ok");
        tracing::info!(file = %self.path.display(), "the configuration was read again and is in use");
    }

    fn refuse(&self, why: &dyn Display) {
        self.metrics.reloaded("refused");
        tracing::error!(file = %self.path.display(), "the configuration stays as it was: {why}");
    }

    fn read(&self) -> Result<Config, String> {
        let config = Config::read(&self.path).map_err(|mistakes| mistakes.to_string())?;
        let fixed = config.fixed_since_the_start(&self.config);
        if fixed.is_empty() { Ok(config) } else { Err(needs_a_restart(&fixed)) }
    }
}

fn needs_a_restart(fields: &[&str]) -> String {
    let verb = if fields.len() == 1 { "is" } else { "are" };
    format!("{} {verb} only read at the start; restart the gateway, or undo the change", fields.join(", "))
}

//! Modes of backends that an operator, or a limit of the configuration, sets for a while: the way out of a bad policy.
//!
//! An override replaces the mode of the configuration until its end, and ends by itself. It outlives a reload of the
//! configuration, and not the process: a restart returns to what the configuration says.

mod reject_shares;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::mpsc,
    time::{Instant, sleep_until},
};

pub use self::reject_shares::{ExcessiveRejections, FilterDecision};
use extender_gateway_object::text::share as percent;
use extender_gateway_observe::waiting::{PolicyChange, WaitingPods};
use extender_gateway_settings::{BackendSettings, Choice, Mode, OnExcess};

use self::reject_shares::{RejectShares, ShareChange};

/// The overrides of a process.
#[derive(Debug)]
pub struct Overrides {
    /// At most one for each target. Those that have ended do not count.
    active: ArcSwap<Vec<Override>>,
    next_id: AtomicU64,
    /// Held while one begins or ends, so that its Events are in this order.
    changing: Mutex<()>,
    shares: Mutex<RejectShares>,
    /// The pods to try again when a mode changes.
    waiting: Arc<WaitingPods>,
    /// For Events. What does not fit is lost there, and is in the log.
    changes: mpsc::Sender<OverrideChange>,
}

/// The beginning or the end of an override.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverrideChange {
    /// What has changed, for people.
    pub text: String,
    /// It is the end.
    pub is_end: bool,
    /// When.
    pub at: Timestamp,
}

/// A mode in place of the configured one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// The backends that have it.
    pub target: OverrideTarget,
    /// Their mode.
    pub mode: Mode,
    /// Why, on one line.
    pub reason: String,
    /// Who has set it: a user and an address, or a setting.
    pub by: String,
    /// When it began.
    pub since: Timestamp,
    /// When it ends.
    pub ends: Timestamp,
    until: Instant,
    id: u64,
}

/// Why a mode is set, and by whom.
#[derive(Debug, Clone, Copy)]
pub struct OverrideCause<'a> {
    /// On one line.
    pub reason: &'a str,
    /// A user and an address, or a setting.
    pub by: &'a str,
}

/// The backends of an override.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OverrideTarget {
    /// All that have no override of their own.
    All,
    /// The one of this name.
    Backend(String),
}

impl fmt::Display for OverrideTarget {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => out.write_str("all backends"),
            Self::Backend(name) => write!(out, "backend {name}"),
        }
    }
}

impl Overrides {
    /// No overrides. A changed mode is reported to the pods that wait, and to this sender.
    pub fn new(waiting: Arc<WaitingPods>, changes: mpsc::Sender<OverrideChange>) -> Self {
        Self {
            active: ArcSwap::default(),
            next_id: AtomicU64::new(1),
            changing: Mutex::default(),
            shares: Mutex::default(),
            waiting,
            changes,
        }
    }

    /// The mode that a backend has in place of the configured one. Its own override precedes that of all backends.
    pub fn mode_of(&self, backend: &str) -> Option<Mode> {
        self.find(backend).map(|found| found.mode)
    }

    /// The override that applies to a backend.
    pub fn find(&self, backend: &str) -> Option<Override> {
        let active = self.active.load();
        if active.is_empty() {
            return None;
        }
        let now = Instant::now();
        let with = |is_target: fn(&OverrideTarget, &str) -> bool| {
            active.iter().find(|it| is_target(&it.target, backend) && it.until > now).cloned()
        };
        with(|target, backend| matches!(target, OverrideTarget::Backend(name) if name == backend))
            .or_else(|| with(|target, _| *target == OverrideTarget::All))
    }

    /// All that have not ended.
    pub fn all(&self) -> Vec<Override> {
        let now = Instant::now();
        self.active.load().iter().filter(|it| it.until > now).cloned().collect()
    }

    /// Sets a mode for this time, in place of an earlier override of the same target.
    pub fn set(self: &Arc<Self>, target: OverrideTarget, mode: Mode, time: Duration, why: OverrideCause<'_>) {
        let OverrideCause { reason, by } = why;
        let changing = self.changing.lock();
        let since = Timestamp::now();
        let new = Override {
            ends: since.checked_add(time).unwrap_or(Timestamp::MAX),
            until: Instant::now() + time,
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            reason: reason.to_owned(),
            by: by.to_owned(),
            target,
            mode,
            since,
        };
        tracing::warn!(
            about = %new.target,
            mode = mode.word(),
            ends = %new.ends,
            reason,
            by,
            "mode overridden; it returns to the configured mode by itself"
        );
        let Override { id, until, ends, .. } = new;
        let target = new.target.clone();
        self.replace(&target, &new);
        self.changed(since, false, format!("{target}: {} until {ends:.0} by {by}: {reason}", mode.word()));
        drop(changing);
        self.report(&target);
        if let Ok(runtime) = Handle::try_current() {
            let overrides = Arc::clone(self);
            drop(runtime.spawn(async move {
                sleep_until(until).await;
                overrides.end(&target, id);
            }));
        }
    }

    /// Ends the override of a target before its time, if there is one.
    pub fn reset(&self, target: &OverrideTarget, by: &str) {
        let found = self.all().into_iter().find(|it| it.target == *target);
        if let Some(found) = &found {
            tracing::info!(about = %target, by, "override of the mode reset");
            self.end(target, found.id);
        }
    }

    /// Removes this override, unless another one has replaced it.
    fn end(&self, target: &OverrideTarget, id: u64) {
        let changing = self.changing.lock();
        let active = self.active.load();
        if active.iter().any(|it| it.id == id) {
            self.active.store(Arc::new(active.iter().filter(|it| it.id != id).cloned().collect()));
            tracing::info!(about = %target, "override of the mode ended");
            // When its answers count again, or no longer by an operator's word, a backend is judged from the beginning.
            match target {
                OverrideTarget::All => self.shares.lock().clear_all(),
                OverrideTarget::Backend(name) => self.shares.lock().clear(name),
            }
            self.changed(Timestamp::now(), true, format!("{target}: the mode is as configured again"));
            drop(changing);
            self.report(target);
        }
    }

    fn changed(&self, at: Timestamp, is_end: bool, text: String) {
        let _ = self.changes.try_send(OverrideChange { text, is_end, at });
    }

    fn replace(&self, target: &OverrideTarget, new: &Override) {
        let active = self.active.load();
        let others = active.iter().filter(|it| it.target != *target).cloned();
        self.active.store(Arc::new(others.chain([new.clone()]).collect()));
    }

    fn report(&self, target: &OverrideTarget) {
        match target {
            OverrideTarget::All => self.waiting.all_changed(),
            OverrideTarget::Backend(name) => self.waiting.changed(name, PolicyChange::Configuration),
        }
    }

    /// Records a filter decision of a backend, and reacts if it now rejects more nodes than it may.
    pub fn decided(self: &Arc<Self>, settings: &BackendSettings, decision: FilterDecision<'_>) {
        let Some(limit) = &settings.max_reject_share else { return };
        let backend = settings.name.as_str();
        let change = self.shares.lock().record(backend, limit, decision, Instant::now());
        let most = limit.share.share();
        match change {
            ShareChange::None => {}
            ShareChange::Ended => tracing::info!(backend, most, "backend no longer rejects too many nodes"),
            ShareChange::Exceeded(share) => {
                tracing::warn!(backend, share, most, "backend rejects too many nodes");
                // What an operator has set stays.
                if limit.on_excess == OnExcess::Shadow && self.find(backend).is_none() {
                    // When its answers count again, they are judged from the beginning.
                    self.shares.lock().clear(backend);
                    let reason = format!(
                        "it rejected {} of the nodes, more than maxRejectShare {most}",
                        percent(share)
                    );
                    let target = OverrideTarget::Backend(backend.to_owned());
                    let why = OverrideCause { reason: &reason, by: "maxRejectShare" };
                    self.set(target, Mode::Shadow, limit.shadow_for, why);
                }
            }
        }
    }

    /// How far a backend is over its limit of rejections now.
    pub fn excessive_rejections(&self, settings: &BackendSettings) -> Option<ExcessiveRejections> {
        let limit = settings.max_reject_share.as_ref()?;
        self.shares.lock().excess(settings.name.as_str(), limit, Instant::now())
    }
}

#[cfg(test)]
mod tests;

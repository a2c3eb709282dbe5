//! Warnings about who binds.

use super::Warning;
use crate::config::{BackendSettings, BindFailurePolicy, Binder, Choice, Config, DurationText, Mode};

/// The warnings about `binder` and all `bind` blocks.
pub(super) fn warnings(config: &Config) -> Vec<Warning> {
    let backends = config.backends.iter().enumerate();
    backends
        .flat_map(|(at, backend)| [unused(config, at, backend), no_time_left(config, at, backend)])
        .flatten()
        .collect()
}

/// Only a backend whose answers count is asked to bind: a bind cannot be tried beside the decision.
fn unused(config: &Config, at: usize, backend: &BackendSettings) -> Option<Warning> {
    if backend.bind.is_none() || backend.mode == Mode::Enforce {
        return None;
    }
    let mode = backend.mode.word();
    if config.binder == Binder::Backend(backend.name.clone()) {
        let fact = format!("is {}, which has mode: {mode} and is not asked to bind", backend.name);
        return Some(Warning::new("binder", fact, "mode: Enforce for it, or BuiltIn"));
    }
    let fact = format!("is not used with mode: {mode}");
    Some(Warning::new(format!("backends[{at}].bind"), fact, "mode: Enforce, or leave it out"))
}

/// The next binder after a failure is part of the same bind. The last look at the apiserver has its own time.
fn no_time_left(config: &Config, at: usize, backend: &BackendSettings) -> Option<Warning> {
    let bind = backend.bind.as_ref().filter(|_| backend.mode == Mode::Enforce)?;
    let asking = config.timeouts.asking_to_bind();
    let starves = bind.failure_policy == BindFailurePolicy::Next && bind.timeout >= asking;
    let (timeout, asking) = (DurationText(bind.timeout), DurationText(asking));
    let fact = format!("is {timeout}, and of timeouts.bind there are {asking} for asking");
    let advice = "a shorter one, so that after a failure there is time for the next binder";
    starves.then(|| Warning::new(format!("backends[{at}].bind.timeout"), fact, advice))
}

//! Warnings about binders.

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

/// Only a backend with mode: Enforce binds: a bind cannot be tried in the background.
fn unused(config: &Config, at: usize, backend: &BackendSettings) -> Option<Warning> {
    if backend.bind.is_none() || backend.mode == Mode::Enforce {
        return None;
    }
    let mode = backend.mode.word();
    if config.binder == Binder::Backend(backend.name.clone()) {
        let fact = format!("names {}, which has mode: {mode} and does not bind", backend.name);
        return Some(Warning::new("binder", fact, "set mode: Enforce for it, or binder: BuiltIn"));
    }
    let fact = format!("is not used with mode: {mode}");
    Some(Warning::new(format!("backends[{at}].bind"), fact, "set mode: Enforce, or remove it"))
}

/// The next binder after a failure shares the bind's budget. The final read from the apiserver has its own.
fn no_time_left(config: &Config, at: usize, backend: &BackendSettings) -> Option<Warning> {
    let bind = backend.bind.as_ref().filter(|_| backend.mode == Mode::Enforce)?;
    let asking = config.timeouts.asking_to_bind();
    let starves = bind.failure_policy == BindFailurePolicy::Next && bind.timeout >= asking;
    let (timeout, asking) = (DurationText(bind.timeout), DurationText(asking));
    let fact = format!("is {timeout}, but timeouts.bind leaves only {asking} for binders");
    let advice = "set a shorter one so that the next binder can be called after a failure";
    starves.then(|| Warning::new(format!("backends[{at}].bind.timeout"), fact, advice))
}

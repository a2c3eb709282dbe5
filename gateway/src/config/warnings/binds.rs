//! Warnings about who binds.

use super::Warning;
use crate::config::{Backend, Binder, Config, DurationText, Mode, Words};

/// The warnings about `binder` and all `bind` blocks.
pub(super) fn warnings(config: &Config) -> Vec<Warning> {
    let backends = config.backends.iter().enumerate();
    backends
        .flat_map(|(at, backend)| [unused(config, at, backend), no_time_left(config, at, backend)])
        .flatten()
        .collect()
}

/// Only a backend whose answers count is asked to bind: a bind cannot be tried beside the decision.
fn unused(config: &Config, at: usize, backend: &Backend) -> Option<Warning> {
    if backend.bind.is_none() || backend.mode == Mode::Enforce {
        return None;
    }
    let mode = backend.mode.word();
    if config.binder == Binder::Backend(at) {
        let fact = format!("is {}, which has mode: {mode} and is not asked to bind", backend.name);
        return Some(Warning::new("binder", fact, "mode: Enforce for it, or BuiltIn"));
    }
    let fact = format!("is not used with mode: {mode}");
    Some(Warning::new(format!("backends[{at}].bind"), fact, "mode: Enforce, or leave it out"))
}

/// What comes after a failure, the next binder or a look at the apiserver, is part of the same bind.
fn no_time_left(config: &Config, at: usize, backend: &Backend) -> Option<Warning> {
    let bind = backend.bind.as_ref().filter(|_| backend.mode == Mode::Enforce)?;
    let fact = format!("is as long as timeouts.bind, {}", DurationText(bind.timeout));
    let advice = "a shorter one, so that after a failure there is time to see whether the pod is bound";
    (bind.timeout >= config.timeouts.bind)
        .then(|| Warning::new(format!("backends[{at}].bind.timeout"), fact, advice))
}

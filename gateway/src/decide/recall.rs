//! What filter and prioritize do alike with remembered answers.

use crate::{backend::memory::Memory, observe::metrics::BackendMetrics};

/// The places of what has to be asked.
pub(super) fn missing<A>(recalled: &[Option<A>], check: bool) -> Vec<u32> {
    (0..).zip(recalled).filter(|(_, known)| check || known.is_none()).map(|(at, _)| at).collect()
}

/// Whether a check found something else than was remembered, where it is certain that both are about the same.
pub(super) fn disagree<A: PartialEq>(
    recalled: &[Option<A>],
    asked: &[u32],
    fresh: &[Option<A>],
    certain: &[bool],
) -> bool {
    let known = asked.iter().map(|at| &recalled[*at as usize]);
    let differs = |((known, now), certain): ((&Option<A>, &Option<A>), &bool)| {
        *certain && known.is_some() && now.is_some() && known != now
    };
    known.zip(fresh).zip(certain).any(differs)
}

/// From now on the backend is asked each time.
pub(super) fn distrust(memory: &Memory, backend: &str, meters: &BackendMetrics) {
    if memory.refute() {
        meters.disagreed();
        let verb = meters.verb();
        tracing::error!(
            backend,
            verb,
            "backend answers differently than before to the same question, so the verb is not pure; it is asked for \
             each pod from now on, until its next revision"
        );
    }
}

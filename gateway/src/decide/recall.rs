//! What filter and prioritize do alike with remembered answers.

use crate::{backend::memory::Memory, observe::Metrics};

/// Whether this call, though something of it is remembered, is asked in full to see whether the backend is as pure
/// as it says.
pub(super) fn is_check_due<A>(memory: &Memory, recalled: &[Option<A>]) -> bool {
    recalled.iter().any(Option::is_some) && memory.is_check_due()
}

/// The places of what has to be asked.
pub(super) fn missing<A>(recalled: &[Option<A>], check: bool) -> Vec<u32> {
    (0..).zip(recalled).filter(|(_, known)| check || known.is_none()).map(|(at, _)| at).collect()
}

/// Whether a check found something else than was remembered.
pub(super) fn disagree<A: PartialEq>(recalled: &[Option<A>], asked: &[u32], fresh: &[Option<A>]) -> bool {
    let pairs = asked.iter().map(|at| &recalled[*at as usize]).zip(fresh);
    pairs.into_iter().any(|(known, now)| known.is_some() && now.is_some() && known != now)
}

/// From now on the backend is asked each time.
pub(super) fn distrust(memory: &Memory, (backend, verb): (&str, &'static str), metrics: &Metrics) {
    if memory.distrust() {
        metrics.spared.disagreed(backend, verb);
        tracing::error!(
            backend,
            verb,
            "backend answers differently than before to the same question, so the verb is not pure; it is asked for \
             each pod from now on, until its next revision"
        );
    }
}

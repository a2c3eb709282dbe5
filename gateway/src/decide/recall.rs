//! What filter and prioritize do alike with remembered answers.

use crate::{account::Source, backend::memory::Memory, observe::metrics::BackendMetrics};

/// Whether known answers and one that has just come make one answer together. If not, the backend is asked about all
/// nodes, and its answer to that counts, whatever its revision: one answer is always of one revision.
///
/// Remembered answers count only while nothing speaks against remembering: no answer has named another revision than
/// the handshake, and no check has found the verb impure. Scores that came with filter never relied on the verb being
/// pure, so only the revision matters for them.
pub(super) fn may_combine(known: Source, memory: &Memory) -> bool {
    match known {
        Source::Memory => memory.is_trusted(),
        Source::Filter => !memory.is_mixed(),
    }
}

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

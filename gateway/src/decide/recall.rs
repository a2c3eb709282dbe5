//! What filter and prioritize do alike with remembered answers.

use super::asking::Asking;
use crate::{backend::memory::Memory, cluster::table::Line, observe::Metrics};

/// The places of what has to be asked.
pub(super) fn missing<A>(recalled: &[Option<A>], check: bool) -> Vec<u32> {
    (0..).zip(recalled).filter(|(_, known)| check || known.is_none()).map(|(at, _)| at).collect()
}

/// Whether a check found something else than was remembered: `fresh` are the answers about `lines`, all of the call. A
/// node that has changed meanwhile proves nothing.
pub(super) fn disagree<A: PartialEq>(
    asking: &Asking<'_>,
    lines: &[&Line],
    (recalled, fresh): (&[Option<A>], &[Option<A>]),
) -> bool {
    let mut pairs = asking.certain(lines, recalled.iter().zip(fresh));
    pairs.any(|(_, (known, now))| known.is_some() && now.is_some() && known != now)
}

/// From now on the backend is asked each time.
pub(super) fn distrust(memory: &Memory, (backend, verb): (&str, &'static str), metrics: &Metrics) {
    if memory.distrust() {
        metrics.disagreed(backend, verb);
        tracing::error!(
            backend,
            verb,
            "backend answers differently than before to the same question, so the verb is not pure; it is asked for \
             each pod from now on, until its next revision"
        );
    }
}

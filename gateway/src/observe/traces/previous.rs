//! The latest kept call of each pod, to which the next one is linked.

use std::hash::BuildHasher;

use extender_otlp::TraceContext;
use foldhash::{HashMap, HashMapExt, fast::RandomState};
use parking_lot::Mutex;

/// The most pods per generation, of which there are two: a pod is dropped after this many others were used.
const MOST: usize = 8192;

/// Spans by the hash of the pod's UID, which may have any length: the current and the previous generation.
#[derive(Debug)]
pub(super) struct Previous {
    spans: Mutex<[HashMap<u64, TraceContext>; 2]>,
    hasher: RandomState,
}

impl Default for Previous {
    fn default() -> Self {
        Self { spans: Mutex::new([HashMap::new(), HashMap::new()]), hasher: RandomState::default() }
    }
}

impl Previous {
    /// Replaces the span of the pod and returns the previous one.
    pub(super) fn replace(&self, uid: &str, span: TraceContext) -> Option<TraceContext> {
        if uid.is_empty() {
            return None;
        }
        let uid = self.hasher.hash_one(uid);
        let mut spans = self.spans.lock();
        let [latest, before] = &mut *spans;
        if let Some(known) = latest.get_mut(&uid) {
            return Some(std::mem::replace(known, span));
        }
        if latest.len() >= MOST {
            *before = std::mem::take(latest);
        }
        latest.insert(uid, span);
        before.remove(&uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_remembered_for_a_while() {
        let previous = Previous::default();
        let (one, two) = (TraceContext::root(), TraceContext::root());
        assert_eq!(previous.replace("a", one), None);
        assert_eq!(previous.replace("a", two), Some(one));
        for pod in 0..MOST {
            previous.replace(&format!("b-{pod}"), one);
        }
        assert_eq!(previous.replace("a", one), Some(two));
        for pod in 0..2 * MOST {
            previous.replace(&format!("c-{pod}"), one);
        }
        assert_eq!(previous.replace("a", one), None);
        assert_eq!(previous.replace("", one), None);
        assert_eq!(previous.replace("", one), None);
    }
}

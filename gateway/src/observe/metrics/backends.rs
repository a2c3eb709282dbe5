//! The backends of which something is recorded: those of the configuration, and for a while those of the one before.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    backend::{BackendMetrics, Shared},
    families::Families,
};

/// The verbs of the contract.
const VERBS: [&str; 4] = ["filter", "score", "preempt", "bind"];
/// What stands for any other word.
const OTHER: &str = "other";

/// What is recorded of each backend.
#[derive(Debug)]
pub(super) struct Backends {
    families: Arc<Families>,
    known: Mutex<HashMap<String, Known>>,
}

#[derive(Debug)]
struct Known {
    shared: Arc<Shared>,
    verbs: Vec<Arc<BackendMetrics>>,
}

impl Backends {
    pub(super) fn new(families: &Arc<Families>) -> Self {
        Self { families: Arc::clone(families), known: Mutex::default() }
    }

    /// What is recorded of a backend for a verb.
    pub(super) fn of(&self, backend: &str, verb: &str) -> Arc<BackendMetrics> {
        let verb = VERBS.into_iter().find(|known| *known == verb).unwrap_or(OTHER);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Known { shared: Arc::new(Shared::new(backend, &self.families)), verbs: Vec::new() };
        let Known { shared, verbs } = known.entry(backend.to_owned()).or_insert_with(new);
        if let Some(metrics) = verbs.iter().find(|metrics| metrics.verb() == verb) {
            return Arc::clone(metrics);
        }
        let metrics = Arc::new(BackendMetrics::new((backend, verb), shared, &self.families));
        verbs.push(Arc::clone(&metrics));
        metrics
    }

    /// Forgets all but these.
    pub(super) fn retain(&self, names: &[&str]) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|name, backend| {
            let stays = names.contains(&name.as_str());
            if !stays {
                backend.shared.leave();
            }
            stays
        });
        // Under the lock, so that one that comes back is not half forgotten.
        self.families.retain_backends(names);
    }
}

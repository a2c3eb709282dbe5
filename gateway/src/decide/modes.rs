//! Whether the answers of a backend count for a pod.

use std::sync::Arc;

use extender_gateway_core::filter::{Asked, Heard};

use super::{Call, Decider};
use crate::{
    backend::Backend,
    config::{BackendSettings, Mode},
    object::pod::ObjectPod,
    overrides::FilterDecision,
    record::{CallRecord, Outcome},
};

impl Decider {
    /// The backends in this mode whose conditions match this pod, in effective order.
    pub(super) fn interested(&self, pod: &ObjectPod<'_>, mode: Mode) -> impl Iterator<Item = &Arc<Backend>> {
        let exempt = self.settings.exempt.contains(pod.namespace());
        let backends = if exempt { &[] } else { self.backends.as_slice() };
        backends.iter().filter(move |backend| self.applies(backend, pod, mode))
    }

    /// Whether a backend is in this mode for a pod whose namespace is not exempt, and its conditions match it.
    pub(super) fn applies(&self, backend: &Backend, pod: &ObjectPod<'_>, mode: Mode) -> bool {
        self.mode(backend, pod) == mode && backend.settings.matches.interest.covers(pod)
    }

    /// The mode of a backend for a pod: an override, else what the configuration says about this pod.
    fn mode(&self, backend: &Backend, pod: &ObjectPod<'_>) -> Mode {
        let settings = &backend.settings;
        self.settings.overrides.mode_of(settings.name.as_str()).unwrap_or_else(|| configured(settings, pod))
    }

    /// Whether the answers of a backend may count for some pod.
    pub(super) fn may_enforce(&self, backend: &Backend) -> bool {
        let settings = &backend.settings;
        self.settings.overrides.mode_of(settings.name.as_str()).unwrap_or(settings.mode) == Mode::Enforce
    }

    /// Counts what the backends rejected whose answers to a filter call count.
    pub(super) fn count_rejections(&self, call: Call<'_>, record: &CallRecord) {
        for part in record.backends.iter().filter(|part| part.backend.max_reject_share.is_some()) {
            let Outcome::Filtered(heard) = &part.outcome else { continue };
            let nodes = nodes_of(heard, call.request.names.count());
            if nodes > 0 {
                let rejected = heard.refusals.iter().map(|refusal| refusal.positions.len() as u64).sum();
                let decision = FilterDecision { pod: call.pod.uid(), nodes, rejected };
                self.settings.overrides.decided(&part.backend, decision);
            }
        }
    }
}

/// The mode of the configuration for a pod: a canary is in shadow for the pods that it does not count for.
fn configured(settings: &BackendSettings, pod: &ObjectPod<'_>) -> Mode {
    let Some(canary) = settings.canary.filter(|_| settings.mode == Mode::Enforce) else {
        return settings.mode;
    };
    let uid = pod.controller_uid().unwrap_or(pod.uid());
    if canary.counts_for(settings.name.as_str(), uid) { Mode::Enforce } else { Mode::Shadow }
}

fn nodes_of(heard: &Heard, count: u32) -> u64 {
    match &heard.nodes {
        Asked::All => u64::from(count),
        Asked::Some(nodes) => nodes.len() as u64,
    }
}

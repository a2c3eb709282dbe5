//! Whether the answers of a backend count for a pod.

use std::sync::Arc;

use extender_gateway_backend::Backend;
use extender_gateway_core::{
    PolicyVerb,
    filter::{Asked, Heard},
};
use extender_gateway_object::pod::ObjectPod;
use extender_gateway_object::text::moment;
use extender_gateway_record::{BackendOutcome, CallRecord, Outcome};
use extender_gateway_settings::{BackendSettings, Mode};

use super::{Call, Decider};

use crate::overrides::{FilterDecision, Override};

impl Decider {
    /// The backends in this mode whose conditions match this pod, in effective order.
    pub(super) fn interested(&self, pod: &ObjectPod<'_>, mode: Mode) -> impl Iterator<Item = &Arc<Backend>> {
        let exempt = self.settings.exempt.contains(pod.namespace());
        let backends = if exempt { &[] } else { self.backends.as_slice() };
        backends.iter().filter(move |backend| self.applies(backend, pod, mode))
    }

    /// The backends in shadow mode for this pod that have no part in this call yet: the mode may have changed during it.
    pub(super) fn shadows(
        &self,
        pod: &ObjectPod<'_>,
        verb: PolicyVerb,
        record: &CallRecord,
    ) -> impl Iterator<Item = &Arc<Backend>> {
        let has_part = move |backend: &Backend| {
            let is_its =
                |part: &BackendOutcome| part.verb == verb && Arc::ptr_eq(&part.backend, &backend.settings);
            record.backends.iter().any(is_its)
        };
        self.interested(pod, Mode::Shadow).filter(move |backend| !has_part(backend))
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

    /// Why a backend is in shadow mode, in words; `None` if that is its configured mode.
    pub(super) fn shadow_reason(&self, backend: &Backend) -> Option<String> {
        let BackendSettings { name, mode, canary, .. } = &*backend.settings;
        if *mode == Mode::Shadow {
            return None;
        }
        let found = self.settings.overrides.find(name.as_str()).filter(|it| it.mode == Mode::Shadow);
        if let Some(Override { ends, reason, .. }) = found {
            return Some(format!("override until {}: {reason}", moment(ends)));
        }
        let canary = canary.filter(|_| *mode == Mode::Enforce)?;
        Some(format!("canary: its answers count for {} % of the pods", canary.percent.value()))
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

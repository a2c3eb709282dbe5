//! The one path of every backend failure: counted, and said in the log once a second at most.

use std::sync::Arc;

use extender_gateway_core::BackendFailure;

use crate::{
    account::Policy,
    backend::Backend,
    object::pod::ObjectPod,
    observe::{Metrics, SeldomEach},
};

/// Where failures of calls to backends go.
#[derive(Debug)]
pub(super) struct Failures {
    metrics: Arc<Metrics>,
    /// By backend and verb: a backend that is down fails hundreds of calls a second.
    said: SeldomEach<(String, &'static str)>,
}

impl Failures {
    /// None yet.
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, said: SeldomEach::default() }
    }

    /// Records one.
    pub(super) fn record(
        &self,
        backend: &Backend,
        verb: &'static str,
        failure: &BackendFailure,
        (pod, policy): (&ObjectPod<'_>, Policy),
    ) {
        let name = backend.settings.name.as_str();
        self.metrics.backend_failed(name, verb, failure.kind);
        let Some(unsaid) = self.said.turn((name.to_owned(), verb)) else { return };
        tracing::warn!(
            backend = name,
            verb,
            kind = failure.kind.as_str(),
            policy = policy.as_str(),
            pod = pod.name(),
            namespace = pod.namespace(),
            similar = unsaid,
            "backend failed: {failure}"
        );
    }
}

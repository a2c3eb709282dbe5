//! Handles every backend failure: logs it at most once per second, and adds it to the call's record, from which it is
//! counted.

use extender_gateway_core::{BackendFailure, Verb};
use extender_otlp::TraceContext;

use crate::{config, object::pod::ObjectPod, observe::SeldomEach, record::OnFailure};

/// Logs and records failures of calls to backends.
#[derive(Debug, Default)]
pub(super) struct FailureRecorder {
    /// Log lines by backend and verb: a backend that is down fails hundreds of calls per second.
    said: SeldomEach<(String, Verb)>,
}

/// The call in which a backend failed.
#[derive(Clone, Copy)]
pub(super) struct Failed<'c> {
    pub(super) verb: Verb,
    /// The effect of the failure.
    pub(super) policy: OnFailure,
    pub(super) pod: &'c ObjectPod<'c>,
    pub(super) trace: Option<TraceContext>,
}

impl FailureRecorder {
    /// Logs and records a failure.
    pub(super) fn record(
        &self,
        backend: &config::BackendSettings,
        failure: &BackendFailure,
        failed: Failed<'_>,
    ) {
        let Failed { verb, policy, pod, trace } = failed;
        let name = backend.name.as_str();
        let Some(unsaid) = self.said.turn((name.to_owned(), verb)) else { return };
        tracing::warn!(
            backend = name,
            verb = verb.backend_name(),
            kind = failure.kind.as_str(),
            policy = policy.as_str(),
            pod = pod.name(),
            namespace = pod.namespace(),
            trace_id = trace.map(|trace| display(trace.trace_id)),
            similar = unsaid,
            "backend call failed: {failure}"
        );
    }
}

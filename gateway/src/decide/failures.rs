//! The one path of every backend failure: counted, and said in the log once a second at most.

use std::sync::Arc;

use extender_gateway_core::{BackendFailure, FailurePolicy};

use crate::{
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

/// What became of a failure, as the log says it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Consequence {
    /// The verb's failure policy is Fail: if nodes were left for this backend, the call ends with an error.
    FailsTheCall,
    /// It is left out of the decision.
    LeftOut,
    /// The next one is asked to bind, unless the pod turns out to be bound.
    NextIsAsked,
}

impl From<FailurePolicy> for Consequence {
    fn from(policy: FailurePolicy) -> Self {
        match policy {
            FailurePolicy::Fail => Self::FailsTheCall,
            FailurePolicy::Ignore => Self::LeftOut,
        }
    }
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
        (pod, consequence): (&ObjectPod<'_>, Consequence),
    ) {
        let name = backend.settings.name.as_str();
        self.metrics.backend_failed(name, verb, failure.kind);
        let Some(unsaid) = self.said.turn((name.to_owned(), verb)) else { return };
        let then = match consequence {
            Consequence::FailsTheCall => "fail",
            Consequence::LeftOut => "ignore",
            Consequence::NextIsAsked => "next",
        };
        tracing::warn!(
            backend = name,
            verb,
            kind = failure.kind.as_str(),
            policy = then,
            pod = pod.name(),
            namespace = pod.namespace(),
            similar = unsaid,
            "backend failed: {failure}"
        );
    }
}

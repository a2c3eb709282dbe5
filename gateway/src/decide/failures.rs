//! The one path of every backend failure: counted, and said in the log once a second at most.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use extender_gateway_core::{BackendFailure, FailurePolicy};
use tokio::time::Instant;

use crate::{backend::Backend, object::pod::ObjectPod, observe::Metrics};

/// A backend that is down fails hundreds of calls a second; its log lines must not drown the others'.
const PAUSE: Duration = Duration::from_secs(1);

/// Where failures of calls to backends go.
#[derive(Debug)]
pub(super) struct Failures {
    metrics: Arc<Metrics>,
    /// By backend and verb.
    said: Mutex<HashMap<(String, &'static str), Said>>,
}

/// When the last line was written, and how many were not since.
type Said = (Instant, u64);

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
        Self { metrics, said: Mutex::default() }
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
        let Some(unsaid) = self.turn_to_speak(name, verb) else { return };
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

    /// How many were not said since the last line; `None` when this one is not said either.
    fn turn_to_speak(&self, backend: &str, verb: &'static str) -> Option<u64> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let Some((last, unsaid)) = said.get_mut(&(backend.to_owned(), verb)) else {
            said.insert((backend.to_owned(), verb), (now, 0));
            return Some(0);
        };
        if now.duration_since(*last) < PAUSE {
            *unsaid += 1;
            return None;
        }
        *last = now;
        Some(std::mem::take(unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_a_second_for_each_backend_and_verb() {
        let failures = Failures::new(Arc::new(Metrics::new()));
        assert_eq!(failures.turn_to_speak("a", "filter"), Some(0));
        assert_eq!(failures.turn_to_speak("a", "filter"), None);
        assert_eq!(failures.turn_to_speak("a", "filter"), None);
        assert_eq!(failures.turn_to_speak("a", "score"), Some(0));
        assert_eq!(failures.turn_to_speak("b", "filter"), Some(0));
        tokio::time::advance(PAUSE).await;
        assert_eq!(failures.turn_to_speak("a", "filter"), Some(2));
    }
}

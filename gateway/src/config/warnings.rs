//! Settings that are valid but probably unintended. A mistake is an error; a warning is only reported.

mod binds;
mod conditions;
mod resources;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use super::{BackendSettings, Binder, Config, DurationText, Mode, NodeSource, PodSource};

/// One warning. Displayed as `PATH: fact; advice`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    path: String,
    fact: String,
    advice: String,
}

impl Warning {
    /// `fact` is the predicate of a sentence about the path.
    fn new(path: impl Into<String>, fact: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { path: path.into(), fact: fact.into(), advice: advice.into() }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}; {}", self.path, self.fact, self.advice)
    }
}

impl Config {
    /// Settings that are valid but probably unintended. Backends are numbered as in the file.
    pub fn warnings(&self) -> Vec<Warning> {
        let of_gateway =
            [no_backend_enforces(self), unused_kubeconfig(self), unknown_victims(self), long_chain(self)];
        let mut warnings: Vec<Warning> = of_gateway.into_iter().flatten().collect();
        warnings.extend(binds::warnings(self));
        for (at, backend) in self.backends.iter().enumerate() {
            let path = format!("backends[{at}]");
            warnings.extend(no_second_call(self, &path, backend));
            warnings.extend(conditions::warnings(self, &path, backend));
            warnings.extend(resources::warnings(self, &path, backend));
        }
        warnings
    }
}

fn no_backend_enforces(config: &Config) -> Option<Warning> {
    let enforced = config.backends.iter().any(|backend| backend.mode == Mode::Enforce);
    let fact = "none has mode: Enforce, so every node is accepted for every pod";
    (!enforced).then(|| Warning::new("backends", fact, "set mode: Enforce for at least one"))
}

fn unused_kubeconfig(config: &Config) -> Option<Warning> {
    let watches = config.nodes == NodeSource::Watch || config.pod_source() == PodSource::Watch;
    let unused = config.cluster.kubeconfig.is_some() && !watches && config.binder == Binder::None;
    let advice = "remove it, or set nodes.source or pods.source to Watch";
    unused.then(|| Warning::new("cluster.kubeconfig", "is not used: nothing needs the apiserver", advice))
}

fn unknown_victims(config: &Config) -> Option<Warning> {
    let preempts = preempting(config).next()?;
    let unknown = config.nodes == NodeSource::Watch && config.pod_source() == PodSource::None;
    let fact = format!("is None, so backend {} would get victims as UIDs only", preempts.name);
    unknown.then(|| Warning::new("pods.source", fact, "set it to Watch"))
}

/// Preempt calls go to the backends one after the other.
fn long_chain(config: &Config) -> Option<Warning> {
    let timeouts = preempting(config).filter_map(|backend| Some(backend.preempt.as_ref()?.timeout));
    let (count, sum) = timeouts.fold((0, Duration::ZERO), |(count, sum), timeout| (count + 1, sum + timeout));
    let decision = DurationText(config.timeouts.decision);
    let fact = format!(
        "is {decision}, but the {count} backends that serve preempt are called in turn and may take {}",
        DurationText(sum)
    );
    let advice = "shorten their preempt.timeout, or raise timeouts.decision";
    (count > 1 && sum > config.timeouts.decision).then(|| Warning::new("timeouts.decision", fact, advice))
}

fn preempting(config: &Config) -> impl Iterator<Item = &BackendSettings> {
    config.backends.iter().filter(|backend| backend.mode == Mode::Enforce && backend.preempt.is_some())
}

/// A failed filter call for more nodes than the other backends left is repeated once if there is time.
fn no_second_call(config: &Config, path: &str, backend: &BackendSettings) -> Option<Warning> {
    let filter = backend.filter.as_ref().filter(|_| backend.mode == Mode::Enforce)?;
    let fact = format!("equals timeouts.decision, {}", DurationText(filter.timeout));
    let advice = "set a shorter one so that the backend can be called again for the remaining nodes";
    (filter.timeout >= config.timeouts.decision)
        .then(|| Warning::new(format!("{path}.filter.timeout"), fact, advice))
}

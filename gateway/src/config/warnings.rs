//! What is right and yet hardly meant. A mistake stops a command; a warning is only told.

mod binds;
mod conditions;
mod resources;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use super::{BackendSettings, Binder, Config, DurationText, Mode, NodeSource, PodSource};

/// One warning. Displayed as `PATH: what is so; what would be better`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    path: String,
    fact: String,
    advice: String,
}

impl Warning {
    /// `fact` continues the path as a sentence would.
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
    /// What is right and yet hardly meant. Backends have their positions in the file.
    pub fn warnings(&self) -> Vec<Warning> {
        let of_gateway =
            [nobody_is_asked(self), unused_kubeconfig(self), unknown_victims(self), long_chain(self)];
        let mut warnings: Vec<Warning> = of_gateway.into_iter().flatten().collect();
        warnings.extend(binds::warnings(self));
        for (at, backend) in self.backends.iter().enumerate() {
            let path = format!("backends[{at}]");
            warnings.extend(no_second_question(self, &path, backend));
            warnings.extend(conditions::warnings(self, &path, backend));
            warnings.extend(resources::warnings(self, &path, backend));
        }
        warnings
    }
}

fn nobody_is_asked(config: &Config) -> Option<Warning> {
    let enforced = config.backends.iter().any(|backend| backend.mode == Mode::Enforce);
    let fact = "none has mode: Enforce, so every node is accepted for every pod";
    (!enforced).then(|| Warning::new("backends", fact, "mode: Enforce for one at least"))
}

fn unused_kubeconfig(config: &Config) -> Option<Warning> {
    let watches = config.nodes == NodeSource::Watch || config.pod_source() == PodSource::Watch;
    let unused = config.cluster.kubeconfig.is_some() && !watches && config.binder == Binder::None;
    let advice = "leave it out, or let nodes or pods be watched";
    unused.then(|| Warning::new("cluster.kubeconfig", "is not used: nothing needs the apiserver", advice))
}

fn unknown_victims(config: &Config) -> Option<Warning> {
    let preempts = preempting(config).next()?;
    let unknown = config.nodes == NodeSource::Watch && config.pod_source() == PodSource::None;
    let fact =
        format!("is None, and backend {} would know the pods that it may spare by UID alone", preempts.name);
    unknown.then(|| Warning::new("pods.source", fact, "Watch"))
}

/// The backends are asked to preempt one after the other.
fn long_chain(config: &Config) -> Option<Warning> {
    let timeouts = preempting(config).filter_map(|backend| Some(backend.preempt.as_ref()?.timeout));
    let (count, sum) = timeouts.fold((0, Duration::ZERO), |(count, sum), timeout| (count + 1, sum + timeout));
    let decision = DurationText(config.timeouts.decision);
    let fact = format!(
        "is {decision}, and the {count} backends that are asked to preempt, one after the other, may take {}",
        DurationText(sum)
    );
    let advice = "shorter preempt.timeout, or a longer decision";
    (count > 1 && sum > config.timeouts.decision).then(|| Warning::new("timeouts.decision", fact, advice))
}

fn preempting(config: &Config) -> impl Iterator<Item = &BackendSettings> {
    config.backends.iter().filter(|backend| backend.mode == Mode::Enforce && backend.preempt.is_some())
}

/// A filter that failed on more nodes than survived the others is asked once more, if there is time.
fn no_second_question(config: &Config, path: &str, backend: &BackendSettings) -> Option<Warning> {
    let filter = backend.filter.as_ref().filter(|_| backend.mode == Mode::Enforce)?;
    let fact = format!("is as long as timeouts.decision, {}", DurationText(filter.timeout));
    let advice = "a shorter one, so that after a failure there is time to ask about the nodes that are left";
    (filter.timeout >= config.timeouts.decision)
        .then(|| Warning::new(format!("{path}.filter.timeout"), fact, advice))
}

//! `try`: what running backends decide about pods and nodes in files, without a cluster.
//!
//! [`backends`] makes a configuration of the command line, [`Simulation`] decides, [`expectations`] are the tests of
//! `--expect`, which [`record`] can write, as it can the objects themselves, [`outcome`] is what is printed, and [`follow`]
//! repeats it all when a file changes.

mod backends;
mod expectations;
mod follow;
mod outcome;
mod record;
#[cfg(test)]
mod tests;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Args;
use extender_gateway_serve::simulation::{ClusterFiles, SimulatedPod, Simulation, SimulationError, recorded};
use extender_gateway_settings::{Config, ConfigErrors, is_standard_input};
use tokio::time::Instant;

use self::{
    backends::{NamedArgs, NamedUrl},
    expectations::Expectation,
    outcome::{Outcome, SimulatedCase},
};
use super::{
    block_on, names,
    output::{Console, Failure, Output, write_file},
};

/// The command's description.
pub(super) const ABOUT: &str = "Decide about pods and nodes in files, with running backends and without a cluster.\n\n\
    Calls the backends as the gateway does for kube-scheduler, with the purpose PURPOSE_SIMULATE, and prints the decision as \
    `explain` does: each backend's part, the scored nodes, and the rejected nodes with backend and reason. A backend with side \
    effects is not called. kube-scheduler's own filters and scores are not part of this.\n\n\
    The backends are those of a configuration (--config), of the command line (--backend), or both. Of a configuration, the \
    backends, timeouts, exempt namespaces and reasons are used; addresses, sources of nodes and pods, telemetry, requeue and the \
    binder are not.";

/// Examples.
pub(super) const EXAMPLES: &str = "\
Examples:
  extender-gateway try --backend http://127.0.0.1:9000 --pod pod.yaml --nodes nodes.yaml
  extender-gateway try --backend racks=http://127.0.0.1:9000 --args '{\"label\": \"rack\"}' \\
    --pod deployment.yaml --nodes nodes.yaml
  kubectl get nodes -o yaml > nodes.yaml
  kubectl get pods -A -o json > pods.json
  extender-gateway try --config gateway.yaml --pod pod.yaml --nodes nodes.yaml \\
    --pods pods.json --watch
  extender-gateway try --config gateway.yaml --pod pod.yaml --nodes nodes.yaml \\
    --record expected.yaml
  extender-gateway try --config gateway.yaml --nodes nodes.yaml --expect expected.yaml --wait 10
  extender-gateway try --pod pod.yaml --nodes nodes.yaml --pods pods.json --objects testdata/web.binpb

Exit codes:
  0  a decision was made, whatever it is, or all expectations are met
  1  no decision, because a backend failed; an expectation is not met; or the output cannot be written
  2  usage error
  3  invalid configuration or file";

/// The command's options.
#[derive(Debug, Args)]
pub(super) struct TryOptions {
    /// Configuration of a gateway (YAML), for its backends; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// A running backend; repeatable. It is called for the verbs that it serves, with the failure policy Fail
    #[arg(long = "backend", value_name = "[NAME=]URL", value_parser = backends::url)]
    backends: Vec<NamedUrl>,

    /// The args of the only --backend, or of the one with this name, as a JSON object; repeatable
    #[arg(long, value_name = "[NAME=]JSON", value_parser = backends::args, requires = "backends")]
    args: Vec<NamedArgs>,

    /// File with a pod, or with a workload such as a Deployment or a Job (YAML or JSON); repeatable
    #[arg(long = "pod", value_name = "FILE", required_unless_present = "expect")]
    pod_files: Vec<PathBuf>,

    /// File with the nodes (YAML or JSON), as written by `kubectl get nodes -o yaml`
    #[arg(long, value_name = "FILE")]
    nodes: PathBuf,

    /// File with the pods that run on the nodes, as written by `kubectl get pods -A -o json`
    #[arg(long, value_name = "FILE")]
    pods: Option<PathBuf>,

    /// Wait up to this many seconds for backends that are starting
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u16).range(..=3600))]
    wait: u16,

    /// Decide again when a file or a backend changes, until Ctrl-C
    #[arg(long)]
    watch: bool,

    /// File with expectations (YAML); the exit code is 1 if one is not met
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,

    /// Write the decisions as expectations to this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["expect", "watch"])]
    record: Option<PathBuf>,

    /// Write the pod and the nodes to this file, with all that a policy can read of them, for its unit tests. Needs no backend
    #[arg(long, value_name = "FILE", conflicts_with_all = ["expect", "watch"])]
    objects: Option<PathBuf>,

    /// Show every backend's answer for this node
    #[arg(long, value_name = "NODE", value_parser = names::node)]
    node: Option<String>,

    /// Maximum rows per table (0 = no limit)
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// Output format; json and yaml are those of /debug/decisions at the admin address
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// Decides and prints, once or until Ctrl-C.
pub(super) fn run(options: &TryOptions, console: &mut Console<'_>) -> Result<(), Failure> {
    if let Some(file) = &options.objects {
        write_file(file, &options.recorded_objects()?)?;
        writeln!(console.notes, "wrote {}", file.display())?;
    }
    if options.config.is_none() && options.backends.is_empty() {
        if options.objects.is_some() && options.record.is_none() {
            return Ok(());
        }
        let text = "there is no backend; name a running one with --backend URL, or a gateway's configuration with --config FILE";
        return Err(Failure::Usage(text.to_owned()));
    }
    if options.watch && options.config.as_deref().is_some_and(is_standard_input) {
        let text = "--watch cannot read the configuration from standard input again; name a file";
        return Err(Failure::Usage(text.to_owned()));
    }
    block_on(async {
        if options.watch {
            return Box::pin(follow::run(options, console)).await;
        }
        let (_, outcome) = Box::pin(options.decide()).await?;
        outcome.write(options, console)?;
        if let Some(file) = &options.record {
            record::write(file, &outcome.cases)?;
            writeln!(console.notes, "wrote {}", file.display())?;
        }
        outcome.result()
    })?
}

/// A pod to try, and what is expected of it.
struct Case {
    file: PathBuf,
    pod: SimulatedPod,
    expectation: Option<Expectation>,
}

impl TryOptions {
    /// Reads all files, connects to the backends and decides about each pod.
    async fn decide(&self) -> Result<(Simulation, Outcome), Failure> {
        // A provider that is already installed stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // The discovery of the verbs and the decision wait together.
        let until = Instant::now() + Duration::from_secs(self.wait.into());
        let cases = self.cases()?;
        let config = self.effective_config(until).await?;
        let files = self.cluster();
        let tried: Vec<&SimulatedPod> = cases.iter().map(|case| &case.pod).collect();
        let simulation = Simulation::start(config, &files, &tried, until).await?;
        let mut decided = Vec::new();
        for Case { file, pod, expectation } in cases {
            let decisions = simulation.decide(&pod).await;
            decided.push(SimulatedCase { file, pod, expectation, decisions });
        }
        let outcome = Outcome { cases: decided, status: simulation.status() };
        Ok((simulation, outcome))
    }

    /// The objects of the files, as unit tests read them.
    fn recorded_objects(&self) -> Result<Vec<u8>, Failure> {
        let [case] = &self.cases()?[..] else {
            let text = "--objects writes one pod with the nodes; give one --pod";
            return Err(Failure::Usage(text.to_owned()));
        };
        Ok(recorded(&self.cluster(), &case.pod).map_err(SimulationError::File)?)
    }

    fn cluster(&self) -> ClusterFiles {
        ClusterFiles { nodes: self.nodes.clone(), pods: self.pods.clone() }
    }

    /// The configured backends, and those of the command line.
    async fn effective_config(&self, until: Instant) -> Result<Config, Failure> {
        let configured = self.config.as_deref().map(Config::read).transpose()?;
        backends::with_added(configured, &self.backends, &self.args, until).await
    }

    /// The pods of the command line, or those of the expectations.
    ///
    /// # Errors
    /// The problems of all files.
    fn cases(&self) -> Result<Vec<Case>, Failure> {
        let expected = match (&self.expect, self.pod_files.as_slice()) {
            (None, files) => files.iter().map(|file| (file.clone(), None)).collect(),
            (Some(expect), [] | [_]) => with_expectations(expect, self.pod_files.first())?,
            (Some(_), _) => {
                let text = "--expect names its pods; give one --pod at most";
                return Err(Failure::Usage(text.to_owned()));
            }
        };
        let (mut cases, mut problems) = (Vec::new(), Vec::new());
        for (file, expectation) in expected {
            match SimulatedPod::read(&file, cases.len() + 1) {
                Ok(pod) => cases.push(Case { file, pod, expectation }),
                Err(problem) => problems.push(problem.to_string()),
            }
        }
        if problems.is_empty() { Ok(cases) } else { Err(Failure::Invalid(problems.join("\n"))) }
    }

    /// All files that are read.
    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> =
            [&self.config, &self.pods, &self.expect].into_iter().flatten().cloned().collect();
        files.push(self.nodes.clone());
        files.extend(self.pod_files.iter().cloned());
        // While they are invalid, only the file itself is followed.
        let expectations = self.expect.as_ref().map(|expect| expectations::read(expect, None));
        files.extend(expectations.into_iter().flatten().flatten().map(|(file, _)| file));
        files
    }
}

fn with_expectations(
    expect: &Path,
    pod: Option<&PathBuf>,
) -> Result<Vec<(PathBuf, Option<Expectation>)>, ConfigErrors> {
    let read = expectations::read(expect, pod.map(PathBuf::as_path))?;
    Ok(read.into_iter().map(|(file, expectation)| (file, Some(expectation))).collect())
}

impl From<SimulationError> for Failure {
    fn from(error: SimulationError) -> Self {
        match error {
            SimulationError::File(problem) => Self::Invalid(problem.to_string()),
            SimulationError::NeedsPods { .. } => Self::Usage(error.to_string()),
            SimulationError::Connect(_) => Self::Serve(error.to_string()),
        }
    }
}

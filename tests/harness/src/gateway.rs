//! Starts the gateway with a generated configuration.

use std::{
    fmt::{self, Display, Formatter},
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use crate::{
    binaries::Program,
    policy::{LaunchError, Policy},
    process::Process,
};

/// The running gateway.
#[derive(Debug)]
pub struct Gateway {
    /// The process.
    pub process: Process,
    /// The address for kube-scheduler.
    pub extender: SocketAddr,
    /// The address of metrics and health.
    pub metrics: SocketAddr,
    /// The address for `explain` and `status`.
    pub admin: SocketAddr,
}

/// The gateway's source of node facts.
#[derive(Debug, Clone)]
pub enum NodeSource {
    /// A file with a `NodeList`.
    File(PathBuf),
    /// The node objects of each call.
    Request,
}

/// One policy in the gateway's configuration, called for both verbs.
#[derive(Debug, Clone)]
pub struct Backend {
    /// Its name there.
    pub name: String,
    /// Its address.
    pub address: SocketAddr,
    /// The weight of its scores, from 1 to 10⁶.
    pub weight: u32,
}

/// The gateway's configuration, apart from defaults.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// The address for kube-scheduler. Port 0 is a free one.
    pub address: SocketAddr,
    /// The source of node facts.
    pub nodes: NodeSource,
    /// The policies, in order.
    pub backends: Vec<Backend>,
    /// How long a call, and each policy in it, may take; whole milliseconds.
    pub timeout: Duration,
    /// Its observability.
    pub observability: Observability,
}

/// How much the gateway records of its calls. Metrics are always counted.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Observability {
    /// The default: the decision log, no traces.
    #[default]
    AsItComes,
    /// No decision log, no traces.
    Off,
    /// The decision log, and traces by OTLP.
    Sent {
        /// The collector, over gRPC.
        collector: SocketAddr,
        /// The share of pods that are traced, from 0 to 1.
        ratio: f64,
    },
}

/// How long spans are collected before they are sent, in milliseconds: short, so that their cost is measured.
const SENT_AFTER: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "100");

/// Why the gateway does not run.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// Its configuration could not be written.
    #[error("{}: the gateway's configuration cannot be written there: {cause}", path.display())]
    Configuration {
        /// The file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The program is missing, or did not become ready.
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

impl Gateway {
    /// Writes the configuration to `file` and serves it.
    pub fn start(configuration: &Configuration, file: &Path) -> Result<Self, GatewayError> {
        fs::write(file, configuration.to_string())
            .map_err(|cause| GatewayError::Configuration { path: file.to_owned(), cause })?;
        let mut command = Command::new(Program::Gateway.path().map_err(LaunchError::from)?);
        command.arg("serve").arg("--config").arg(file).env(SENT_AFTER.0, SENT_AFTER.1);
        let beginnings = ["extender listening on ", "metrics listening on ", "admin listening on "];
        let (process, [extender, metrics, admin]) =
            Process::start("extender-gateway", command, beginnings).map_err(LaunchError::from)?;
        Ok(Self { process, extender, metrics, admin })
    }
}

impl Backend {
    /// This policy, with this weight, under the name it was started with.
    pub fn of(policy: &Policy, weight: u32) -> Self {
        Self { name: policy.process.name().to_owned(), address: policy.address, weight }
    }
}

impl Display for Configuration {
    /// The YAML file. Paths are written as JSON strings, which YAML reads.
    fn fmt(&self, file: &mut Formatter<'_>) -> fmt::Result {
        writeln!(file, "apiVersion: extender-gateway.io/v1alpha1")?;
        writeln!(file, "kind: GatewayConfiguration")?;
        writeln!(file, "extender: {{address: \"{}\"}}", self.address)?;
        writeln!(file, "metrics: {{address: \"127.0.0.1:0\"}}")?;
        writeln!(file, "admin: {{address: \"127.0.0.1:0\"}}")?;
        match &self.nodes {
            NodeSource::File(path) => {
                let path = path.display().to_string();
                writeln!(file, "nodes: {{source: File, file: {path:?}}}")?;
            }
            NodeSource::Request => writeln!(file, "nodes: {{source: Request}}")?,
        }
        let timeout = self.timeout.as_millis();
        writeln!(file, "timeouts: {{decision: {timeout}ms}}")?;
        self.observability.fmt(file)?;
        writeln!(file, "backends:")?;
        for Backend { name, address, weight } in &self.backends {
            writeln!(file, "- name: {name}")?;
            writeln!(file, "  url: http://{address}")?;
            writeln!(file, "  filter: {{timeout: {timeout}ms}}")?;
            writeln!(file, "  score: {{timeout: {timeout}ms, weight: {weight}}}")?;
        }
        Ok(())
    }
}

impl Display for Observability {
    /// Its lines of the file.
    fn fmt(&self, file: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsItComes => Ok(()),
            Self::Off => writeln!(file, "decisions: {{maxBytes: 0}}\ntraces: {{exporter: None}}"),
            Self::Sent { collector, ratio } => {
                writeln!(file, "otlp: {{endpoint: \"http://{collector}\", protocol: grpc}}")?;
                writeln!(file, "traces: {{exporter: OTLP, ratio: {ratio}}}")
            }
        }
    }
}

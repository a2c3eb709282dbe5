//! The configuration file: from YAML to a validated `Config`, all mistakes reported at once.
//!
//! The way of a file is `yaml` (text → tree with places) → `cursor` (a place in the tree that collects
//! mistakes) → `read` (which fields there are) → [`Config`]. The types here and in `backend` are what
//! the rest of the gateway sees: whoever holds a [`Config`] holds a valid one.

mod args;
pub mod backend;
mod cursor;
mod duration;
mod effective;
mod file;
mod finding;
mod kubernetes;
pub mod mistake;
mod name;
mod quantity;
mod read;
mod suggest;
mod telemetry;
mod tls;
mod url;
mod warnings;
mod weight;
mod words;
mod yaml;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use extender_gateway_core::order;

pub use backend::{
    AddedVictims, Backend, BindFailurePolicy, BindSettings, FailurePolicy, FilterSettings, Mode, Normalize,
    PreemptSettings, Preemption, PureAnswers, ScoreSettings,
};
pub use duration::DurationText;
pub use effective::Effective;
pub(crate) use effective::scalar;
pub use file::{Content, is_standard_input, spoken};
pub use finding::Finding;
pub use mistake::{ConfigErrors, Mistake};
pub use name::BackendName;
pub use quantity::SizeText;
pub use telemetry::{
    Admin, Decisions, Exporter, Log, LogFormat, LogLevel, Otlp, OtlpProtocol, Ratio, Traces,
};
pub use tls::{BackendTls, ClientCertificate, ClientCertificates, KeyPair, ServerTls};
pub use url::{BackendUrl, Scheme};
pub use warnings::Warning;
pub use weight::Weight;
pub use words::Words;

#[cfg(test)]
mod tests;

/// What `apiVersion` must say.
pub const API_VERSION: &str = "extender-gateway.io/v1alpha1";
/// What `kind` must say.
pub const KIND: &str = "GatewayConfiguration";

/// Everything that the operator decided. Other crates get one from [`Config::parse`] alone, which keeps its rules: at
/// least one backend, no name twice, no backend's timeout above the gateway's.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// Where kube-scheduler calls.
    pub extender: Extender,
    /// Where metrics and health are read.
    pub metrics: Metrics,
    /// Where the gateway says what it decided and how it is.
    pub admin: Admin,
    /// How an OpenTelemetry collector is reached.
    pub otlp: Otlp,
    /// Which calls become traces.
    pub traces: Traces,
    /// How much of what was decided is kept.
    pub decisions: Decisions,
    /// The log.
    pub log: Log,
    /// How long calls may take.
    pub timeouts: Timeouts,
    /// The kubeconfig to reach the apiserver with, where it is needed. `None`: `KUBECONFIG`,
    /// `~/.kube/config` or the pod's own account.
    pub kubeconfig: Option<PathBuf>,
    /// Where facts about nodes come from.
    pub nodes: NodeSource,
    /// Where facts about pods come from that are not in a call, if the file says so: see
    /// [`Config::pod_source`].
    pub pods: Option<PodSource>,
    /// The namespaces about whose pods no backend is asked. `None`: kube-system and the gateway's own.
    pub exempt_namespaces: Option<BTreeSet<String>>,
    /// What kube-scheduler sees of reasons.
    pub reasons: Reasons,
    /// Who binds.
    pub binder: Binder,
    /// The backends in the file's order, at least one.
    pub backends: Vec<Backend>,
}

/// The front door for kube-scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extender {
    /// Where it listens. Default 0.0.0.0:8888; port 0 takes a free one.
    pub address: SocketAddr,
    /// The largest request body in bytes, 64 Ki to 1 Gi. Default 128 Mi.
    pub max_request_bytes: usize,
    /// How it speaks TLS. `None`: it does not.
    pub tls: Option<ServerTls>,
    /// How paths end.
    pub verbs: VerbPaths,
}

/// How the path of each verb ends: one or several segments without slashes at the ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerbPaths {
    /// Default `filter`.
    pub filter: String,
    /// Default `prioritize`.
    pub prioritize: String,
    /// Default `preempt`.
    pub preempt: String,
    /// Default `bind`.
    pub bind: String,
}

impl Default for VerbPaths {
    fn default() -> Self {
        let [filter, prioritize, preempt, bind] =
            ["filter", "prioritize", "preempt", "bind"].map(str::to_owned);
        Self { filter, prioritize, preempt, bind }
    }
}

/// How long calls may take, 1 ms to 1 h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// The budget of one filter, prioritize or preempt call. Default 1 s.
    pub decision: Duration,
    /// The budget of one bind. Default 10 s.
    pub bind: Duration,
}

/// The most of a bind's budget that is kept for finding out what became of it.
const LAST_LOOK: Duration = Duration::from_secs(1);

impl Timeouts {
    /// The part of a bind's budget in which somebody may be asked to bind. The rest, a quarter of it and at most
    /// a second, is for the last look at what is true.
    pub fn asking_to_bind(self) -> Duration {
        self.bind.saturating_sub(LAST_LOOK.min(self.bind / 4))
    }
}

/// Where facts about pods come from that are not in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodSource {
    /// A watch of the apiserver.
    Watch,
    /// Nothing is known of them.
    None,
}

impl PodSource {
    /// Where the file does not say: a watch if nodes are watched and a backend is asked to preempt. A binder
    /// needs none, since a bind reads its pod.
    fn usual(nodes: &NodeSource, backends: &[Backend]) -> Self {
        let preempts = backends.iter().any(|backend| backend.preempt.is_some());
        if *nodes == NodeSource::Watch && preempts { Self::Watch } else { Self::None }
    }
}

/// Who binds pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binder {
    /// Not the gateway.
    None,
    /// Interested backends with a `bind` block in effective order, then the gateway itself.
    BuiltIn,
    /// The backend at this position of the file first, then as with `BuiltIn`.
    Backend(usize),
}

/// What kube-scheduler sees of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reasons {
    /// What a reason begins with.
    pub prefix: ReasonPrefix,
    /// What happens to a reason that differs from the last attempt's.
    pub changing: ChangingReasons,
    /// What happens to a pod that is refused over and over.
    pub repeated: RepeatedRefusals,
}

impl Default for Reasons {
    fn default() -> Self {
        Self {
            prefix: ReasonPrefix::Backend,
            changing: ChangingReasons::Held,
            repeated: RepeatedRefusals::BackOff,
        }
    }
}

/// What happens when a backend's reason for a pod and a node differs from the last attempt's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangingReasons {
    /// The first text is kept for a while.
    Held,
    /// Each text goes out as it is given.
    AsGiven,
}

/// What happens when all nodes are refused for a pod more than 5 times in 2 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatedRefusals {
    /// For 30 s such refusals become errors, for which kube-scheduler backs off.
    BackOff,
    /// They go out as they are.
    AsGiven,
}

/// The door for `/metrics`, `/livez` and `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metrics {
    /// Where it listens. Default 0.0.0.0:9402; port 0 takes a free one.
    pub address: SocketAddr,
}

/// Where facts about nodes come from. Relative paths of the file are already joined to its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSource {
    /// A watch of the apiserver.
    Watch,
    /// The node objects in kube-scheduler's calls (`nodeCacheCapable: false`).
    Request,
    /// A file of nodes.
    File {
        /// The file.
        path: PathBuf,
    },
    /// Nothing but names is known.
    NamesOnly,
}

/// What a reason that kube-scheduler sees begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasonPrefix {
    /// The backend's name, so that a pod's events say who refused.
    Backend,
    /// Nothing: the text as a separate extender would have given it.
    None,
}

impl Config {
    /// The same for the same settings, in one version of the program: replicas are compared by it.
    pub fn digest(&self) -> String {
        let mut hasher = DefaultHasher::new();
        // All of it is in there, and neither it nor what it is made of leaves the process.
        format!("{self:?}").hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    /// Reads and checks a file, or standard input where the path is `-`. Relative paths in it are relative to its
    /// folder, or to the working directory.
    ///
    /// # Errors
    /// The file cannot be read, is no YAML, or has mistakes: all of them, sorted by place.
    pub fn read(path: &Path) -> Result<Self, ConfigErrors> {
        Content::read(path).and_then(|content| Self::of_file(path, &content))
    }

    /// Checks what was read from a file. Relative paths in it are relative to its folder.
    ///
    /// # Errors
    /// It is no YAML or has mistakes: all of them, sorted by place.
    pub fn of_file(path: &Path, content: &Content) -> Result<Self, ConfigErrors> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let parsed = content.text().map_err(ConfigErrors::one).and_then(|yaml| Self::parse(yaml, folder));
        parsed.map_err(|errors| errors.in_file(path))
    }

    /// Checks the text of a configuration. Relative paths in it are relative to `folder`.
    ///
    /// # Errors
    /// The text is no YAML or has mistakes: all of them, sorted by place.
    pub fn parse(yaml: &str, folder: &Path) -> Result<Self, ConfigErrors> {
        let document = yaml::parse(yaml).map_err(ConfigErrors::one)?;
        read::config(&document, folder)
    }

    /// Where facts about pods come from that are not in a call.
    pub fn pod_source(&self) -> PodSource {
        self.pods.unwrap_or_else(|| PodSource::usual(&self.nodes, &self.backends))
    }

    /// The fields that say something else than at the start, and that only a start can change: sockets, what
    /// the tables are filled from, and where and with which patience kube-scheduler calls.
    pub fn fixed_since_the_start(&self, start: &Self) -> Vec<&'static str> {
        let binds = |config: &Self| config.binder != Binder::None;
        let same = [
            ("extender.address", self.extender.address == start.extender.address),
            ("extender.tls", self.extender.tls == start.extender.tls),
            ("extender.verbs", self.extender.verbs == start.extender.verbs),
            ("metrics", self.metrics == start.metrics),
            ("admin.address", self.admin == start.admin),
            ("otlp", self.otlp == start.otlp),
            ("traces.exporter", self.traces.exporter == start.traces.exporter),
            ("log.format", self.log.format == start.log.format),
            ("timeouts.decision to a longer time", self.timeouts.decision <= start.timeouts.decision),
            ("timeouts.bind to a longer time", self.timeouts.bind <= start.timeouts.bind || !binds(self)),
            ("cluster.kubeconfig", self.kubeconfig == start.kubeconfig),
            ("nodes", self.nodes == start.nodes),
            ("binder", binds(self) == binds(start)),
        ];
        same.into_iter().filter(|(_, same)| !same).map(|(field, _)| field).collect()
    }

    /// The backends' positions in the order in which their answers count: those whose filter failure policy
    /// is Fail, then the others, each group in the file's order.
    ///
    /// Mirrors kube-scheduler, which sorts its ignorable extenders last (`buildExtenders` in
    /// `pkg/scheduler/scheduler.go`).
    pub fn effective_order(&self) -> Vec<usize> {
        let policies: Vec<_> = self
            .backends
            .iter()
            .map(|backend| backend.filter.as_ref().map(|filter| filter.failure_policy))
            .collect();
        order::effective(&policies)
    }
}

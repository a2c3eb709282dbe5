//! The configuration file: from YAML to a validated [`Config`], all mistakes reported at once. `extender-config`
//! reads the text and collects mistakes; the files here define the fields. A field is described once, where its
//! struct is defined (see [`setting`]). A [`Config`] is always valid.

pub mod backend;
mod checks;
mod duration;
mod matches;
mod nodes;
mod quantity;
mod setting;
mod telemetry;
mod tls;
mod url;
mod values;
mod warnings;

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use extender_gateway_core::order;

pub use backend::{
    AddedVictims, AlwaysIgnored, BackendName, BackendSettings, BindFailurePolicy, BindSettings,
    FailurePolicy, FilterSettings, Mode, Normalize, PreemptSettings, Preemption, PureAnswers, ScoreSettings,
    Weight,
};
pub use duration::DurationText;
pub use extender_config::{ConfigErrors, Content, Finding, Mistake, is_standard_input, shown_path};
pub use matches::Match;
pub use nodes::NodeSource;
pub use quantity::SizeText;
pub use setting::Choice;
pub(crate) use setting::scalar;
pub use telemetry::{
    AdminSettings, Decisions, Exporter, LogFormat, LogLevel, LogSettings, MetricsSettings, Otlp,
    OtlpProtocol, Ratio, Traces,
};
pub use tls::{BackendTls, ClientCertificate, ClientCertificates, KeyPair, ServerTls};
pub use url::{BackendUrl, Scheme};
pub use warnings::Warning;

use extender_config::{Cursor, Mistakes, Value, echo};

use backend::{BACKENDS, BackendList};
use checks::{check_config, check_verbs, verb_path};
use setting::{Setting, Yaml, choices, settings};
use values::{BodySize, Namespaces};

#[cfg(test)]
mod tests;

/// The required `apiVersion`.
pub const API_VERSION: &str = "extender-gateway.io/v1alpha1";
/// The required `kind`.
pub const KIND: &str = "GatewayConfiguration";

settings! {
    /// The gateway's configuration. Other crates get one only from [`Config::parse`], which enforces its rules: at
    /// least one backend, no name twice, no backend's timeout above the gateway's.
    #[derive(Clone, Debug, PartialEq)]
    #[non_exhaustive]
    pub struct Config: "a mapping with apiVersion, kind and backends",
        unsupported &[("events", "remove it: kube-scheduler's FailedScheduling events contain the reasons")],
        check check_config => ConfigParts;
    /// Always [`API_VERSION`].
    api_version "apiVersion": ApiVersion, required(API_VERSION);
    /// Always [`KIND`].
    kind "kind": Kind, required(KIND);
    /// The address that kube-scheduler calls.
    extender "extender": ExtenderSettings, section;
    /// The address of metrics and health.
    metrics "metrics": MetricsSettings, section;
    /// The address that reports decisions and the gateway's state.
    admin "admin": AdminSettings, section;
    /// How to reach an OpenTelemetry collector.
    otlp "otlp": Otlp, section;
    /// Which calls are traced.
    traces "traces": Traces, section;
    /// The size of the decision log.
    decisions "decisions": Decisions, section;
    /// The log.
    log "log": LogSettings, section;
    /// The time limits of calls.
    timeouts "timeouts": Timeouts, section;
    /// How to reach the apiserver.
    cluster "cluster": Cluster, section;
    /// Where facts about nodes come from.
    nodes "nodes": NodeSource, section;
    /// The source of facts about pods other than a call's own.
    pods "pods": PodSettings, section;
    /// The namespaces whose pods are not sent to backends.
    exempt "exempt": Exempt, section;
    /// How reasons are reported to kube-scheduler.
    reasons "reasons": ReasonSettings, section;
    /// Which binder binds pods.
    binder "binder": Binder, default(Binder::None);
    /// The backends in the file's order, at least one.
    backends "backends" as BackendList: Vec<BackendSettings>, required(BACKENDS);
}

settings! {
    /// The HTTP address for kube-scheduler.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ExtenderSettings: "a mapping such as {address: 0.0.0.0:8888}";
    /// The listening address. Default 0.0.0.0:8888; port 0 selects a free port.
    address "address": SocketAddr, default(any_address(8888));
    /// The largest request body in bytes, 64 Ki to 1 Gi. Default 128 Mi.
    max_request_bytes "maxRequestBytes" as BodySize: usize, default(128 << 20);
    /// TLS on this address. `None`: plain HTTP.
    tls "tls": Option<ServerTls>, absent("none");
    /// The ends of the verbs' paths.
    verbs "verbs": VerbPaths, section;
}

settings! {
    /// The end of the path of each verb: one or several segments without slashes at the ends.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct VerbPaths: "a mapping such as {filter: predicates/always_true}", check check_verbs => VerbPathParts;
    /// Default `filter`.
    filter "filter" as VerbPath: String, default("filter".to_owned());
    /// Default `prioritize`.
    prioritize "prioritize" as VerbPath: String, default("prioritize".to_owned());
    /// Default `preempt`.
    preempt "preempt" as VerbPath: String, default("preempt".to_owned());
    /// Default `bind`.
    bind "bind" as VerbPath: String, default("bind".to_owned());
}

settings! {
    /// The time limits of calls, 1 ms to 1 h.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Timeouts: "a mapping such as {decision: 1s, bind: 10s}";
    /// The budget of one filter, prioritize or preempt call. Default 1 s.
    decision "decision": Duration, default(Duration::from_secs(1));
    /// The budget of one bind. Default 10 s.
    bind "bind": Duration, default(Duration::from_secs(10));
}

settings! {
    /// How to reach the apiserver.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Cluster: "a mapping such as {kubeconfig: FILE}";
    /// The kubeconfig file. `None`: `KUBECONFIG`, `~/.kube/config` or the pod's service account.
    kubeconfig "kubeconfig": Option<PathBuf>, absent("KUBECONFIG, ~/.kube/config or the pod's service account");
}

settings! {
    /// The source of facts about pods other than a call's own.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PodSettings: "a mapping such as {source: Watch}";
    /// The source, if the file names one: see [`Config::pod_source`].
    source "source": Option<PodSource>, absent("Watch where nodes are watched and a backend has preempt, otherwise None");
}

settings! {
    /// The namespaces whose pods are not sent to backends.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Exempt: "a mapping such as {namespaces: [kube-system]}";
    /// `None`: kube-system and the gateway's own.
    namespaces "namespaces" as Namespaces: Option<BTreeSet<String>>, absent("kube-system and the gateway's own namespace");
}

settings! {
    /// How reasons are reported to kube-scheduler.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReasonSettings: "a mapping such as {prefix: Backend}";
    /// The prefix of reasons.
    prefix "prefix": ReasonPrefix, default(ReasonPrefix::Backend);
    /// What happens to a reason that differs from the last attempt's.
    changing "changing": ChangingReasons, default(ChangingReasons::Held);
    /// What happens to a pod that is rejected repeatedly.
    repeated "repeated": RepeatedRefusals, default(RepeatedRefusals::BackOff);
}

choices! {
    /// The source of facts about pods other than a call's own.
    pub enum PodSource {
        /// A watch of the apiserver.
        Watch = "Watch",
        /// No source.
        None = "None",
    }

    /// The prefix of reasons in responses to kube-scheduler.
    pub enum ReasonPrefix {
        /// The backend's name, so that a pod's events name the backend that rejected it.
        Backend = "Backend",
        /// No prefix: the text as a separate extender would send it.
        None = "None",
    }

    /// What happens when a backend's reason for a pod and a node differs from the last attempt's.
    pub enum ChangingReasons {
        /// The first text is kept for a while.
        Held = "Held",
        /// Each text is sent unchanged.
        AsGiven = "AsGiven",
    }

    /// What happens when all nodes are rejected for a pod more than 5 times in 2 s.
    pub enum RepeatedRefusals {
        /// For 30 s such rejections become errors, after which kube-scheduler backs off.
        BackOff = "BackOff",
        /// They are sent unchanged.
        AsGiven = "AsGiven",
    }
}

impl Default for ReasonSettings {
    fn default() -> Self {
        let (prefix, changing, repeated) =
            (ReasonPrefix::Backend, ChangingReasons::Held, RepeatedRefusals::BackOff);
        Self { prefix, changing, repeated }
    }
}

impl Default for VerbPaths {
    fn default() -> Self {
        let [filter, prioritize, preempt, bind] =
            ["filter", "prioritize", "preempt", "bind"].map(str::to_owned);
        Self { filter, prioritize, preempt, bind }
    }
}

/// The most of a bind's budget that is reserved for checking whether it succeeded.
const LAST_LOOK: Duration = Duration::from_secs(1);

impl Timeouts {
    /// The part of a bind's budget in which a binder may be called. The rest, a quarter but at most a second, is
    /// for reading the result from the apiserver.
    pub fn asking_to_bind(self) -> Duration {
        self.bind.saturating_sub(LAST_LOOK.min(self.bind / 4))
    }
}

impl PodSource {
    /// The default source: a watch if nodes are watched and a backend has preempt. A binder needs none, since a
    /// bind reads its pod from the apiserver.
    fn usual(nodes: &NodeSource, backends: &[BackendSettings]) -> Self {
        let preempts = backends.iter().any(|backend| backend.preempt.is_some());
        if *nodes == NodeSource::Watch && preempts { Self::Watch } else { Self::None }
    }
}

/// Which binder binds pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Binder {
    /// The gateway does not bind.
    None,
    /// Interested backends with a `bind` block in effective order, then the gateway itself.
    BuiltIn,
    /// This backend first, then as with `BuiltIn`.
    Backend(BackendName),
}

/// Describes a valid binder.
const BINDER: &str = "None, BuiltIn or the name of a backend";

impl Setting for Binder {
    fn read(field: &Cursor<'_>) -> Option<Self> {
        field.parsed(BINDER, |text| match text {
            "None" => Ok(Self::None),
            "BuiltIn" => Ok(Self::BuiltIn),
            name => BackendName::new(name)
                .map(Self::Backend)
                .map_err(|_| format!("{} is not a backend of this file", echo(name))),
        })
    }

    fn write(&self, out: &mut Yaml) {
        match self {
            Self::None => out.inline("None"),
            Self::BuiltIn => out.inline("BuiltIn"),
            Self::Backend(name) => name.write(out),
        }
    }
}

/// The `apiVersion` of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiVersion;

/// The `kind` of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind;

impl Setting for ApiVersion {
    fn read(field: &Cursor<'_>) -> Option<Self> {
        constant(field, API_VERSION).then_some(Self)
    }

    fn write(&self, out: &mut Yaml) {
        out.inline(API_VERSION);
    }
}

impl Setting for Kind {
    fn read(field: &Cursor<'_>) -> Option<Self> {
        constant(field, KIND).then_some(Self)
    }

    fn write(&self, out: &mut Yaml) {
        out.inline(KIND);
    }
}

/// Whether a field has its only valid value.
fn constant(field: &Cursor<'_>, only: &str) -> bool {
    let check = |text: &str| if text == only { Ok(()) } else { Err(format!("is {}", echo(text))) };
    field.parsed(only, check).is_some()
}

/// The end of a path.
struct VerbPath;

impl setting::Format<String> for VerbPath {
    fn read(field: &Cursor<'_>) -> Option<String> {
        verb_path(field)
    }

    fn write(value: &String, out: &mut Yaml) {
        out.inline(&scalar(value));
    }
}

const fn any_address(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
}

/// Displays a configuration as YAML with every setting, the backends in their effective order. The output is an
/// equivalent configuration. A setting whose value comes from outside the file is a comment that names its source.
#[derive(Clone, Copy, Debug)]
pub struct Effective<'a>(pub &'a Config);

impl Display for Effective<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let mut yaml = Yaml::default();
        self.0.write_fields(&mut yaml);
        out.write_str(&yaml.into_text())
    }
}

/// The positions of backends in the order in which their answers count: those whose filter failure policy is Fail,
/// then the others, each group in the given order.
///
/// Mirrors kube-scheduler, which sorts its ignorable extenders last (`buildExtenders` in `pkg/scheduler/scheduler.go`).
fn effective_order(backends: &[BackendSettings]) -> Vec<usize> {
    let policy = |backend: &BackendSettings| backend.filter.as_ref().map(|filter| filter.failure_policy);
    order::effective(&backends.iter().map(policy).collect::<Vec<_>>())
}

impl Config {
    /// A hash that is equal for equal settings, within one version of the program; used to compare replicas.
    pub fn digest(&self) -> String {
        let mut hasher = DefaultHasher::new();
        // The debug output contains every setting; only the hash leaves the process.
        format!("{self:?}").hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    /// Reads and checks a file, or standard input if the path is `-`. Relative paths in it are relative to its
    /// folder, or to the working directory.
    ///
    /// # Errors
    /// The file cannot be read, is not valid YAML, or has mistakes: all of them, sorted by position.
    pub fn read(path: &Path) -> Result<Self, ConfigErrors> {
        Content::read(path).and_then(|content| Self::of_file(path, &content))
    }

    /// Checks the content of a file. Relative paths in it are relative to its folder.
    ///
    /// # Errors
    /// It is not valid YAML or has mistakes: all of them, sorted by position.
    pub fn of_file(path: &Path, content: &Content) -> Result<Self, ConfigErrors> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let parsed = content.text().map_err(ConfigErrors::one).and_then(|yaml| Self::parse(yaml, folder));
        parsed.map_err(|errors| errors.in_file(path))
    }

    /// Checks the text of a configuration. Relative paths in it are relative to `folder`.
    ///
    /// # Errors
    /// The text is not valid YAML or has mistakes: all of them, sorted by position.
    pub fn parse(yaml: &str, folder: &Path) -> Result<Self, ConfigErrors> {
        let document = extender_config::parse(yaml).map_err(ConfigErrors::one)?;
        let mistakes = Mistakes::in_folder(folder);
        let root = Cursor::root(&document, &mistakes);
        if matches!(root.value(), Value::Null) {
            root.mistake(
                "the file is empty",
                &format!("apiVersion: {API_VERSION}, kind: {KIND} and backends"),
            );
            return mistakes.settle(None);
        }
        mistakes.settle(Setting::read(&root))
    }

    /// The source of facts about pods other than a call's own.
    pub fn pod_source(&self) -> PodSource {
        self.pods.source.unwrap_or_else(|| PodSource::usual(&self.nodes, &self.backends))
    }

    /// The fields that differ from those at the start and cannot change while the gateway runs: sockets, the
    /// sources of the tables, and the inputs of kube-scheduler's configuration.
    pub fn fixed_since_the_start(&self, start: &Self) -> Vec<&'static str> {
        // Exhaustive, so that a new field must be considered here.
        let Self {
            api_version: _,
            kind: _,
            extender: ExtenderSettings { address, max_request_bytes: _, tls, verbs },
            metrics,
            admin,
            otlp,
            traces: Traces { exporter, ratio: _, keep_slower_than: _, pod_annotation: _ },
            decisions: _,
            log: LogSettings { format, level: _ },
            timeouts: Timeouts { decision, bind },
            cluster,
            nodes,
            pods: _,
            exempt: _,
            reasons: _,
            binder,
            backends: _,
        } = self;
        let (binds, bound) = (*binder != Binder::None, start.binder != Binder::None);
        let same = [
            ("extender.address", *address == start.extender.address),
            ("extender.tls", *tls == start.extender.tls),
            ("extender.verbs", *verbs == start.extender.verbs),
            ("metrics", *metrics == start.metrics),
            ("admin.address", *admin == start.admin),
            ("otlp", *otlp == start.otlp),
            ("traces.exporter", *exporter == start.traces.exporter),
            ("log.format", *format == start.log.format),
            ("timeouts.decision to a longer time", *decision <= start.timeouts.decision),
            ("timeouts.bind to a longer time", *bind <= start.timeouts.bind || !binds),
            ("cluster.kubeconfig", *cluster == start.cluster),
            ("nodes", *nodes == start.nodes),
            ("binder", binds == bound),
        ];
        same.into_iter().filter(|(_, same)| !same).map(|(field, _)| field).collect()
    }

    /// The backends' positions in the order in which their answers count: see [`order::effective`].
    pub fn effective_order(&self) -> Vec<usize> {
        effective_order(&self.backends)
    }
}

//! The configuration file: from YAML to a validated [`Config`], all mistakes reported at once. `extender-config`
//! reads the text and collects mistakes; the files here define the fields. A field is described once, where its
//! struct is defined (see [`setting`]). A [`Config`] is always valid.

mod access;
pub mod backend;
mod checks;
mod differences;
mod lockout;
mod matches;
mod rollout;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
mod secrets;
mod setting;
#[cfg(feature = "testing")]
pub mod shape;
mod sources;
mod telemetry;
mod tls;
mod url;
mod values;
mod warnings;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use extender_gateway_core::{Verb, order};

pub use access::{Authorization, PageTls};
pub use backend::{
    AddedVictims, BackendName, BackendSettings, BindFailurePolicy, BindSettings, FailurePolicy,
    FilterSettings, Mode, Normalize, PreemptSettings, Preemption, PureAnswers, ScoreSettings, Weight,
};
pub use differences::{ConfigSummary, NOT_SHOWN, Settings, changes};
pub use extender_config::{ConfigErrors, Content, Finding, Mistake, is_standard_input, shown_path};
pub use lockout::{INEXACT_LIMIT, INEXACT_LIMIT_REMEDY, default_exempt, lockout_remedy};
pub use matches::Match;
pub use rollout::{CanarySettings, OnExcess, Percent, RejectShareSettings};
pub use setting::Choice;
pub use setting::scalar;
pub use sources::{NodeSource, PodSettings, PodSource};
pub use telemetry::{
    AdminSettings, Decisions, Exporter, LogFormat, LogLevel, LogSettings, MetricsSettings, Otlp,
    OtlpProtocol, Ratio, Traces,
};
pub use tls::{BackendTls, ClientCertificate, ClientCertificates, KeyPair, ServerTls};
pub use url::BackendUrl;
pub use values::{DurationText, SizeText, parse_duration, parse_long_duration};

use extender_config::{Cursor, Mistakes, Remedy, Value, echo};

use backend::BACKENDS;
use checks::{check_config, check_verbs};
use setting::{Setting, Yaml, choices, settings, write_scalar};
use values::{
    backend_names, body_size, bytes_in_flight, cluster_name, exempt_namespaces, socket, verb_path,
    write_list, write_path, write_size,
};

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
        unsupported &[],
        check check_config => ConfigParts;
    /// `extender-gateway.io/v1alpha1`
    api_version "apiVersion" as (api_version, write_scalar, TEXT): &'static str, required(API_VERSION);
    /// `GatewayConfiguration`
    kind "kind" as (kind, write_scalar, TEXT): &'static str, required(KIND);
    /// The server that kube-scheduler calls.
    extender "extender": ExtenderSettings, section;
    /// The server of metrics and health.
    metrics "metrics": MetricsSettings, section;
    /// The server that reports decisions and the gateway's state.
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
    /// The cluster: its name, and how to reach the apiserver.
    cluster "cluster": Cluster, section;
    /// Where facts about nodes come from.
    nodes "nodes": NodeSource, section;
    /// The source of facts about pods other than a call's own.
    pods "pods": PodSettings, section;
    /// The namespaces whose pods are not sent to backends.
    exempt "exempt": Exempt, section;
    /// When the gateway is ready for the first time.
    readiness "readiness": ReadinessSettings, section;
    /// How reasons are reported to kube-scheduler.
    reasons "reasons": ReasonSettings, section;
    /// Whether kube-scheduler is made to try pods again that a backend rejected or failed, when this backend recovers or changes.
    /// `PodCondition`: yes, see [requeueing](#requeueing). `None`: they wait for an event of the cluster, 5.5 minutes at most.
    requeue "requeue": Requeueing, default(Requeueing::None);
    /// Which Events the gateway creates. `Overrides`: one at its own pod when the mode of a backend is
    /// [overridden](operations.md#disable-a-policy), and one when that ends. Its account then needs `create` on `events` in its
    /// namespace, which is `POD_NAMESPACE`, or that of its service account; the pod is `POD_NAME` (otherwise the host name) with the
    /// UID `POD_UID`.
    events "events": Events, default(Events::None);
    /// What binds pods. `None`: kube-scheduler. `BuiltIn`: interested backends with a `bind` block, in the [order of the
    /// backends](#order-of-the-backends), and then the gateway. The name of a backend with a `bind` block: that one first. Callers from
    /// other machines then need a client certificate, unless `extender.allowUnauthenticatedBind` is set.
    binder "binder": Binder, default(Binder::None);
    /// The policy backends, at least one.
    backends "backends": Vec<BackendSettings>, required(BACKENDS);
}

settings! {
    /// The HTTP address for kube-scheduler.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ExtenderSettings: "a mapping such as {address: 0.0.0.0:8888}";
    /// The address that kube-scheduler calls: an IP address and a port, IPv6 in brackets and quotes (`"[::]:8888"`). Port 0 selects a
    /// free port.
    address "address": SocketAddr, default(any_address(8888));
    /// A Unix socket for [kube-scheduler's plugin](plugin.md): an absolute path in a folder that only kube-scheduler and the gateway
    /// may enter. A socket that an earlier gateway has left there is replaced.
    socket "socket" as (socket, write_path, SOCKET): PathBuf, absent("none");
    /// The largest request body: a [size](#sizes) from 64Ki to 1Gi. With `nodeCacheCapable: false` a call contains the objects of all
    /// nodes.
    max_request_bytes "maxRequestBytes" as (body_size, write_size, SIZE): usize, default(128 << 20);
    /// The most that the bodies of all requests in progress have together: a [size](#sizes) from 64Ki to 64Gi, and at least
    /// `maxRequestBytes`. What is beyond is refused at once. With their decisions, requests take more memory than their bodies, see
    /// [sizing](sizing.md).
    max_bytes_in_flight "maxBytesInFlight" as (bytes_in_flight, write_size, SIZE): usize, default(512 << 20);
    /// TLS on the address. Certificate files are reloaded when they change.
    tls "tls": ServerTls, absent("none");
    /// Whether `binder` may be set although callers from other machines need no certificate. Whoever reaches `extender.address` can
    /// then bind any pending pod to any node with the gateway's permissions, past kube-scheduler's checks.
    allow_unauthenticated_bind "allowUnauthenticatedBind": bool, default(false);
    /// The ends of the verbs' paths.
    verbs "verbs": VerbPaths, section;
    /// For [kube-scheduler's configuration](scheduler-config.md). `ManagedResources`: kube-scheduler calls decisions only for pods that
    /// request a managed resource of a backend, so that other pods do not depend on the gateway; every backend needs
    /// `match.managedResources`, and another resource later needs a change there.
    called_for "calledFor": CalledFor, default(CalledFor::AllPods);
    /// For kube-scheduler's configuration: `ignorable: true` for decisions. While no gateway answers, kube-scheduler places pods
    /// without any policy instead of none at all, see [bootstrap.md](bootstrap.md#recovery).
    ignorable "ignorable": bool, default(false);
}

choices! {
    /// The pods for which kube-scheduler calls filter, prioritize and preempt.
    pub enum CalledFor {
        /// All, so that a later backend needs no change in kube-scheduler's configuration.
        AllPods = "AllPods",
        /// Those that request a managed resource of a backend: others do not depend on the gateway.
        ManagedResources = "ManagedResources",
    }
}

impl ExtenderSettings {
    /// Whether callers from other machines may be anybody.
    pub fn is_open(&self) -> bool {
        let clients = self.tls.as_ref().and_then(|tls| tls.clients.as_ref());
        let authenticates = clients.is_some_and(|clients| clients.presence == ClientCertificate::Required);
        !self.address.ip().is_loopback() && !authenticates
    }
}

settings! {
    /// The end of the path of each verb: one or several segments without slashes at the ends.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct VerbPaths: "a mapping such as {filter: predicates/always_true}", check check_verbs => VerbPathParts;
    /// The end of the path of the filter verb; any prefix is allowed. Change it if you cannot change kube-scheduler's `filterVerb`,
    /// such as `predicates/always_true`. No path may end with that of another verb.
    filter "filter" as (verb_path, write_scalar, VERB_PATH): String, default("filter".to_owned());
    /// The same for `prioritizeVerb`.
    prioritize "prioritize" as (verb_path, write_scalar, VERB_PATH): String, default("prioritize".to_owned());
    /// The same for `preemptVerb`.
    preempt "preempt" as (verb_path, write_scalar, VERB_PATH): String, default("preempt".to_owned());
    /// The same for `bindVerb`.
    bind "bind" as (verb_path, write_scalar, VERB_PATH): String, default("bind".to_owned());
}

settings! {
    /// The time limits of calls, 1 ms to 1 h.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Timeouts: "a mapping such as {decision: 1s, bind: 10s}";
    /// The time budget of one filter, prioritize or preempt call: a [duration](#durations). It must be shorter than `httpTimeout` of
    /// kube-scheduler's entry, so that the gateway can still respond and name the backend that was late;
    /// [scheduler-config](scheduler-config.md) prints a suitable value.
    decision "decision": Duration, default(Duration::from_secs(1));
    /// The same for a bind call.
    bind "bind": Duration, default(Duration::from_secs(10));
    /// The most time for calls in progress when the gateway stops, see [start and stop](operations.md#start-and-stop). It takes the
    /// longer of the other two and a second, if that is less.
    shutdown "shutdown": Duration, default(Duration::from_secs(25));
}

settings! {
    /// The cluster: its name, and how to reach the apiserver.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Cluster: "a mapping such as {name: east, kubeconfig: FILE}";
    /// The cluster's name, which backends are told with each call: one that serves several clusters tells them apart by it. Up to 63
    /// lower case letters, digits and `-`.
    name "name" as (cluster_name, write_scalar, TEXT): String, absent("backends are told none");
    /// The kubeconfig file for the apiserver. Missing files in the variable `KUBECONFIG` are skipped, but at least one must exist. See
    /// [access to the apiserver](operations.md#apiserver-access).
    kubeconfig "kubeconfig": PathBuf, absent("KUBECONFIG, ~/.kube/config or the pod's service account");
}

settings! {
    /// The namespaces whose pods are not sent to backends.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Exempt: "a mapping such as {namespaces: [kube-system]}";
    /// No backend is called for pods of these namespaces, so that the system can recover without the backends. Add the namespaces in
    /// which backends run: if all pods of a backend with `failurePolicy: Fail` are gone, its own new pods cannot be scheduled
    /// otherwise. `[]`: no exemption. The gateway's own namespace is `POD_NAMESPACE`, or that of its service account.
    namespaces "namespaces" as (exempt_namespaces, write_list, NAMESPACES): BTreeSet<String>, absent("kube-system and the gateway's own namespace");
}

settings! {
    /// When the gateway is ready for the first time.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ReadinessSettings: "a mapping such as {backends: [quota]}";
    /// The backends that must have answered before `/readyz` returns 200 for the first time: see [start and
    /// stop](operations.md#start-and-stop).
    backends "backends" as (backend_names, write_list, BACKENDS): BTreeSet<String>, default(BTreeSet::new());
}

settings! {
    /// How reasons are reported to kube-scheduler.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReasonSettings: "a mapping such as {prefix: Backend}";
    /// The beginning of a rejection's reason in the pod's events: `Backend` is the name of the backend that gave it, or `None`.
    prefix "prefix": ReasonPrefix, default(ReasonPrefix::Backend);
    /// What to do if the reasons of a pod that is rejected on all nodes would change its condition, which makes kube-scheduler retry at
    /// once. The condition contains the reasons and their counts over a changing sample of nodes. `Held`: send all nodes one summary of
    /// the pod's first reasons ("Reasons of a pod that fits nowhere" in [operations](operations.md#reasons-and-conditions)). `AsGiven`:
    /// send each text.
    changing "changing": ChangingReasons, default(ChangingReasons::Held);
    /// What to do if a pod is rejected on all nodes more than 50 times in 10 seconds even so. `BackOff`: for 30 seconds return errors
    /// instead, for which kube-scheduler backs off. `AsGiven`: return the rejections.
    repeated "repeated": RepeatedRefusals, default(RepeatedRefusals::BackOff);
}

choices! {
    /// The prefix of reasons in responses to kube-scheduler.
    pub enum ReasonPrefix {
        /// The backend's name, so that a pod's events name the backend that rejected it.
        Backend = "Backend",
        /// No prefix: the text as a separate extender would send it.
        None = "None",
    }

    /// What happens when a pod that is rejected on all nodes gets reasons that would change its condition.
    pub enum ChangingReasons {
        /// All nodes get one summary of the pod's first reasons, for a while.
        Held = "Held",
        /// Each text is sent unchanged.
        AsGiven = "AsGiven",
    }

    /// What happens when all nodes are rejected for a pod more than 50 times in 10 s.
    pub enum RepeatedRefusals {
        /// For 30 s such rejections become errors, after which kube-scheduler backs off.
        BackOff = "BackOff",
        /// They are sent unchanged.
        AsGiven = "AsGiven",
    }
}

choices! {
    /// Whether kube-scheduler is made to try pods again that a backend rejected or failed, when this backend recovers
    /// or changes.
    pub enum Requeueing {
        /// No: they wait for an event, five minutes at most.
        None = "None",
        /// By a condition in the status of each of these pods.
        PodCondition = "PodCondition",
    }
}

/// The most of a bind's budget that is reserved for checking whether it succeeded.
const LAST_LOOK: Duration = Duration::from_secs(1);
/// How long a response may take after the budget of its call is over.
const RESPONSE: Duration = Duration::from_secs(1);

impl Timeouts {
    /// The part of a bind's budget in which a binder may be called. The rest, a quarter but at most a second, is
    /// for reading the result from the apiserver.
    pub fn asking_to_bind(self) -> Duration {
        self.bind.saturating_sub(LAST_LOOK.min(self.bind / 4))
    }

    /// The longest that a call may take, with a second for its response.
    pub fn longest(self) -> Duration {
        self.decision.max(self.bind).saturating_add(RESPONSE)
    }

    /// How long a call may wait until it is begun: a quarter of its budget, so that the rest is enough for backends.
    pub fn longest_wait(self, verb: Verb) -> Duration {
        let budget = if verb == Verb::Bind { self.bind } else { self.decision };
        budget / 4
    }

    /// How long calls in progress may take when the gateway stops.
    pub fn drain(self) -> Duration {
        self.longest().min(self.shutdown)
    }
}

choices! {
    /// Which Kubernetes Events the gateway creates.
    pub enum Events {
        /// None.
        None = "None",
        /// At its own pod, when the mode of a backend is overridden, and when that ends.
        Overrides = "Overrides",
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

fn api_version(field: &Cursor<'_>) -> Option<&'static str> {
    constant(field, API_VERSION)
}

fn kind(field: &Cursor<'_>) -> Option<&'static str> {
    constant(field, KIND)
}

/// Reads a field that has only one valid value.
fn constant(field: &Cursor<'_>, only: &'static str) -> Option<&'static str> {
    field.parsed(only, |text| if text == only { Ok(only) } else { Err(format!("is {}", echo(text))) })
}

const fn any_address(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
}

/// The mistake of a text that is not one YAML document. If it is both documents of `scheduler-config --import`, with the
/// option that prints one of them.
fn of_whole_import(mistake: Mistake, yaml: &str) -> Mistake {
    let line = mistake.line().and_then(|line| usize::try_from(line).ok()).unwrap_or_default();
    let to_there: Vec<&str> = yaml.lines().take(line).collect();
    let begins_entries = to_there.last().is_some_and(|line| line.starts_with("extenders:"));
    if begins_entries && to_there.contains(&"---") {
        let print = "the second one is for kube-scheduler: print one with `scheduler-config --import FILE --print gateway`";
        return mistake.with_remedy(Remedy::Do(print));
    }
    mistake
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
    /// Everything else of it.
    #[must_use]
    pub fn without_backends(&self) -> Self {
        Self { backends: Vec::new(), ..self.clone() }
    }

    /// YAML with every setting, the backends in their effective order: an equivalent configuration. A setting whose
    /// value comes from outside the file is a comment that names its source.
    pub fn effective_yaml(&self) -> String {
        let mut yaml = Yaml::default();
        self.write_fields(&mut yaml);
        yaml.into_text()
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
        let document = extender_config::parse(yaml)
            .map_err(|mistake| ConfigErrors::one(of_whole_import(mistake, yaml)))?;
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
        self.pods.source(&self.nodes, &self.backends)
    }

    /// The fields that differ from those at the start and cannot change while the gateway runs: sockets, the
    /// sources of the tables, and the inputs of kube-scheduler's configuration.
    pub fn fixed_since_the_start(&self, start: &Self) -> Vec<&'static str> {
        // Exhaustive, so that a new field must be considered here.
        let Self {
            api_version: _,
            kind: _,
            extender:
                ExtenderSettings {
                    address,
                    socket,
                    max_request_bytes: _,
                    max_bytes_in_flight: _,
                    tls,
                    allow_unauthenticated_bind: _,
                    verbs,
                    called_for,
                    ignorable,
                },
            metrics,
            admin,
            otlp,
            traces: Traces { exporter, ratio: _, keep_slower_than: _, pod_annotation: _ },
            decisions: _,
            log: LogSettings { format, level: _ },
            timeouts: Timeouts { decision, bind, shutdown: _ },
            cluster,
            nodes,
            pods: _,
            exempt: _,
            readiness: _,
            reasons: _,
            requeue: _,
            events: _,
            binder,
            backends: _,
        } = self;
        let (binds, bound) = (*binder != Binder::None, start.binder != Binder::None);
        let same = [
            ("extender.address", *address == start.extender.address),
            ("extender.socket", *socket == start.extender.socket),
            ("extender.tls", *tls == start.extender.tls),
            ("extender.verbs", *verbs == start.extender.verbs),
            ("extender.calledFor", *called_for == start.extender.called_for),
            ("extender.ignorable", *ignorable == start.extender.ignorable),
            ("metrics", *metrics == start.metrics),
            ("admin", *admin == start.admin),
            ("otlp", *otlp == start.otlp),
            ("traces.exporter", *exporter == start.traces.exporter),
            ("log.format", *format == start.log.format),
            ("timeouts.decision to a longer time", *decision <= start.timeouts.decision),
            ("timeouts.bind to a longer time", *bind <= start.timeouts.bind || !binds),
            ("cluster.name", cluster.name == start.cluster.name),
            ("cluster.kubeconfig", cluster.kubeconfig == start.cluster.kubeconfig),
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

//! Which fields the configuration has, and what each may say. The backends' fields are in [`backend`].

mod backend;
mod interest;
mod nodes;
mod telemetry;
mod tls;
mod value;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::cursor::{Cursor, Fields, Mistakes, Read, Section};
use super::mistake::echo;
use super::yaml::{Node, Value};
use super::{
    API_VERSION, AddedVictims, Backend, Binder, Config, ConfigErrors, Extender, KIND, NodeSource, PodSource,
    Reasons, Timeouts, VerbPaths,
};
use value::{address, choice, duration, field_or, namespaces, path, size};

const DEFAULT_EXTENDER: SocketAddr = any_address(8888);
const DEFAULT_REQUEST_BYTES: usize = 128 << 20;
const DEFAULT_TIMEOUTS: Timeouts =
    Timeouts { decision: Duration::from_secs(1), bind: Duration::from_secs(10) };

const LEAVE_OUT: &str = "leave it out";

const ROOT: Fields = Fields {
    right: "a mapping with apiVersion, kind and backends",
    known: &[
        "apiVersion",
        "kind",
        "extender",
        "metrics",
        "admin",
        "otlp",
        "traces",
        "decisions",
        "log",
        "timeouts",
        "cluster",
        "nodes",
        "pods",
        "exempt",
        "reasons",
        "binder",
        "backends",
    ],
    unsupported: &[(
        "events",
        "leave it out: the FailedScheduling events of kube-scheduler give the reasons",
    )],
};
const EXTENDER: Fields = Fields {
    right: "a mapping such as {address: 0.0.0.0:8888}",
    known: &["address", "maxRequestBytes", "tls", "verbs"],
    unsupported: &[],
};
const VERBS: Fields = Fields {
    right: "a mapping such as {filter: predicates/always_true}",
    known: &["filter", "prioritize", "preempt", "bind"],
    unsupported: &[],
};
const TIMEOUTS: Fields = Fields {
    right: "a mapping such as {decision: 1s, bind: 10s}",
    known: &["decision", "bind"],
    unsupported: &[],
};
const CLUSTER: Fields =
    Fields { right: "a mapping such as {kubeconfig: FILE}", known: &["kubeconfig"], unsupported: &[] };
const PODS: Fields =
    Fields { right: "a mapping such as {source: Watch}", known: &["source"], unsupported: &[] };
const EXEMPT: Fields = Fields {
    right: "a mapping such as {namespaces: [kube-system]}",
    known: &["namespaces"],
    unsupported: &[],
};
const REASONS: Fields = Fields {
    right: "a mapping such as {prefix: Backend}",
    known: &["prefix", "changing", "repeated"],
    unsupported: &[],
};

const fn any_address(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
}

/// Every mapping of the format with the path to it, so that documentation and example can be compared with it.
/// Paths in `backends` begin with the field of a backend.
#[cfg(test)]
pub(super) fn mappings() -> Vec<(&'static str, &'static Fields)> {
    let gateway = [
        ("", &ROOT),
        ("extender.", &EXTENDER),
        ("extender.tls.", &tls::SERVER),
        ("extender.verbs.", &VERBS),
        ("metrics.", &telemetry::METRICS),
        ("admin.", &telemetry::ADMIN),
        ("otlp.", &telemetry::OTLP),
        ("traces.", &telemetry::TRACES),
        ("decisions.", &telemetry::DECISIONS),
        ("log.", &telemetry::LOG),
        ("timeouts.", &TIMEOUTS),
        ("cluster.", &CLUSTER),
        ("nodes.", &nodes::NODES),
        ("pods.", &PODS),
        ("exempt.", &EXEMPT),
        ("reasons.", &REASONS),
    ];
    gateway.into_iter().chain(backend::mappings()).collect()
}

/// The configuration that a document says, or all its mistakes.
pub(super) fn config(document: &Node, folder: &Path) -> Result<Config, ConfigErrors> {
    let mistakes = Mistakes::default();
    let config = root(Cursor::root(document, &mistakes), folder);
    mistakes.settle(config)
}

fn root(document: Cursor<'_>, folder: &Path) -> Option<Config> {
    if matches!(document.value(), Value::Null) {
        document
            .mistake("the file is empty", &format!("apiVersion: {API_VERSION}, kind: {KIND} and backends"));
        return None;
    }
    let fields = document.section(&ROOT)?;
    constant(&fields, "apiVersion", API_VERSION);
    constant(&fields, "kind", KIND);
    let extender = extender(&fields, folder);
    let metrics = telemetry::metrics(&fields, extender.as_ref());
    let admin = telemetry::admin(&fields, extender.as_ref(), metrics.as_ref());
    let (otlp, traces) = (telemetry::otlp(&fields), telemetry::traces(&fields));
    let decisions = telemetry::decisions(&fields);
    let log = telemetry::log(&fields);
    let timeouts = timeouts(&fields);
    let kubeconfig = kubeconfig(&fields, folder);
    let nodes = nodes::source(&fields, folder);
    let exempt_namespaces = exempt_namespaces(&fields);
    let reasons = reasons(&fields);
    let backends = backend::all(&fields, timeouts, folder);
    let binder = binder(&fields, backends.as_deref());
    let pods = pods(&fields, nodes.as_ref(), backends.as_deref());
    Some(Config {
        extender: extender?,
        metrics: metrics?,
        admin: admin?,
        otlp: otlp?,
        traces: traces?,
        decisions: decisions?,
        log: log?,
        timeouts: timeouts?,
        kubeconfig: kubeconfig?,
        nodes: nodes?,
        pods: pods?,
        exempt_namespaces: exempt_namespaces?,
        reasons: reasons?,
        binder: binder?,
        backends: backends?,
    })
}

/// A field that says which format this is.
fn constant(fields: &Section<'_>, name: &str, only: &str) {
    if let Some(field) = fields.required(name, only) {
        field.parsed(only, |text| if text == only { Ok(()) } else { Err(format!("is {}", echo(text))) });
    }
}

fn extender(root: &Section<'_>, folder: &Path) -> Option<Extender> {
    let fields = root.subsection("extender", &EXTENDER)?;
    let address = field_or(&fields, "address", DEFAULT_EXTENDER, address);
    let max_request_bytes = field_or(&fields, "maxRequestBytes", DEFAULT_REQUEST_BYTES, size);
    let tls = field_or(&fields, "tls", None, |field| tls::server(field.clone(), folder).map(Some));
    let verbs = verb_paths(&fields);
    Some(Extender { address: address?, max_request_bytes: max_request_bytes?, tls: tls?, verbs: verbs? })
}

fn verb_paths(extender: &Section<'_>) -> Option<VerbPaths> {
    let fields = extender.subsection("verbs", &VERBS)?;
    let usual = VerbPaths::default();
    let path = |name, usual| field_or(&fields, name, usual, verb_path);
    let (filter, prioritize) = (path("filter", usual.filter), path("prioritize", usual.prioritize));
    let (preempt, bind) = (path("preempt", usual.preempt), path("bind", usual.bind));
    let paths = VerbPaths { filter: filter?, prioritize: prioritize?, preempt: preempt?, bind: bind? };
    told_apart(&fields, [&paths.filter, &paths.prioritize, &paths.preempt, &paths.bind]).then_some(paths)
}

/// Whether no path of a verb ends with that of another, in the order of [`VERBS`].
fn told_apart(fields: &Section<'_>, paths: [&String; 4]) -> bool {
    let ends = |long: &str, short: &str| {
        long.strip_suffix(short).is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let verbs: Vec<_> = VERBS.known.iter().zip(paths).collect();
    for (at, (name, path)) in verbs.iter().enumerate() {
        let alike = verbs[..at].iter().find(|(_, earlier)| ends(path, earlier) || ends(earlier, path));
        if let Some((other, earlier)) = alike {
            let wrong =
                format!("{} is not told apart from {}, the path of {other}", echo(path), echo(earlier));
            fields.mistake_of(name, wrong, "paths that do not end with one another");
            return false;
        }
    }
    true
}

fn verb_path(field: &Cursor<'_>) -> Option<String> {
    field.parsed("the end of a path without slashes around it such as predicates/always_true", |text| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
        if text.split('/').any(str::is_empty) || !text.bytes().all(plain) {
            return Err(format!("{} is not the end of a path", echo(text)));
        }
        Ok(text.to_owned())
    })
}

fn timeouts(root: &Section<'_>) -> Option<Timeouts> {
    let fields = root.subsection("timeouts", &TIMEOUTS)?;
    let decision = field_or(&fields, "decision", DEFAULT_TIMEOUTS.decision, duration);
    let bind = field_or(&fields, "bind", DEFAULT_TIMEOUTS.bind, duration);
    Some(Timeouts { decision: decision?, bind: bind? })
}

fn kubeconfig(root: &Section<'_>, folder: &Path) -> Read<Option<PathBuf>> {
    let fields = root.subsection("cluster", &CLUSTER)?;
    field_or(&fields, "kubeconfig", None, |field| path(field, folder).map(Some))
}

fn exempt_namespaces(root: &Section<'_>) -> Read<Option<BTreeSet<String>>> {
    let fields = root.subsection("exempt", &EXEMPT)?;
    let right = "a list of namespaces such as [kube-system], [] for none";
    field_or(&fields, "namespaces", None, |field| namespaces(field, right).map(Some))
}

fn reasons(root: &Section<'_>) -> Option<Reasons> {
    let fields = root.subsection("reasons", &REASONS)?;
    let usual = Reasons::default();
    let prefix = field_or(&fields, "prefix", usual.prefix, choice);
    let changing = field_or(&fields, "changing", usual.changing, choice);
    let repeated = field_or(&fields, "repeated", usual.repeated, choice);
    Some(Reasons { prefix: prefix?, changing: changing?, repeated: repeated? })
}

/// Who binds. A backend that is named has to have a `bind` block, and a block has to be of use. Where backends have
/// mistakes, nothing is said about how the binder goes with them.
fn binder(root: &Section<'_>, backends: Option<&[Backend]>) -> Option<Binder> {
    let binder = field_or(root, "binder", Binder::None, |field| {
        field.parsed("None, BuiltIn or the name of a backend", |text| match (text, backends) {
            ("None", _) => Ok(Binder::None),
            // A name that nobody can look up may be right: there will be no configuration anyway.
            ("BuiltIn", _) | (_, None) => Ok(Binder::BuiltIn),
            (name, Some(backends)) => named_binder(name, backends),
        })
    })?;
    let binds = |backend: &&Backend| backend.bind.is_some();
    if let (Binder::None, Some(backend)) = (binder, backends.unwrap_or_default().iter().find(binds)) {
        let wrong = format!("is None, and backend {} has a bind block", backend.name);
        root.mistake_of("binder", wrong, "BuiltIn or that backend's name, or no bind block");
        return None;
    }
    Some(binder)
}

fn named_binder(name: &str, backends: &[Backend]) -> Result<Binder, String> {
    let at = backends.iter().position(|backend| backend.name.as_str() == name);
    let at = at.ok_or_else(|| format!("{} is not a backend of this file", echo(name)))?;
    match backends[at].bind {
        Some(_) => Ok(Binder::Backend(at)),
        None => Err(format!("{} has no bind block", echo(name))),
    }
}

/// Where pods come from, if the file says so. Victims that backends may add have to be known.
fn pods(
    root: &Section<'_>,
    nodes: Option<&NodeSource>,
    backends: Option<&[Backend]>,
) -> Read<Option<PodSource>> {
    let fields = root.subsection("pods", &PODS)?;
    let said = field_or(&fields, "source", None, |field| choice(field).map(Some))?;
    // Where these have mistakes themselves, nothing is said about how they go together.
    let (Some(nodes), Some(backends)) = (nodes, backends) else { return Some(said) };
    let adds = |backend: &&Backend| {
        backend.preempt.as_ref().is_some_and(|preempt| preempt.added_victims == AddedVictims::Allowed)
    };
    let source = said.unwrap_or_else(|| PodSource::usual(nodes, backends));
    if let (PodSource::None, Some(backend)) = (source, backends.iter().find(adds)) {
        let wrong =
            format!("is None, and backend {} may add victims, which are checked against pods", backend.name);
        fields.mistake_of("source", wrong, "Watch, or addedVictims: Refused");
        return None;
    }
    Some(said)
}

//! The `extenders` entries that kube-scheduler's configuration needs to call the gateway. One entry has filter,
//! prioritize and preempt, regardless of the verbs in use, and no managed resources: adding a backend later needs
//! no restart of kube-scheduler. The binder has a separate entry, because a bind takes longer than a decision and
//! kube-scheduler has one timeout per entry. kube-scheduler rejects a resource in two entries, so each is listed
//! once: with the binder, or alone.

mod legacy;
mod reach;
mod version;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::config::{
    BackendSettings, Binder, ClientCertificate, Config, Mode, NodeSource, ServerTls, VerbPaths,
};

pub use legacy::LegacyPolicy;
pub use reach::{Credentials, Reach, ReachError, TlsFiles, UrlSource};
pub use version::{ConfigForm, Version};
pub use yaml::Extenders;

#[cfg(test)]
mod tests;

/// How much longer than the gateway's limit kube-scheduler waits: a lost first packet of a connection costs a
/// second, and both processes may wait for a CPU. A longer margin would only delay pods if the gateway's machine is
/// unreachable; if only the gateway is down, the connection is refused immediately.
const MARGIN: Duration = Duration::from_secs(2);
/// The margin if every call contains all nodes: tens of megabytes, which are sent within kube-scheduler's timeout
/// but before the gateway's budget begins.
const MARGIN_FOR_OBJECTS: Duration = Duration::from_secs(5);

/// The entries for a configuration. Configurations with equal entries and equal [`Reach`] are the same to
/// kube-scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries(Vec<ExtenderEntry>);

/// One item of `extenders`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtenderEntry {
    /// The verbs that kube-scheduler calls.
    pub verbs: CalledVerbs,
    /// `httpTimeout`. `None`: kube-scheduler never calls this entry.
    pub http_timeout: Option<Duration>,
    /// The entry applies to pods that request one of these, or to every pod if empty. By name, whether
    /// kube-scheduler counts the resource.
    pub managed_resources: BTreeMap<String, Counted>,
    /// Whether kube-scheduler uses TLS, and with which certificates.
    pub tls: TlsFlags,
}

/// The verbs that kube-scheduler calls, each with its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CalledVerbs {
    /// Decisions about nodes, at least one of the three.
    Decide {
        /// `filterVerb`.
        filter: Option<String>,
        /// `prioritizeVerb`, with a weight of 1.
        prioritize: Option<String>,
        /// `preemptVerb`.
        preempt: Option<String>,
        /// `nodeCacheCapable`.
        nodes: NodesSent,
    },
    /// `bindVerb`.
    Bind(String),
    /// None: the entry only lists resources that kube-scheduler ignores.
    Nothing,
}

/// How kube-scheduler sends nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodesSent {
    /// `nodeCacheCapable: true`.
    Names,
    /// `nodeCacheCapable: false`.
    Objects,
}

/// The component that counts a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// kube-scheduler.
    ByScheduler,
    /// Only the policy: `ignoredByScheduler: true`.
    ByPolicy,
}

/// What kube-scheduler needs for TLS with the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsFlags {
    /// No TLS.
    None,
    /// The CA of the gateway's certificate. A client certificate may be optional.
    Server,
    /// The CA, and a client certificate.
    Mutual,
}

/// Which of the decision's verbs the entries contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All, so that later backends need no change in kube-scheduler's configuration.
    Lasting,
    /// Those for which a backend is configured.
    Minimal,
}

/// The entries with all verbs, so that later backends need no change in kube-scheduler's configuration.
pub fn entries(config: &Config) -> Entries {
    entries_of(config, Scope::Lasting)
}

/// The entries of this scope: decisions, bind, resources that kube-scheduler ignores.
pub fn entries_of(config: &Config, scope: Scope) -> Entries {
    let bind = bind(config);
    let bound = bind.as_ref().map(|entry| &entry.managed_resources);
    let mut rest = ignored(config);
    rest.retain(|name| bound.is_none_or(|bound| !bound.contains_key(name)));
    let rest = (!rest.is_empty()).then(|| uncounted(config, rest));
    Entries(decide(config, scope).into_iter().chain(bind).chain(rest).collect())
}

impl Entries {
    /// The entries in kube-scheduler's order.
    pub fn iter(&self) -> impl Iterator<Item = &ExtenderEntry> {
        self.0.iter()
    }

    /// Whether a kube-scheduler configured with `configured` needs no change: the entries are equal, except that
    /// its timeouts may be longer.
    pub fn are_covered_by(&self, configured: &Self) -> bool {
        let covered = |(entry, configured): (&ExtenderEntry, &ExtenderEntry)| {
            let others = ExtenderEntry { http_timeout: configured.http_timeout, ..entry.clone() };
            others == *configured && entry.http_timeout <= configured.http_timeout
        };
        self.0.len() == configured.0.len() && self.iter().zip(configured.iter()).all(covered)
    }
}

fn decide(config: &Config, scope: Scope) -> Option<ExtenderEntry> {
    let used = |has: fn(&BackendSettings) -> bool| match scope {
        Scope::Lasting => true,
        Scope::Minimal => {
            config.backends.iter().any(|backend| backend.mode != Mode::Disabled && has(backend))
        }
    };
    let VerbPaths { filter, prioritize, preempt, .. } = &config.extender.verbs;
    let filter = used(|backend| backend.filter.is_some()).then(|| filter.clone());
    let prioritize = used(|backend| backend.score.is_some()).then(|| prioritize.clone());
    let preempt = used(|backend| backend.preempt.is_some()).then(|| preempt.clone());
    if filter.is_none() && prioritize.is_none() && preempt.is_none() {
        return None;
    }
    let (nodes, margin) = match config.nodes {
        NodeSource::Request => (NodesSent::Objects, MARGIN_FOR_OBJECTS),
        NodeSource::Watch | NodeSource::File { .. } | NodeSource::NamesOnly => (NodesSent::Names, MARGIN),
    };
    Some(ExtenderEntry {
        verbs: CalledVerbs::Decide { filter, prioritize, preempt, nodes },
        http_timeout: Some(config.timeouts.decision + margin),
        managed_resources: BTreeMap::new(),
        tls: tls(config),
    })
}

/// The entry of the binder. It is limited to managed resources only if every backend with `bind` is, and the binder
/// is not `BuiltIn`: for other pods kube-scheduler's own binder then does the same.
fn bind(config: &Config) -> Option<ExtenderEntry> {
    let limited = match config.binder {
        Binder::None => return None,
        Binder::BuiltIn => BTreeSet::new(),
        Binder::Backend(_) => resources_of_binders(config).unwrap_or_default(),
    };
    let ignored = ignored(config);
    let counted = |name: &str| if ignored.contains(name) { Counted::ByPolicy } else { Counted::ByScheduler };
    Some(ExtenderEntry {
        verbs: CalledVerbs::Bind(config.extender.verbs.bind.clone()),
        http_timeout: Some(config.timeouts.bind + MARGIN),
        managed_resources: limited.into_iter().map(|name| (name.clone(), counted(&name))).collect(),
        tls: tls(config),
    })
}

/// The managed resources of all backends that bind; `None` if one of them binds any pod.
fn resources_of_binders(config: &Config) -> Option<BTreeSet<String>> {
    let binders = || config.backends.iter().filter(|backend| backend.bind.is_some());
    let limited = binders().all(|backend| !backend.matches.interest.resources.is_empty());
    limited
        .then(|| binders().flat_map(|backend| backend.matches.interest.resources.iter().cloned()).collect())
}

/// The resources that kube-scheduler ignores. Those of a disabled backend too: pods that request them must not become
/// unschedulable while it is disabled.
fn ignored(config: &Config) -> BTreeSet<String> {
    config.backends.iter().flat_map(|backend| backend.matches.ignored_by_scheduler.iter().cloned()).collect()
}

fn uncounted(config: &Config, names: BTreeSet<String>) -> ExtenderEntry {
    ExtenderEntry {
        verbs: CalledVerbs::Nothing,
        http_timeout: None,
        managed_resources: names.into_iter().map(|name| (name, Counted::ByPolicy)).collect(),
        tls: tls(config),
    }
}

fn tls(config: &Config) -> TlsFlags {
    match &config.extender.tls {
        None => TlsFlags::None,
        Some(ServerTls { clients: Some(clients), .. }) if clients.presence == ClientCertificate::Required => {
            TlsFlags::Mutual
        }
        Some(_) => TlsFlags::Server,
    }
}

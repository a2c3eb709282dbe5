//! What kube-scheduler has to be told so that it calls the gateway: the `extenders` of its configuration.
//!
//! One entry has filter, prioritize and preempt, whatever the backends of today are asked for, and no managed
//! resources: who adds a backend later need not restart kube-scheduler. Who binds has an entry of its own,
//! because a bind takes longer than a decision and kube-scheduler has one timeout an entry. kube-scheduler
//! refuses a resource that stands in two entries, so each has its place: with the binder, or alone.

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

/// How much longer than the gateway kube-scheduler waits: the first packet of a connection may be lost, which
/// costs a second until it is sent again, and both processes may wait for a processor. More would only hold
/// pods up when the gateway's machine is gone; a gateway that is merely down refuses the connection at once.
const MARGIN: Duration = Duration::from_secs(2);
/// The same where every call brings all nodes: tens of megabytes that are sent within kube-scheduler's timeout
/// and before the gateway's budget begins.
const MARGIN_FOR_OBJECTS: Duration = Duration::from_secs(5);

/// The entries that a configuration needs. Two configurations with equal entries, reached in the same way, are
/// the same to kube-scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entries(Vec<ExtenderEntry>);

/// One item of `extenders`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtenderEntry {
    /// What kube-scheduler calls the gateway for.
    pub verbs: CalledVerbs,
    /// How long kube-scheduler waits. `None`: it never calls.
    pub http_timeout: Option<Duration>,
    /// The entry is about pods that name one of these, about every pod if there are none. Whether
    /// kube-scheduler leaves the counting of a resource to others, by name.
    pub managed_resources: BTreeMap<String, Counted>,
    /// Whether kube-scheduler talks to the gateway itself in TLS, and what it has to show.
    pub tls: TlsFlags,
}

/// What kube-scheduler calls the gateway for, each with the end of its path.
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
    /// Nothing: the entry only says that its resources are not counted.
    Nothing,
}

/// How kube-scheduler tells about nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodesSent {
    /// `nodeCacheCapable: true`.
    Names,
    /// `nodeCacheCapable: false`.
    Objects,
}

/// Who counts a resource.
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
    /// The gateway speaks none.
    None,
    /// The authorities of the gateway's certificate. Where one of its own is optional, it may have that.
    Server,
    /// Those, and a certificate of its own.
    Mutual,
}

/// Which of the decision's verbs kube-scheduler is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All, so that later backends need no change in kube-scheduler's configuration.
    Lasting,
    /// Those for which backends are asked today.
    Minimal,
}

/// What kube-scheduler has to be told so that later backends need no change there.
pub fn entries(config: &Config) -> Entries {
    entries_of(config, Scope::Lasting)
}

/// What kube-scheduler has to be told in this scope: the decision, the bind, resources that are not counted.
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

    /// Whether a kube-scheduler that was told `told` need not be told these: they are the same, but that
    /// kube-scheduler may wait longer than it has to.
    pub fn are_covered_by(&self, told: &Self) -> bool {
        let covered = |(entry, told): (&ExtenderEntry, &ExtenderEntry)| {
            let others = ExtenderEntry { http_timeout: told.http_timeout, ..entry.clone() };
            others == *told && entry.http_timeout <= told.http_timeout
        };
        self.0.len() == told.0.len() && self.iter().zip(told.iter()).all(covered)
    }
}

fn decide(config: &Config, scope: Scope) -> Option<ExtenderEntry> {
    let asked = |asks: fn(&BackendSettings) -> bool| match scope {
        Scope::Lasting => true,
        Scope::Minimal => {
            config.backends.iter().any(|backend| backend.mode != Mode::Disabled && asks(backend))
        }
    };
    let VerbPaths { filter, prioritize, preempt, .. } = &config.extender.verbs;
    let filter = asked(|backend| backend.filter.is_some()).then(|| filter.clone());
    let prioritize = asked(|backend| backend.score.is_some()).then(|| prioritize.clone());
    let preempt = asked(|backend| backend.preempt.is_some()).then(|| preempt.clone());
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

/// The entry of the binder. It is limited to managed resources only where every backend that binds is, and the
/// file does not say that the gateway itself is to bind: for other pods kube-scheduler's own binder then does
/// what the gateway's would.
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

/// The resources that kube-scheduler does not count. A disabled backend's too: while it is away, pods that name
/// them must not become unschedulable for the lack of them.
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

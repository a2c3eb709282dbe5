//! The `extenders` entries that kube-scheduler's configuration needs to call the gateway. One entry has filter,
//! prioritize and preempt, regardless of the verbs in use, and no managed resources unless `extender.calledFor` says so:
//! adding a backend later needs no restart of kube-scheduler. The binder has a separate entry, because a bind takes longer than a decision and
//! kube-scheduler has one timeout per entry. kube-scheduler rejects a resource in two entries, so each is listed
//! once: with the binder, or alone.

mod formats;
mod import;
mod profile;
mod reach;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use extender_gateway_settings::{
    BackendSettings, Binder, CalledFor, ClientCertificate, Config, Mode, NodeSource, ServerTls, VerbPaths,
};
use serde::{Serialize, Serializer};

pub use formats::{Extenders, policy_json};
pub use import::{Address, Import};
pub use profile::Profile;
pub use reach::{Reach, TlsFiles};

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

/// One item of `extenders`, without the URL and the TLS files. Mirrors `LegacyExtender` of
/// `k8s.io/kube-scheduler/config/v1`, version 0.22, whose JSON it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ExtenderEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    filter_verb: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prioritize_verb: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preempt_verb: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bind_verb: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_cache_capable: Option<bool>,
    /// `None`: kube-scheduler never calls this entry, which only lists resources that kube-scheduler ignores.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "in_nanoseconds")]
    http_timeout: Option<Duration>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ignorable: bool,
    /// The entry applies to pods that request one of these, or to every pod if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    managed_resources: Vec<ManagedResource>,
    #[serde(skip)]
    tls: TlsFlags,
}

/// `ExtenderManagedResource`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ManagedResource {
    name: String,
    /// Only the policy counts the resource.
    ignored_by_scheduler: bool,
}

/// What kube-scheduler needs for TLS with the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum TlsFlags {
    #[default]
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

/// The entries with all verbs.
pub fn entries(config: &Config) -> Entries {
    entries_of(config, Scope::Lasting)
}

/// The entries of this scope: decisions, bind, resources that kube-scheduler ignores.
pub fn entries_of(config: &Config, scope: Scope) -> Entries {
    let called = called(decide(config, scope), bind(config));
    let is_there =
        |name: &String| called.iter().flat_map(|entry| &entry.managed_resources).any(|r| r.name == *name);
    let resource = |name| ManagedResource { name, ignored_by_scheduler: true };
    let managed_resources: Vec<_> =
        ignored(config).into_iter().filter(|name| !is_there(name)).map(resource).collect();
    let uncalled = ExtenderEntry { managed_resources, tls: tls(config), ..ExtenderEntry::default() };
    let uncalled = Some(uncalled).filter(|entry| !entry.managed_resources.is_empty());
    let entries = Entries(called.into_iter().chain(uncalled).collect());
    if config.extender.ignorable { entries.ignorable() } else { entries }
}

/// The entries that kube-scheduler calls. If both have managed resources, they are one: kube-scheduler rejects a resource
/// in two entries.
fn called(decide: Option<ExtenderEntry>, bind: Option<ExtenderEntry>) -> Vec<ExtenderEntry> {
    let is_limited = |entry: &ExtenderEntry| !entry.managed_resources.is_empty();
    match (decide, bind) {
        (Some(decide), Some(bind)) if is_limited(&decide) && is_limited(&bind) => {
            let http_timeout = decide.http_timeout.max(bind.http_timeout);
            vec![ExtenderEntry { bind_verb: bind.bind_verb, http_timeout, ..decide }]
        }
        (decide, bind) => decide.into_iter().chain(bind).collect(),
    }
}

impl Entries {
    /// The same, but kube-scheduler places pods without a decision while no gateway answers. A bind entry stays as it is:
    /// kube-scheduler ignores no failed bind.
    #[must_use]
    pub fn ignorable(mut self) -> Self {
        for entry in self.0.iter_mut().filter(|entry| entry.node_cache_capable.is_some()) {
            entry.ignorable = true;
        }
        self
    }

    /// Whether a kube-scheduler configured with `configured` needs no change: the entries are equal, except that
    /// its timeouts may be longer.
    pub fn are_covered_by(&self, configured: &Self) -> bool {
        let is_covered = |(entry, configured): (&ExtenderEntry, &ExtenderEntry)| {
            let expected = ExtenderEntry { http_timeout: configured.http_timeout, ..entry.clone() };
            expected == *configured && entry.http_timeout <= configured.http_timeout
        };
        self.0.len() == configured.0.len() && self.0.iter().zip(&configured.0).all(is_covered)
    }
}

fn decide(config: &Config, scope: Scope) -> Option<ExtenderEntry> {
    let is_used = |has: fn(&BackendSettings) -> bool| {
        let mut enabled = config.backends.iter().filter(|backend| backend.mode != Mode::Disabled);
        scope == Scope::Lasting || enabled.any(has)
    };
    let VerbPaths { filter, prioritize, preempt, .. } = &config.extender.verbs;
    let filter = is_used(|backend| backend.filter.is_some()).then(|| filter.clone());
    let prioritize = is_used(|backend| backend.score.is_some()).then(|| prioritize.clone());
    let preempt = is_used(|backend| backend.preempt.is_some()).then(|| preempt.clone());
    if filter.is_none() && prioritize.is_none() && preempt.is_none() {
        return None;
    }
    let (names_only, margin) = match config.nodes {
        NodeSource::Request => (false, MARGIN_FOR_OBJECTS),
        NodeSource::Watch | NodeSource::File { .. } | NodeSource::NamesOnly => (true, MARGIN),
    };
    Some(ExtenderEntry {
        filter_verb: filter,
        weight: prioritize.as_ref().map(|_| 1),
        prioritize_verb: prioritize,
        preempt_verb: preempt,
        node_cache_capable: Some(names_only),
        http_timeout: Some(config.timeouts.decision + margin),
        managed_resources: match config.extender.called_for {
            CalledFor::AllPods => Vec::new(),
            CalledFor::ManagedResources => managed(config, resources(&config.backends)),
        },
        tls: tls(config),
        ..ExtenderEntry::default()
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
    Some(ExtenderEntry {
        bind_verb: Some(config.extender.verbs.bind.clone()),
        http_timeout: Some(config.timeouts.bind + MARGIN),
        managed_resources: managed(config, limited),
        tls: tls(config),
        ..ExtenderEntry::default()
    })
}

/// The managed resources of all backends that bind; `None` if one of them binds any pod.
fn resources_of_binders(config: &Config) -> Option<BTreeSet<String>> {
    let binders = || config.backends.iter().filter(|backend| backend.bind.is_some());
    let limited = binders().all(|backend| !backend.matches.interest.resources.is_empty());
    limited.then(|| resources(binders()))
}

/// The managed resources of these backends.
fn resources<'b>(backends: impl IntoIterator<Item = &'b BackendSettings>) -> BTreeSet<String> {
    let of_each = backends.into_iter().map(|backend| &backend.matches.interest.resources);
    of_each.flatten().cloned().collect()
}

/// These resources as items of an entry.
fn managed(config: &Config, resources: BTreeSet<String>) -> Vec<ManagedResource> {
    let ignored = ignored(config);
    let resource = |name: String| ManagedResource { ignored_by_scheduler: ignored.contains(&name), name };
    resources.into_iter().map(resource).collect()
}

/// The resources that kube-scheduler ignores. Those of a disabled backend too: pods that request them must not become
/// unschedulable while it is disabled.
fn ignored(config: &Config) -> BTreeSet<String> {
    config.backends.iter().flat_map(|backend| backend.matches.ignored_by_scheduler.iter().cloned()).collect()
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

#[allow(clippy::ref_option, reason = "serde requires a reference")]
fn in_nanoseconds<S: Serializer>(timeout: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    timeout.map(|timeout| timeout.as_nanos()).serialize(serializer)
}

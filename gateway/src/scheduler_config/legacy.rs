//! Entries as the JSON file of `--policy-config-file`, which kube-scheduler supported up to 1.22 and required up to
//! 1.18. Mirrors `Policy` and `LegacyExtender` of `k8s.io/kube-scheduler/config/v1`, version 0.22.

use std::fmt::{self, Display, Formatter};

use serde::Serialize;

use super::reach::TlsFiles;
use super::{CalledVerbs, Counted, Entries, ExtenderEntry, NodesSent, Reach};

/// Displays entries as JSON. Without predicates and priorities, kube-scheduler uses its defaults.
#[derive(Clone, Copy, Debug)]
pub struct LegacyPolicy<'a> {
    /// The entries.
    pub entries: &'a Entries,
    /// How kube-scheduler reaches the gateway.
    pub reach: &'a Reach,
}

impl Display for LegacyPolicy<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let extenders = self.entries.iter().map(|entry| LegacyExtender::new(entry, self.reach)).collect();
        let file = File { kind: "Policy", api_version: "v1", extenders };
        let text = serde_json::to_string_pretty(&file).map_err(|_| fmt::Error)?;
        writeln!(out, "{text}")
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    kind: &'static str,
    api_version: &'static str,
    extenders: Vec<LegacyExtender<'a>>,
}

/// `LegacyExtender`.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct LegacyExtender<'a> {
    url_prefix: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    filter_verb: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prioritize_verb: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    weight: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preempt_verb: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bind_verb: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_cache_capable: Option<bool>,
    /// In nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    http_timeout: Option<u128>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    managed_resources: Vec<Resource<'a>>,
    #[serde(flatten)]
    tls: Option<Https<'a>>,
}

/// `ExtenderManagedResource`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Resource<'a> {
    name: &'a str,
    ignored_by_scheduler: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Https<'a> {
    enable_https: bool,
    tls_config: TlsConfig<'a>,
}

/// `ExtenderTLSConfig`.
#[derive(Serialize)]
struct TlsConfig<'a> {
    #[serde(rename = "caFile")]
    ca: &'a str,
    #[serde(rename = "certFile", skip_serializing_if = "Option::is_none")]
    cert: Option<&'a str>,
    #[serde(rename = "keyFile", skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

impl<'a> LegacyExtender<'a> {
    fn new(entry: &'a ExtenderEntry, reach: &'a Reach) -> Self {
        Self {
            url_prefix: &reach.url,
            http_timeout: entry.http_timeout.map(|timeout| timeout.as_nanos()),
            managed_resources: entry.managed_resources.iter().map(Resource::new).collect(),
            tls: reach.tls.as_ref().map(Https::new),
            ..Self::called(&entry.verbs)
        }
    }

    /// The verbs and their settings.
    fn called(verbs: &'a CalledVerbs) -> Self {
        match verbs {
            CalledVerbs::Decide { filter, prioritize, preempt, nodes } => Self {
                filter_verb: filter.as_deref(),
                prioritize_verb: prioritize.as_deref(),
                weight: prioritize.as_ref().map(|_| 1),
                preempt_verb: preempt.as_deref(),
                node_cache_capable: Some(*nodes == NodesSent::Names),
                ..Self::default()
            },
            CalledVerbs::Bind(bind) => Self { bind_verb: Some(bind), ..Self::default() },
            CalledVerbs::Nothing => Self::default(),
        }
    }
}

impl<'a> Resource<'a> {
    fn new((name, counted): (&'a String, &Counted)) -> Self {
        Self { name, ignored_by_scheduler: *counted == Counted::ByPolicy }
    }
}

impl<'a> Https<'a> {
    fn new(TlsFiles { ca, pair }: &'a TlsFiles) -> Self {
        let (cert, key) = pair.as_ref().map(|(cert, key)| (cert.as_str(), key.as_str())).unzip();
        Self { enable_https: true, tls_config: TlsConfig { ca, cert, key } }
    }
}

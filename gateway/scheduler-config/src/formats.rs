//! The two forms of kube-scheduler's configuration: `extenders` of a `KubeSchedulerConfiguration`, and the JSON file
//! of `--policy-config-file`, which kube-scheduler supported up to 1.22 and required up to 1.18.

use std::fmt::{self, Display, Formatter};

use extender_gateway_settings::{DurationText, scalar};
use serde::Serialize;

use super::{Entries, ExtenderEntry, Reach, TlsFiles, reach::is_placeholder};

/// Displays entries as YAML with comments, the same for all versions from v1beta1 to v1.
pub struct Extenders<'a> {
    /// What is displayed.
    pub entries: &'a Entries,
    /// How kube-scheduler reaches the gateway.
    pub reach: &'a Reach,
}

impl Display for Extenders<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if self.entries.0.is_empty() {
            return writeln!(out, "extenders: []  # no backend has a verb");
        }
        if self.reach.is_assumed {
            writeln!(
                out,
                "# urlPrefix assumes kube-scheduler on the gateway's machine; change it with --url."
            )?;
        }
        writeln!(out, "extenders:")?;
        self.entries.0.iter().try_for_each(|entry| write_entry(out, entry, self.reach))
    }
}

fn write_entry(out: &mut Formatter<'_>, entry: &ExtenderEntry, reach: &Reach) -> fmt::Result {
    writeln!(out, "- urlPrefix: {}", scalar(&reach.url))?;
    write_verb(out, "filterVerb", entry.filter_verb.as_ref())?;
    write_verb(out, "prioritizeVerb", entry.prioritize_verb.as_ref())?;
    if let Some(weight) = entry.weight {
        writeln!(out, "  weight: {weight}  # the gateway has applied the weights")?;
    }
    write_verb(out, "preemptVerb", entry.preempt_verb.as_ref())?;
    write_verb(out, "bindVerb", entry.bind_verb.as_ref())?;
    if let Some(capable) = entry.node_cache_capable {
        writeln!(out, "  nodeCacheCapable: {capable}")?;
    }
    match entry.http_timeout {
        Some(timeout) => writeln!(out, "  httpTimeout: {}", DurationText(timeout))?,
        None => writeln!(out, "  # Never called: lists resources that kube-scheduler ignores.")?,
    }
    if entry.ignorable {
        writeln!(out, "  ignorable: true  # while no gateway answers, pods are placed without any policy")?;
    }
    if !entry.managed_resources.is_empty() {
        writeln!(out, "  managedResources:")?;
    }
    for resource in &entry.managed_resources {
        writeln!(out, "  - name: {}", scalar(&resource.name))?;
        if resource.ignored_by_scheduler {
            writeln!(out, "    ignoredByScheduler: true")?;
        }
    }
    let Some(TlsFiles { ca, cert, key }) = &reach.tls else { return Ok(()) };
    writeln!(out, "  enableHTTPS: true\n  tlsConfig:")?;
    write_file(out, "caFile", ca.as_ref(), "the CA of extender.tls.certFile, --ca-file")?;
    let remark = "a certificate signed by extender.tls.clientCAFile, --cert-file";
    write_file(out, "certFile", cert.as_ref(), remark)?;
    write_file(out, "keyFile", key.as_ref(), "its key, --key-file")
}

fn write_verb(out: &mut Formatter<'_>, field: &str, verb: Option<&String>) -> fmt::Result {
    verb.map_or(Ok(()), |verb| writeln!(out, "  {field}: {}", scalar(verb)))
}

fn write_file(out: &mut Formatter<'_>, field: &str, file: Option<&String>, remark: &str) -> fmt::Result {
    let Some(file) = file else { return Ok(()) };
    let remark = if is_placeholder(file) { format!("  # fill in: {remark}") } else { String::new() };
    writeln!(out, "    {field}: {}{remark}", scalar(file))
}

/// Entries as the JSON of a `Policy`. Without predicates and priorities, kube-scheduler uses its defaults.
pub fn policy_json(entries: &Entries, reach: &Reach) -> serde_json::Result<String> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Policy<'a> {
        kind: &'static str,
        api_version: &'static str,
        extenders: Vec<PolicyExtender<'a>>,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct PolicyExtender<'a> {
        url_prefix: &'a str,
        #[serde(flatten)]
        entry: &'a ExtenderEntry,
        #[serde(flatten)]
        tls: Option<Https<'a>>,
    }
    #[derive(Clone, Copy, Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Https<'a> {
        enable_https: bool,
        tls_config: &'a TlsFiles,
    }
    let tls = reach.tls.as_ref().map(|tls_config| Https { enable_https: true, tls_config });
    let extenders =
        entries.0.iter().map(|entry| PolicyExtender { url_prefix: &reach.url, entry, tls }).collect();
    serde_json::to_string_pretty(&Policy { kind: "Policy", api_version: "v1", extenders })
}

//! Entries as `extenders` of a `KubeSchedulerConfiguration`, with comments.

use std::fmt::{self, Display, Formatter};

use super::reach::{TlsFiles, UrlSource, is_placeholder};
use super::{CalledVerbs, Counted, Entries, ExtenderEntry, NodesSent, Reach};
use crate::config::{DurationText, scalar};

/// Displays entries as YAML, the same for all versions from v1beta1 to v1.
#[derive(Clone, Copy, Debug)]
pub struct Extenders<'a> {
    /// The entries.
    pub entries: &'a Entries,
    /// How kube-scheduler reaches the gateway.
    pub reach: &'a Reach,
}

impl Display for Extenders<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if self.entries.0.is_empty() {
            return writeln!(out, "extenders: []  # no backend has a verb");
        }
        if self.reach.source == UrlSource::Address {
            writeln!(
                out,
                "# urlPrefix assumes kube-scheduler on the gateway's machine; change it with --url."
            )?;
        }
        writeln!(out, "extenders:")?;
        self.entries.iter().try_for_each(|entry| write_entry(out, entry, self.reach))
    }
}

fn write_entry(out: &mut Formatter<'_>, entry: &ExtenderEntry, reach: &Reach) -> fmt::Result {
    writeln!(out, "- urlPrefix: {}", scalar(&reach.url))?;
    write_verbs(out, &entry.verbs)?;
    if let Some(timeout) = entry.http_timeout {
        writeln!(out, "  httpTimeout: {}", DurationText(timeout))?;
    }
    write_resources(out, entry)?;
    reach.tls.as_ref().map_or(Ok(()), |files| write_tls(out, files))
}

fn write_verbs(out: &mut Formatter<'_>, verbs: &CalledVerbs) -> fmt::Result {
    match verbs {
        CalledVerbs::Decide { filter, prioritize, preempt, nodes } => {
            write_verb(out, "filterVerb", filter.as_ref())?;
            write_verb(out, "prioritizeVerb", prioritize.as_ref())?;
            if prioritize.is_some() {
                writeln!(out, "  weight: 1  # the gateway has applied the weights")?;
            }
            write_verb(out, "preemptVerb", preempt.as_ref())?;
            writeln!(out, "  nodeCacheCapable: {}", *nodes == NodesSent::Names)
        }
        CalledVerbs::Bind(bind) => write_verb(out, "bindVerb", Some(bind)),
        CalledVerbs::Nothing => {
            writeln!(out, "  # Never called: lists resources that kube-scheduler ignores.")
        }
    }
}

fn write_verb(out: &mut Formatter<'_>, field: &str, verb: Option<&String>) -> fmt::Result {
    verb.map_or(Ok(()), |verb| writeln!(out, "  {field}: {}", scalar(verb)))
}

fn write_resources(out: &mut Formatter<'_>, entry: &ExtenderEntry) -> fmt::Result {
    if !entry.managed_resources.is_empty() {
        writeln!(out, "  managedResources:")?;
    }
    entry.managed_resources.iter().try_for_each(|(name, counted)| {
        writeln!(out, "  - name: {}", scalar(name))?;
        match counted {
            Counted::ByScheduler => Ok(()),
            Counted::ByPolicy => writeln!(out, "    ignoredByScheduler: true"),
        }
    })
}

fn write_tls(out: &mut Formatter<'_>, TlsFiles { ca, pair }: &TlsFiles) -> fmt::Result {
    writeln!(out, "  enableHTTPS: true\n  tlsConfig:")?;
    // Without it kube-scheduler would not check the gateway's certificate at all.
    write_file(out, "caFile", ca, "the CA of extender.tls.certFile, --ca-file")?;
    pair.as_ref().map_or(Ok(()), |(cert, key)| {
        write_file(out, "certFile", cert, "a certificate signed by extender.tls.clientCAFile, --cert-file")?;
        write_file(out, "keyFile", key, "its key, --key-file")
    })
}

fn write_file(out: &mut Formatter<'_>, field: &str, file: &str, remark: &str) -> fmt::Result {
    let remark = if is_placeholder(file) { format!("  # fill in: {remark}") } else { String::new() };
    writeln!(out, "    {field}: {}{remark}", scalar(&file))
}

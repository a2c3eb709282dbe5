//! A configuration written out as YAML: defaults and effective order become visible, and the text is a
//! configuration again that means the same.
//!
//! Every setting is there. One that is absent because something else decides is a comment that says what.

mod backend;
mod telemetry;

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::path::Path;

use super::{
    API_VERSION, Binder, ClientCertificates, Config, DurationText, Extender, KIND, KeyPair, NodeSource,
    PodSource, Reasons, ServerTls, SizeText, Timeouts, VerbPaths, Words,
};

/// Displays a configuration with every setting, the backends in their effective order.
#[derive(Clone, Copy, Debug)]
pub struct Effective<'a>(pub &'a Config);

impl Display for Effective<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self(config) = self;
        writeln!(out, "apiVersion: {API_VERSION}\nkind: {KIND}")?;
        write_extender(out, &config.extender)?;
        telemetry::write(out, config)?;
        let Timeouts { decision, bind } = config.timeouts;
        writeln!(out, "timeouts:\n  decision: {}\n  bind: {}", DurationText(decision), DurationText(bind))?;
        write_cluster(out, config.kubeconfig.as_deref())?;
        write_nodes(out, &config.nodes)?;
        write_pods(out, config)?;
        write_exempt(out, config.exempt_namespaces.as_ref())?;
        write_reasons(out, config.reasons)?;
        writeln!(out, "binder: {}", binder(config))?;
        writeln!(out, "backends:  # in the order in which their answers count")?;
        let order = config.effective_order();
        order.into_iter().try_for_each(|position| backend::write(out, &config.backends[position]))
    }
}

fn write_extender(out: &mut Formatter<'_>, extender: &Extender) -> fmt::Result {
    let Extender { address, max_request_bytes, tls, verbs } = extender;
    writeln!(out, "extender:\n  address: {}", scalar(address))?;
    writeln!(out, "  maxRequestBytes: {}", SizeText(*max_request_bytes))?;
    match tls {
        Some(tls) => write_server_tls(out, tls)?,
        None => writeln!(out, "  # tls: none")?,
    }
    let VerbPaths { filter, prioritize, preempt, bind } = verbs;
    writeln!(out, "  verbs:\n    filter: {}\n    prioritize: {}", scalar(filter), scalar(prioritize))?;
    writeln!(out, "    preempt: {}\n    bind: {}", scalar(preempt), scalar(bind))
}

fn write_server_tls(out: &mut Formatter<'_>, tls: &ServerTls) -> fmt::Result {
    writeln!(out, "  tls:")?;
    write_key_pair(out, &tls.identity)?;
    let Some(ClientCertificates { ca_file, presence, allowed_names }) = &tls.clients else {
        return writeln!(out, "    # clientCAFile: none, callers need no certificate");
    };
    writeln!(out, "    clientCAFile: {}", file(ca_file))?;
    writeln!(out, "    clientCertificate: {}", presence.word())?;
    let any = if allowed_names.is_empty() { "  # any" } else { "" };
    writeln!(out, "    allowedNames: {}{any}", list(allowed_names))
}

/// The two fields of a certificate, four columns in.
fn write_key_pair(out: &mut Formatter<'_>, KeyPair { cert_file, key_file }: &KeyPair) -> fmt::Result {
    writeln!(out, "    certFile: {}\n    keyFile: {}", file(cert_file), file(key_file))
}

fn write_cluster(out: &mut Formatter<'_>, kubeconfig: Option<&Path>) -> fmt::Result {
    match kubeconfig {
        Some(path) => writeln!(out, "cluster:\n  kubeconfig: {}", file(path)),
        None => writeln!(out, "cluster: {{}}  # KUBECONFIG, ~/.kube/config or the pod's own account"),
    }
}

fn write_nodes(out: &mut Formatter<'_>, nodes: &NodeSource) -> fmt::Result {
    let (word, path) = match nodes {
        NodeSource::Watch => ("Watch", None),
        NodeSource::Request => ("Request", None),
        NodeSource::File { path } => ("File", Some(path)),
        NodeSource::NamesOnly => ("NamesOnly", None),
    };
    writeln!(out, "nodes:\n  source: {word}")?;
    path.map_or(Ok(()), |path| writeln!(out, "  file: {}", file(path)))
}

fn write_pods(out: &mut Formatter<'_>, config: &Config) -> fmt::Result {
    match (config.pods, config.pod_source()) {
        (Some(source), _) => writeln!(out, "pods:\n  source: {}", source.word()),
        (None, PodSource::Watch) => {
            writeln!(out, "pods: {{}}  # Watch, because a backend is asked to preempt")
        }
        (None, PodSource::None) => writeln!(out, "pods: {{}}  # None, because nothing needs them"),
    }
}

fn write_exempt(out: &mut Formatter<'_>, namespaces: Option<&BTreeSet<String>>) -> fmt::Result {
    match namespaces {
        Some(names) => writeln!(out, "exempt:\n  namespaces: {}", list(names)),
        None => writeln!(out, "exempt: {{}}  # kube-system and the gateway's own namespace"),
    }
}

fn write_reasons(out: &mut Formatter<'_>, Reasons { prefix, changing, repeated }: Reasons) -> fmt::Result {
    writeln!(out, "reasons:\n  prefix: {}", prefix.word())?;
    writeln!(out, "  changing: {}\n  repeated: {}", changing.word(), repeated.word())
}

fn binder(config: &Config) -> String {
    match config.binder {
        Binder::None => "None".to_owned(),
        Binder::BuiltIn => "BuiltIn".to_owned(),
        Binder::Backend(at) => scalar(&config.backends[at].name),
    }
}

/// A path as YAML.
fn file(path: &Path) -> String {
    scalar(&path.display())
}

/// Texts as a YAML list on one line.
fn list<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let texts: Vec<String> = texts.into_iter().map(scalar).collect();
    format!("[{}]", texts.join(", "))
}

/// A text as YAML: in quotes unless nothing but this text can be meant.
pub(crate) fn scalar(text: &impl Display) -> String {
    let text = text.to_string();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
    let letter_first = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/');
    let other_meaning = ["true", "false", "null"].iter().any(|word| text.eq_ignore_ascii_case(word));
    if letter_first && text.bytes().all(plain) && !other_meaning {
        return text;
    }
    serde_json::Value::String(text).to_string()
}

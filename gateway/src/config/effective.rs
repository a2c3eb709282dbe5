//! A configuration written out as YAML: defaults and effective order become visible, and the text is a
//! configuration again that means the same.

use std::fmt::{self, Display, Formatter};

use super::{
    API_VERSION, Backend, Config, DurationText, FilterSettings, KIND, NodeSource, ScoreSettings, SizeText,
    Timeouts, Words,
};

/// Displays a configuration with every setting, the backends in their effective order.
#[derive(Clone, Copy, Debug)]
pub struct Effective<'a>(pub &'a Config);

impl Display for Effective<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self(config) = self;
        writeln!(out, "apiVersion: {API_VERSION}\nkind: {KIND}")?;
        writeln!(out, "extender:\n  address: {}", scalar(&config.extender.address))?;
        writeln!(out, "  maxRequestBytes: {}", SizeText(config.extender.max_request_bytes))?;
        writeln!(out, "metrics:\n  address: {}", scalar(&config.metrics.address))?;
        let Timeouts { decision, bind } = config.timeouts;
        writeln!(out, "timeouts:\n  decision: {}\n  bind: {}", DurationText(decision), DurationText(bind))?;
        write_nodes(out, &config.nodes)?;
        writeln!(out, "reasons:\n  prefix: {}", config.reasons.prefix.word())?;
        writeln!(out, "backends:  # in the order in which their answers count")?;
        config
            .effective_order()
            .into_iter()
            .try_for_each(|position| write_backend(out, &config.backends[position]))
    }
}

fn write_nodes(out: &mut Formatter<'_>, nodes: &NodeSource) -> fmt::Result {
    let (word, path) = match nodes {
        NodeSource::Watch => ("Watch", None),
        NodeSource::Request => ("Request", None),
        NodeSource::File { path } => ("File", Some(("file", path))),
        NodeSource::NamesOnly => ("NamesOnly", None),
    };
    writeln!(out, "nodes:\n  source: {word}")?;
    match path {
        Some((name, path)) => writeln!(out, "  {name}: {}", scalar(&path.display())),
        None => Ok(()),
    }
}

fn write_backend(out: &mut Formatter<'_>, backend: &Backend) -> fmt::Result {
    writeln!(out, "- name: {}\n  url: {}", scalar(&backend.name), backend.url)?;
    if let Some(args) = &backend.args {
        // JSON is YAML's flow style.
        writeln!(out, "  args: {}", String::from_utf8_lossy(args))?;
    }
    if let Some(filter) = &backend.filter {
        write_filter(out, filter)?;
    }
    backend.score.as_ref().map_or(Ok(()), |score| write_score(out, score))
}

fn write_filter(out: &mut Formatter<'_>, filter: &FilterSettings) -> fmt::Result {
    writeln!(out, "  filter:\n    timeout: {}", DurationText(filter.timeout))?;
    writeln!(out, "    failurePolicy: {}", filter.failure_policy.word())?;
    writeln!(out, "    preemptionMayHelp: {}", filter.preemption_may_help.word())
}

fn write_score(out: &mut Formatter<'_>, score: &ScoreSettings) -> fmt::Result {
    writeln!(out, "  score:\n    timeout: {}\n    weight: {}", DurationText(score.timeout), score.weight)?;
    match score.normalize {
        Some(normalize) => writeln!(out, "    normalize: {}", normalize.word())?,
        None => writeln!(out, "    # normalize: as the backend declares")?,
    }
    match score.reversed {
        Some(reversed) => writeln!(out, "    reversed: {reversed}"),
        None => writeln!(out, "    # reversed: as the backend declares"),
    }
}

/// A text as YAML: in quotes unless nothing but this text can be meant.
fn scalar(text: &impl Display) -> String {
    let text = text.to_string();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
    let letter_first = text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/');
    let other_meaning = ["true", "false", "null"].iter().any(|word| text.eq_ignore_ascii_case(word));
    if letter_first && text.bytes().all(plain) && !other_meaning {
        return text;
    }
    serde_json::Value::String(text).to_string()
}

//! One backend written out as an item of `backends`.

use std::fmt::{self, Formatter};

use extender_gateway_core::interest::{Interest, Namespaces, Operator, Requirement};

use super::{file, list, scalar, write_key_pair};
use crate::config::{
    Backend, BackendTls, BindSettings, DurationText, FilterSettings, PreemptSettings, ScoreSettings, Words,
};

/// Writes all settings of a backend.
pub(super) fn write(out: &mut Formatter<'_>, backend: &Backend) -> fmt::Result {
    writeln!(out, "- name: {}\n  url: {}", scalar(&backend.name), backend.url)?;
    written(backend.tls.as_ref(), |tls| write_tls(out, tls))?;
    writeln!(out, "  mode: {}", backend.mode.word())?;
    writeln!(out, "  pureAnswers: {}", backend.pure_answers.word())?;
    // JSON is YAML's flow style.
    written(backend.args.as_ref(), |args| writeln!(out, "  args: {}", String::from_utf8_lossy(args)))?;
    write_match(out, &backend.interest, &backend.ignored_by_scheduler)?;
    written(backend.filter.as_ref(), |filter| write_filter(out, filter))?;
    written(backend.score.as_ref(), |score| write_score(out, score))?;
    written(backend.preempt.as_ref(), |preempt| write_preempt(out, preempt))?;
    written(backend.bind.as_ref(), |bind| write_bind(out, bind))
}

fn written<T>(setting: Option<T>, write: impl FnOnce(T) -> fmt::Result) -> fmt::Result {
    setting.map_or(Ok(()), write)
}

fn write_tls(out: &mut Formatter<'_>, tls: &BackendTls) -> fmt::Result {
    writeln!(out, "  tls:\n    caFile: {}", file(&tls.ca_file))?;
    match &tls.identity {
        Some(identity) => write_key_pair(out, identity)?,
        None => writeln!(out, "    # certFile, keyFile: none")?,
    }
    match &tls.server_name {
        Some(name) => writeln!(out, "    serverName: {}", scalar(name)),
        None => writeln!(out, "    # serverName: the URL's host"),
    }
}

fn write_match(out: &mut Formatter<'_>, interest: &Interest, ignored: &[String]) -> fmt::Result {
    if *interest == Interest::default() {
        return writeln!(out, "  match: {{}}  # every pod");
    }
    writeln!(out, "  match:")?;
    if !interest.resources.is_empty() {
        writeln!(out, "    managedResources:")?;
    }
    for name in &interest.resources {
        let ignored = ignored.contains(name);
        writeln!(out, "    - {{name: {}, ignoredByScheduler: {ignored}}}", scalar(name))?;
    }
    match &interest.namespaces {
        Namespaces::All => {}
        Namespaces::Only(names) => writeln!(out, "    namespaces: {}", list(names))?,
        Namespaces::Except(names) => writeln!(out, "    excludedNamespaces: {}", list(names))?,
    }
    write_selector(out, &interest.selector)
}

/// Labels that must be equal were `matchLabels` or not: both mean the same.
fn write_selector(out: &mut Formatter<'_>, selector: &[Requirement]) -> fmt::Result {
    if selector.is_empty() {
        return Ok(());
    }
    writeln!(out, "    podSelector:\n      matchExpressions:")?;
    selector.iter().try_for_each(|requirement| writeln!(out, "      - {}", expression(requirement)))
}

fn expression(Requirement { key, operator }: &Requirement) -> String {
    let (word, values) = match operator {
        Operator::In(values) => ("In", Some(values)),
        Operator::NotIn(values) => ("NotIn", Some(values)),
        Operator::Exists => ("Exists", None),
        Operator::DoesNotExist => ("DoesNotExist", None),
    };
    let values = values.map_or_else(String::new, |values| format!(", values: {}", list(values)));
    format!("{{key: {}, operator: {word}{values}}}", scalar(key))
}

fn write_filter(out: &mut Formatter<'_>, filter: &FilterSettings) -> fmt::Result {
    writeln!(out, "  filter:\n    timeout: {}", DurationText(filter.timeout))?;
    writeln!(out, "    failurePolicy: {}", filter.failure_policy.word())?;
    writeln!(out, "    preemptionMayHelp: {}", filter.preemption_may_help.word())
}

fn write_score(out: &mut Formatter<'_>, score: &ScoreSettings) -> fmt::Result {
    writeln!(out, "  score:\n    timeout: {}", DurationText(score.timeout))?;
    writeln!(out, "    weight: {}\n    failurePolicy: Ignore", score.weight)?;
    match score.normalize {
        Some(normalize) => writeln!(out, "    normalize: {}", normalize.word())?,
        None => writeln!(out, "    # normalize: as the backend declares")?,
    }
    match score.reversed {
        Some(reversed) => writeln!(out, "    reversed: {reversed}"),
        None => writeln!(out, "    # reversed: as the backend declares"),
    }
}

fn write_preempt(out: &mut Formatter<'_>, preempt: &PreemptSettings) -> fmt::Result {
    writeln!(out, "  preempt:\n    timeout: {}", DurationText(preempt.timeout))?;
    writeln!(out, "    failurePolicy: {}", preempt.failure_policy.word())?;
    writeln!(out, "    addedVictims: {}", preempt.added_victims.word())
}

fn write_bind(out: &mut Formatter<'_>, bind: &BindSettings) -> fmt::Result {
    writeln!(out, "  bind:\n    timeout: {}", DurationText(bind.timeout))?;
    writeln!(out, "    failurePolicy: {}", bind.failure_policy.word())
}

//! In what replicas differ that should be alike.

use std::collections::BTreeMap;

use crate::api::{BackendStatus, Status};

/// A trait of a replica that all should share.
type Aspect = (&'static str, fn(&Status) -> String);

const ASPECTS: [Aspect; 4] = [
    ("version", |status| status.version.clone()),
    ("their configuration, of which these are digests", |status| status.configuration.digest.clone()),
    ("backends, or the order in which their answers count", |status| {
        listed(status.backends.iter().map(configured))
    }),
    ("what backends say of themselves", |status| listed(status.backends.iter().filter_map(introduced))),
];

/// A sentence for each aspect that is not the same everywhere.
pub(super) fn between(replicas: &[Status]) -> Vec<String> {
    ASPECTS.iter().filter_map(|aspect| of(aspect, replicas)).collect()
}

fn of((what, value): &Aspect, replicas: &[Status]) -> Option<String> {
    let mut names: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for replica in replicas {
        names.entry(value(replica)).or_default().push(&replica.gateway);
    }
    if names.len() < 2 {
        return None;
    }
    let sides: Vec<_> = names.iter().map(|(value, names)| format!("{}: {value}", names.join(", "))).collect();
    Some(format!("Replicas differ in {what}. {}", sides.join("; ")))
}

fn listed(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<_> = texts.collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

fn configured(backend: &BackendStatus) -> String {
    let verbs: Vec<_> = backend.verbs.iter().map(|verb| verb.verb.as_str()).collect();
    format!("{} ({}, {}, {})", backend.name, backend.url, backend.mode, verbs.join(" "))
}

/// One that is not connected is a problem of its own, and no difference.
fn introduced(backend: &BackendStatus) -> Option<String> {
    let said = backend.handshake.as_ref()?;
    Some(
        format!("{} is {} {} {}", backend.name, said.name, said.version, said.revision).trim_end().to_owned(),
    )
}

//! Checks for invalid combinations of fields. A field with a mistake is not checked further.

use std::net::SocketAddr;
use std::time::Duration;

use extender_config::{Cursor, Section, echo};

use super::{
    AddedVictims, BINDER, BackendSettings, Binder, ConfigParts, DurationText, PodSource, VerbPathParts,
    VerbPaths, duration,
};

/// Checks the fields of the whole file against each other.
pub(super) fn check_config(root: &Section<'_>, parts: &mut ConfigParts) {
    addresses(root, parts);
    timeouts(root, parts);
    if let (Some(binder), Some(backends)) = (&parts.binder, &parts.backends) {
        check_binder(root, binder, backends);
    }
    pods(root, parts);
}

/// No two addresses overlap.
fn addresses(root: &Section<'_>, parts: &ConfigParts) {
    let extender = parts.extender.as_ref().map(|it| it.address);
    let metrics = parts.metrics.as_ref().map(|it| it.address);
    let admin = parts.admin.as_ref().map(|it| it.address);
    let mut taken: Vec<(&str, SocketAddr)> = Vec::new();
    for (name, address) in [("extender", extender), ("metrics", metrics), ("admin", admin)] {
        let Some(address) = address else { continue };
        if let Some((earlier, _)) = taken.iter().find(|(_, other)| collide(*other, address)) {
            let wrong = format!("{address} overlaps with {earlier}.address");
            root.mistake_below(&[name, "address"], wrong, "another port");
        }
        taken.push((name, address));
    }
}

/// Whether two addresses cannot both be listened on. Port 0 is always a free port.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let same_ip = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.port() != 0 && same_ip
}

/// No backend's timeout is longer than its call. A default is shortened to the call's; an explicit value is a mistake.
fn timeouts(root: &Section<'_>, parts: &mut ConfigParts) {
    let Some(limits) = parts.timeouts else { return };
    let decision = |name| LengthLimit { longest: limits.decision, field: "decision", verb: name };
    let verbs = [
        decision("filter"),
        decision("score"),
        decision("preempt"),
        LengthLimit { longest: limits.bind, field: "bind", verb: "bind" },
    ];
    let backends =
        root.optional("backends").and_then(|backends| backends.items_if_list()).unwrap_or_default();
    for item in &backends {
        for limit in &verbs {
            limit.check(item);
        }
    }
    for backend in parts.backends.iter_mut().flatten() {
        let BackendSettings { filter, score, preempt, bind, .. } = backend;
        let timeouts = [
            filter.as_mut().map(|settings| &mut settings.timeout),
            score.as_mut().map(|settings| &mut settings.timeout),
            preempt.as_mut().map(|settings| &mut settings.timeout),
            bind.as_mut().map(|settings| &mut settings.timeout),
        ];
        for (timeout, limit) in timeouts.into_iter().zip(&verbs) {
            if let Some(timeout) = timeout {
                *timeout = limit.longest.min(*timeout);
            }
        }
    }
}

/// The limit of a verb's timeouts, and the field of `timeouts` that sets it.
struct LengthLimit {
    longest: Duration,
    field: &'static str,
    verb: &'static str,
}

impl LengthLimit {
    /// Records a mistake if a backend's timeout is longer.
    fn check(&self, backend: &Cursor<'_>) {
        let Some(field) = backend.descend(&[self.verb, "timeout"]) else { return };
        let timeout = field.text_if_any().and_then(|text| duration::parse(text).ok());
        let Some(timeout) = timeout.filter(|timeout| *timeout > self.longest) else { return };
        let (longest, call) = (DurationText(self.longest), self.field);
        let wrong = format!("{} is longer than timeouts.{call}, {longest}", DurationText(timeout));
        field.mistake(wrong, &format!("at most {longest}, or a longer timeouts.{call}"));
    }
}

/// A named backend has a `bind` block, and a `bind` block has a binder that uses it.
fn check_binder(root: &Section<'_>, binder: &Binder, backends: &[BackendSettings]) {
    let binds = |backend: &&BackendSettings| backend.bind.is_some();
    match binder {
        Binder::None => {
            if let Some(backend) = backends.iter().find(binds) {
                let wrong = format!("is None, but backend {} has a bind block", backend.name);
                root.mistake_of("binder", wrong, "BuiltIn or that backend's name, or no bind block");
            }
        }
        Binder::BuiltIn => {}
        Binder::Backend(name) => {
            let quoted = echo(name.as_str());
            match backends.iter().find(|backend| backend.name == *name) {
                None => root.mistake_of("binder", format!("{quoted} is not a backend of this file"), BINDER),
                Some(backend) if backend.bind.is_none() => {
                    root.mistake_of("binder", format!("{quoted} has no bind block"), BINDER);
                }
                Some(_) => {}
            }
        }
    }
}

/// Added victims are checked against pods, so pods must be watched.
fn pods(root: &Section<'_>, parts: &ConfigParts) {
    let (Some(pods), Some(nodes), Some(backends)) = (&parts.pods, &parts.nodes, &parts.backends) else {
        return;
    };
    let adds = |backend: &&BackendSettings| {
        backend.preempt.as_ref().is_some_and(|preempt| preempt.added_victims == AddedVictims::Allowed)
    };
    let source = pods.source.unwrap_or_else(|| PodSource::usual(nodes, backends));
    if let (PodSource::None, Some(backend)) = (source, backends.iter().find(adds)) {
        let wrong =
            format!("is None, but backend {} may add victims, which are checked against pods", backend.name);
        root.mistake_below(&["pods", "source"], wrong, "Watch, or addedVictims: Refused");
    }
}

/// No verb's path is a suffix of another's.
pub(super) fn check_verbs(fields: &Section<'_>, parts: &mut VerbPathParts) {
    let VerbPathParts {
        filter: Some(filter),
        prioritize: Some(prioritize),
        preempt: Some(preempt),
        bind: Some(bind),
    } = parts
    else {
        return;
    };
    let ends = |long: &str, short: &str| {
        long.strip_suffix(short).is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let verbs: Vec<_> = VerbPaths::FIELDS.known.iter().zip([filter, prioritize, preempt, bind]).collect();
    for (at, (name, path)) in verbs.iter().enumerate() {
        let same = verbs[..at].iter().find(|(_, earlier)| ends(path, earlier) || ends(earlier, path));
        if let Some((other, earlier)) = same {
            let wrong = format!("{} conflicts with {}, the path of {other}", echo(path), echo(earlier));
            return fields.mistake_of(name, wrong, "paths that are not suffixes of each other");
        }
    }
}

/// The end of a path.
pub(super) fn verb_path(field: &Cursor<'_>) -> Option<String> {
    field.parsed("the end of a path without slashes around it such as predicates/always_true", |text| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
        if text.split('/').any(str::is_empty) || !text.bytes().all(plain) {
            return Err(format!("{} is not the end of a path", echo(text)));
        }
        Ok(text.to_owned())
    })
}

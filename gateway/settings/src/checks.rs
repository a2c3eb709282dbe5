//! Checks for invalid combinations of fields. A field with a mistake is not checked further.

use std::net::SocketAddr;
use std::time::Duration;

use extender_config::{Cursor, Section, echo};
use extender_gateway_core::PolicyVerb;

use super::values::parse_duration;
use super::{
    AddedVictims, BINDER, BackendSettings, Binder, CalledFor, ConfigParts, DurationText, Mode, PodSource,
    Timeouts, VerbPathParts, VerbPaths,
};

pub(super) fn check_config(root: &Section<'_>, parts: &mut ConfigParts) {
    addresses(root, parts);
    timeouts(root, parts);
    if let (Some(binder), Some(backends)) = (&parts.binder, &parts.backends) {
        check_binder(root, binder, backends);
        strangers(root, binder, parts);
    }
    called_for(root, parts);
    pods(root, parts);
    readiness(root, parts);
}

/// No two addresses overlap.
fn addresses(root: &Section<'_>, parts: &ConfigParts) {
    let addresses = [
        ("extender", parts.extender.as_ref().map(|it| it.address)),
        ("metrics", parts.metrics.as_ref().map(|it| it.address)),
        ("admin", parts.admin.as_ref().map(|it| it.address)),
    ];
    for (at, (name, address)) in addresses.iter().enumerate() {
        let Some(address) = address else { continue };
        let mut earlier = addresses[..at].iter();
        if let Some((earlier, _)) = earlier.find(|(_, other)| other.is_some_and(|it| collide(it, *address))) {
            let wrong = format!("{address} overlaps with {earlier}.address");
            root.mistake_below(&[name, "address"], wrong, "another port");
        }
    }
}

/// Whether two addresses cannot both be listened on. Port 0 is always a free port.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let same_ip = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.port() != 0 && same_ip
}

/// No backend's timeout is longer than its call. A default is shortened to the call's; an explicit value is a mistake.
fn timeouts(root: &Section<'_>, parts: &mut ConfigParts) {
    let Some(Timeouts { decision, bind, shutdown: _ }) = parts.timeouts else { return };
    let items = root.optional("backends").and_then(|backends| backends.items_if_list());
    for item in items.iter().flatten() {
        for verb in PolicyVerb::ALL {
            match verb {
                PolicyVerb::Bind => check_timeout(item, verb.name(), "bind", bind),
                _ => check_timeout(item, verb.name(), "decision", decision),
            }
        }
    }
    for backend in parts.backends.iter_mut().flatten() {
        let timeouts = [
            backend.filter.as_mut().map(|settings| (&mut settings.timeout, decision)),
            backend.score.as_mut().map(|settings| (&mut settings.timeout, decision)),
            backend.preempt.as_mut().map(|settings| (&mut settings.timeout, decision)),
            backend.bind.as_mut().map(|settings| (&mut settings.timeout, bind)),
            backend.before_filter.as_mut().map(|settings| (&mut settings.timeout, decision)),
            backend.before_filter_nodes.as_mut().map(|settings| (&mut settings.timeout, decision)),
            backend.before_score.as_mut().map(|settings| (&mut settings.timeout, decision)),
        ];
        for (timeout, longest) in timeouts.into_iter().flatten() {
            *timeout = longest.min(*timeout);
        }
    }
}

/// Records a mistake if a backend's timeout is longer than that of the call.
fn check_timeout(backend: &Cursor<'_>, verb: &str, call: &str, longest: Duration) {
    let Some(field) = backend.descend(&[verb, "timeout"]) else { return };
    let timeout = field.text_if_any().and_then(|text| parse_duration(text).ok());
    let Some(timeout) = timeout.filter(|timeout| *timeout > longest) else { return };
    let (timeout, longest) = (DurationText(timeout), DurationText(longest));
    let wrong = format!("{timeout} is longer than timeouts.{call}, {longest}");
    field.mistake(wrong, &format!("at most {longest}, or a longer timeouts.{call}"));
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

/// A backend that is not called never answers.
fn readiness(root: &Section<'_>, parts: &ConfigParts) {
    let (Some(readiness), Some(backends)) = (&parts.readiness, &parts.backends) else { return };
    for name in &readiness.backends {
        let wrong = match backends.iter().find(|backend| backend.name.as_str() == name) {
            None => format!("{} is not a backend of this file", echo(name)),
            Some(backend) if backend.mode == Mode::Disabled => format!("{} is disabled", echo(name)),
            Some(_) => continue,
        };
        root.mistake_below(&["readiness", "backends"], wrong, "names of backends that are called");
    }
}

/// Whoever may call bind places any pending pod on any node with the gateway's permissions, past kube-scheduler's checks.
fn strangers(root: &Section<'_>, binder: &Binder, parts: &ConfigParts) {
    let Some(extender) = &parts.extender else { return };
    if *binder == Binder::None || !extender.is_open() || extender.allow_unauthenticated_bind {
        return;
    }
    let wrong = format!("would let anyone bind pods who reaches extender.address {}", extender.address);
    let remedy = "None, extender.tls with clientCAFile, a loopback address, or extender.allowUnauthenticatedBind: true";
    root.mistake_below(&["binder"], wrong, remedy);
}

/// Of a backend without managed resources, kube-scheduler would not know for which pods it is called.
fn called_for(root: &Section<'_>, parts: &ConfigParts) {
    let (Some(extender), Some(backends)) = (&parts.extender, &parts.backends) else { return };
    let is_general = |backend: &&BackendSettings| backend.matches.interest.resources.is_empty();
    if let (CalledFor::ManagedResources, Some(backend)) =
        (extender.called_for, backends.iter().find(is_general))
    {
        let wrong =
            format!("is ManagedResources, but backend {} has no match.managedResources", backend.name);
        root.mistake_below(
            &["extender", "calledFor"],
            wrong,
            "AllPods, or managed resources of every backend",
        );
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
    let source = pods.source(nodes, backends);
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

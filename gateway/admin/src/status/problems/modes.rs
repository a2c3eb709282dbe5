//! Modes that are not the configured ones, and backends that reject more than they may.

use extender_gateway_api::{
    BackendStatus, ExcessiveRejectionsStatus, OverrideStatus, Problem, Severity, Status,
};
use extender_gateway_object::text::{moment, share as percent};

use super::{minutes_left, problem, warning};

/// One for each override.
pub(super) fn of(status: &Status) -> impl Iterator<Item = Problem> {
    status.overrides.iter().map(overridden)
}

fn overridden(it: &OverrideStatus) -> Problem {
    let OverrideStatus { backend, mode, ends, reason, by, .. } = it;
    let (about, name) = match backend {
        Some(name) => (format!("backend {name}"), name.as_str()),
        None => ("all backends".to_owned(), "--all"),
    };
    let by = if by.is_empty() { String::new() } else { format!(", set by {by}") };
    let what = format!(
        "mode {mode} in place of the configured one until {} ({} min{by}): {reason}",
        moment(*ends),
        minutes_left(*ends),
    );
    let remedy = format!(
        "correct the cause before it ends by itself; `extender-gateway backend {name} reset` ends it now, and a mode for longer belongs \
         in the configuration"
    );
    let (severity, impact) = match (backend, mode.as_str()) {
        (None, _) => (Severity::Error, "pods are placed against every policy"),
        (Some(_), "Enforce") => (Severity::Warning, "its answers count for all pods that it matches"),
        (Some(_), _) => (Severity::Warning, "pods can be placed where it would not allow it"),
    };
    problem(severity, "mode-overridden", &about, what, remedy).with_impact(impact)
}

/// More rejections than `maxRejectShare`.
pub(super) fn excessive_rejections(backend: &BackendStatus) -> Option<Problem> {
    let ExcessiveRejectionsStatus { share, most, since } = backend.excessive_rejections.as_ref()?;
    let what = format!(
        "it rejects {} of the nodes, more than maxRejectShare {most}, since {}",
        percent(*share),
        moment(*since)
    );
    let name = &backend.name;
    let remedy = format!(
        "see the reasons with `extender-gateway explain pod/NAME -n NAMESPACE`, and correct its rules; `extender-gateway backend {name} \
         shadow --for 30m --reason TEXT` keeps it running without effect"
    );
    Some(warning("backend-rejects-too-many-nodes", &format!("backend {name}"), what, remedy))
}

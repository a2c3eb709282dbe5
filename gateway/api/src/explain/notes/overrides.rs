//! Notes about backends that an override has taken out: calls have no trace of them.

use extender_gateway_object::text::moment;

use crate::explain::evidence::Evidence;
use crate::{OverrideStatus, Status};

/// Adds the overrides because of which a backend was not called in the latest attempt.
pub(super) fn note(evidence: &Evidence, notes: &mut Vec<String>) {
    let Some(attempt) = evidence.latest() else { return };
    let took_part = |status: &&Status| attempt.calls.iter().any(|call| call.gateway == status.gateway);
    let overrides = evidence.statuses.iter().filter(took_part).flat_map(|status| &status.overrides);
    let mut disabled: Vec<_> =
        overrides.filter(|it| it.mode == "Disabled" && it.since <= attempt.time).collect();
    // Each replica has its own, with its own clock.
    disabled.sort_by_key(|it| (&it.backend, &it.reason, it.since));
    disabled.dedup_by_key(|it| (&it.backend, &it.reason));
    notes.extend(disabled.into_iter().map(sentence));
}

fn sentence(OverrideStatus { backend, since, ends, reason, .. }: &OverrideStatus) -> String {
    let subject = match backend {
        Some(name) => format!("Backend {name} is"),
        None => "Backends without an override of their own are".to_owned(),
    };
    format!(
        "{subject} not called from {} to {}, because of an override of the mode: {reason}.",
        moment(*since),
        moment(*ends)
    )
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use serde_json::json;

    use super::*;
    use crate::LogState;
    use crate::explain::samples::{at, case, filter, pod};

    fn status(gateway: &str, (backend, mode, since): (Option<&str>, &str, Timestamp)) -> Status {
        let (reason, ends) = ("incident", at(900));
        let status = json!({
            "apiVersion": "v", "kind": "Status", "gateway": gateway, "version": "1", "started": at(0), "ready": true,
            "configuration": {"file": "f", "generation": 1, "loaded": at(0)},
            "verbs": [], "nodes": {"source": "Watch", "count": 5, "synced": true}, "backends": [],
            "log": LogState::default(), "problems": [],
            "overrides": [{"backend": backend, "mode": mode, "since": since, "ends": ends, "reason": reason}],
        });
        serde_json::from_value(status).unwrap()
    }

    /// The notes about a pod that was decided at 500 s.
    fn notes(overridden: (Option<&str>, &str, Timestamp)) -> Vec<String> {
        let mut evidence = case(pod(Some("a")), vec![filter(500, &[("a", None)])]);
        let [first, mut second] = [(); 2].map(|()| evidence.attempts[0].calls[0].clone());
        second.gateway = "gateway-1".to_owned();
        evidence.attempts[0].calls = vec![first, second];
        let (backend, mode, since) = overridden;
        let later = (backend, mode, since + SignedDuration::from_millis(-900));
        let other = (Some("other"), mode, since);
        evidence.statuses =
            vec![status("gateway-0", overridden), status("gateway-1", later), status("gateway-2", other)];
        let mut notes = Vec::new();
        note(&evidence, &mut notes);
        notes
    }

    #[test]
    fn a_backend_that_was_not_called_is_named_with_the_reason() {
        let times = "not called from 2026-11-21 23:08:19 UTC to 2026-11-21 23:15:00 UTC, because of an override of the mode: incident.";
        assert_eq!(notes((Some("zones"), "Disabled", at(500))), [format!("Backend zones is {times}")]);
        let all = format!("Backends without an override of their own are {times}");
        assert_eq!(notes((None, "Disabled", at(500))), [all]);
        assert_eq!(notes((Some("zones"), "Disabled", at(502))), [""; 0], "it was set later");
        assert_eq!(notes((Some("zones"), "Shadow", at(400))), [""; 0], "the calls have it");
    }
}

//! The status of backends.

use std::{sync::Arc, time::Duration};

use extender_gateway_core::{BackendFailure, Verb};

use crate::{
    api::{BackendStatus, BackendVerb, Handshake},
    backend::{info::Info, session::Session},
    config::{self, Choice, Mode},
    door::Served,
    observe::Observer,
};

/// All configured backends, with those that are called first, in effective order.
pub(super) fn all(served: &Served, observer: &Observer) -> Vec<BackendStatus> {
    let asked = served.decider.sessions().map(|(settings, link)| one(settings, Some(link), observer));
    let disabled = served.config.backends.iter().filter(|backend| backend.mode == Mode::Disabled);
    asked.chain(disabled.map(|settings| one(settings, None, observer))).collect()
}

fn one(
    settings: &config::BackendSettings,
    link: Option<Result<Arc<Session>, BackendFailure>>,
    observer: &Observer,
) -> BackendStatus {
    let (link, failure) = match link {
        Some(Ok(link)) => (Some(link), None),
        Some(Err(failure)) => (None, Some(failure.detail)),
        None => (None, None),
    };
    let info = link.as_ref().map(|link| &link.info);
    BackendStatus {
        name: settings.name.to_string(),
        url: settings.url.to_string(),
        mode: settings.mode.word().to_owned(),
        connected: link.is_some(),
        failure,
        handshake: info.map(|info| Handshake {
            name: info.name.clone(),
            version: info.version.clone(),
            revision: info.revision.clone(),
            holds_nodes: info.keeps_tables,
        }),
        verbs: settings.verbs().map(|verb| of_verb(settings, verb, (info, observer))).collect(),
    }
}

fn of_verb(
    settings: &config::BackendSettings,
    verb: Verb,
    (info, observer): (Option<&Info>, &Observer),
) -> BackendVerb {
    let of = observer.metrics.backend(settings.name.as_str(), verb);
    let lately = of.lately();
    let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
    BackendVerb {
        verb: verb.backend_name().to_owned(),
        unsuitable: info.and_then(|info| info.refusal(verb)).map(|failure| failure.detail.clone()),
        calls: of.calls(),
        failures: of.failures(),
        failed_lately: lately.map_or(0, |lately| lately.failed),
        lately: lately.map_or(0, |lately| lately.calls),
        median_seconds: seconds(lately.and_then(|lately| lately.median)),
        p99_seconds: seconds(lately.and_then(|lately| lately.p99)),
        rejected_share: of.latest_rejected_share(),
        last_failure: observer.failures.of(settings.name.as_str(), verb),
    }
}

//! `/debug/overrides`: shows and changes the modes that replace those of the configuration for a while.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{FromRequestParts, State, rejection::JsonRejection},
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
    routing::{MethodRouter, get},
};
use extender_gateway_api::{API_VERSION, OverrideAction, OverrideList, OverrideRequest, OverrideStatus};
use extender_gateway_core::reason::one_line;
use extender_gateway_decide::overrides::{Override, OverrideCause, OverrideTarget, Overrides};
use extender_gateway_door::{PageCaller, Served};
use extender_gateway_settings::{Choice, Config, Mode, parse_long_duration};

use super::{AdminState, STARTING, error_response};

use crate::authorization::AuthorizedUser;

/// The longest override. A mode for longer belongs in the configuration.
const LONGEST: Duration = Duration::from_hours(24);
/// The longest reason in bytes.
const LONGEST_REASON: usize = 200;
/// The longest name of an author in bytes.
const LONGEST_AUTHOR: usize = 300;

/// Shows and changes the overrides.
pub(super) fn route() -> MethodRouter<Arc<AdminState>> {
    get(show).post(change)
}

async fn show(State(admin): State<Arc<AdminState>>) -> Response {
    match admin.gateway_status.served() {
        Some(served) => Json(list(&admin, served.decider.overrides())).into_response(),
        None => starting(),
    }
}

async fn change(
    State(admin): State<Arc<AdminState>>,
    author: Author,
    request: Result<Json<OverrideRequest>, JsonRejection>,
) -> Response {
    let Json(request) = match request {
        Ok(request) => request,
        Err(wrong) => return error_response(wrong.status(), &wrong.body_text()),
    };
    let Some(served) = admin.gateway_status.served() else { return starting() };
    match apply(&request, &author.0, &served) {
        Ok(()) => Json(list(&admin, served.decider.overrides())).into_response(),
        Err(wrong) => error_response(StatusCode::UNPROCESSABLE_ENTITY, &wrong),
    }
}

/// Who sends a request, as far as the address knows.
struct Author(String);

impl<S: Sync> FromRequestParts<S> for Author {
    type Rejection = Infallible;

    async fn from_request_parts(request: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let caller = request.extensions.get::<PageCaller>();
        let user = request.extensions.get::<AuthorizedUser>().map(|AuthorizedUser(user)| Arc::clone(user));
        let user = user.or_else(|| caller?.certificate.clone());
        let address =
            caller.map_or_else(|| "an unknown address".to_owned(), |it| it.address.ip().to_string());
        let text = user.map_or_else(|| address.clone(), |user| format!("{user} at {address}"));
        Ok(Self(one_line(&text, LONGEST_AUTHOR)))
    }
}

fn starting() -> Response {
    error_response(StatusCode::SERVICE_UNAVAILABLE, STARTING)
}

/// Does what is requested, or returns why not.
fn apply(request: &OverrideRequest, author: &str, served: &Served) -> Result<(), String> {
    let target = target(request, &served.config)?;
    let overrides = served.decider.overrides();
    let Some(mode) = mode(request.action) else {
        if request.time.is_some() {
            return Err("reset takes no time: it ends the override now".to_owned());
        }
        // Also if there is nothing to end: a replica may have restarted meanwhile.
        overrides.reset(&target, author);
        return Ok(());
    };
    if mode == Mode::Enforce && target == OverrideTarget::All {
        return Err("enforce needs the name of a backend".to_owned());
    }
    let (time, reason) = (time(request)?, reason(request)?);
    overrides.set(target, mode, time, OverrideCause { reason: &reason, by: author });
    Ok(())
}

fn mode(action: OverrideAction) -> Option<Mode> {
    match action {
        OverrideAction::Shadow => Some(Mode::Shadow),
        OverrideAction::Disable => Some(Mode::Disabled),
        OverrideAction::Enforce => Some(Mode::Enforce),
        OverrideAction::Reset => None,
    }
}

fn target(request: &OverrideRequest, config: &Config) -> Result<OverrideTarget, String> {
    let name = match (&request.backend, request.all) {
        (None, true) => return Ok(OverrideTarget::All),
        (Some(name), false) => name,
        _ => return Err("expected either the name of a backend or all".to_owned()),
    };
    let Some(found) = config.backends.iter().find(|backend| backend.name.as_str() == *name) else {
        let names: Vec<_> = config.backends.iter().map(|backend| backend.name.as_str()).collect();
        let name = one_line(name, LONGEST_REASON);
        return Err(format!("there is no backend {name:?}; the configuration has {}", names.join(", ")));
    };
    if found.mode == Mode::Disabled && request.action != OverrideAction::Reset {
        return Err(format!(
            "backend {name} has mode: Disabled in the configuration, so there is no connection to it; change its mode there"
        ));
    }
    Ok(OverrideTarget::Backend(name.clone()))
}

fn time(request: &OverrideRequest) -> Result<Duration, String> {
    let text = request.time.as_deref().ok_or("the time is missing; expected a duration such as 30m")?;
    parse_long_duration(text, LONGEST).map_err(|wrong| {
        format!("{wrong}; expected a duration from 1ms to 24h such as 30m. A mode for longer belongs in the configuration")
    })
}

fn reason(request: &OverrideRequest) -> Result<String, String> {
    let reason = one_line(request.reason.as_deref().unwrap_or_default(), LONGEST_REASON);
    if reason.is_empty() { Err("the reason is missing".to_owned()) } else { Ok(reason) }
}

fn list(admin: &AdminState, overrides: &Overrides) -> OverrideList {
    OverrideList {
        api_version: API_VERSION.to_owned(),
        kind: "OverrideList".to_owned(),
        gateway: admin.gateway_status.gateway().to_owned(),
        log: admin.observer.decisions.state(),
        untried: admin.gateway_status.refresh_untried(&admin.observer),
        items: overrides.all().into_iter().map(override_status).collect(),
    }
}

/// An override as it is served.
pub(crate) fn override_status(it: Override) -> OverrideStatus {
    let backend = match it.target {
        OverrideTarget::All => None,
        OverrideTarget::Backend(name) => Some(name),
    };
    let mode = it.mode.word().to_owned();
    OverrideStatus { backend, mode, since: it.since, ends: it.ends, reason: it.reason, by: it.by }
}

//! `/debug/flags/s`, `/f` and `/v`: switches that need no restart. The first two have the names of those in
//! Koordinator's scheduler (`frameworkext/services`), the third that of Kubernetes components.

use std::{
    fmt::Display,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use axum::{
    extract::{State, rejection::StringRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{MethodRouter, get},
};
use extender_gateway_observe::{
    debug::{DebugTables, MAX_ROWS},
    log,
};

use crate::{AdminState, error_response};

type Route = MethodRouter<Arc<AdminState>>;
/// The body of a flag; an error if it is too large or not text.
type FlagBody = Result<String, StringRejection>;

/// The number of best nodes of each call that are logged.
pub(super) fn scores() -> Route {
    rows("debugTopNScores", "", |debug| &debug.scores)
}

/// The number of rejected nodes of each call that are logged. Koordinator's flag is a boolean.
pub(super) fn rejections() -> Route {
    rows("debugFilterFailure", ", or true or false", |debug| &debug.rejections)
}

/// The log level.
pub(super) fn verbosity() -> Route {
    let show = async || text(&log::level());
    let set = async |body: FlagBody| match body.map(|level| log::set_level(&level)) {
        Ok(Ok(level)) => text(&format!("successfully set log level to {level}")),
        Ok(Err(wrong)) => error_response(StatusCode::BAD_REQUEST, &wrong),
        Err(wrong) => error_response(wrong.status(), &wrong.body_text()),
    };
    get(show).post(set).put(set)
}

/// A number of rows. `booleans`: what the error message says about `true` and `false`; empty if they are errors.
fn rows(name: &'static str, booleans: &'static str, flag: fn(&DebugTables) -> &AtomicU32) -> Route {
    let show = move |State(admin): State<Arc<AdminState>>| async move {
        text(&flag(&admin.observer.debug).load(Ordering::Relaxed))
    };
    let set = move |State(admin): State<Arc<AdminState>>, body: FlagBody| async move {
        let body = match body {
            Ok(body) => body,
            Err(wrong) => return error_response(wrong.status(), &wrong.body_text()),
        };
        let value = body.trim();
        let rows = match value {
            "true" if !booleans.is_empty() => Some(MAX_ROWS),
            "false" if !booleans.is_empty() => Some(0),
            _ => value.parse().ok().filter(|rows| *rows <= MAX_ROWS),
        };
        let Some(rows) = rows else {
            let expected = format!("expected a number of rows from 0 (off) to {MAX_ROWS}{booleans}");
            let message = format!("failed to set {name} to {value:?}; {expected}");
            return error_response(StatusCode::BAD_REQUEST, &message);
        };
        flag(&admin.observer.debug).store(rows, Ordering::Relaxed);
        text(&format!("successfully set {name} to {value}"))
    };
    get(show).post(set).put(set)
}

fn text(value: &dyn Display) -> Response {
    format!("{value}\n").into_response()
}

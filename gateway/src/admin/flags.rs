//! `/debug/flags/s`, `/f` and `/v`: switches that need no restart. The first two have the names of those in
//! Koordinator's scheduler (`frameworkext/services`), the third that of Kubernetes components.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use axum::{
    extract::{State, rejection::StringRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{MethodRouter, get},
};

use crate::{
    admin::{AdminState, refused},
    observe::{debug::MOST, log},
};

/// Koordinator's name for the table of rejected nodes.
const REJECTIONS: &str = "debugFilterFailure";

type Route = MethodRouter<Arc<AdminState>>;
/// The body of a flag; an error if it is too large or not text.
type FlagBody = Result<String, StringRejection>;

/// The number of best nodes of each call that are logged.
pub(super) fn scores() -> Route {
    let now = async |State(admin): State<Arc<AdminState>>| {
        said(&admin.observer.debug.scores.load(Ordering::Relaxed))
    };
    let set = async |State(admin): State<Arc<AdminState>>, body: FlagBody| {
        set(&admin.observer.debug.scores, ("debugTopNScores", number), body)
    };
    get(now).post(set).put(set)
}

/// The number of rejected nodes of each call that are logged.
pub(super) fn rejections() -> Route {
    let now = async |State(admin): State<Arc<AdminState>>| {
        said(&admin.observer.debug.rejections.load(Ordering::Relaxed))
    };
    let set = async |State(admin): State<Arc<AdminState>>, body: FlagBody| {
        set(&admin.observer.debug.rejections, (REJECTIONS, number_or_word), body)
    };
    get(now).post(set).put(set)
}

/// The log level.
pub(super) fn verbosity() -> Route {
    let now = async || said(&log::level());
    let set = async |body: FlagBody| match body.map(|level| log::set_level(&level)) {
        Ok(Ok(level)) => said(&format!("successfully set log level to {level}")),
        Ok(Err(wrong)) => refused(StatusCode::BAD_REQUEST, &wrong),
        Err(wrong) => refused(wrong.status(), &wrong.body_text()),
    };
    get(now).post(set).put(set)
}

fn set(switch: &AtomicU32, (name, rows): (&str, fn(&str) -> Option<u32>), body: FlagBody) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(wrong) => return refused(wrong.status(), &wrong.body_text()),
    };
    let wanted = body.trim();
    let Some(rows) = rows(wanted) else {
        let words = if name == REJECTIONS { ", or true or false" } else { "" };
        let rows = format!("expected a number of rows from 0 (off) to {MOST}{words}");
        return refused(StatusCode::BAD_REQUEST, &format!("failed to set {name} to {wanted:?}; {rows}"));
    };
    switch.store(rows, Ordering::Relaxed);
    said(&format!("successfully set {name} to {wanted}"))
}

fn number(body: &str) -> Option<u32> {
    body.parse().ok().filter(|rows| *rows <= MOST)
}

/// A number, or Koordinator's `true` or `false` for rejections.
fn number_or_word(body: &str) -> Option<u32> {
    match body {
        "true" => Some(MOST),
        "false" => Some(0),
        _ => number(body),
    }
}

fn said(what: &dyn std::fmt::Display) -> Response {
    format!("{what}\n").into_response()
}

//! `/debug/flags/s`, `/f` and `/v`: switches that need no restart. The first two are called as those of Koordinator's
//! scheduler (`frameworkext/services`), the third as that of Kubernetes' components.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{MethodRouter, get},
};

use super::Admin;
use crate::observe::{debug::MOST, log};

type Route = MethodRouter<Arc<Admin>>;

/// How many of the best nodes of each call go to the log.
pub(super) fn scores() -> Route {
    let now =
        async |State(admin): State<Arc<Admin>>| said(&admin.observer.debug.scores.load(Ordering::Relaxed));
    let set = async |State(admin): State<Arc<Admin>>, body: String| {
        set(&admin.observer.debug.scores, ("debugTopNScores", number(&body)), &body)
    };
    get(now).post(set).put(set)
}

/// How many rejected nodes of each call go to the log.
pub(super) fn rejections() -> Route {
    let now = async |State(admin): State<Arc<Admin>>| {
        said(&admin.observer.debug.rejections.load(Ordering::Relaxed))
    };
    let set = async |State(admin): State<Arc<Admin>>, body: String| {
        set(&admin.observer.debug.rejections, ("debugFilterFailure", number_or_word(&body)), &body)
    };
    get(now).post(set).put(set)
}

/// Which lines go to the log.
pub(super) fn verbosity() -> Route {
    let now = async || said(&log::level());
    let set = async |body: String| match log::set_level(&body) {
        Ok(level) => said(&format!("successfully set log level to {level}")),
        Err(wrong) => wrong_value(&wrong),
    };
    get(now).post(set).put(set)
}

fn set(switch: &AtomicU32, (name, rows): (&str, Option<u32>), body: &str) -> Response {
    match rows {
        Some(rows) => {
            switch.store(rows, Ordering::Relaxed);
            said(&format!("successfully set {name} to {}", body.trim()))
        }
        None => wrong_value(&format!(
            "failed to set {name} to {:?}; a number of rows from 0 to {MOST}, 0 for no table",
            body.trim()
        )),
    }
}

fn number(body: &str) -> Option<u32> {
    body.trim().parse().ok().filter(|rows| *rows <= MOST)
}

/// Koordinator's switch for rejections is on or off.
fn number_or_word(body: &str) -> Option<u32> {
    match body.trim() {
        "true" => Some(MOST),
        "false" => Some(0),
        _ => number(body),
    }
}

fn said(what: &dyn std::fmt::Display) -> Response {
    format!("{what}\n").into_response()
}

fn wrong_value(why: &str) -> Response {
    (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response()
}

//! `GET /debug/pods` and `GET /debug/history`: overviews of the decision log.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{
    Json,
    extract::{Query as Parameters, State, rejection::QueryRejection},
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Deserialize;

use crate::{AdminState, error_response};

/// The default number of pods, and the most.
const DEFAULT_PODS: usize = 50;
const MAX_PODS: usize = 1_000;
/// The default period of a history, the shortest and the longest, in seconds.
const DEFAULT_SECONDS: u64 = 3_600;
const LEAST_SECONDS: u64 = 60;
const MOST_SECONDS: u64 = 30 * 86_400;

/// The parameters of `/debug/pods`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PodQuery {
    /// A part of `NAMESPACE/NAME`.
    #[serde(default)]
    search: String,
    limit: Option<usize>,
}

/// The parameters of `/debug/history`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HistoryQuery {
    /// The period that ends now.
    seconds: Option<u64>,
}

/// The pods in the log.
pub(super) async fn pods(
    State(admin): State<Arc<AdminState>>,
    query: Result<Parameters<PodQuery>, QueryRejection>,
) -> Response {
    admin.from_log(query, pod_list).await
}

fn pod_list(admin: &AdminState, query: &PodQuery) -> Response {
    let limit = query.limit.unwrap_or(DEFAULT_PODS).min(MAX_PODS);
    Json(admin.list("PodList", admin.observer.decisions.pods(&query.search, limit))).into_response()
}

/// The answers of each backend over time.
pub(super) async fn history(
    State(admin): State<Arc<AdminState>>,
    query: Result<Parameters<HistoryQuery>, QueryRejection>,
) -> Response {
    admin.from_log(query, log_history).await
}

fn log_history(admin: &AdminState, query: &HistoryQuery) -> Response {
    let seconds = query.seconds.unwrap_or(DEFAULT_SECONDS);
    if !(LEAST_SECONDS..=MOST_SECONDS).contains(&seconds) {
        let why = format!("seconds must be a number from {LEAST_SECONDS} to {MOST_SECONDS}");
        return error_response(StatusCode::BAD_REQUEST, &why);
    }
    let (gateway, period) = (admin.gateway_status.gateway(), Duration::from_secs(seconds));
    let history = admin.observer.decisions.history(gateway, period, SystemTime::now());
    Json(history).into_response()
}

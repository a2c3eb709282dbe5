//! The admin address: past decisions, the gateway's state, and debug switches.

mod flags;
pub mod status;

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Body,
    extract::{Query as Parameters, Request, State, rejection::QueryRejection},
    http::{Method, StatusCode, Uri, header::ORIGIN},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::{sync::Mutex, task::spawn_blocking};

use crate::{
    admin::status::GatewayStatus,
    api::{API_VERSION, DecisionList},
    door::HeldBody,
    observe::{Observer, Query},
};

/// The data behind the admin address.
#[derive(Debug)]
pub struct AdminState {
    /// Past calls.
    pub observer: Arc<Observer>,
    /// The gateway's state.
    pub gateway_status: Arc<GatewayStatus>,
    /// Allows one long response at a time: each may take some ten megabytes until it is sent.
    turn: Arc<Mutex<()>>,
}

impl AdminState {
    /// Shows this data.
    pub fn new(observer: Arc<Observer>, gateway_status: Arc<GatewayStatus>) -> Self {
        Self { observer, gateway_status, turn: Arc::default() }
    }
}

/// The routes of the admin address.
pub fn routes(admin: Arc<AdminState>) -> Router {
    Router::new()
        .route("/debug/decisions", get(decisions))
        .route("/debug/status", get(status))
        .route("/debug/flags/s", flags::scores())
        .route("/debug/flags/f", flags::rejections())
        .route("/debug/flags/v", flags::verbosity())
        .fallback(nothing)
        .method_not_allowed_fallback(not_served)
        .layer(middleware::from_fn(from_no_page))
        .with_state(admin)
}

/// Rejects requests that a browser sends on behalf of a web page: a port forwarded to a workstation must not be
/// accessible to pages from the web.
async fn from_no_page(request: Request, next: Next) -> Response {
    if request.headers().contains_key(ORIGIN) {
        return refused(StatusCode::FORBIDDEN, "requests with an Origin header are rejected");
    }
    next.run(request).await
}

async fn decisions(
    State(admin): State<Arc<AdminState>>,
    query: Result<Parameters<Query>, QueryRejection>,
) -> Response {
    let Parameters(query) = match query {
        Ok(query) => query,
        Err(wrong) => return refused(StatusCode::BAD_REQUEST, &wrong.body_text()),
    };
    let turn = Arc::clone(&admin.turn).lock_owned().await;
    let shown = Arc::clone(&admin);
    let found = spawn_blocking(move || {
        let (items, truncated) = shown.observer.decisions.find(&query);
        let list = DecisionList {
            api_version: API_VERSION.to_owned(),
            kind: "DecisionList".to_owned(),
            gateway: shown.gateway_status.gateway().to_owned(),
            log: shown.observer.decisions.state(),
            truncated,
            items,
        };
        // Held until the query is done, also if the caller has disconnected, and until the response is sent.
        Json(list).into_response().map(|body| Body::new(HeldBody::new(body, turn)))
    });
    found.await.unwrap_or_else(|_| refused(StatusCode::INTERNAL_SERVER_ERROR, "cannot read the decision log"))
}

async fn status(State(admin): State<Arc<AdminState>>) -> Response {
    match admin.gateway_status.status(&admin.observer) {
        Some(status) => Json(status).into_response(),
        None => refused(
            StatusCode::SERVICE_UNAVAILABLE,
            "the gateway is starting: waiting for nodes, pods or backends",
        ),
    }
}

async fn nothing(uri: Uri) -> Response {
    let text = format!(
        "no such path {}; available: GET /debug/decisions, GET /debug/status, and GET, POST and PUT /debug/flags/s, \
         /debug/flags/f and /debug/flags/v",
        uri.path()
    );
    refused(StatusCode::NOT_FOUND, &text)
}

async fn not_served(method: Method, uri: Uri) -> Response {
    refused(StatusCode::METHOD_NOT_ALLOWED, &format!("method {method} not allowed at {}", uri.path()))
}

/// The form of every error at this address.
fn refused(status: StatusCode, why: &str) -> Response {
    (status, Json(serde_json::json!({ "error": why }))).into_response()
}

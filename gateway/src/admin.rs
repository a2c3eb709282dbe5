//! The admin address: past decisions, the gateway's state, debug switches, and a page that shows them.

mod explain;
mod flags;
mod host;
mod introspection;
mod overrides;
mod overview;
mod page;
pub mod status;

use std::{collections::BTreeSet, sync::Arc};

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

/// The header in which a browser says whose page a request is of.
const FETCH_SITE: &str = "sec-fetch-site";

/// The error before calls are accepted.
const STARTING: &str = "the gateway is starting: waiting for nodes, pods or backends";

/// The data behind the admin address.
#[derive(Debug)]
pub struct AdminState {
    /// Past calls.
    pub observer: Arc<Observer>,
    /// The gateway's state.
    pub gateway_status: Arc<GatewayStatus>,
    /// Host names that requests may have, besides private ones.
    hosts: BTreeSet<String>,
    /// Allows one long response at a time: each may take some ten megabytes until it is sent.
    turn: Arc<Mutex<()>>,
}

impl AdminState {
    /// The state for [`routes()`].
    pub fn new(observer: Arc<Observer>, gateway_status: Arc<GatewayStatus>, hosts: BTreeSet<String>) -> Self {
        Self { observer, gateway_status, hosts, turn: Arc::default() }
    }

    /// A response from the decision log to these parameters, one at a time and on a thread of its own.
    async fn from_log<Q: Send + 'static>(
        self: Arc<Self>,
        query: Result<Parameters<Q>, QueryRejection>,
        respond: impl FnOnce(&Self, &Q) -> Response + Send + 'static,
    ) -> Response {
        let Parameters(query) = match query {
            Ok(query) => query,
            Err(wrong) => return error_response(StatusCode::BAD_REQUEST, &wrong.body_text()),
        };
        let turn = Arc::clone(&self.turn).lock_owned().await;
        // The turn is held until the query is done, also if the caller has disconnected, and until the response is
        // sent.
        let respond = move || respond(&self, &query).map(|body| Body::new(HeldBody::new(body, turn)));
        spawn_blocking(respond).await.unwrap_or_else(|_| {
            error_response(StatusCode::INTERNAL_SERVER_ERROR, "cannot read the decision log")
        })
    }

    /// The calls that match a query.
    fn decisions(&self, query: &Query) -> DecisionList {
        let (items, truncated) = self.observer.decisions.find(query);
        DecisionList {
            api_version: API_VERSION.to_owned(),
            kind: "DecisionList".to_owned(),
            gateway: self.gateway_status.gateway().to_owned(),
            log: self.observer.decisions.state(),
            truncated,
            items,
        }
    }
}

/// The routes of the admin address, protected by its authorization. Requests that other web pages cause are rejected before
/// that: a browser may send credentials with them, or would ask for a password.
pub fn routes(admin: Arc<AdminState>, protect: impl FnOnce(Router) -> Router) -> Router {
    let routes = Router::new()
        .route("/", get(page::show))
        .route("/debug/decisions", get(decisions))
        .route("/debug/explain", get(explain::explain))
        .route("/debug/pods", get(overview::pods))
        .route("/debug/history", get(overview::history))
        .route("/debug/status", get(status))
        .route("/debug/overrides", overrides::route())
        .route("/debug/flags/s", flags::scores())
        .route("/debug/flags/f", flags::rejections())
        .route("/debug/flags/v", flags::verbosity())
        .nest(introspection::BASE, introspection::routes())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(Arc::clone(&admin));
    protect(routes).layer(middleware::from_fn_with_state(admin, reject_browsers))
}

/// Rejects requests that a browser sends on behalf of a web page: a port forwarded to a workstation must not be
/// accessible to pages from the web.
async fn reject_browsers(State(admin): State<Arc<AdminState>>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    if headers.contains_key(ORIGIN) {
        return error_response(StatusCode::FORBIDDEN, "requests with an Origin header are rejected");
    }
    if headers.get(FETCH_SITE).is_some_and(|site| site != "same-origin" && site != "none") {
        return error_response(StatusCode::FORBIDDEN, "requests of other web pages are rejected");
    }
    if !host::is_allowed(request.uri(), headers, &admin.hosts) {
        let text = "requests with this Host are rejected: use an IP address or localhost, or add the name to admin.hosts";
        return error_response(StatusCode::FORBIDDEN, text);
    }
    next.run(request).await
}

async fn decisions(
    State(admin): State<Arc<AdminState>>,
    query: Result<Parameters<Query>, QueryRejection>,
) -> Response {
    admin.from_log(query, |admin, query| Json(admin.decisions(query)).into_response()).await
}

async fn status(State(admin): State<Arc<AdminState>>) -> Response {
    match admin.gateway_status.status(&admin.observer) {
        Some(status) => Json(status).into_response(),
        None => error_response(StatusCode::SERVICE_UNAVAILABLE, STARTING),
    }
}

async fn not_found(uri: Uri) -> Response {
    let text = format!(
        "no such path {}; available: GET / (a page for browsers), GET /debug/decisions, /debug/explain, /debug/history, \
         /debug/pods, /debug/status and /apis/v1/__services__, GET and POST /debug/overrides, and GET, POST and PUT /debug/flags/s, /debug/flags/f and /debug/flags/v",
        uri.path()
    );
    error_response(StatusCode::NOT_FOUND, &text)
}

async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    error_response(StatusCode::METHOD_NOT_ALLOWED, &format!("method {method} not allowed at {}", uri.path()))
}

/// The format of all errors at this address.
fn error_response(status: StatusCode, why: &str) -> Response {
    (status, Json(serde_json::json!({ "error": why }))).into_response()
}

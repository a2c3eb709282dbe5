//! The admin address: past decisions, the gateway's state, debug switches, and a page that shows them.

pub mod authorization;
mod explain;
mod flags;
mod host;
mod introspection;
mod overrides;
mod overview;
mod page;
pub mod status;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::Body,
    extract::{Query as Parameters, Request, State, rejection::QueryRejection},
    http::{
        HeaderValue, Method, StatusCode, Uri,
        header::{CACHE_CONTROL, ORIGIN, X_CONTENT_TYPE_OPTIONS},
    },
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use extender_gateway_api::{API_VERSION, DecisionList, LogList};
use extender_gateway_door::HeldBody;
use extender_gateway_observe::{Observer, Query};
use hyper::body::Body as _;
use tokio::{
    sync::{Mutex, Semaphore},
    task::spawn_blocking,
    time::timeout,
};

use crate::status::GatewayStatus;

/// The header in which a browser says whose page a request is of.
const FETCH_SITE: &str = "sec-fetch-site";

/// The error before calls are accepted.
const STARTING: &str = "the gateway is starting: waiting for nodes, pods or backends";

/// How long a request waits for its turn; it is answered within 30 seconds.
const LONGEST_TURN: Duration = Duration::from_secs(10);

/// The most that responses from the decision log take together until they are sent, and up to which size one is not counted,
/// in KiB.
const MOST_UNSENT: u32 = 64 << 10;
const UNCOUNTED: u64 = 256;

/// The data behind the admin address.
#[derive(Debug)]
pub struct AdminState {
    /// Past calls.
    pub observer: Arc<Observer>,
    /// The gateway's state.
    pub gateway_status: Arc<GatewayStatus>,
    /// Host names that requests may have, besides private ones.
    hosts: BTreeSet<String>,
    /// Allows one query of the decision log at a time: each response may have some ten megabytes.
    turn: Arc<Mutex<()>>,
    /// A permit for each KiB of responses from the decision log that are not sent yet.
    unsent: Arc<Semaphore>,
}

impl AdminState {
    /// The state for [`routes()`].
    pub fn new(observer: Arc<Observer>, gateway_status: Arc<GatewayStatus>, hosts: BTreeSet<String>) -> Self {
        let unsent = Arc::new(Semaphore::new(MOST_UNSENT as usize));
        Self { observer, gateway_status, hosts, turn: Arc::default(), unsent }
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
        let Ok(turn) = timeout(LONGEST_TURN, Arc::clone(&self.turn).lock_owned()).await else {
            return busy("another query of the decision log is still in progress");
        };
        let respond = move || {
            // The turn is held until the query is done, also if the caller has disconnected.
            let _turn = turn;
            self.until_sent(respond(&self, &query))
        };
        spawn_blocking(respond).await.unwrap_or_else(|_| {
            error_response(StatusCode::INTERNAL_SERVER_ERROR, "cannot read the decision log")
        })
    }

    /// Counts a response until it is sent: a caller may take two minutes for that, and must keep no other from a response of its
    /// own.
    fn until_sent(&self, response: Response) -> Response {
        let size = response.body().size_hint().upper().unwrap_or(u64::MAX) >> 10;
        if size <= UNCOUNTED {
            return response;
        }
        // One caller never takes all of it.
        let counted = u32::try_from(size).unwrap_or(u32::MAX).min(MOST_UNSENT / 2);
        match Arc::clone(&self.unsent).try_acquire_many_owned(counted) {
            Ok(permits) => response.map(|body| Body::new(HeldBody::new(body, permits))),
            Err(_) => busy("callers have not read earlier responses yet; ask for fewer decisions"),
        }
    }

    /// The calls that match a query.
    fn decisions(&self, query: &Query) -> DecisionList {
        self.list("DecisionList", self.observer.decisions.find(query))
    }

    /// A list from the decision log, and whether there is more.
    fn list<T>(&self, kind: &str, found: (Vec<T>, bool)) -> LogList<T> {
        let (items, truncated) = found;
        LogList {
            api_version: API_VERSION.to_owned(),
            kind: kind.to_owned(),
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
    let routes = protect(routes).layer(middleware::from_fn_with_state(admin, reject_browsers));
    routes.layer(middleware::map_response(async |response| private(response)))
}

/// The response for nobody else, and as what it says it is: reasons are texts of backends, and may be those of a web page.
fn private(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
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

fn busy(why: &str) -> Response {
    error_response(StatusCode::SERVICE_UNAVAILABLE, &format!("busy: {why}"))
}

/// The format of all errors at this address.
fn error_response(status: StatusCode, why: &str) -> Response {
    (status, Json(serde_json::json!({ "error": why }))).into_response()
}

#[cfg(test)]
mod tests;

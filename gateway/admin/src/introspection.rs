//! `/apis/v1`: what backends are told about a node, and what they show of their state. The paths and the form of errors are
//! those of the services API of Koordinator's scheduler (`pkg/scheduler/frameworkext/services`), so that its users find
//! them.

mod node;
mod plugin;

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json, Router,
    extract::State,
    http::{Method, StatusCode, Uri},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::json;

use super::{AdminState, STARTING};

/// What precedes all paths of this API.
pub(super) const BASE: &str = "/apis/v1";
/// The gateway's own paths, with parameters as Koordinator writes them.
const PATHS: [&str; 2] = ["/apis/v1/__services__", "/apis/v1/nodes/:nodeName"];

/// The routes below [`BASE`].
pub(super) fn routes() -> Router<Arc<AdminState>> {
    Router::new()
        .route("/__services__", get(services))
        .route("/nodes/{node}", get(node::show))
        .route("/plugins/{*path}", get(plugin::show))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
}

/// All paths, by their method.
async fn services(State(admin): State<Arc<AdminState>>) -> Json<BTreeMap<&'static str, Vec<String>>> {
    let shown = admin.gateway_status.served().map(|served| plugin::paths(&served.decider));
    let paths = PATHS.into_iter().map(str::to_owned).chain(shown.unwrap_or_default());
    Json(BTreeMap::from([("GET", paths.collect())]))
}

async fn not_found(uri: Uri) -> Response {
    error(StatusCode::NOT_FOUND, &no_such_path(&format!("{BASE}{}", uri.path())))
}

fn no_such_path(path: &str) -> String {
    format!("no such path {path}; GET {} lists them", PATHS[0])
}

async fn method_not_allowed(method: Method) -> Response {
    error(StatusCode::METHOD_NOT_ALLOWED, &format!("method {method} not allowed, only GET"))
}

/// The form of errors of this API.
fn error(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "message": message }))).into_response()
}

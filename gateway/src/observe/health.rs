//! `/metrics`, `/livez` and `/readyz`.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::{
    Router,
    extract::State,
    http::{
        HeaderMap, StatusCode,
        header::{ACCEPT, CONTENT_TYPE},
    },
    response::IntoResponse,
    routing::get,
};

use super::metrics::{Format, Metrics};

/// Whether the gateway wants calls.
#[derive(Debug, Default)]
pub struct Health {
    ready: AtomicBool,
}

impl Health {
    /// Calls are welcome from now on.
    pub fn ready(&self) {
        self.ready.store(true, Ordering::Relaxed);
    }

    /// Calls should go elsewhere: the gateway is about to stop.
    pub fn stopping(&self) {
        self.ready.store(false, Ordering::Relaxed);
    }

    /// Whether it does.
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }
}

/// The routes of the metrics address.
pub fn routes(metrics: Arc<Metrics>, health: Arc<Health>) -> Router {
    Router::new()
        .route("/metrics", get(text).with_state(metrics))
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz).with_state(health))
}

async fn text(State(metrics): State<Arc<Metrics>>, headers: HeaderMap) -> impl IntoResponse {
    let accept = headers.get_all(ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let format = Format::accepted(&accept.collect::<Vec<_>>().join(","));
    ([(CONTENT_TYPE, format.content_type())], metrics.written(format))
}

async fn readyz(State(health): State<Arc<Health>>) -> impl IntoResponse {
    if health.is_ready() {
        (StatusCode::OK, "ok\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "not ready: the gateway still waits for nodes, pods or backends, or is stopping\n",
        )
    }
}

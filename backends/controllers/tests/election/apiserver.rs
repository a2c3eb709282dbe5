//! An apiserver with one Lease, `shop/quota`.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/shop/leases";

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    None,
    /// No request is answered.
    Hangs,
    /// All requests have this status.
    Refuses(u16),
}

/// One address of the apiserver, with its own faults.
pub(crate) struct Apiserver {
    pub(crate) address: SocketAddr,
    served: Served,
}

#[derive(Clone)]
struct Served {
    lease: Arc<Mutex<Stored>>,
    fault: Arc<Mutex<Fault>>,
}

#[derive(Default)]
struct Stored {
    lease: Option<Value>,
    version: u64,
}

impl Stored {
    fn store(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.lease = Some(lease.clone());
        lease
    }
}

impl Apiserver {
    pub(crate) async fn start() -> Self {
        Self::serving(Arc::default()).await
    }

    /// Another address of the same apiserver.
    pub(crate) async fn without_faults(&self) -> Self {
        Self::serving(Arc::clone(&self.served.lease)).await
    }

    async fn serving(lease: Arc<Mutex<Stored>>) -> Self {
        let served = Served { lease, fault: Arc::new(Mutex::new(Fault::None)) };
        let router = Router::new()
            .route(LEASES, post(create))
            .route(&format!("{LEASES}/quota"), get(read).put(replace))
            .with_state(served.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, served }
    }

    pub(crate) fn fault(&self, fault: Fault) {
        *self.served.fault.lock().unwrap() = fault;
    }

    pub(crate) fn lease(&self) -> Value {
        self.served.lease.lock().unwrap().lease.clone().unwrap()
    }
}

impl Served {
    /// The answer of a faulty apiserver.
    async fn faulty(&self) -> Option<Response> {
        let fault = *self.fault.lock().unwrap();
        match fault {
            Fault::None => None,
            Fault::Hangs => std::future::pending().await,
            Fault::Refuses(code) => Some(status(code, "the apiserver refuses")),
        }
    }
}

fn status(code: u16, message: &str) -> Response {
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": message});
    (StatusCode::from_u16(code).unwrap(), Json(status)).into_response()
}

async fn read(State(served): State<Served>) -> Response {
    if let Some(fault) = served.faulty().await {
        return fault;
    }
    let lease = served.lease.lock().unwrap().lease.clone();
    lease.map_or_else(|| status(404, "leases \"quota\" not found"), |lease| Json(lease).into_response())
}

async fn create(State(served): State<Served>, Json(lease): Json<Value>) -> Response {
    if let Some(fault) = served.faulty().await {
        return fault;
    }
    assert_eq!((&lease["kind"], &lease["metadata"]["name"]), (&json!("Lease"), &json!("quota")));
    let mut stored = served.lease.lock().unwrap();
    if stored.lease.is_some() {
        return status(409, "leases \"quota\" already exists");
    }
    (StatusCode::CREATED, Json(stored.store(lease))).into_response()
}

async fn replace(State(served): State<Served>, Json(lease): Json<Value>) -> Response {
    if let Some(fault) = served.faulty().await {
        return fault;
    }
    let mut stored = served.lease.lock().unwrap();
    let Some(current) = &stored.lease else { return status(404, "leases \"quota\" not found") };
    let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
    assert!(version(&lease).is_string(), "a write without precondition: {lease}");
    if version(current) != version(&lease) {
        return status(409, "the object has been modified");
    }
    Json(stored.store(lease)).into_response()
}

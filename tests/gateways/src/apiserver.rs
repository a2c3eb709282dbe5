//! As much of an apiserver as a gateway needs to bind: pods are read and bound, one at a time.

use std::{
    collections::HashMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// A running apiserver; clones are the same one. Every pod exists, with its name as UID.
#[derive(Clone)]
pub(crate) struct Apiserver {
    address: SocketAddr,
    /// The nodes of the pods that are bound.
    bound: Arc<Mutex<HashMap<String, String>>>,
}

impl Apiserver {
    pub(crate) async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let apiserver = Self { address: listener.local_addr()?, bound: Arc::default() };
        let serving = apiserver.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let apiserver = serving.clone();
                let service = service_fn(move |request| {
                    let apiserver = apiserver.clone();
                    async move { Ok::<_, Infallible>(apiserver.answer(request).await) }
                });
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Ok(apiserver)
    }

    pub(crate) fn kubeconfig(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{}", self.address)}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c", "namespace": "shop"}}],
            "users": [{"name": "c", "user": {}}],
        })
    }

    /// As another client's Binding.
    pub(crate) fn bind(&self, pod: &str, node: &str) {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        bound.insert(pod.to_owned(), node.to_owned());
    }

    /// The node of a pod.
    pub(crate) fn node(&self, pod: &str) -> Option<String> {
        self.bound.lock().unwrap_or_else(PoisonError::into_inner).get(pod).cloned()
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let path = head.uri.path().strip_prefix("/api/v1/namespaces/shop/pods/").unwrap_or_default();
        let pod = path.strip_suffix("/binding").unwrap_or(path);
        let (status, body) = match head.method {
            _ if pod.is_empty() || pod.contains('/') => (404, failure(404, "not found")),
            Method::GET => (200, self.pod(pod)),
            _ if self.node(pod).is_some() => (409, failure(409, "it is bound already")),
            _ => {
                let binding: Value = serde_json::from_slice(&body).unwrap_or_default();
                self.bind(pod, binding["target"]["name"].as_str().unwrap_or_default());
                (201, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
            }
        };
        let response = Response::builder().status(status).header("content-type", "application/json");
        response.body(Full::from(body.to_string())).unwrap_or_default()
    }

    fn pod(&self, name: &str) -> Value {
        let mut pod = crate::scene::pod(name);
        pod["spec"]["nodeName"] = self.node(name).into();
        pod
    }
}

fn failure(code: u16, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message})
}

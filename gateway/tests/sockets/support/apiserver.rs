//! An apiserver with pods and Bindings, which can be told to misbehave.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    fmt::Write as _,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::{net::TcpListener, sync::Semaphore};

/// How it handles a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn {
    /// Correctly.
    Usual,
    /// Answers this status and does nothing.
    Status(u16),
    /// Answers this status with this body and does nothing.
    Answer(u16, &'static str),
    /// Never answers and does nothing.
    Hang,
    /// Closes the connection and does nothing.
    Drop,
    /// Does it and never answers.
    DoAndHang,
    /// Does it and closes the connection.
    DoAndDrop,
}

/// A pod.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) uid: &'static str,
    pub(crate) node: Option<&'static str>,
}

#[derive(Default)]
struct State {
    pods: HashMap<String, Stored>,
    /// For the next reads.
    reads: VecDeque<Turn>,
    /// For the next Bindings.
    binds: VecDeque<Turn>,
    /// `GET web-0` and `POST web-0`, in order.
    log: Vec<String>,
    bindings: Vec<Value>,
}

/// A running apiserver. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Apiserver {
    state: Arc<Mutex<State>>,
    kubeconfig: Arc<NamedTempFile>,
    /// `timeouts.bind` of gateways that use it.
    budget: &'static str,
    /// A permit for each requested Binding.
    asked_to_bind: Arc<Semaphore>,
}

impl Apiserver {
    /// An apiserver with pod `shop/web-0` with UID `u-1`, which is not bound.
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let kubeconfig = Arc::new(kubeconfig(listener.local_addr().unwrap()));
        let asked_to_bind = Arc::new(Semaphore::new(0));
        let apiserver = Self { state: Arc::default(), kubeconfig, budget: "60s", asked_to_bind };
        apiserver.set("web-0", "u-1", None);
        tokio::spawn(serve(listener, apiserver.clone()));
        apiserver
    }

    /// The same one for gateways with this budget for a bind, the last quarter of it for reading: for tests that
    /// have to wait until it is over.
    pub(crate) fn within(&self, budget: &'static str) -> Self {
        Self { budget, ..self.clone() }
    }

    /// The beginning of a configuration: the gateway binds.
    pub(crate) fn configuration(&self, binder: &str) -> String {
        let (kubeconfig, budget) = (self.kubeconfig.path().display(), self.budget);
        format!(
            "nodes: {{source: Request}}\ncluster: {{kubeconfig: {kubeconfig}}}\nbinder: {binder}\n\
             timeouts: {{bind: {budget}}}\n"
        )
    }

    pub(crate) fn set(&self, pod: &str, uid: &'static str, node: Option<&'static str>) {
        self.state().pods.insert(pod.to_owned(), Stored { uid, node });
    }

    pub(crate) fn delete(&self, pod: &str) {
        self.state().pods.remove(pod);
    }

    /// The next reads; after them everything is handled correctly again.
    pub(crate) fn reads(&self, turns: &[Turn]) {
        self.state().reads.extend(turns);
    }

    /// The next Bindings; after them everything is handled correctly again.
    pub(crate) fn binds(&self, turns: &[Turn]) {
        self.state().binds.extend(turns);
    }

    /// Where `web-0` is.
    pub(crate) fn node(&self) -> Option<&'static str> {
        self.state().pods["web-0"].node
    }

    /// The requests so far.
    pub(crate) fn log(&self) -> Vec<String> {
        self.state().log.clone()
    }

    /// The Bindings that it was sent so far.
    pub(crate) fn bindings(&self) -> Vec<Value> {
        self.state().bindings.clone()
    }

    /// Waits until a Binding was requested.
    pub(crate) async fn asked_to_bind(&self) {
        self.asked_to_bind.acquire().await.unwrap().forget();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Closed> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let path = head.uri.path().strip_prefix("/api/v1/namespaces/shop/pods/").unwrap().to_owned();
        let name = path.strip_suffix("/binding").unwrap_or(&path);
        let turn = self.turn(&head.method, name);
        let done = || match head.method {
            Method::GET => self.read(name),
            _ => self.bind(name, &serde_json::from_slice(&body).unwrap()),
        };
        match turn {
            Turn::Usual => return Ok(done()),
            Turn::Status(code) => return Ok(status(code, "told so")),
            Turn::Answer(code, body) => {
                let mut response = Response::new(Full::from(body));
                *response.status_mut() = StatusCode::from_u16(code).unwrap();
                return Ok(response);
            }
            Turn::Hang => {}
            Turn::Drop => return Err(Closed),
            Turn::DoAndHang => drop(done()),
            Turn::DoAndDrop => {
                drop(done());
                return Err(Closed);
            }
        }
        std::future::pending().await
    }

    fn turn(&self, method: &Method, name: &str) -> Turn {
        let mut state = self.state();
        let mut line = String::new();
        write!(line, "{method} {name}").unwrap();
        state.log.push(line);
        let turn = if method == Method::GET {
            state.reads.pop_front()
        } else {
            self.asked_to_bind.add_permits(1);
            state.binds.pop_front()
        };
        turn.unwrap_or(Turn::Usual)
    }

    fn read(&self, name: &str) -> Response<Full<Bytes>> {
        match self.state().pods.get(name) {
            None => status(404, "no such pod"),
            Some(Stored { uid, node }) => {
                let metadata =
                    json!({"name": name, "namespace": "shop", "uid": uid, "labels": {"app": "web"}});
                json_response(200, &json!({"metadata": metadata, "spec": {"nodeName": node}}))
            }
        }
    }

    /// As the apiserver does it: for the pod of this UID, once.
    fn bind(&self, name: &str, binding: &Value) -> Response<Full<Bytes>> {
        let mut state = self.state();
        state.bindings.push(binding.clone());
        let Some(pod) = state.pods.get_mut(name) else { return status(404, "no such pod") };
        if binding["metadata"]["uid"] != pod.uid {
            return status(409, "the UID in the precondition does not match");
        }
        if let Some(node) = pod.node {
            return status(409, &format!("pod {name} is already assigned to node {node}"));
        }
        pod.node = Some(binding["target"]["name"].as_str().unwrap().to_owned().leak());
        json_response(201, &json!({"kind": "Status", "status": "Success"}))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the connection is closed in place of an answer")]
struct Closed;

async fn serve(listener: TcpListener, apiserver: Apiserver) -> Infallible {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let apiserver = apiserver.clone();
        let service = service_fn(move |request| {
            let apiserver = apiserver.clone();
            async move { apiserver.answer(request).await }
        });
        // Returns an error where a test drops the connection.
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

fn status(code: u16, message: &str) -> Response<Full<Bytes>> {
    json_response(code, &json!({"kind": "Status", "status": "Failure", "code": code, "message": message}))
}

fn json_response(code: u16, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

/// A kubeconfig for a cluster at this address, with the namespace `shop`.
pub(crate) fn kubeconfig(address: SocketAddr) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let content = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c", "namespace": "shop"}}],
        "users": [{"name": "c", "user": {}}],
    });
    std::fs::write(file.path(), content.to_string()).unwrap();
    file
}

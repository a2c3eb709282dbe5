//! A server with fixed answers: a gateway's admin address, or an apiserver.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::net::TcpListener;

use crate::support::apiserver::kubeconfig;

/// A running server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

/// Status and body for each path, without its query.
pub(crate) type Answers = BTreeMap<String, (u16, Value)>;

impl Server {
    /// Starts a server that answers these paths, and all others with 404.
    pub(crate) async fn start<const N: usize>(answers: [(&str, (u16, Value)); N]) -> Self {
        let answers = answers.into_iter().map(|(path, answer)| (path.to_owned(), answer)).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self { address: listener.local_addr().unwrap(), asked: Arc::default() };
        tokio::spawn(serve(listener, Arc::new(answers), Arc::clone(&server.asked)));
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Paths and queries so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// A kubeconfig with this server as the apiserver, and the namespace `shop`.
    pub(crate) fn kubeconfig(&self) -> NamedTempFile {
        kubeconfig(self.address)
    }
}

async fn serve(listener: TcpListener, answers: Arc<Answers>, asked: Arc<Mutex<Vec<String>>>) -> Infallible {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (answers, asked) = (Arc::clone(&answers), Arc::clone(&asked));
        let service = service_fn(move |request: Request<Incoming>| {
            asked.lock().unwrap().push(request.uri().to_string());
            let answer = answers.get(request.uri().path()).cloned();
            async move { Ok::<_, Infallible>(response(answer)) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

fn response(answer: Option<(u16, Value)>) -> Response<Full<Bytes>> {
    let unknown = || {
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound",
                            "message": "there is nothing here"})
    };
    let (status, body) = answer.unwrap_or_else(|| (404, unknown()));
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(Full::from(body.to_string())).unwrap()
}

//! Calls as kube-scheduler makes them: one connection, kept.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// The answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// The gateway's text for an error status: kube-scheduler drops the connection over a body.
    pub(super) error: Option<String>,
    pub(super) body: Bytes,
}

/// A connection to the gateway.
pub(super) struct Client {
    requests: SendRequest<Full<Bytes>>,
}

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the gateway listens");
        stream.set_nodelay(true).expect("it is connected");
        let (requests, connection) = handshake(TokioIo::new(stream)).await.expect("the gateway speaks HTTP");
        tokio::spawn(connection);
        Self { requests }
    }

    pub(super) async fn post(&mut self, path: &str, body: String) -> Answer {
        self.requests.ready().await.expect("the gateway keeps the connection, whatever it answered");
        let request = Request::post(path)
            .header(header::HOST, "gateway")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::from(body))
            .expect("it is valid");
        let response = self.requests.send_request(request).await.expect("the gateway answers every call");
        let status = response.status().as_u16();
        let error = response.headers().get("x-extender-gateway-error");
        let error = error.and_then(|error| error.to_str().ok()).map(str::to_owned);
        let body = response.into_body().collect().await.expect("the gateway ends every answer").to_bytes();
        Answer { status, error, body }
    }
}

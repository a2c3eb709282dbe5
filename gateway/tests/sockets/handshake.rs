//! A backend with which the first handshake fails: the answers of calls say why.

use std::net::SocketAddr;

use crate::support::{Gateway, by_name};
use h2::Reason;
use tokio::net::{TcpListener, TcpStream};

/// Serves connections on which every stream is reset with this reason.
async fn resetting(reason: Reason) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(reset_all(stream, reason));
        }
    });
    address
}

/// The connection itself lives on until the caller ends it.
async fn reset_all(stream: TcpStream, reason: Reason) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        respond.send_reset(reason);
    }
}

#[tokio::test]
async fn a_stream_that_is_reset_is_the_cause_though_the_connection_stays() {
    let address = resetting(Reason::REFUSED_STREAM).await;
    let gateway = Gateway::start(&format!(
        "nodes: {{source: Request}}\nbackends:\n- {{name: b, url: 'http://{address}', filter: {{}}}}\n"
    ))
    .await;
    let error = gateway.post("/filter", by_name(&["a"])).await.error();
    let expected = "extender-gateway: backend b failed filter: the handshake failed: the stream was reset: ";
    assert!(error.starts_with(expected), "{error}");
}

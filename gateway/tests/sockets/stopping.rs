//! The gateway's shutdown, as callers see it.

use crate::support::{
    ClosedPort, Gateway, apiserver,
    backend::Scripted,
    by_name, ended,
    http::Client,
    program::{OWN, Program, Starting, signal},
};
use serde_json::json;
use std::fs;
use tempfile::NamedTempFile;
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpSocket, TcpStream},
    sync::oneshot,
    time::{Duration, timeout},
};

async fn gateway(backend: &Scripted) -> (Gateway, oneshot::Sender<()>) {
    let (stop, stopped) = oneshot::channel();
    let rest = format!(
        "timeouts: {{decision: 60s}}\nnodes: {{source: Request}}\nbackends:\n\
         - {{name: only, url: 'http://{}', filter: {{timeout: 60s}}}}\n",
        backend.address
    );
    let stopped = async { stopped.await.unwrap() };
    (Gateway::start_as("", &rest, stopped).await, stop)
}

/// Waits until responses ask to close the connection.
async fn leaving(gateway: &Gateway) {
    let closing = async {
        while gateway.post("/filter", by_name(&["b"])).await.header("connection") != Some("close") {}
    };
    ended("no response asks to close the connection", closing).await;
}

#[tokio::test]
async fn a_call_on_an_idle_connection_is_answered_after_the_signal() {
    let backend = Scripted::refusing(&["a"], "no", 0).await;
    let (gateway, stop) = gateway(&backend).await;
    let mut idle = Client::connect(gateway.address).await;
    let answer = idle.post("/filter", by_name(&["a", "b"]).as_bytes()).await;
    assert_eq!(answer.header("connection"), None);
    stop.send(()).unwrap();
    leaving(&gateway).await;
    let answer = idle.post("/filter", by_name(&["a", "b"]).as_bytes()).await;
    assert_eq!((&answer.json()["NodeNames"], answer.header("connection")), (&json!(["b"]), Some("close")));
    assert_eq!(idle.stream.read(&mut [0]).await.unwrap(), 0, "the gateway closes as it said");
    timeout(Duration::from_secs(30), gateway.served).await.unwrap().unwrap();
    TcpStream::connect(gateway.address).await.unwrap_err();
}

#[tokio::test]
async fn a_request_that_has_begun_is_finished() {
    let backend = Scripted::refusing(&["a"], "no", 0).await;
    let (gateway, stop) = gateway(&backend).await;
    let mut client = Client::connect(gateway.address).await;
    let body = by_name(&["a", "b"]);
    let head = format!("POST /filter HTTP/1.1\r\nHost: gateway\r\nContent-Length: {}\r\n\r\n", body.len());
    client.write(head.as_bytes()).await;
    stop.send(()).unwrap();
    let refused = async { while TcpStream::connect(gateway.address).await.is_ok() {} };
    ended("connections are still accepted", refused).await;
    assert!(!gateway.served.is_finished(), "a call is under way");
    client.write(body.as_bytes()).await;
    assert_eq!(client.answer().await.json()["NodeNames"], json!(["b"]));
    timeout(Duration::from_secs(30), gateway.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_signal_during_the_start_is_heard() {
    let (mute, file) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), NamedTempFile::new().unwrap());
    let text = format!(
        "{OWN}nodes: {{source: Request}}\nbackends: [{{name: only, url: 'http://{}', filter: {{}}}}]\n",
        mute.local_addr().unwrap()
    );
    fs::write(file.path(), text).unwrap();
    let mut starting = Starting::new(file.path()).await;
    let _connection = mute.accept().await.unwrap();
    signal(&starting.child, "TERM").await;
    let ended = timeout(Duration::from_mins(1), starting.child.wait()).await.unwrap().unwrap();
    assert_eq!(ended.code(), Some(0), "{ended}");
}

/// An address that nobody listens on and that only programs take which share it, as every listener does.
fn reserved() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket
}

#[tokio::test]
async fn a_gateway_that_starts_refuses_connections_and_one_without_its_nodes_is_not_ready() {
    let (mute, file) = (TcpListener::bind("127.0.0.1:0").await.unwrap(), NamedTempFile::new().unwrap());
    let (reserved, closed_port) = (reserved(), ClosedPort::new());
    let address = reserved.local_addr().unwrap();
    let kubeconfig = apiserver::kubeconfig(closed_port.address);
    let text = format!(
        "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n\
         extender: {{address: '{address}'}}\nmetrics: {{address: 127.0.0.1:0}}\nadmin: {{address: 127.0.0.1:0}}\n\
         cluster: {{kubeconfig: {}}}\nbackends: [{{name: only, url: 'http://{}', filter: {{}}}}]\n",
        kubeconfig.path().display(),
        mute.local_addr().unwrap()
    );
    fs::write(file.path(), text).unwrap();
    let starting = Starting::new(file.path()).await;
    let _connection = mute.accept().await.unwrap();
    let error = TcpStream::connect(address).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "it costs a caller nothing");
    let program = starting.serving().await;
    let answer = Client::connect(program.extender).await.post("/filter", by_name(&["a"]).as_bytes()).await;
    assert_eq!(answer.status, 200, "calls are answered, if only with an error");
    let probe = async |path: &str| Client::connect(program.metrics).await.send("GET", path, b"").await;
    let readiness = probe("/readyz").await;
    assert_eq!((readiness.status, readiness.body), (503, b"not ready: waiting for nodes\n".to_vec()));
    assert_eq!(probe("/livez").await.status, 200);
}

#[tokio::test]
async fn a_gateway_is_not_ready_before_the_named_backends_have_answered_once() {
    let (closed_port, file) = (ClosedPort::new(), NamedTempFile::new().unwrap());
    let text = |address| {
        format!(
            "{OWN}nodes: {{source: Request}}\nreadiness: {{backends: [needed]}}\nbackends:\n\
             - {{name: needed, url: 'http://{address}', filter: {{}}}}\n\
             - {{name: other, url: 'http://{}', filter: {{}}}}\n",
            closed_port.address
        )
    };
    fs::write(file.path(), text(closed_port.address)).unwrap();
    let program = Program::start(file.path()).await;
    let ready = async || {
        let answer = Client::connect(program.metrics).await.send("GET", "/readyz", b"").await;
        (answer.status, String::from_utf8_lossy(&answer.body).into_owned())
    };
    let (status, body) = ready().await;
    assert_eq!(status, 503);
    assert!(body.starts_with("not ready: waiting for backend needed (") && !body.contains("other"), "{body}");
    let backend = Scripted::refusing(&["a"], "no", 0).await;
    fs::write(file.path(), text(backend.address)).unwrap();
    program.signal("HUP").await;
    ended("it is never ready", async { while ready().await.0 != 200 {} }).await;
    fs::write(file.path(), text(closed_port.address)).unwrap();
    program.signal("HUP").await;
    program.counted("extender_gateway_backend_connected{backend=\"needed\"} 0").await;
    assert_eq!(ready().await, (200, "ok\n".to_owned()), "it has answered once");
}

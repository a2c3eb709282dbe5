//! kube-scheduler's side of a call.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// A kept connection.
#[derive(Debug)]
pub(super) struct Client {
    stream: TcpStream,
}

impl Client {
    pub(super) async fn connect(gateway: SocketAddr) -> Self {
        let stream = TcpStream::connect(gateway).await.expect("the gateway listens");
        stream.set_nodelay(true).expect("it is a socket");
        Self { stream }
    }

    /// Head and body are written together if they fit.
    pub(super) async fn write(&mut self, path: &str, body: &[u8]) {
        let length = body.len();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: gateway\r\nUser-Agent: Go-http-client/1.1\r\n\
             Content-Length: {length}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
        );
        let request = [head.as_bytes(), body].concat();
        self.stream.write_all(&request).await.expect("the gateway reads");
    }

    /// Waits for the whole answer, which must be a success.
    pub(super) async fn read(&mut self) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.expect("the gateway answers"));
        }
        let head = String::from_utf8(head).expect("heads are text");
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then(|| value.parse().ok())?
        });
        let mut body = vec![0; length.expect("every answer has its length")];
        self.stream.read_exact(&mut body).await.expect("the gateway answers");
        let text = String::from_utf8_lossy(&body[..body.len().min(300)]);
        let is_error = text.contains("\"Error\":\"") && !text.contains("\"Error\":\"\"");
        let good = head.starts_with("HTTP/1.1 200") && !is_error;
        assert!(good, "{head}{text}");
    }
}

//! A client that exposes the wire: status, headers, body, and whether the connection stays open.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};

pub(crate) struct Client<S = TcpStream> {
    pub(crate) stream: S,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn error(&self) -> String {
        self.json()["Error"].as_str().unwrap_or_default().to_owned()
    }
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        // Head and body are written separately; the body would wait for the acknowledgement of the head.
        stream.set_nodelay(true).unwrap();
        Self { stream }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) async fn post(&mut self, path: &str, body: &[u8]) -> Answer {
        self.send("POST", path, body).await
    }

    pub(crate) async fn send(&mut self, method: &str, path: &str, body: &[u8]) -> Answer {
        let head =
            format!("{method} {path} HTTP/1.1\r\nHost: gateway\r\nContent-Length: {}\r\n\r\n", body.len());
        self.stream.write_all(head.as_bytes()).await.unwrap();
        self.stream.write_all(body).await.unwrap();
        self.answer().await
    }

    /// Posts with this header, too.
    pub(crate) async fn post_with(&mut self, (name, value): (&str, &str), path: &str, body: &str) -> Answer {
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nHost: gateway\r\n{name}: {value}\r\n");
        self.write(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes()).await;
        self.answer().await
    }

    /// Sends bytes as they are, without waiting for an answer.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub(crate) async fn answer(&mut self) -> Answer {
        self.rest_of_answer(Vec::new()).await
    }

    /// Reads what follows after the beginning of a head.
    pub(crate) async fn rest_of_answer(&mut self, mut head: Vec<u8>) -> Answer {
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.stream.read_u8().await.expect("an answer"));
        }
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let mut answer = Answer { status, headers, body: Vec::new() };
        let length = answer.header("content-length").expect("every answer has its length").parse().unwrap();
        answer.body = vec![0; length];
        self.stream.read_exact(&mut answer.body).await.unwrap();
        answer
    }
}

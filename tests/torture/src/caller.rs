//! A caller with calls that are all different, so that none of them is remembered.

use std::{
    io::{self, ErrorKind},
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::Failure;

/// The value in a body that each call replaces.
pub(crate) const NUMBER: &str = "00000000";
/// How long kube-scheduler waits by default.
const HTTP_TIMEOUT: Duration = Duration::from_secs(5);

/// How a call ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Decided,
    /// Refused because of overload.
    Refused,
    /// Answered with another error.
    Error(String),
    /// Not answered.
    Failed(String),
}

/// The request of a call, and where its number is.
#[derive(Debug)]
pub(crate) struct Template {
    request: Vec<u8>,
    number_at: usize,
    next: AtomicU64,
}

impl Template {
    /// Of a body that has [`NUMBER`] once.
    pub(crate) fn new(body: &[u8]) -> Result<Self, Failure> {
        let head =
            format!("POST /filter HTTP/1.1\r\nHost: gateway\r\nContent-Length: {}\r\n\r\n", body.len());
        let request = [head.as_bytes(), body].concat();
        let number_at = find(&request, NUMBER.as_bytes()).ok_or("the body of a call has no number")?;
        Ok(Self { request, number_at, next: AtomicU64::new(1) })
    }

    fn request(&self) -> Vec<u8> {
        let number = format!("{:0>8}", self.next.fetch_add(1, Relaxed) % 100_000_000);
        let mut request = self.request.clone();
        request[self.number_at..][..number.len()].copy_from_slice(number.as_bytes());
        request
    }
}

#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(from: IpAddr, to: SocketAddr) -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((from, 0).into())?;
        let stream = socket.connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, answer: Vec::new() })
    }

    pub(crate) async fn call(&mut self, template: &Template) -> io::Result<Outcome> {
        timeout(HTTP_TIMEOUT, self.answered(&template.request())).await?
    }

    async fn answered(&mut self, request: &[u8]) -> io::Result<Outcome> {
        self.stream.write_all(request).await?;
        self.answer.clear();
        let (body_at, length) = loop {
            self.more().await?;
            if let Some(end) = find(&self.answer, b"\r\n\r\n") {
                break (end + 4, content_length(&self.answer[..end])?);
            }
        };
        while self.answer.len() < body_at + length {
            self.more().await?;
        }
        let body = &self.answer[body_at..];
        Ok(if find(body, b"\"Error\":\"\"").is_some() {
            Outcome::Decided
        } else if find(body, b"overloaded").is_some() {
            Outcome::Refused
        } else {
            Outcome::Error(String::from_utf8_lossy(body).into_owned())
        })
    }

    async fn more(&mut self) -> io::Result<()> {
        match self.stream.read_buf(&mut self.answer).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

fn content_length(head: &[u8]) -> io::Result<usize> {
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let value = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    value.and_then(|value| value.trim().parse().ok()).ok_or_else(|| ErrorKind::InvalidData.into())
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

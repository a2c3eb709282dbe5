//! kube-scheduler's side of an extender call: HTTP/1.1 with the headers of Go's client, one kept connection, on a
//! plain socket, so that its own cost is small.

use std::{
    io::{self, IoSlice, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use memchr::memmem;

/// Longer than any measured or displayed call; without a limit, a server that does not answer would block
/// indefinitely.
const ANSWER_WITHIN: Duration = Duration::from_mins(1);

/// The room that each read offers, in bytes.
const READ_SIZE: usize = 256 * 1024;

/// A kept connection to an extender.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    peer: SocketAddr,
    head: String,
    /// The answer, in reused memory: fresh memory is slow.
    answer: Vec<u8>,
}

/// An answer, borrowed from the connection's memory.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The status, such as 200.
    pub status: u16,
    /// The body.
    pub body: &'a [u8],
}

/// Errors between client and extender. Each names the other side.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The connection failed.
    #[error("{peer}: {doing} failed: {cause}")]
    Io {
        /// The other side.
        peer: SocketAddr,
        /// The operation.
        doing: &'static str,
        /// The system's error.
        cause: io::Error,
    },
    /// The answer is not one that lets kube-scheduler keep the connection.
    #[error("{peer}: the answer is not HTTP/1.1 with a Content-Length: {}", head.escape_debug())]
    Malformed {
        /// The other side.
        peer: SocketAddr,
        /// The head of the answer.
        head: String,
    },
}

/// Where the body of an answer begins and how long it is, in bytes.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    length: usize,
    content_length: usize,
}

impl Connection {
    /// Connects.
    pub fn open(peer: SocketAddr) -> Result<Self, HttpError> {
        let open = || {
            let stream = TcpStream::connect(peer)?;
            // Go sets it on every connection.
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(ANSWER_WITHIN))?;
            Ok(stream)
        };
        let stream = open().map_err(|cause| HttpError::Io { peer, doing: "connecting", cause })?;
        Ok(Self { stream, peer, head: String::new(), answer: Vec::new() })
    }

    /// Posts a body, given in parts, to a path such as "/filter", and waits for the whole answer.
    /// Mirrors `HTTPExtender.send` of kube-scheduler.
    pub fn post(&mut self, path: &str, body: &[&[u8]]) -> Result<Answer<'_>, HttpError> {
        self.write_head(path, body.iter().map(|part| part.len()).sum());
        let mut parts = vec![IoSlice::new(self.head.as_bytes())];
        parts.extend(body.iter().map(|part| IoSlice::new(part)));
        let sent = write_parts(&mut self.stream, &mut parts);
        sent.map_err(|cause| self.failed("sending the request", cause))?;
        let (head, filled) = self.read_head()?;
        let end = head.length + head.content_length;
        self.read_body(filled, end)?;
        Ok(Answer { status: head.status, body: &self.answer[head.length..end] })
    }

    /// The other side.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn write_head(&mut self, path: &str, length: usize) {
        let peer = self.peer;
        self.head = format!(
            "POST {path} HTTP/1.1\r\nHost: {peer}\r\nUser-Agent: Go-http-client/1.1\r\n\
             Content-Length: {length}\r\nContent-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n"
        );
    }

    /// The head of the answer, and how many bytes of the answer have come with it.
    fn read_head(&mut self) -> Result<(Head, usize), HttpError> {
        let mut filled = 0;
        loop {
            filled = self.read_some(filled)?;
            let come = &self.answer[..filled];
            if let Some(end) = memmem::find(come, b"\r\n\r\n") {
                let head = &come[..end + 4];
                return match Head::parse(head) {
                    Some(head) => Ok((head, filled)),
                    None => Err(self.malformed(head)),
                };
            }
            if filled > READ_SIZE {
                return Err(self.malformed(&come[..200]));
            }
        }
    }

    fn read_body(&mut self, mut filled: usize, end: usize) -> Result<(), HttpError> {
        while filled < end {
            filled = self.read_some(filled)?;
        }
        if filled > end {
            return Err(self.malformed(&self.answer[end..filled]));
        }
        Ok(())
    }

    /// Reads what comes after the first `filled` bytes of the answer; returns the new end.
    fn read_some(&mut self, filled: usize) -> Result<usize, HttpError> {
        if self.answer.len() < filled + READ_SIZE {
            self.answer.resize(filled + READ_SIZE, 0);
        }
        match self.stream.read(&mut self.answer[filled..]) {
            Ok(0) => Err(self.failed("reading the answer", io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => Ok(filled + count),
            Err(cause) => Err(self.failed("reading the answer", cause)),
        }
    }

    fn failed(&self, doing: &'static str, cause: io::Error) -> HttpError {
        HttpError::Io { peer: self.peer, doing, cause }
    }

    fn malformed(&self, head: &[u8]) -> HttpError {
        HttpError::Malformed { peer: self.peer, head: String::from_utf8_lossy(head).into_owned() }
    }
}

impl Head {
    /// Reads the status and the length; kube-scheduler ignores other headers.
    fn parse(head: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(head).ok()?;
        let mut lines = text.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        let content_length = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        })?;
        Some(Self { status, length: head.len(), content_length })
    }
}

/// Writes all parts in as few system calls as possible.
pub fn write_parts(stream: &mut TcpStream, parts: &mut [IoSlice<'_>]) -> io::Result<()> {
    let mut left = parts;
    // Drops empty parts at the front; after that, writing nothing is a failure.
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        match stream.write_vectored(left)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => IoSlice::advance_slices(&mut left, written),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

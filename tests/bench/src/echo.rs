//! The floor: an extender that only answers, written by hand on sockets. It keeps every node and gives every node a
//! score, so that kube-scheduler handles its answers like real ones. One thread per connection, memory is reused,
//! and answers consist of the request's bytes.

use std::{
    io::{self, IoSlice, Read},
    net::{TcpListener, TcpStream},
    thread,
};

use extender_harness::{http::write_parts, request::Verb};
use memchr::memmem;

use self::reply::Reply;

mod reply;

/// The room that each read offers, in bytes.
const READ_SIZE: usize = 256 * 1024;

/// Serves connections until the listener fails.
pub fn serve(listener: &TcpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept()?;
        // Errors of a connection are ignored.
        thread::spawn(move || Connection::new(stream).map(Connection::serve));
    }
}

/// One connection of kube-scheduler, which sends one request at a time.
struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    reply: Reply,
}

/// The positions of the parts of a request, in bytes from its beginning.
struct Request {
    verb: Verb,
    body: usize,
    end: usize,
}

impl Connection {
    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, request: Vec::new(), reply: Reply::default() })
    }

    fn serve(mut self) -> io::Result<()> {
        while let Some(request) = self.read_request()? {
            self.answer(&request)?;
        }
        Ok(())
    }

    /// The next request, or nothing when the peer has closed.
    fn read_request(&mut self) -> io::Result<Option<Request>> {
        let mut filled = 0;
        let mut known: Option<Request> = None;
        loop {
            if let Some(request) = known.take_if(|request| filled >= request.end) {
                return Ok(Some(request));
            }
            let count = self.read_some(filled, known.as_ref().map_or(0, |request| request.end))?;
            if count == 0 {
                return Ok(None);
            }
            filled += count;
            if known.is_none() {
                known = Request::find(&self.request[..filled])?;
            }
        }
    }

    fn read_some(&mut self, filled: usize, end: usize) -> io::Result<usize> {
        let room = end.max(filled + READ_SIZE);
        if self.request.len() < room {
            self.request.resize(room, 0);
        }
        self.stream.read(&mut self.request[filled..])
    }

    fn answer(&mut self, request: &Request) -> io::Result<()> {
        let parts = self.reply.to(request.verb, &self.request[request.body..request.end]);
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
        let [one, two, three] = parts;
        let mut parts = [head.as_bytes(), one, two, three].map(IoSlice::new);
        write_parts(&mut self.stream, &mut parts)
    }
}

impl Request {
    /// Reads the head, once it is complete.
    fn find(come: &[u8]) -> io::Result<Option<Self>> {
        let Some(head) = memmem::find(come, b"\r\n\r\n") else { return Ok(None) };
        let text = String::from_utf8_lossy(&come[..head]);
        let mut lines = text.split("\r\n");
        let path = lines.next().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
        let length: usize = lines
            .find_map(|line| line.strip_prefix("Content-Length: "))
            .and_then(|length| length.parse().ok())
            .ok_or(io::ErrorKind::InvalidData)?;
        let body = head + 4;
        let verb = if path.ends_with(Verb::Prioritize.path()) { Verb::Prioritize } else { Verb::Filter };
        Ok(Some(Self { verb, body, end: body + length }))
    }
}

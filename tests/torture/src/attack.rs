//! The attacks, each from many connections of its own.

use std::{
    io::{self, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::{
    net::TcpSocket,
    runtime::{self, Runtime},
};

use crate::{
    Failure,
    stage::{Stage, open_files},
};

/// Where attacks come from: another address than the honest calls.
const ATTACKER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3)), 0);

/// What is done to the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attack {
    Heads,
    Bodies,
    Stalled,
    Readers,
    Deep,
    Wide,
}

/// The bodies that declare the largest size, send 2 MiB, and stop. Were they counted by what they declare, nobody else
/// would be served.
const STALLED: usize = 32;
/// The time between two bytes of a slow body.
const BYTE_EACH: Duration = Duration::from_millis(500);
/// The size of a body that is to cost much.
const LARGE: usize = 32 << 20;
/// The most names that a call may have, and the length of the longest ones.
const MOST_NAMES: usize = 99_999;
const LONGEST_NAME: usize = 253;

/// An attack that goes on until it is dropped.
pub(crate) struct Held {
    streams: Arc<Vec<TcpStream>>,
    is_over: Arc<AtomicBool>,
    feeding: Option<JoinHandle<()>>,
    /// Of one body.
    pub(crate) bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        if let Some(feeding) = self.feeding.take() {
            // A panic of the thread has been printed.
            let _ = feeding.join();
        }
    }
}

impl Attack {
    pub(crate) const ALL: [Self; 6] =
        [Self::Heads, Self::Bodies, Self::Stalled, Self::Readers, Self::Deep, Self::Wide];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Heads => "slow heads at three addresses",
            Self::Bodies => "slow bodies, a byte each half second",
            Self::Stalled => "large bodies that stop",
            Self::Readers => "slow readers at three addresses",
            Self::Deep => "one body of nested arrays",
            Self::Wide => "one body of many names",
        }
    }

    /// How many of so many honest calls are measured: a single body is read and refused before all of them are answered.
    pub(crate) fn calls(self, most: usize) -> usize {
        match self {
            Self::Heads | Self::Bodies | Self::Stalled | Self::Readers => most,
            Self::Deep | Self::Wide => most.div_ceil(5),
        }
    }

    /// Begins the attack. When this returns, the gateway has read and answered all that it can of connections that are
    /// held, and a large body is on its way.
    pub(crate) fn begin(self, stage: &Stage, connections: usize) -> Result<Held, Failure> {
        let gateway = &stage.gateway;
        let addresses = [gateway.extender, gateway.metrics, gateway.admin];
        // The other end of each is in another process.
        if matches!(self, Self::Heads | Self::Readers) && connections * addresses.len() + 200 > open_files() {
            return Err(
                "the limit of open files is too low: raise it with ulimit -n, or lower --connections".into(),
            );
        }
        let mut held = match self {
            Self::Heads => held(&addresses, connections, |_| {
                b"POST /filter HTTP/1.1\r\nHost: gateway\r\nX-Slow: ".to_vec()
            })?,
            Self::Bodies => held(&addresses[..1], connections, |_| {
                b"POST /filter HTTP/1.1\r\nHost: gateway\r\nContent-Length: 100000\r\n\r\n{".to_vec()
            })?,
            Self::Stalled => held(&addresses[..1], STALLED, |_| {
                let head =
                    b"POST /filter HTTP/1.1\r\nHost: gateway\r\nContent-Length: 134217728\r\n\r\n{".to_vec();
                [head, vec![b' '; 2 << 20]].concat()
            })?,
            Self::Readers => held(&addresses, connections, |at| {
                let (method, path, body) = match at {
                    0 => ("POST", "/filter", &*stage.body),
                    1 => ("GET", "/metrics", &b""[..]),
                    _ => ("GET", "/debug/decisions?limit=1000", &b""[..]),
                };
                let head = format!(
                    "{method} {path} HTTP/1.1\r\nHost: gateway\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                [head.as_bytes(), body].concat().repeat(20)
            })?,
            Self::Deep => large(gateway.extender, nested())?,
            Self::Wide => large(gateway.extender, names())?,
        };
        if held.feeding.is_none() {
            stage.settle()?;
        }
        if self == Self::Bodies {
            held.feed();
        }
        Ok(held)
    }
}

impl Held {
    fn of(streams: Vec<TcpStream>, bytes: usize) -> Self {
        Self { streams: Arc::new(streams), is_over: Arc::default(), feeding: None, bytes }
    }

    /// Sends a byte on each connection now and then.
    fn feed(&mut self) {
        let (streams, is_over) = (Arc::clone(&self.streams), Arc::clone(&self.is_over));
        self.feeding = Some(thread::spawn(move || {
            while !is_over.load(Relaxed) {
                for stream in &*streams {
                    // The gateway may have closed it.
                    let _ = (&*stream).write(b" ");
                }
                thread::sleep(BYTE_EACH);
            }
        }));
    }
}

fn runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_io().build()
}

/// A connection that does not block.
fn connect(runtime: &Runtime, address: SocketAddr) -> io::Result<TcpStream> {
    let connected = runtime.block_on(async {
        let socket = TcpSocket::new_v4()?;
        socket.bind(ATTACKER)?;
        socket.connect(address).await
    });
    connected?.into_std()
}

/// Connections to each of these addresses, on which these bytes were written as far as they are taken.
fn held(addresses: &[SocketAddr], connections: usize, bytes: impl Fn(usize) -> Vec<u8>) -> io::Result<Held> {
    let (mut streams, runtime) = (Vec::new(), runtime()?);
    for (at, address) in addresses.iter().enumerate() {
        let bytes = bytes(at);
        for _ in 0..connections {
            let stream = connect(&runtime, *address)?;
            // An attacker that is thrown out is no error.
            let _ = (&stream).write(&bytes);
            streams.push(stream);
        }
    }
    Ok(Held::of(streams, 0))
}

/// One call with a large body, which goes on while honest calls are measured.
fn large(address: SocketAddr, body: Vec<u8>) -> io::Result<Held> {
    let mut stream = connect(&runtime()?, address)?;
    stream.set_nonblocking(false)?;
    let start = format!(
        "POST /filter HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(start.as_bytes())?;
    let bytes = body.len();
    // In parts, as a network delivers it, while honest calls go on.
    let sending = thread::spawn({
        let stream = stream.try_clone()?;
        move || {
            let mut stream = stream;
            let sent = body.chunks(64 << 10).try_for_each(|chunk| stream.write_all(chunk));
            let _ = sent.and_then(|()| io::copy(&mut stream, &mut io::sink()));
        }
    });
    let mut held = Held::of(vec![stream], bytes);
    held.feeding = Some(sending);
    Ok(held)
}

fn nested() -> Vec<u8> {
    let mut body = br#"{"Pod":{"metadata":{"name":"web","annotations":"#.to_vec();
    body.resize(LARGE, b'[');
    body
}

fn names() -> Vec<u8> {
    let mut body =
        br#"{"Pod":{"metadata":{"name":"web","namespace":"shop","uid":"u"}},"NodeNames":["a""#.to_vec();
    for number in 1..MOST_NAMES {
        body.extend(format!(",\"{number:0>LONGEST_NAME$}\"").bytes());
    }
    body.extend(b"]}");
    body
}

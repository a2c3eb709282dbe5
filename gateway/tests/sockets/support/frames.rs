//! Between a gateway and an honest backend: passes the frames of HTTP/2 on, and misuses the connection once it is told to.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use crate::attacks::frame;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// More than any connection may take of a flood, in bytes.
pub(crate) const FLOOD: usize = 50 << 20;

/// What happens to the frames of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misuse {
    /// Each response is followed by settings without end.
    Settings,
    /// Likewise by PINGs.
    Pings,
    /// Likewise by updates of the window of the connection.
    WindowUpdates,
    /// The trailers of a response do not end.
    EndlessTrailers,
    /// The head of a response does not end.
    EndlessHead,
    /// In place of a response the connection is closed with a GOAWAY that excludes its stream.
    GoAway,
    /// No request may have more bytes than those of its headers.
    NoWindow,
}

impl Misuse {
    /// What is sent again and again.
    fn flood(self, stream: u32) -> Vec<u8> {
        match self {
            Self::Settings => frame(SETTINGS, 0, 0, &[]),
            Self::Pings => frame(PING, 0, 0, &[7; 8]),
            Self::WindowUpdates => frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
            // `x: y` as a literal, many times.
            _ => frame(CONTINUATION, 0, stream, &[0x00, 1, b'x', 1, b'y'].repeat(1_000)),
        }
    }
}

/// A frame, whole.
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

impl Frame {
    async fn read(from: &mut OwnedReadHalf) -> io::Result<Self> {
        let mut head = [0; 9];
        from.read_exact(&mut head).await?;
        let [a, b, c, kind, flags, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        from.read_exact(&mut payload).await?;
        Ok(Self { kind, flags, stream: u32::from_be_bytes(stream), payload })
    }

    fn bytes(&self) -> Vec<u8> {
        frame(self.kind, self.flags, self.stream, &self.payload)
    }

    fn ends_stream(&self) -> bool {
        self.flags & END_STREAM != 0 && (self.kind == HEADERS || self.kind == DATA)
    }
}

/// The address that the gateway connects to.
#[derive(Debug)]
pub(crate) struct FrameRelay {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    backend: SocketAddr,
    misuse: Misuse,
    is_misused: AtomicBool,
    connections: AtomicUsize,
    /// The most bytes of a flood that one connection took.
    taken: AtomicUsize,
}

impl FrameRelay {
    /// Honest until [`Self::misuse`].
    pub(crate) async fn to(backend: SocketAddr, misuse: Misuse) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (is_misused, connections, taken) = Default::default();
        let shared = Arc::new(Shared { backend, misuse, is_misused, connections, taken });
        let all = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((gateway, _)) = listener.accept().await {
                all.connections.fetch_add(1, SeqCst);
                tokio::spawn(Arc::clone(&all).relay(gateway));
            }
        });
        Self { address, shared }
    }

    /// Begins or ends the misuse.
    pub(crate) fn misuse(&self, is_misused: bool) {
        self.shared.is_misused.store(is_misused, SeqCst);
    }

    /// The number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(SeqCst)
    }

    /// The most bytes of a flood that one connection took.
    pub(crate) fn taken(&self) -> usize {
        self.shared.taken.load(SeqCst)
    }
}

impl Shared {
    async fn relay(self: Arc<Self>, gateway: TcpStream) {
        let Ok(backend) = TcpStream::connect(self.backend).await else { return };
        let (mut from_gateway, to_gateway) = gateway.into_split();
        let (from_backend, mut to_backend) = backend.into_split();
        let requests = async { tokio::io::copy(&mut from_gateway, &mut to_backend).await };
        // With either direction both connections end.
        tokio::select! {
            _ = requests => {}
            _ = self.responses(from_backend, to_gateway) => {}
        }
    }

    async fn responses(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
        let mut is_closed = false;
        loop {
            let frame = Frame::read(&mut from).await?;
            if self.is_misused.load(SeqCst) {
                self.misused(frame, &mut to, &mut is_closed).await?;
            } else {
                to.write_all(&frame.bytes()).await?;
            }
        }
    }

    async fn misused(&self, frame: Frame, to: &mut OwnedWriteHalf, is_closed: &mut bool) -> io::Result<()> {
        let is_head = frame.kind == HEADERS && !frame.ends_stream();
        match self.misuse {
            Misuse::EndlessHead if is_head => self.endless(frame, to).await,
            Misuse::EndlessTrailers if frame.ends_stream() => self.endless(frame, to).await,
            Misuse::GoAway if frame.kind == HEADERS => {
                let last = [0_u32.to_be_bytes(), 0_u32.to_be_bytes()].concat();
                to.write_all(&self::frame(GOAWAY, 0, 0, &last)).await?;
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            Misuse::NoWindow => self.without_window(frame, to, is_closed).await,
            Misuse::Settings | Misuse::Pings | Misuse::WindowUpdates if frame.ends_stream() => {
                let stream = frame.stream;
                to.write_all(&frame.bytes()).await?;
                self.flood(stream, to).await
            }
            _ => to.write_all(&frame.bytes()).await,
        }
    }

    /// Sends these headers without their end.
    async fn endless(&self, frame: Frame, to: &mut OwnedWriteHalf) -> io::Result<()> {
        let (stream, flags) = (frame.stream, frame.flags & !END_HEADERS);
        to.write_all(&Frame { flags, ..frame }.bytes()).await?;
        self.flood(stream, to).await
    }

    async fn flood(&self, stream: u32, to: &mut OwnedWriteHalf) -> io::Result<()> {
        let one = self.misuse.flood(stream);
        let chunk = one.repeat((64 << 10) / one.len() + 1);
        let mut sent = 0;
        while sent < FLOOD {
            to.write_all(&chunk).await?;
            sent += chunk.len();
            self.taken.fetch_max(sent, SeqCst);
        }
        Ok(())
    }

    /// Closes the windows of new streams, and lets none be opened again.
    async fn without_window(
        &self,
        frame: Frame,
        to: &mut OwnedWriteHalf,
        is_closed: &mut bool,
    ) -> io::Result<()> {
        const INITIAL_WINDOW_SIZE: u16 = 4;
        if !std::mem::replace(is_closed, true) {
            let setting = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &0_u32.to_be_bytes()].concat();
            to.write_all(&self::frame(SETTINGS, 0, 0, &setting)).await?;
        }
        let is_kept_back = frame.kind == WINDOW_UPDATE && frame.stream != 0;
        if is_kept_back { Ok(()) } else { to.write_all(&frame.bytes()).await }
    }
}

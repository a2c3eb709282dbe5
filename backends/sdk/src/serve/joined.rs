//! A connection on which an answer is one write. `h2` passes the message of an answer to a vectored writer before
//! it encodes the trailers, which are then a second packet and wake the gateway twice; for a writer without vectors
//! it copies messages of up to 1 KiB, most answers about hundreds of nodes, and writes head, message and trailers
//! at once.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::OwnedSemaphorePermit,
    time::{Sleep, sleep},
};
use tonic::transport::server::{Connected, TcpConnectInfo};

use super::tls;

/// How long a connection has to begin. One that stays silent takes a place of the limit from a gateway.
const BEGINNING: Duration = Duration::from_secs(10);

/// The bytes with which each client begins: the preface of HTTP/2, and the head of its SETTINGS.
const BEGINNING_BYTES: usize = 24 + 9;

/// What carries the bytes of a connection.
#[derive(Debug)]
pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<tls::Stream>),
}

/// A connection that has no vectored writes.
#[derive(Debug)]
pub(super) struct Joined {
    transport: Transport,
    /// Until the client has begun.
    beginning: Option<Beginning>,
    /// Released when the connection ends.
    _slot: OwnedSemaphorePermit,
}

#[derive(Debug)]
struct Beginning {
    end: Pin<Box<Sleep>>,
    received: usize,
}

impl Beginning {
    fn new() -> Self {
        Self { end: Box::pin(sleep(BEGINNING)), received: 0 }
    }
}

impl Joined {
    pub(super) fn new(transport: Transport, slot: OwnedSemaphorePermit) -> Self {
        Self { transport, beginning: Some(Beginning::new()), _slot: slot }
    }

    fn read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl Connected for Joined {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        match &self.transport {
            Transport::Plain(stream) => stream.connect_info(),
            Transport::Tls(stream) => tls::peer(stream),
        }
    }
}

impl AsyncRead for Joined {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = self.read(context, buffer);
        let Some(beginning) = &mut self.beginning else { return polled };
        beginning.received += buffer.filled().len() - before;
        if beginning.received >= BEGINNING_BYTES {
            self.beginning = None;
        } else if polled.is_pending() && beginning.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        polled
    }
}

impl AsyncWrite for Joined {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(context),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

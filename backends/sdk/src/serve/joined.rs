//! A connection on which an answer is one write. `h2` passes the message of an answer to a vectored writer before
//! it encodes the trailers, which are then a second packet and wake the gateway twice; for a writer without vectors
//! it copies messages of up to 1 KiB, most answers about hundreds of nodes, and writes head, message and trailers
//! at once.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::OwnedSemaphorePermit,
};
use tonic::transport::server::{Connected, TcpConnectInfo};

/// A TCP connection that has no vectored writes.
#[derive(Debug)]
pub(super) struct Joined {
    stream: TcpStream,
    /// Released when the connection ends.
    _slot: OwnedSemaphorePermit,
}

impl Joined {
    pub(super) fn new(stream: TcpStream, slot: OwnedSemaphorePermit) -> Self {
        Self { stream, _slot: slot }
    }
}

impl Connected for Joined {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Joined {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Joined {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

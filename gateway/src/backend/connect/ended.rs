//! The end of a connection. tonic drives a connection in a task of its own, and only logs how it ended: this is told by
//! the stream below it.

use std::{
    convert::Infallible,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::oneshot,
};

/// A stream that tells when it is dropped, and that can be closed.
#[derive(Debug)]
pub(super) struct Watched<S> {
    stream: S,
    ended: Option<oneshot::Sender<io::Error>>,
    /// The first error.
    error: Option<io::Error>,
    /// `None` once it is closed.
    close: Option<oneshot::Receiver<Infallible>>,
}

impl<S> Watched<S> {
    /// The stream, and a future that returns when it is dropped. Dropping the future closes the stream.
    pub(super) fn new(stream: S) -> (Self, impl Future<Output = Result<(), io::Error>>) {
        let (ended, end) = oneshot::channel();
        let (open, close) = oneshot::channel();
        let watched = Self { stream, ended: Some(ended), error: None, close: Some(close) };
        let ended = async move {
            let _open = open;
            // Without an error, the sender is only dropped.
            end.await.map_or(Ok(()), Err)
        };
        (watched, ended)
    }

    /// Keeps the first error, and returns one that is like it.
    fn kept<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| {
            let kind = error.kind();
            self.error.get_or_insert(error);
            kind.into()
        })
    }

    fn is_closed(&mut self, context: &mut Context<'_>) -> bool {
        if let Some(close) = &mut self.close
            && Pin::new(close).poll(context).is_ready()
        {
            self.close = None;
        }
        self.close.is_none()
    }
}

impl<S> Drop for Watched<S> {
    fn drop(&mut self) {
        if let Some((ended, error)) = self.ended.take().zip(self.error.take()) {
            let _ = ended.send(error);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.is_closed(context) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        read.map(|read| self.kept(read))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        written.map(|written| self.kept(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        written.map(|written| self.kept(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

//! Ends connections whose callers do not take what is written.

use std::{
    future::Future as _,
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A stream that fails if one write takes too long until all of it is taken. Taking a byte now and then is not enough:
/// an answer would stay in memory for as long as its caller likes.
#[derive(Debug)]
pub(super) struct WriteTimeout<S> {
    stream: S,
    limit: Duration,
    /// Ends when the time of the write in progress is over.
    over: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    pub(super) fn new(stream: S, limit: Duration) -> Self {
        Self { stream, limit, over: None }
    }

    pub(super) fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The result of a write of this many bytes, or an error if it is over its time.
    fn written(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
        offered: usize,
    ) -> Poll<io::Result<usize>> {
        if matches!(&written, Poll::Ready(Ok(taken)) if *taken == offered) {
            self.over = None;
            return written;
        }
        let over = self.over.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        match over.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(ErrorKind::TimedOut.into())),
            Poll::Pending => written,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, written, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.written(context, written, slices.iter().map(|slice| slice.len()).sum())
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

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
        time::Instant,
    };

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// Reads a byte, and one more after each pause.
    async fn read_slowly(mut stream: DuplexStream, pause: Duration) {
        while stream.read_exact(&mut [0]).await.is_ok() {
            sleep(pause).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_takes_nothing_loses_its_connection() {
        let (ours, _theirs) = duplex(8);
        let began = Instant::now();
        let error = WriteTimeout::new(ours, LIMIT).write_all(&[0; 9]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed()), (ErrorKind::TimedOut, LIMIT));
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_takes_a_byte_now_and_then_loses_it_too() {
        let (ours, theirs) = duplex(8);
        tokio::spawn(read_slowly(theirs, LIMIT / 3));
        let began = Instant::now();
        let error = WriteTimeout::new(ours, LIMIT).write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(began.elapsed() <= LIMIT + LIMIT / 3, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn each_write_has_its_own_time() {
        let (ours, theirs) = duplex(8);
        tokio::spawn(read_slowly(theirs, LIMIT / 10));
        let mut ours = WriteTimeout::new(ours, LIMIT);
        for _ in 0..20 {
            ours.write_all(&[0; 8]).await.unwrap();
        }
    }
}

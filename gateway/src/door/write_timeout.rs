//! Closes connections of callers that do not read: their responses would stay in memory indefinitely.

use std::{pin::Pin, time::Duration};

use tokio::net::TcpStream;
use tokio_io_timeout::TimeoutWriter;

/// How long a caller may leave available bytes unread.
const NOT_READING: Duration = Duration::from_secs(30);

/// A connection that ends if the caller does not read for too long.
pub(super) type Patient<S = TcpStream> = Pin<Box<TimeoutWriter<S>>>;

/// Ends `stream` if the caller does not read for too long.
pub(super) fn patient<S: tokio::io::AsyncWrite>(stream: S) -> Patient<S> {
    let mut writer = TimeoutWriter::new(stream);
    writer.set_timeout(Some(NOT_READING));
    Box::pin(writer)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_takes_nothing_loses_its_connection() {
        let (ours, _theirs) = duplex(8);
        let began = Instant::now();
        let error = patient(ours).write_all(&[0; 9]).await.unwrap_err();
        assert_eq!((error.kind(), began.elapsed().as_secs()), (ErrorKind::TimedOut, NOT_READING.as_secs()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_one_does_not() {
        let (ours, mut theirs) = duplex(8);
        let read = tokio::spawn(async move {
            for _ in 0..4 {
                sleep(NOT_READING / 2).await;
                theirs.read_exact(&mut [0; 8]).await.unwrap();
            }
        });
        let mut ours = patient(ours);
        ours.write_all(&[0; 32]).await.unwrap();
        read.await.unwrap();
    }
}

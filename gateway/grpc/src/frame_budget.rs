//! Limits the HTTP/2 frames that a backend sends in addition to its answers: PINGs, settings, frames of unknown types
//! or of closed streams. h2 reads each of them on the thread that serves calls. [`Budgeted`] wraps the stream of a
//! connection and reads the frame headers in both directions. Each request allows some frames; beyond that there is a
//! burst and a rate. A read that exceeds them fails.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use extender_gateway_pace::token_bucket::TokenBucket;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The number of bytes after which a connection yields to the other tasks of the thread.
const TURN: usize = 64 << 10;
/// Bytes of a frame header (RFC 9113, section 4.1).
const HEADER: usize = 9;
/// Bytes of the connection preface of a client.
const PREFACE: usize = 24;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
/// The flag of DATA with padding.
const PADDED: u8 = 8;
/// DATA of at least this size without padding is limited by the size of the answer. Smaller frames could be a flood.
const ANSWER: usize = 2 << 10;
/// The beginning of a response in HTTP/1.
const HTTP_1: &[u8] = b"HTTP/1.";
/// The beginning of a TLS alert, which is shorter than a frame header. As a frame it would be larger than any that is
/// accepted.
const TLS_ALERT: &[u8] = &[21, 3];

/// Frames for a request, or a message of a node table: several times what the answer takes.
const PER_REQUEST: usize = 32;
/// The bytes of a request for each `WINDOW_UPDATE`; some servers send two for every 4 KiB.
const PER_UPDATE: usize = 1 << 10;
/// Bytes for each of these frames.
const PER_FRAME: usize = 1 << 10;

/// The number of frames that a sent frame allows the peer to send. DATA counts by its size, because the peer's flow
/// control decides how many frames a request is cut into.
fn allowed_for(frame: &Frame) -> usize {
    match frame.kind {
        HEADERS => PER_REQUEST,
        DATA => (frame.payload / 8).min(PER_REQUEST) + frame.payload / PER_UPDATE,
        _ => 0,
    }
}

/// How much a backend may send in addition to its answers.
#[derive(Debug)]
struct Budget {
    what: &'static str,
    burst: u32,
    per_second: u32,
    tokens: TokenBucket,
}

impl Budget {
    fn new(what: &'static str, burst: u32, per_second: u32) -> Self {
        let tokens = TokenBucket::new(burst, per_second, Duration::from_secs(1));
        Self { what, burst, per_second, tokens }
    }

    fn take(&mut self, amount: u32) -> io::Result<()> {
        // The clock is not read for each frame.
        if self.tokens.take_saved(amount) || self.tokens.take(amount) {
            return Ok(());
        }
        let Self { what, burst, per_second, .. } = self;
        let text = format!(
            "the backend sent more {what} than its answers need: over {burst} and {per_second} a second"
        );
        Err(io::Error::new(io::ErrorKind::QuotaExceeded, text))
    }
}

/// Finds the frames in one direction of a connection by their headers.
#[derive(Debug, Default)]
struct Frames {
    header: [u8; HEADER],
    /// Bytes of the next header that have arrived.
    begun: usize,
    /// Bytes to come before it.
    payload: usize,
}

/// A frame header, without the stream.
struct Frame {
    kind: u8,
    flags: u8,
    payload: usize,
}

impl Frame {
    /// Whether it is part of an answer, whose size is limited elsewhere.
    fn is_answer(&self) -> bool {
        self.kind == DATA && self.flags & PADDED == 0 && self.payload >= ANSWER
    }
}

impl Frames {
    /// The next frame whose header ends in `bytes`; removes everything up to there from them.
    fn next(&mut self, bytes: &mut &[u8]) -> Option<Frame> {
        let payload = self.payload.min(bytes.len());
        self.payload -= payload;
        let rest = &bytes[payload..];
        let (header, rest) = rest.split_at((HEADER - self.begun).min(rest.len()));
        self.header[self.begun..][..header.len()].copy_from_slice(header);
        self.begun += header.len();
        *bytes = rest;
        if self.begun < HEADER {
            return None;
        }
        let [high, middle, low, kind, flags, ..] = self.header;
        self.payload = u32::from_be_bytes([0, high, middle, low]) as usize;
        self.begun = 0;
        Some(Frame { kind, flags, payload: self.payload })
    }

    /// The bytes of the next header that have arrived.
    fn begun_header(&self) -> &[u8] {
        &self.header[..self.begun]
    }
}

/// A connection with a limit on the frames that the backend sends.
#[derive(Debug)]
pub(crate) struct Budgeted<S> {
    stream: S,
    received: Frames,
    sent: Frames,
    frames: Budget,
    bytes: Budget,
    /// Bytes read since the connection last yielded.
    read: usize,
}

impl<S> Budgeted<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self {
            stream,
            received: Frames::default(),
            sent: Frames { payload: PREFACE, ..Frames::default() },
            frames: Budget::new("HTTP/2 frames", 10_000, 1_000),
            bytes: Budget::new("bytes of HTTP/2 frames other than DATA", 1 << 20, 64 << 10),
            read: 0,
        }
    }

    fn count_received(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while let Some(frame) = self.received.next(&mut bytes) {
            other_protocol(&self.received.header)?;
            if frame.is_answer() {
                continue;
            }
            self.frames.take(1)?;
            if frame.kind != DATA {
                self.bytes.take(saturated(HEADER + frame.payload))?;
            }
        }
        other_protocol(self.received.begun_header())
    }

    fn count_sent(&mut self, mut bytes: &[u8]) {
        while let Some(frame) = self.sent.next(&mut bytes) {
            let frames = allowed_for(&frame);
            self.frames.tokens.put(saturated(frames));
            self.bytes.tokens.put(saturated(frames * PER_FRAME));
        }
    }
}

/// Fails if this is no header of a frame but the beginning of an answer in another protocol.
fn other_protocol(header: &[u8]) -> io::Result<()> {
    let text = if header.starts_with(HTTP_1) {
        "the backend answers in HTTP/1, not in HTTP/2"
    } else if header.starts_with(TLS_ALERT) {
        "the backend answers with a TLS alert, not in HTTP/2"
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::Unsupported, text))
}

fn saturated(amount: usize) -> u32 {
    u32::try_from(amount).unwrap_or(u32::MAX)
}

impl<S: AsyncRead + Unpin> AsyncRead for Budgeted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.read >= TURN {
            self.read = 0;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let Poll::Ready(ended) = Pin::new(&mut self.stream).poll_read(context, buffer) else {
            self.read = 0;
            return Poll::Pending;
        };
        ended?;
        let read = &buffer.filled()[before..];
        self.read += read.len();
        Poll::Ready(self.count_received(read))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Budgeted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.count_sent(&bytes[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, pieces))?;
        let mut rest = written;
        for piece in pieces {
            let part = &piece[..piece.len().min(rest)];
            self.count_sent(part);
            rest -= part.len();
        }
        Poll::Ready(Ok(written))
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
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;

    fn frame(kind: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, 0, 0, 0, 0, 1]);
        frame.resize(HEADER + payload, 0);
        frame
    }

    fn frames_until_refused(budgeted: &mut Budgeted<()>, frame: &[u8]) -> usize {
        let accepted = (0..1_000_000).take_while(|_| budgeted.count_received(frame).is_ok()).count();
        // A connection ends here. For the next frame to be one, the payload of the refused one is over.
        budgeted.received = Frames::default();
        accepted
    }

    #[tokio::test(start_paused = true)]
    async fn frames_that_are_no_answers_have_a_burst_and_a_rate() {
        let mut budgeted = Budgeted::new(());
        assert_eq!(frames_until_refused(&mut budgeted, &frame(PING, 8)), 10_000);
        tokio::time::advance(Duration::from_millis(1500)).await;
        assert_eq!(frames_until_refused(&mut budgeted, &frame(DATA, 1)), 1_500);
        let mut budgeted = Budgeted::new(());
        assert_eq!(frames_until_refused(&mut budgeted, &frame(HEADERS, (16 << 10) - HEADER)), 64);
        let refused = budgeted.count_received(&frame(HEADERS, 16 << 10)).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::QuotaExceeded);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_not_limited_however_many_and_large() {
        let mut budgeted = Budgeted::new(());
        budgeted.count_sent(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let request = [frame(HEADERS, 40), frame(DATA, 300)].concat();
        let settings = [frame(4, 0), frame(8, 4), frame(PING, 8)].concat();
        let answer = [settings, frame(HEADERS, 20), frame(DATA, 7), frame(HEADERS, 20)].concat();
        for _ in 0..50_000 {
            budgeted.count_sent(&request);
            budgeted.count_received(&answer).unwrap();
        }
        let large = frame(DATA, 16 << 10);
        for _ in 0..50_000 {
            budgeted.count_received(&large).unwrap();
        }
    }

    /// A server of Go reads frames of a megabyte, and says twice for every 4 KiB that it has read them.
    #[tokio::test(start_paused = true)]
    async fn window_updates_for_large_requests_are_not_limited() {
        let mut budgeted = Budgeted::new(());
        budgeted.count_sent(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let request = [frame(HEADERS, 40), frame(DATA, 1 << 20)].concat();
        let answer = [frame(WINDOW_UPDATE, 4).repeat(2 * 256), frame(HEADERS, 20), frame(DATA, 7)].concat();
        for _ in 0..1_000 {
            budgeted.count_sent(&request);
            budgeted.count_received(&answer).unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn floods_in_disguise_are_floods() {
        let mut padded = frame(DATA, 4096);
        padded[4] = PADDED;
        for flood in [padded, frame(DATA, ANSWER - 1), frame(WINDOW_UPDATE, 4), frame(4, 0), frame(9, 0)] {
            let mut budgeted = Budgeted::new(());
            budgeted.count_sent(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
            let refused = frames_until_refused(&mut budgeted, &flood);
            assert_eq!(refused, 10_000);
            // A byte of a request, for which the peer has opened the window, is no reason to send more.
            budgeted.count_sent(&frame(DATA, 1));
            assert_eq!(frames_until_refused(&mut budgeted, &flood), 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_in_http_1_is_called_so() {
        let refused = Budgeted::new(()).count_received(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::Unsupported);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tls_alert_is_called_so_wherever_reads_end() {
        // Fatal decode_error, then close_notify.
        let alert = [21, 3, 3, 0, 2, 2, 50, 21, 3, 3, 0, 2, 1, 0];
        for length in 1..=alert.len() {
            let mut budgeted = Budgeted::new(());
            let refused = alert.chunks(length).find_map(|part| budgeted.count_received(part).err());
            assert_eq!(refused.unwrap().kind(), io::ErrorKind::Unsupported, "{length}");
        }
        let mut budgeted = Budgeted::new(());
        budgeted.count_received(&frame(DATA, 21)[..2]).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn frames_are_found_wherever_reads_and_writes_end() {
        let frames = [frame(HEADERS, 3), frame(DATA, 0), frame(PING, 8), frame(DATA, 300)].concat();
        for length in 1..frames.len() {
            let mut found = Vec::new();
            let mut follow = Frames::default();
            for mut part in frames.chunks(length) {
                while let Some(Frame { kind, payload, .. }) = follow.next(&mut part) {
                    found.push((kind, payload));
                }
            }
            assert_eq!(found, [(HEADERS, 3), (DATA, 0), (PING, 8), (DATA, 300)], "{length}");
        }
    }

    #[tokio::test]
    async fn a_long_read_leaves_the_thread_to_others_and_loses_nothing() {
        let (mut peer, end) = tokio::io::duplex(1 << 20);
        let sent: Vec<u8> = std::iter::repeat_n(frame(DATA, 10_000), 60).flatten().collect();
        peer.write_all(&sent).await.unwrap();
        drop(peer);
        let mut budgeted = Budgeted::new(end);
        let mut read = Vec::new();
        let mut polls = 0;
        let reading = async {
            let mut part = [0; 8192];
            loop {
                let bytes = budgeted.read(&mut part).await.unwrap();
                if bytes == 0 {
                    return;
                }
                read.extend_from_slice(&part[..bytes]);
            }
        };
        let mut reading = std::pin::pin!(reading);
        std::future::poll_fn(|context| {
            polls += 1;
            reading.as_mut().poll(context)
        })
        .await;
        assert!(read == sent && polls > sent.len() / (2 * TURN), "{polls} polls");
    }
}

//! The lines of a response while it arrives.

use bytes::{Buf, Bytes, BytesMut};
use extender_apiserver::{text::utf8_body, whole_text};
use http_body_util::BodyExt;
use kube::client::Body;

/// The longest line in bytes: more than etcd stores of an object, and than the gateway reads of one.
pub(super) const LONGEST: usize = 16 << 20;

/// What is kept of a longer line, in bytes: enough for the names of its object.
const BEGINNING: usize = 16 << 10;

/// The next part of a body.
#[derive(Debug)]
pub(super) enum Received {
    /// A line that is not blank, as UTF-8.
    Line(Bytes),
    /// The beginning of a line that is too long.
    TooLong(Bytes),
    /// The body has ended or the connection broke, perhaps within a line. Contains the reason.
    End(String),
}

/// A body that is read line by line.
#[derive(Debug)]
pub(super) struct Lines {
    body: Body,
    received: BytesMut,
    /// The first bytes of `received`, which contain no line end.
    searched: usize,
    /// The beginning of the line whose rest is being skipped.
    beginning: Option<Bytes>,
}

impl Lines {
    pub(super) fn new(body: Body) -> Self {
        Self { body, received: BytesMut::new(), searched: 0, beginning: None }
    }

    /// The next line or the end. Cancel safe.
    pub(super) async fn next(&mut self) -> Received {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.received[self.searched..]) {
                let line = self.received.split_to(self.searched + end + 1).freeze();
                self.searched = 0;
                if let Some(beginning) = self.beginning.take() {
                    return Received::TooLong(beginning);
                }
                if line.len() > LONGEST {
                    return Received::TooLong(line.slice(..BEGINNING));
                }
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return Received::Line(utf8_body(line));
            }
            self.searched = self.received.len();
            if self.beginning.is_some() {
                self.received.advance(std::mem::take(&mut self.searched));
            } else if self.searched > LONGEST {
                self.beginning = Some(Bytes::copy_from_slice(&self.received[..BEGINNING]));
            }
            let frame = match self.body.frame().await {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => {
                    return Received::End(format!("the watch was interrupted: {}", whole_text(&error)));
                }
                None => return Received::End("the watch ended".to_owned()),
            };
            if let Ok(bytes) = frame.into_data() {
                self.received.extend_from_slice(&bytes);
            }
        }
    }
}

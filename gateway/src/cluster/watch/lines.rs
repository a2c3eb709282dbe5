//! The lines of a response while it arrives.

use bytes::{Bytes, BytesMut};
use extender_apiserver::{RequestError, whole_text};
use http_body_util::BodyExt;
use kube::client::Body;

/// The longest line in bytes: more than etcd stores of an object, and than the gateway reads of one.
const LONGEST: usize = 16 << 20;

/// The next part of a body.
#[derive(Debug)]
pub(super) enum Received {
    /// A line that is not blank.
    Line(Bytes),
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
}

impl Lines {
    pub(super) fn new(body: Body) -> Self {
        Self { body, received: BytesMut::new(), searched: 0 }
    }

    /// The next line or the end. Cancel safe.
    ///
    /// # Errors
    /// A line is too long.
    pub(super) async fn next(&mut self) -> Result<Received, RequestError> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.received[self.searched..]) {
                let line = self.received.split_to(self.searched + end + 1).freeze();
                self.searched = 0;
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return Ok(Received::Line(line));
            }
            self.searched = self.received.len();
            if self.searched > LONGEST {
                let text = format!("the watch sent a line of more than {} MiB", LONGEST >> 20);
                return Err(RequestError::Failed(text));
            }
            let frame = match self.body.frame().await {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => {
                    return Ok(Received::End(format!("the watch was interrupted: {}", whole_text(&error))));
                }
                None => return Ok(Received::End("the watch ended".to_owned())),
            };
            if let Ok(bytes) = frame.into_data() {
                self.received.extend_from_slice(&bytes);
            }
        }
    }
}

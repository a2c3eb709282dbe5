//! The lines of a response while it arrives.

use bytes::{Bytes, BytesMut};
use extender_apiserver::{RequestError, whole_text};
use http_body_util::BodyExt;
use kube::client::Body;

/// The longest line: more than etcd stores of an object, and than this program reads of one.
const LONGEST: usize = 16 << 20;

/// A body that is read line by line.
#[derive(Debug)]
pub(super) struct Lines {
    body: Body,
    received: BytesMut,
    /// So many bytes of it contain no line end.
    searched: usize,
}

impl Lines {
    pub(super) fn new(body: Body) -> Self {
        Self { body, received: BytesMut::new(), searched: 0 }
    }

    /// The next line; `None` when the body has ended, with or without the rest of a line. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, RequestError> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.received[self.searched..]) {
                let line = self.received.split_to(self.searched + at + 1).freeze();
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.received.len();
            if self.searched > LONGEST {
                let text = format!("the watch sent a line of more than {} MiB", LONGEST >> 20);
                return Err(RequestError::Failed(text));
            }
            let Some(frame) = self.body.frame().await else { return Ok(None) };
            let frame = frame.map_err(|error| {
                RequestError::Failed(format!("the watch was interrupted: {}", whole_text(&error)))
            })?;
            if let Ok(bytes) = frame.into_data() {
                self.received.extend_from_slice(&bytes);
            }
        }
    }
}

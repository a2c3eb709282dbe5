//! The body of a request, whose messages count while they arrive.

use std::{
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll},
};

use extender_policy_api::v1beta1::ErrorReason;
use prost::bytes::Bytes;
use tonic::{Status, body::Body, codegen::Body as HttpBody};

use super::Share;
use crate::error::with_reason;

/// The compression flag and the length before a message.
const PREFIX: usize = 5;

pub(super) struct CountedBody {
    body: Body,
    share: Arc<Share>,
    prefix: FramePrefix,
    /// The bytes that the message still lacks.
    left: usize,
}

/// What has arrived of a prefix.
#[derive(Default)]
struct FramePrefix {
    bytes: [u8; PREFIX],
    count: usize,
}

impl CountedBody {
    pub(super) fn new(body: Body, share: Arc<Share>) -> Self {
        Self { body, share, prefix: FramePrefix::default(), left: 0 }
    }

    fn count(&mut self, mut data: &[u8]) {
        while let Some((&first, rest)) = data.split_first() {
            if self.left == 0 {
                data = rest;
                self.begin(first);
            } else {
                let here = self.left.min(data.len());
                data = &data[here..];
                self.left -= here;
                self.share.arrived(here);
                self.complete();
            }
        }
    }

    /// Another byte of a prefix.
    fn begin(&mut self, byte: u8) {
        self.prefix.bytes[self.prefix.count] = byte;
        self.prefix.count += 1;
        if self.prefix.count == PREFIX {
            let [_, length @ ..] = std::mem::take(&mut self.prefix).bytes;
            self.left = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
            self.complete();
        }
    }

    fn complete(&self) {
        if self.left == 0 {
            self.share.completed();
        }
    }

    fn is_given_up(&self, context: &Context<'_>) -> bool {
        let end = &self.share.end;
        end.waker.register(context.waker());
        end.is_given_up.load(Relaxed)
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(frame) = &polled {
            if let Some(Ok(frame)) = frame
                && let Some(data) = frame.data_ref()
            {
                self.count(data);
            }
            if frame.is_none() || self.body.is_end_stream() {
                self.share.ended();
            }
            // What is complete with this frame is none that can be given up.
            self.share.total.enforce();
        }
        if self.is_given_up(context) {
            let text = "too many bytes of messages are arriving; this one is the largest, send it again";
            let status = with_reason(Status::resource_exhausted(text), ErrorReason::Overloaded);
            return Poll::Ready(Some(Err(status)));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

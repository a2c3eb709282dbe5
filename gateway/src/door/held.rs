//! A body that holds a value until it has been sent: the slot of its request, or the permit for its memory.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::body::{Body, Frame, SizeHint};

/// A body and the value that is dropped with it.
#[derive(Debug)]
pub(crate) struct HeldBody<B, H> {
    body: B,
    has_ended: bool,
    _held: H,
}

impl<B: Body, H> HeldBody<B, H> {
    pub(crate) fn new(body: B, held: H) -> Self {
        Self { has_ended: body.is_end_stream(), body, _held: held }
    }
}

impl<B: Body + Unpin, H: Unpin> Body for HeldBody<B, H> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.has_ended = frame.is_none();
        Poll::Ready(frame)
    }

    /// Never true with the last frame: hyper drops a body that has ended. It asks for the next frame when most of
    /// the previous one has been written, all but about 400 KiB.
    fn is_end_stream(&self) -> bool {
        self.has_ended
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

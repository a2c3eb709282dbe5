//! A body that holds something until it has gone out: the place of its request, or the permit for its memory.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::body::{Body, Frame, SizeHint};

/// A body with what is dropped with it.
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

    /// Not with the last frame already: hyper drops a body that has ended. It asks for what follows a frame when
    /// most of that has been written, all but some 400 KiB.
    fn is_end_stream(&self) -> bool {
        self.has_ended
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

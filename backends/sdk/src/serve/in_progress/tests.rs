use std::{collections::VecDeque, pin::Pin};

use futures_util::FutureExt as _;
use prost::bytes::Bytes;
use tonic::{Code, Status, codegen::Body as HttpBody};

use super::*;

/// What a client has sent, and whether it ends with that.
struct Sent {
    frames: VecDeque<Bytes>,
    ends: bool,
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Status>>> {
        match self.frames.pop_front() {
            Some(data) => Poll::Ready(Some(Ok(http_body::Frame::data(data)))),
            None if self.ends => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ends && self.frames.is_empty()
    }
}

/// A message of this length, of which so many bytes are sent, in frames that do not respect its borders.
fn message(length: u32, sent: usize) -> Vec<u8> {
    [&[0][..], &length.to_be_bytes(), &vec![7; sent]].concat()
}

fn counted(total: &Arc<Total>, holds: Holds, bytes: &[u8]) -> CountedBody {
    sent(total, holds, bytes, false)
}

fn sent(total: &Arc<Total>, holds: Holds, bytes: &[u8], ends: bool) -> CountedBody {
    let frames = bytes.chunks(3).map(Bytes::copy_from_slice).collect();
    CountedBody::new(Body::new(Sent { frames, ends }), Arc::new(Share::new(total, holds)))
}

/// Reads what was sent; the error with which the body ends, if it does.
fn read(body: &mut CountedBody) -> Option<Code> {
    let mut body = Pin::new(body);
    loop {
        match std::future::poll_fn(|context| body.as_mut().poll_frame(context)).now_or_never() {
            Some(Some(Ok(_))) => {}
            Some(ended) => return ended.and_then(Result::err).map(|status| status.code()),
            None => return None,
        }
    }
}

#[test]
fn the_largest_unfinished_message_is_given_up() {
    let total = Total::new(100);
    let mut large = counted(&total, Holds::UntilAnswered, &message(1_000, 60));
    let mut small = counted(&total, Holds::UntilAnswered, &message(1_000, 30));
    assert_eq!((read(&mut large), read(&mut small)), (None, None));
    let mut other = counted(&total, Holds::UntilArrived, &message(1_000, 20));
    assert_eq!((read(&mut other), total.held().bytes), (None, 50));
    assert_eq!(read(&mut large), Some(Code::ResourceExhausted));
    assert_eq!((read(&mut small), read(&mut other)), (None, None));
    drop((small, other, large));
    let held = total.held();
    assert_eq!((held.bytes, held.messages.len()), (0, 0));
}

#[test]
fn a_complete_message_whose_stream_does_not_end_is_given_up_and_one_at_work_is_not() {
    let total = Total::new(100);
    let mut at_work = sent(&total, Holds::UntilAnswered, &message(70, 70), true);
    let mut kept = counted(&total, Holds::UntilAnswered, &message(28, 28));
    assert_eq!((read(&mut at_work), read(&mut kept), total.held().bytes), (None, None, 98));
    // It is complete with the frame that is too much.
    let mut next = sent(&total, Holds::UntilAnswered, &message(3, 3), true);
    assert_eq!((read(&mut next), total.held().bytes), (None, 73));
    assert_eq!(read(&mut kept), Some(Code::ResourceExhausted));
}

#[test]
fn a_message_of_a_stream_counts_until_it_has_arrived_and_that_of_a_call_until_it_is_answered() {
    let two = [message(40, 40), message(40, 39)].concat();
    for (holds, expected) in [(Holds::UntilArrived, 39), (Holds::UntilAnswered, 79)] {
        let total = Total::new(100);
        let mut body = counted(&total, holds, &two);
        assert_eq!((read(&mut body), total.held().bytes), (None, expected), "{holds:?}");
    }
}

#[test]
fn empty_messages_and_split_prefixes_are_understood() {
    let total = Total::new(100);
    let several = [message(0, 0), message(0, 0), message(1, 1), message(500, 9)].concat();
    let mut body = counted(&total, Holds::UntilArrived, &several);
    assert_eq!((read(&mut body), total.held().bytes), (None, 9));
}

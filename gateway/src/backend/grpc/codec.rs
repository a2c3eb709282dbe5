//! A codec that passes bytes through.

use std::marker::PhantomData;

use bytes::{Buf, BufMut, Bytes};
use tonic::{
    Status,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use crate::contract::protobuf::PREFIX;

/// What the decoder says of a second answer to a unary call.
pub(super) const SECOND: &str = "response contains more than one message";

/// Passes messages of pieces that begin with the prefix, which tonic writes itself.
pub(super) struct Passing<P> {
    /// The length of the first message with its prefix: tonic's buffer is allocated once.
    length: usize,
    /// The number of answers that are read.
    most: usize,
    pieces: PhantomData<fn(P)>,
}

impl<P: AsRef<[Bytes]>> Passing<P> {
    /// For one message, which has one answer.
    pub(super) fn once(message: &P) -> Self {
        let length = message.as_ref().iter().map(Bytes::len).sum();
        Self { length, most: 1, pieces: PhantomData }
    }

    /// For any number of messages.
    pub(super) fn stream() -> Self {
        Self { length: 8 << 10, most: usize::MAX, pieces: PhantomData }
    }
}

impl<P: AsRef<[Bytes]> + Send + 'static> Codec for Passing<P> {
    type Encode = P;
    type Decode = Bytes;
    type Encoder = Pieces<P>;
    type Decoder = Answers;

    fn encoder(&mut self) -> Pieces<P> {
        Pieces { length: self.length, pieces: PhantomData }
    }

    fn decoder(&mut self) -> Answers {
        Answers { left: self.most }
    }
}

pub(super) struct Pieces<P> {
    length: usize,
    pieces: PhantomData<fn(P)>,
}

impl<P: AsRef<[Bytes]>> Encoder for Pieces<P> {
    type Item = P;
    type Error = Status;

    fn encode(&mut self, message: P, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let mut prefix = PREFIX;
        for piece in message.as_ref() {
            let skipped = prefix.min(piece.len());
            prefix -= skipped;
            to.put_slice(&piece[skipped..]);
        }
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(self.length, self.length)
    }
}

pub(super) struct Answers {
    left: usize,
}

impl Decoder for Answers {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        if self.left == 0 {
            return Err(Status::internal(SECOND));
        }
        self.left -= 1;
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }

    fn buffer_settings(&self) -> BufferSettings {
        // Nothing until something arrives, then as much as that.
        BufferSettings::new(0, 0)
    }
}

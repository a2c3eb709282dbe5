//! Decodes requests, after checking how much memory they would take.

use std::marker::PhantomData;

use extender_policy_api::v1beta1 as api;
use prost::{
    Message,
    bytes::{Buf as _, Bytes},
};
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder},
};
use tonic_prost::ProstEncoder;

use crate::{
    MAX_MESSAGE_BYTES,
    error::CallError,
    request::{ChangeRequest, FilterRequest, PreemptRequest, ScoreRequest, SyncNodesRequest},
    size::{self, Shape},
};

/// The most memory that a decoded request may take, besides its bytes. A large preemption: 1,500 candidates with
/// thirty victims each.
const MAX_DECODED_BYTES: usize = 2 * MAX_MESSAGE_BYTES;

/// The same for messages of which many may be held at once: those of node tables, and small ones.
const MAX_DECODED_SMALL_BYTES: usize = 16 << 20;

/// A message that this crate reads.
pub(crate) trait Incoming: Message + Default + 'static {
    /// The parts of it that are counted.
    const SHAPE: Shape;
    /// The most memory that it may take decoded, in bytes.
    const MOST: usize = MAX_DECODED_BYTES;
}

impl Incoming for api::GetInfoRequest {
    const SHAPE: Shape = size::GET_INFO;
}

impl Incoming for api::IntrospectRequest {
    const SHAPE: Shape = size::INTROSPECT;
    const MOST: usize = MAX_DECODED_SMALL_BYTES;
}

impl Incoming for api::WatchRequest {
    const SHAPE: Shape = &[];
    const MOST: usize = MAX_DECODED_SMALL_BYTES;
}

impl Incoming for FilterRequest {
    const SHAPE: Shape = size::QUESTION;
}

impl Incoming for ChangeRequest {
    const SHAPE: Shape = size::QUESTION;
}

impl Incoming for ScoreRequest {
    const SHAPE: Shape = size::QUESTION;
}

impl Incoming for PreemptRequest {
    const SHAPE: Shape = size::PREEMPT;
}

impl Incoming for api::BindRequest {
    const SHAPE: Shape = size::BIND;
}

impl Incoming for api::ReportRequest {
    const SHAPE: Shape = size::REPORT;
    const MOST: usize = MAX_DECODED_SMALL_BYTES;
}

impl Incoming for SyncNodesRequest {
    const SHAPE: Shape = size::SYNC_NODES;
    const MOST: usize = MAX_DECODED_SMALL_BYTES;
}

/// Decodes a message, unless it would take much more memory than its bytes.
pub(crate) fn decode<Q: Incoming>(message: Bytes) -> Result<Q, CallError> {
    size::check(&message, Q::SHAPE, Q::MOST).map_err(CallError::Refused)?;
    Q::decode(message).map_err(CallError::Undecodable)
}

/// A check before a message is decoded.
pub(crate) trait Admission: Clone + Send + Sync + 'static {
    /// # Errors
    /// The message must not be decoded.
    fn admit(&self, message: &[u8]) -> Result<(), CallError>;
}

/// Admits every message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmitAll;

impl Admission for AdmitAll {
    fn admit(&self, _: &[u8]) -> Result<(), CallError> {
        Ok(())
    }
}

/// Decodes requests and encodes answers.
pub(crate) struct RequestCodec<Q, A, D> {
    admission: D,
    messages: PhantomData<fn(Q) -> A>,
}

impl<Q, A, D> RequestCodec<Q, A, D> {
    pub(crate) fn new(admission: D) -> Self {
        Self { admission, messages: PhantomData }
    }
}

impl<Q: Incoming, A: Message + 'static, D: Admission> Codec for RequestCodec<Q, A, D> {
    type Encode = A;
    type Decode = Q;
    type Encoder = ProstEncoder<A>;
    type Decoder = RequestDecoder<Q, D>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        RequestDecoder { admission: self.admission.clone(), message: PhantomData }
    }
}

/// Decodes one kind of request.
pub(crate) struct RequestDecoder<Q, D> {
    admission: D,
    message: PhantomData<fn() -> Q>,
}

impl<Q: Incoming, D: Admission> Decoder for RequestDecoder<Q, D> {
    type Item = Q;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Q>, Status> {
        // No copy: the message is contiguous.
        let message = buffer.copy_to_bytes(buffer.remaining());
        self.admission.admit(&message)?;
        Ok(Some(decode(message)?))
    }
}

//! The frame of a gRPC message (`grpc/grpc` doc/PROTOCOL-HTTP2.md, Length-Prefixed-Message), and how large one may be.

use extender_gateway_core::{BackendFailure, FailureKind};

/// Bytes before each message: whether it is compressed, and its length.
pub const PREFIX: usize = 5;

/// The largest answer about `count` nodes that is read, in bytes: a reason of its own for each node and some
/// room.
pub fn largest_answer(count: u32) -> usize {
    (64 << 10) + count as usize * 1024
}

/// Writes the prefix of a message of `len` bytes.
///
/// # Errors
/// The message is longer than 32 bits can say.
pub fn put_prefix(len: usize, out: &mut Vec<u8>) -> Result<(), BackendFailure> {
    let len = u32::try_from(len)
        .map_err(|_| BackendFailure::new(FailureKind::Oversize, "the request is larger than 4 GiB"))?;
    out.push(0);
    out.extend_from_slice(&len.to_be_bytes());
    Ok(())
}

//! The frame of a gRPC message (`grpc/grpc` doc/PROTOCOL-HTTP2.md, Length-Prefixed-Message), and its size limits.

use extender_gateway_core::{BackendFailure, FailureKind};

/// Bytes before each message: the compressed flag and the length.
pub const PREFIX: usize = 5;

/// The largest answer about `count` nodes that is read, in bytes: enough for a separate reason for each node.
pub fn largest_answer(count: u32) -> usize {
    (64 << 10) + count as usize * 1024
}

/// Writes the prefix of a message of `len` bytes.
///
/// # Errors
/// The length does not fit in 32 bits.
pub fn put_prefix(len: usize, out: &mut Vec<u8>) -> Result<(), BackendFailure> {
    let len = u32::try_from(len)
        .map_err(|_| BackendFailure::new(FailureKind::Oversize, "the request is larger than 4 GiB"))?;
    out.push(0);
    out.extend_from_slice(&len.to_be_bytes());
    Ok(())
}

//! Protobuf fields that are written without a message type. Their numbers are below 16, so that keys are one byte.

use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};

/// Writes the key and the length of a field.
pub(super) fn put_head(field: u32, len: usize, out: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(len as u64, out);
}

/// Writes a length-delimited field.
pub(super) fn put_bytes(field: u32, content: &[u8], out: &mut Vec<u8>) {
    put_head(field, content.len(), out);
    out.extend_from_slice(content);
}

/// Writes a field with a number.
pub(super) fn put_number(field: u32, number: u64, out: &mut Vec<u8>) {
    encode_key(field, WireType::Varint, out);
    encode_varint(number, out);
}

/// Bytes of a field with a one-byte key and content of this length.
pub(super) fn field_len(content: usize) -> usize {
    1 + encoded_len_varint(content as u64) + content
}

//! Protobuf without generated types, and the frame of a gRPC message. Requests are written field by field from parts
//! that several requests share. The elements of a response are counted before it is decoded, because a repeated field
//! that is decoded into a list of structs can take a hundred times its bytes: counting allocates nothing, and reads
//! each byte once for each level of messages.

use std::{fmt::Display, iter};

use bytes::{BufMut, Bytes};
use extender_gateway_core::{BackendFailure, FailureKind};
use prost::{
    Message,
    encoding::{WireType, decode_key, decode_varint, encode_key, encode_varint, encoded_len_varint},
};

/// Bytes before each message of a gRPC call, the compressed flag and the length (`grpc/grpc`
/// doc/PROTOCOL-HTTP2.md, Length-Prefixed-Message).
pub const PREFIX: usize = 5;

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

/// Writes the key and the length of a length-delimited field.
pub fn put_head(field: u32, len: usize, out: &mut impl BufMut) {
    encode_key(field, WireType::LengthDelimited, out);
    encode_varint(len as u64, out);
}

/// Writes a length-delimited field.
pub fn put_bytes(field: u32, content: &[u8], out: &mut impl BufMut) {
    put_head(field, content.len(), out);
    out.put_slice(content);
}

/// Writes a field with a number.
pub fn put_number(field: u32, number: u64, out: &mut impl BufMut) {
    encode_key(field, WireType::Varint, out);
    encode_varint(number, out);
}

/// Writes a `fixed64` field.
pub fn put_fixed(field: u32, number: u64, out: &mut impl BufMut) {
    encode_key(field, WireType::SixtyFourBit, out);
    out.put_u64_le(number);
}

/// Bytes of a field with content of this length. Its number is below 16, so the key is one byte.
pub fn field_len(content: usize) -> usize {
    1 + encoded_len_varint(content as u64) + content
}

/// The failure for an answer that violates the API.
pub fn malformed(detail: impl AsRef<str>) -> BackendFailure {
    BackendFailure::new(FailureKind::Malformed, detail)
}

pub(super) fn undecodable(error: impl Display) -> BackendFailure {
    malformed(format!("cannot decode the response ({error})"))
}

/// Decodes a message.
///
/// # Errors
/// It is not this protobuf message.
pub fn decoded<M: Message + Default>(message: Bytes) -> Result<M, BackendFailure> {
    M::decode(message).map_err(undecodable)
}

/// The number of a field and, unless it is a number, its content: a text, a message or packed numbers.
type Field<'m> = (u32, Option<&'m [u8]>);

/// The fields of a message, in their order.
pub fn fields(mut message: &[u8]) -> impl Iterator<Item = Result<Field<'_>, BackendFailure>> {
    iter::from_fn(move || {
        if message.is_empty() {
            return None;
        }
        let field = next_field(&mut message);
        if field.is_err() {
            message = &[];
        }
        Some(field)
    })
}

/// The next field, which is taken off `rest`.
pub(super) fn next_field<'m>(rest: &mut &'m [u8]) -> Result<Field<'m>, BackendFailure> {
    let (number, kind) = decode_key(rest).map_err(undecodable)?;
    let len = match kind {
        WireType::Varint => {
            decode_varint(rest).map_err(undecodable)?;
            return Ok((number, None));
        }
        WireType::ThirtyTwoBit => 4,
        WireType::SixtyFourBit => 8,
        WireType::LengthDelimited => decode_varint(rest).map_err(undecodable)?,
        WireType::StartGroup | WireType::EndGroup => {
            return Err(undecodable("it contains a group, which proto3 does not support"));
        }
    };
    let parts = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
    let (content, behind) = parts.ok_or_else(|| undecodable("it ends inside a field"))?;
    *rest = behind;
    Ok((number, (kind == WireType::LengthDelimited).then_some(content)))
}

/// The number of elements in this repeated field of numbers. Stops counting when there are more than `most`.
pub(super) fn count_numbers(message: &[u8], field: u32, most: usize) -> Result<usize, BackendFailure> {
    let mut sum = 0;
    for read in fields(message) {
        let (number, packed) = read?;
        if number == field {
            sum += packed.map_or(1, count_packed);
        }
        if sum > most {
            break;
        }
    }
    Ok(sum)
}

/// The number of packed varints. The last byte of each has its highest bit clear; eight bytes are checked at a time,
/// because an answer may have thousands of scores.
pub fn count_packed(packed: &[u8]) -> usize {
    let ends = |bytes: &[u8; 8]| (!u64::from_ne_bytes(*bytes) & 0x8080_8080_8080_8080).count_ones() as usize;
    let (eights, rest) = packed.as_chunks();
    eights.iter().map(ends).sum::<usize>() + rest.iter().filter(|byte| **byte < 0x80).count()
}

#[cfg(test)]
mod tests {
    use extender_policy_api::v1beta1::{Rejection, Scores};

    use super::*;

    #[test]
    fn packed_and_single_numbers_are_counted() {
        let packed = Scores { values: vec![0, -1, i32::MAX, 300], absent: Vec::new() }.encode_to_vec();
        assert_eq!(count_numbers(&packed, 1, 4), Ok(4));
        assert_eq!(
            count_numbers(&[8, 1, 8, 0xff, 1, 10, 2, 0, 0], 1, 4),
            Ok(4),
            "1 and 255 alone, two packed"
        );
        let rejection = Rejection {
            reason: "no".into(),
            kind: 1,
            positions: vec![7],
            rule: "r".into(),
            retry_after_seconds: None,
        };
        assert_eq!(count_numbers(&rejection.encode_to_vec(), 3, 1), Ok(1));
        assert_eq!(count_numbers(&Rejection::default().encode_to_vec(), 3, 1), Ok(0));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for (bytes, why) in [
            (&[10, 5, 1][..], "it ends inside a field"),
            (&[13, 1], "it ends inside a field"),
            (&[11, 12], "it contains a group, which proto3 does not support"),
            (&[10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], "it ends inside a field"),
        ] {
            let failure = count_numbers(bytes, 1, 1).unwrap_err();
            assert_eq!(failure.detail, format!("cannot decode the response ({why})"));
        }
        for bytes in [&[0xff; 11][..], &[7], &[0, 0], &[8]] {
            assert!(count_numbers(bytes, 1, 1).is_err(), "{bytes:?}");
        }
    }
}

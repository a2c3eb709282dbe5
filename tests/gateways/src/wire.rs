//! Protobuf as it is on the wire, for rules about bytes.

use bytes::Bytes;
use prost::encoding::{WireType, decode_key, decode_varint};

/// The fields of a message in their order: numbers, and contents where these have a length. What cannot be read ends it.
pub(crate) fn fields(message: &Bytes) -> Vec<(u32, Bytes)> {
    let (mut rest, mut fields) = (message.clone(), Vec::new());
    while let Ok((number, wire_type)) = decode_key(&mut rest) {
        let content = match wire_type {
            WireType::LengthDelimited => match decode_varint(&mut rest).map(usize::try_from) {
                Ok(Ok(length)) if length <= rest.len() => rest.split_to(length),
                _ => break,
            },
            WireType::Varint if decode_varint(&mut rest).is_ok() => Bytes::new(),
            _ => break,
        };
        fields.push((number, content));
    }
    fields
}

/// The content of a field of a field and so on; empty if there is none.
pub(crate) fn field(message: &Bytes, path: &[u32]) -> Bytes {
    path.iter().fold(message.clone(), |message, number| {
        let found = fields(&message).into_iter().find(|(found, _)| found == number);
        found.map(|(_, content)| content).unwrap_or_default()
    })
}

/// A field with a length.
pub(crate) fn with_length(number: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    prost::encoding::encode_key(number, WireType::LengthDelimited, &mut bytes);
    prost::encoding::encode_varint(content.len() as u64, &mut bytes);
    bytes.extend_from_slice(content);
    bytes
}

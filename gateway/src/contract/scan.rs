//! Counts the elements of a protobuf message before it is decoded: decoded into a list of structs, a repeated field
//! can take a hundred times its bytes. Nothing is allocated here, and each byte is read once for each level of
//! messages.

use extender_gateway_core::BackendFailure;
use prost::encoding::{WireType, decode_key, decode_varint};

use crate::contract::malformed::undecodable;

/// The fields of a message, in their order.
#[derive(Debug)]
pub(crate) struct Fields<'m>(&'m [u8]);

/// One field.
#[derive(Debug)]
pub(crate) struct Field<'m> {
    pub(crate) number: u32,
    pub(crate) value: Value<'m>,
}

#[derive(Debug)]
pub(crate) enum Value<'m> {
    /// A number of any width.
    Number,
    /// A text, a message or packed numbers.
    Bytes(&'m [u8]),
}

impl<'m> Fields<'m> {
    pub(crate) fn of(message: &'m [u8]) -> Self {
        Self(message)
    }

    fn read(&mut self) -> Result<Field<'m>, BackendFailure> {
        let rest = &mut self.0;
        let (number, kind) = decode_key(rest).map_err(|error| undecodable(&error))?;
        let value = match kind {
            WireType::Varint => {
                decode_varint(rest).map_err(|error| undecodable(&error))?;
                Value::Number
            }
            WireType::ThirtyTwoBit => take(rest, 4).map(|_| Value::Number)?,
            WireType::SixtyFourBit => take(rest, 8).map(|_| Value::Number)?,
            WireType::LengthDelimited => {
                let len = decode_varint(rest).map_err(|error| undecodable(&error))?;
                Value::Bytes(take(rest, len)?)
            }
            WireType::StartGroup | WireType::EndGroup => {
                return Err(undecodable(&"it contains a group, which proto3 does not support"));
            }
        };
        Ok(Field { number, value })
    }
}

impl<'m> Iterator for Fields<'m> {
    type Item = Result<Field<'m>, BackendFailure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl Value<'_> {
    /// The number of elements in it as a repeated varint field, packed or not.
    fn numbers(&self) -> usize {
        match self {
            Self::Number => 1,
            Self::Bytes(packed) => {
                // The last byte of each has its highest bit clear. Eight bytes at a time: scores are thousands.
                let ends = |bytes: &[u8; 8]| {
                    (!u64::from_ne_bytes(*bytes) & 0x8080_8080_8080_8080).count_ones() as usize
                };
                let (eights, rest) = packed.as_chunks();
                eights.iter().map(ends).sum::<usize>() + rest.iter().filter(|byte| **byte < 0x80).count()
            }
        }
    }
}

/// The number of elements in this repeated field of a message. Stops counting when there are more than `most`.
pub(super) fn numbers(message: &[u8], field: u32, most: usize) -> Result<usize, BackendFailure> {
    let mut sum = 0;
    for read in Fields::of(message) {
        let read = read?;
        if read.number == field {
            sum += read.value.numbers();
        }
        if sum > most {
            break;
        }
    }
    Ok(sum)
}

fn take<'m>(rest: &mut &'m [u8], len: u64) -> Result<&'m [u8], BackendFailure> {
    let parts = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
    let (taken, behind) = parts.ok_or_else(|| undecodable(&"it ends inside a field"))?;
    *rest = behind;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use extender_policy_api::v1alpha1::{Rejection, Scores};
    use prost::Message;

    use crate::contract::scan::*;

    #[test]
    fn packed_and_single_numbers_are_counted() {
        let packed = Scores { values: vec![0, -1, i32::MAX, 300] }.encode_to_vec();
        assert_eq!(numbers(&packed, 1, 4), Ok(4));
        assert_eq!(numbers(&[8, 1, 8, 0xff, 1, 10, 2, 0, 0], 1, 4), Ok(4), "1 and 255 alone, two packed");
        let rejection = Rejection { reason: "no".into(), preemption_may_help: true, positions: vec![7] };
        assert_eq!(numbers(&rejection.encode_to_vec(), 3, 1), Ok(1));
        assert_eq!(numbers(&Rejection::default().encode_to_vec(), 3, 1), Ok(0));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for (bytes, why) in [
            (&[10, 5, 1][..], "it ends inside a field"),
            (&[13, 1], "it ends inside a field"),
            (&[11, 12], "it contains a group, which proto3 does not support"),
            (&[10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], "it ends inside a field"),
        ] {
            let failure = numbers(bytes, 1, 1).unwrap_err();
            assert_eq!(failure.detail, format!("cannot decode the response ({why})"));
        }
        for bytes in [&[0xff; 11][..], &[7], &[0, 0], &[8]] {
            assert!(numbers(bytes, 1, 1).is_err(), "{bytes:?}");
        }
    }
}

//! The scores of an answer. They are counted before they are decoded, so that one list takes all of them, and decoded here:
//! that takes a third of what a decoder of any message needs, and there is one for each node of a call.

use extender_gateway_core::BackendFailure;
use extender_policy_api::v1beta1 as api;
use prost::{Message as _, encoding::decode_varint};

use crate::protobuf::{count_numbers, fields, malformed, undecodable};

/// The field of `Scores` with the scores.
const VALUES: u32 = 1;

/// Reads the `Scores` at this field of an answer about `count` nodes; `None` if it has none. Those of several such fields
/// belong together.
///
/// # Errors
/// It has more scores than nodes, or is not protobuf.
pub(super) fn read(message: &[u8], at: u32, count: u32) -> Result<Option<Vec<i32>>, BackendFailure> {
    let Some(most) = counted(message, at, count)? else { return Ok(None) };
    let mut scores = Vec::with_capacity(most);
    for field in fields(message) {
        if let (number, Some(content)) = field?
            && number == at
        {
            decode(content, &mut scores)?;
        }
    }
    Ok(Some(scores))
}

/// How many there are.
fn counted(message: &[u8], at: u32, count: u32) -> Result<Option<usize>, BackendFailure> {
    let mut sum = None;
    for field in fields(message) {
        let (number, content) = field?;
        if number == at {
            let content = content.ok_or_else(|| undecodable("its scores are no message"))?;
            let scores = sum.unwrap_or(0) + count_numbers(content, VALUES, count as usize)?;
            if scores > count as usize {
                return Err(miscounted(scores, count));
            }
            sum = Some(scores);
        }
    }
    Ok(sum)
}

/// The scores, if there is one for each node.
///
/// # Errors
/// There are too few.
pub(super) fn all(scores: Vec<i32>, count: u32) -> Result<Vec<i32>, BackendFailure> {
    if scores.len() == count as usize { Ok(scores) } else { Err(miscounted(scores.len(), count)) }
}

fn miscounted(scores: usize, count: u32) -> BackendFailure {
    malformed(format!("{scores} scores for {count} nodes"))
}

/// Adds the scores of a `Scores`.
fn decode(content: &[u8], scores: &mut Vec<i32>) -> Result<(), BackendFailure> {
    // Encoders pack them.
    if fields(content).any(|field| matches!(field, Ok((VALUES, None)))) {
        scores.extend(api::Scores::decode(content).map_err(undecodable)?.values);
        return Ok(());
    }
    for field in fields(content) {
        if let (VALUES, Some(packed)) = field? {
            decode_packed(packed, scores)?;
        }
    }
    Ok(())
}

fn decode_packed(mut packed: &[u8], scores: &mut Vec<i32>) -> Result<(), BackendFailure> {
    while let Some((first, rest)) = packed.split_first() {
        let number = if *first < 0x80 {
            packed = rest;
            u64::from(*first)
        } else {
            decode_varint(&mut packed).map_err(undecodable)?
        };
        scores.push(zigzag(number));
    }
    Ok(())
}

/// The number that protobuf's `sint32` means.
fn zigzag(number: u64) -> i32 {
    #[allow(clippy::cast_possible_truncation, reason = "the lower 32 bits count, as in any decoder")]
    let number = number as u32;
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::encoding::{WireType, encode_key, encode_varint};

    use super::*;
    use crate::protobuf::put_bytes;

    proptest! {
        /// The reference is prost.
        #[test]
        fn scores_are_those_of_a_decoder_of_any_message(
            fields in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<i32>(), 0..9)), 0..4),
            broken in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        ) {
            let mut message = Vec::new();
            for (packs, values) in &fields {
                let mut content = api::Scores { values: values.clone() }.encode_to_vec();
                if !packs {
                    content.clear();
                    for value in values {
                        encode_key(VALUES, WireType::Varint, &mut content);
                        encode_varint(u64::from(((value << 1) ^ (value >> 31)).cast_unsigned()), &mut content);
                    }
                }
                put_bytes(3, &content, &mut message);
            }
            if let Some((at, byte)) = broken && !message.is_empty() {
                let at = at.index(message.len());
                message[at] = byte;
            }
            let expected = api::FilterResponse::decode(&*message).map(|answer| answer.scores.map(|it| it.values));
            match (read(&message, 3, 40), expected) {
                (Ok(scores), Ok(expected)) => prop_assert_eq!(scores, expected),
                (Err(_), Err(_)) => {}
                // What is no score is another's to decode.
                (Ok(_), Err(_)) => prop_assert!(broken.is_some()),
                (Err(failure), Ok(expected)) => {
                    let count = expected.unwrap_or_default().len();
                    prop_assert!(count > 40 || broken.is_some(), "{}", failure.detail);
                }
            }
        }
    }
}

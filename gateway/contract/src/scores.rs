//! The scores of an answer. They are counted before they are decoded, so that one list takes all of them, and decoded here:
//! that takes a third of what a decoder of any message needs, and there is one for each node of a call.

use extender_gateway_core::BackendFailure;
use extender_policy_api::v1beta1 as api;
use prost::{Message as _, encoding::decode_varint};

use crate::protobuf::{count_numbers, fields, malformed, undecodable};

/// The fields of `Scores`.
const VALUES: u32 = 1;
const ABSENT: u32 = 2;

/// In place of a score that the backend does not give: it has no opinion. No score is as small.
pub const NO_OPINION: i32 = i32::MIN;

/// Reads the `Scores` at this field of an answer about `count` nodes; `None` if it has none. Those of several such fields
/// belong together. A node about which the backend has no opinion has [`NO_OPINION`].
///
/// # Errors
/// It has more scores than nodes, a position without a node, or is not protobuf.
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
    leave_out(message, at, &mut scores)?;
    Ok(Some(scores))
}

/// Marks the nodes without an opinion.
fn leave_out(message: &[u8], at: u32, scores: &mut [i32]) -> Result<(), BackendFailure> {
    let mut last = None;
    for field in fields(message) {
        let (number, Some(content)) = field? else { continue };
        // Nearly always there are none: nothing is decoded then.
        let has_absent = || fields(content).any(|field| matches!(field, Ok((ABSENT, _))));
        if number != at || !has_absent() {
            continue;
        }
        let (absent, count) = (count_numbers(content, ABSENT, scores.len())?, scores.len());
        if absent > count {
            return Err(malformed(format!("{absent} positions in scores.absent for {count} scores")));
        }
        for position in api::Scores::decode(content).map_err(undecodable)?.absent {
            if last.replace(position).is_some_and(|last| last >= position) {
                return Err(malformed(format!(
                    "position {position} in scores.absent is not in ascending order"
                )));
            }
            let score = scores.get_mut(position as usize).ok_or_else(|| {
                malformed(format!(
                    "position {position} in scores.absent is out of range: there are {count} scores"
                ))
            })?;
            *score = NO_OPINION;
        }
    }
    Ok(())
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
        let values = api::Scores::decode(content).map_err(undecodable)?.values;
        scores.extend(values.into_iter().map(given));
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
        scores.push(given(zigzag(number)));
    }
    Ok(())
}

/// A score that was given. The least number of all counts as the next one, because it means something else here.
fn given(score: i32) -> i32 {
    score.max(NO_OPINION + 1)
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

    fn message(values: &[i32], absent: &[u32]) -> Vec<u8> {
        let mut message = Vec::new();
        put_bytes(
            2,
            &api::Scores { values: values.into(), absent: absent.into() }.encode_to_vec(),
            &mut message,
        );
        message
    }

    #[test]
    fn a_node_without_an_opinion_is_no_least_score() {
        let scores = |values: &[i32], absent: &[u32]| {
            read(&message(values, absent), 2, 3).map_err(|failure| failure.detail)
        };
        assert_eq!(scores(&[5, i32::MIN, 7], &[2]), Ok(Some(vec![5, NO_OPINION + 1, NO_OPINION])));
        assert_eq!(scores(&[0, 0, 0], &[0, 1, 2]), Ok(Some(vec![NO_OPINION; 3])));
        assert_eq!(
            scores(&[1, 2, 3], &[3]).unwrap_err(),
            "position 3 in scores.absent is out of range: there are 3 scores"
        );
        assert_eq!(
            scores(&[1, 2, 3], &[0; 4]).unwrap_err(),
            "4 positions in scores.absent for 3 scores",
            "before they are decoded"
        );
        for absent in [[1, 1], [1, 0]] {
            let failure = scores(&[1, 2, 3], &absent).unwrap_err();
            assert!(failure.contains("is not in ascending order"), "{failure}");
        }
    }

    proptest! {
        /// The reference is prost.
        #[test]
        fn scores_are_those_of_a_decoder_of_any_message(
            fields in prop::collection::vec((any::<bool>(), prop::collection::vec(NO_OPINION + 1.., 0..9)), 0..4),
            broken in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        ) {
            let mut message = Vec::new();
            for (packs, values) in &fields {
                let mut content = api::Scores { values: values.clone(), absent: Vec::new() }.encode_to_vec();
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
            let expected = api::FilterResponse::decode(&*message).map(|answer| answer.scores.map(|it| it.values.into_iter().map(given).collect::<Vec<_>>()));
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

//! The ways in which a backend fails.

use extender_policy_api::v1beta1::{self as api, FilterResponse, Rejection, ScoreResponse, Scores};
use prost::Message;

use super::{Reply, Verb, preempt};
use crate::case::Failure;

/// The failure of a call about the pod with this number.
pub(super) fn fail((failure, pod): (Failure, usize), verb: Verb, count: usize) -> Reply {
    let broken = |result: api::Result, positions: &[u32], scores: usize| {
        Reply::Message(match verb {
            Verb::Filter => {
                let rejection = Rejection { positions: positions.into(), ..Rejection::default() };
                let rejections = vec![rejection];
                FilterResponse { result: Some(result), rejections, ..FilterResponse::default() }
                    .encode_to_vec()
            }
            Verb::Score => {
                let scores = Some(Scores { values: vec![10; scores], absent: Vec::new() });
                ScoreResponse { result: Some(result), scores }.encode_to_vec()
            }
            Verb::Preempt => preempt::broken(failure, result).encode_to_vec(),
        })
    };
    match failure {
        Failure::Status(first) => {
            let pod = u16::try_from(pod).unwrap_or_default();
            Reply::Status((first - 1 + pod) % 16 + 1, "a bug: 100% of it")
        }
        Failure::Unlisted => Reply::Status(14, "not now"),
        Failure::Hang => Reply::Nothing,
        Failure::Reset => Reply::Reset,
        Failure::Garbage => Reply::Message(vec![0xff; 3]),
        Failure::Empty => Reply::Message(Vec::new()),
        Failure::Miscounted => broken(result(count + 1), &[], count),
        Failure::OutOfRange | Failure::VictimOutOfRange => broken(result(count), &[u32::MAX], count - 1),
        Failure::Twice | Failure::VictimTwice => broken(result(count), &[0, 0], count + 1),
        Failure::Miss => broken(api::Result::missed(api::Miss::FormUnknown), &[], count),
    }
}

pub(super) fn result(count: usize) -> api::Result {
    api::Result::answered(u32::try_from(count).unwrap_or(u32::MAX), "")
}

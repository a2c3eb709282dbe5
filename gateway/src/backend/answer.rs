//! Answers of backends, checked against the contract: what the decision sees is in order.

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, FailureKind, filter::Refusal};
use extender_policy_api::v1alpha1::{self as api, FilterResponse, ScoreResponse};
use prost::Message;

use super::question::Scores as Wanted;

/// What became of a question about nodes.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply<T> {
    /// It was answered.
    Answered(T),
    /// The backend does not know nodes in the form in which they came.
    Missed,
}

impl<T> Reply<T> {
    /// The answer to a question with nodes inline.
    ///
    /// # Errors
    /// The backend did not know that form, which every backend must.
    pub fn inline(self) -> Result<T, BackendFailure> {
        match self {
            Self::Answered(value) => Ok(value),
            Self::Missed => {
                Err(malformed("the backend does not know nodes inline, which every backend must".to_owned()))
            }
        }
    }
}

/// What a filter answer says.
#[derive(Debug, PartialEq, Eq)]
pub struct FilterAnswer {
    /// The nodes that are refused.
    pub refusals: Vec<Refusal>,
    /// Raw scores of all nodes of the request, where they were wanted and came.
    pub scores: Option<Vec<i32>>,
}

/// An answer that keeps the contract.
#[derive(Debug, PartialEq, Eq)]
pub struct Answered<T> {
    /// What was asked for.
    pub value: T,
    /// The revision under which it was made; empty when the backend does not say.
    pub revision: String,
}

/// Reads the answer to Filter about `count` nodes. Scores that were not wanted are passed over.
///
/// # Errors
/// [`FailureKind::Malformed`] with what is wrong: not protobuf, no result, another count, a position that
/// was not asked about or that is refused twice.
pub fn filter(
    message: Bytes,
    count: u32,
    wanted: Wanted,
) -> Result<Reply<Answered<FilterAnswer>>, BackendFailure> {
    let FilterResponse { result, rejections, scores } = decoded(message)?;
    let Reply::Answered(revision) = evaluated(result, count)? else { return Ok(Reply::Missed) };
    let mut refused = vec![false; if rejections.is_empty() { 0 } else { count as usize }];
    for at in rejections.iter().flat_map(|rejection| &rejection.positions) {
        match refused.get_mut(*at as usize) {
            None => {
                return Err(malformed(format!(
                    "position {at} is out of range: {count} nodes were asked about"
                )));
            }
            Some(true) => return Err(malformed(format!("position {at} is refused twice"))),
            Some(fresh) => *fresh = true,
        }
    }
    let scores = scores.filter(|_| wanted == Wanted::Wanted);
    let scores = scores.map(|scores| counted(scores.values, count)).transpose()?;
    let refusals = rejections.into_iter().map(refusal).collect();
    Ok(Reply::Answered(Answered { value: FilterAnswer { refusals, scores }, revision }))
}

/// Reads the answer to Score about `count` nodes.
///
/// # Errors
/// As for [`filter()`], or not exactly `count` scores.
pub fn score(message: Bytes, count: u32) -> Result<Reply<Answered<Vec<i32>>>, BackendFailure> {
    let ScoreResponse { result, scores } = decoded(message)?;
    let Reply::Answered(revision) = evaluated(result, count)? else { return Ok(Reply::Missed) };
    let value = scores.ok_or_else(|| malformed("the answer has no scores".to_owned()))?.values;
    Ok(Reply::Answered(Answered { value: counted(value, count)?, revision }))
}

fn counted(scores: Vec<i32>, count: u32) -> Result<Vec<i32>, BackendFailure> {
    if scores.len() == count as usize {
        return Ok(scores);
    }
    Err(malformed(format!("{} scores for {count} nodes", scores.len())))
}

pub(super) fn decoded<M: Message + Default>(message: Bytes) -> Result<M, BackendFailure> {
    M::decode(message).map_err(|error| malformed(format!("the answer cannot be decoded ({error})")))
}

/// Checks that the nodes were really looked at; returns the revision.
pub(super) fn evaluated(result: Option<api::Result>, count: u32) -> Result<Reply<String>, BackendFailure> {
    let api::Result { evaluated, miss, revision } =
        result.ok_or_else(|| malformed("the answer has no result".to_owned()))?;
    if miss != api::Miss::Unspecified as i32 {
        return Ok(Reply::Missed);
    }
    if evaluated != count {
        return Err(malformed(format!("{evaluated} nodes were evaluated, {count} were asked about")));
    }
    Ok(Reply::Answered(revision))
}

fn refusal(rejection: api::Rejection) -> Refusal {
    let api::Rejection { reason, preemption_may_help, positions } = rejection;
    Refusal { reason, preemption_may_help, positions }
}

pub(super) fn malformed(detail: String) -> BackendFailure {
    BackendFailure::new(FailureKind::Malformed, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::{Rejection, Scores};
    use proptest::prelude::*;

    fn result(evaluated: u32) -> api::Result {
        api::Result { evaluated, miss: 0, revision: "r1".into() }
    }

    fn rejection(positions: &[u32]) -> Rejection {
        Rejection { reason: "no".into(), preemption_may_help: false, positions: positions.into() }
    }

    #[test]
    fn a_filter_answer_that_breaks_the_contract_is_a_failure() {
        let answer = |result, rejections| FilterResponse { result, rejections, scores: None };
        for (answer, detail) in [
            (FilterResponse::default(), "the answer has no result"),
            (answer(Some(result(0)), vec![]), "0 nodes were evaluated, 3 were asked about"),
            (answer(Some(result(4)), vec![]), "4 nodes were evaluated, 3 were asked about"),
            (
                answer(Some(result(3)), vec![rejection(&[3])]),
                "position 3 is out of range: 3 nodes were asked about",
            ),
            (
                answer(Some(result(3)), vec![rejection(&[1]), rejection(&[0, 1])]),
                "position 1 is refused twice",
            ),
            (
                answer(Some(api::Result { miss: 1, ..Default::default() }), vec![]),
                "the backend does not know nodes inline, which every backend must",
            ),
        ] {
            let read = filter(answer.encode_to_vec().into(), 3, Wanted::Wanted).and_then(Reply::inline);
            let failure = read.unwrap_err();
            assert_eq!((failure.kind, failure.detail.as_str()), (FailureKind::Malformed, detail));
        }
        let kept = filter(
            answer(Some(result(3)), vec![rejection(&[0, 2])]).encode_to_vec().into(),
            3,
            Wanted::Wanted,
        )
        .and_then(Reply::inline)
        .unwrap();
        assert_eq!(
            (kept.value.refusals[0].positions.as_slice(), kept.revision.as_str()),
            (&[0, 2][..], "r1")
        );
    }

    #[test]
    fn a_score_answer_that_breaks_the_contract_is_a_failure() {
        let answer =
            |result, values: &[i32]| ScoreResponse { result, scores: Some(Scores { values: values.into() }) };
        for (answer, detail) in [
            (ScoreResponse { result: Some(result(2)), scores: None }, "the answer has no scores"),
            (answer(Some(result(2)), &[1]), "1 scores for 2 nodes"),
            (answer(Some(result(2)), &[1, 2, 3]), "3 scores for 2 nodes"),
            (answer(None, &[1, 2]), "the answer has no result"),
        ] {
            let failure = score(answer.encode_to_vec().into(), 2).and_then(Reply::inline).unwrap_err();
            assert_eq!((failure.kind, failure.detail.as_str()), (FailureKind::Malformed, detail));
        }
        assert_eq!(
            score(answer(Some(result(2)), &[-1, 7]).encode_to_vec().into(), 2)
                .and_then(Reply::inline)
                .unwrap()
                .value,
            [-1, 7]
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), count in 0_u32..5) {
            let bytes = Bytes::from(bytes);
            let _ = filter(bytes.clone(), count, Wanted::Wanted);
            let _ = score(bytes, count);
        }
    }
}

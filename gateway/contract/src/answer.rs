//! Responses of backends, checked against the API before the decision uses them.

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, filter::Refusal, reason};
use extender_policy_api::limits::{
    NODE_RESPONSE_BYTES, NODES_RESPONSE_BYTES, REASON_BYTES, RULE_BYTES, SHOWN_REASON_BYTES,
};
use extender_policy_api::v1beta1::{self as api, RejectionKind};

use crate::{
    api::ApiVersion,
    protobuf::{count_numbers, decoded, fields, malformed},
    question::ScoresWanted as Wanted,
    scores,
};

const _: () =
    assert!(reason::LONGEST == SHOWN_REASON_BYTES, "the core has no dependencies, so it repeats this");

/// The field of `FilterResponse` with the scores, and that of `ScoreResponse`.
const FILTER_SCORES: u32 = 3;
const SCORES: u32 = 2;

/// `Result`, of which v1alpha1 has both fields: a zero that is written is as good as none there.
#[derive(prost::Message)]
pub(super) struct Outcome {
    #[prost(uint32, optional, tag = "1")]
    evaluated: Option<u32>,
    #[prost(int32, optional, tag = "2")]
    miss: Option<i32>,
    #[prost(string, tag = "3")]
    revision: String,
}

/// A `FilterResponse` without its scores.
#[derive(prost::Message)]
struct FilterHead {
    #[prost(message, optional, tag = "1")]
    result: Option<Outcome>,
    #[prost(message, repeated, tag = "2")]
    rejections: Vec<api::Rejection>,
}

/// A `ScoreResponse` without its scores.
#[derive(prost::Message)]
struct ScoreHead {
    #[prost(message, optional, tag = "1")]
    result: Option<Outcome>,
}

/// The largest answer about `count` nodes that is read, in bytes: enough for a separate reason for each node.
pub fn largest_answer(count: u32) -> usize {
    NODES_RESPONSE_BYTES + count as usize * NODE_RESPONSE_BYTES
}

/// The result of a request about nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply<T> {
    /// A valid response.
    Answered(T),
    /// The backend does not support this form of nodes.
    Missed,
}

impl<T> Reply<T> {
    /// The answer to a request with inline nodes.
    ///
    /// # Errors
    /// The backend does not support inline nodes, which every backend must.
    pub fn inline(self) -> Result<T, BackendFailure> {
        match self {
            Self::Answered(value) => Ok(value),
            Self::Missed => Err(malformed("the backend does not support inline nodes, which are required")),
        }
    }
}

/// A filter response.
#[derive(Debug, PartialEq, Eq)]
pub struct FilterAnswer {
    /// The rejected nodes.
    pub refusals: Vec<Refusal>,
    /// Raw scores of all nodes of the request, if they were requested and returned.
    pub scores: Option<Vec<i32>>,
}

/// A valid response.
#[derive(Debug, PartialEq, Eq)]
pub struct Answered<T> {
    /// The content.
    pub value: T,
    /// The backend's revision; empty if it does not report one.
    pub revision: String,
}

/// Reads the answer to Filter about `count` nodes. Unrequested scores are ignored.
///
/// # Errors
/// [`Malformed`](extender_gateway_core::FailureKind::Malformed) with the cause: not protobuf, no result, a wrong
/// count, a position that is out of range or rejected twice, a rejection without nodes.
pub fn filter(
    message: Bytes,
    count: u32,
    wanted: Wanted,
    api: ApiVersion,
) -> Result<Reply<Answered<FilterAnswer>>, BackendFailure> {
    check_rejections(&message, count)?;
    let scores = scores::read(&message, FILTER_SCORES, count)?;
    let FilterHead { result, rejections } = decoded(message)?;
    let Reply::Answered(revision) = evaluated(result, count)? else { return Ok(Reply::Missed) };
    check_positions(rejections.iter().flat_map(|rejection| &rejection.positions), count, "rejected")?;
    let scores = scores.filter(|_| wanted == Wanted::Wanted);
    let scores = scores.map(|scores| scores::all(scores, count)).transpose()?;
    let refusals = rejections.into_iter().map(|rejection| Refusal {
        reason: cut(rejection.reason, REASON_BYTES),
        rule: cut(rejection.rule, RULE_BYTES),
        preemption_may_help: preemption_may_help(rejection.kind, api),
        retry_after: rejection.retry_after_seconds,
        positions: rejection.positions,
    });
    let value = FilterAnswer { refusals: refusals.collect(), scores };
    Ok(Reply::Answered(Answered { value, revision }))
}

/// Whether evictions could change the verdict. A kind that the gateway does not know is the default. In v1alpha1 the field was
/// a boolean, and the default the other one.
fn preemption_may_help(kind: i32, api: ApiVersion) -> bool {
    match api {
        ApiVersion::V1Beta1 => kind != RejectionKind::Unresolvable as i32,
        ApiVersion::V1Alpha1 => kind == RejectionKind::Unschedulable as i32,
    }
}

/// Reads the answer to Score about `count` nodes.
///
/// # Errors
/// As for [`filter()`], or not exactly `count` scores.
pub fn score(message: Bytes, count: u32) -> Result<Reply<Answered<Vec<i32>>>, BackendFailure> {
    let scores = scores::read(&message, SCORES, count)?;
    let ScoreHead { result } = decoded(message)?;
    let Reply::Answered(revision) = evaluated(result, count)? else { return Ok(Reply::Missed) };
    let value = scores.ok_or_else(|| malformed("response has no scores"))?;
    Ok(Reply::Answered(Answered { value: scores::all(value, count)?, revision }))
}

/// Rejects positions that no node has, or that occur twice. `done` is what happens to the nodes.
pub(super) fn check_positions<'p>(
    positions: impl Iterator<Item = &'p u32>,
    count: u32,
    done: &str,
) -> Result<(), BackendFailure> {
    let mut positions = positions.peekable();
    let mut seen = vec![false; if positions.peek().is_none() { 0 } else { count as usize }];
    for at in positions {
        match seen.get_mut(*at as usize) {
            None => {
                return Err(malformed(format!(
                    "position {at} is out of range: the request has {count} nodes"
                )));
            }
            Some(true) => return Err(malformed(format!("position {at} is {done} twice"))),
            Some(fresh) => *fresh = true,
        }
    }
    Ok(())
}

/// Rejects a filter answer with more rejections or positions than an answer about `count` nodes can have.
fn check_rejections(message: &[u8], count: u32) -> Result<(), BackendFailure> {
    const REJECTIONS: u32 = 2;
    const POSITIONS: u32 = 3;
    let most = count as usize;
    let (mut rejections, mut positions) = (0_usize, 0);
    for field in fields(message) {
        let (REJECTIONS, Some(rejection)) = field? else { continue };
        rejections += 1;
        if rejections > most {
            return Err(malformed(format!("{rejections} rejections for {count} nodes")));
        }
        match count_numbers(rejection, POSITIONS, most)? {
            0 => return Err(malformed("a rejection names no position")),
            named => positions += named,
        }
        if positions > most {
            return Err(malformed(format!("{positions} rejected positions for {count} nodes")));
        }
    }
    Ok(())
}

/// Checks that the nodes were evaluated; returns the revision.
pub(super) fn evaluated(result: Option<Outcome>, count: u32) -> Result<Reply<String>, BackendFailure> {
    let Outcome { evaluated, miss, revision } = result.ok_or_else(|| malformed("response has no result"))?;
    let evaluated = match (evaluated, miss) {
        (Some(evaluated), None | Some(0)) => evaluated,
        (_, Some(_)) => return Ok(Reply::Missed),
        (None, None) => return Err(malformed("the result has neither `evaluated` nor `miss`")),
    };
    if evaluated != count {
        return Err(malformed(format!("evaluated {evaluated} nodes, expected {count}")));
    }
    Ok(Reply::Answered(revision))
}

/// The beginning of a text; releases the memory of the rest.
pub(super) fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.shrink_to_fit();
    }
    text
}

#[cfg(test)]
mod tests {
    use allocation_counter::measure;
    use api::{FilterResponse, Rejection, ScoreResponse, Scores};
    use extender_gateway_core::FailureKind;
    use proptest::prelude::*;
    use prost::Message;

    use super::*;

    fn result(evaluated: u32) -> api::Result {
        api::Result::answered(evaluated, "r1")
    }

    fn rejection(positions: &[u32]) -> Rejection {
        Rejection { reason: "no".into(), positions: positions.into(), ..Rejection::default() }
    }

    #[test]
    fn a_filter_answer_that_breaks_the_contract_is_a_failure() {
        let answer = |result, rejections| FilterResponse { result, rejections, scores: None };
        for (answer, detail) in [
            (FilterResponse::default(), "response has no result"),
            (answer(Some(api::Result::default()), vec![]), "the result has neither `evaluated` nor `miss`"),
            (answer(Some(result(0)), vec![]), "evaluated 0 nodes, expected 3"),
            (answer(Some(result(4)), vec![]), "evaluated 4 nodes, expected 3"),
            (
                answer(Some(result(3)), vec![rejection(&[3])]),
                "position 3 is out of range: the request has 3 nodes",
            ),
            (
                answer(Some(result(3)), vec![rejection(&[1]), rejection(&[0, 1])]),
                "position 1 is rejected twice",
            ),
            (answer(Some(result(3)), vec![rejection(&[1]), rejection(&[])]), "a rejection names no position"),
            (answer(Some(result(1)), vec![rejection(&[0]); 4]), "4 rejections for 3 nodes"),
            (answer(Some(result(3)), vec![rejection(&[0, 1, 2, 0])]), "4 rejected positions for 3 nodes"),
            (
                answer(Some(api::Result::missed(api::Miss::FormUnknown)), vec![]),
                "the backend does not support inline nodes, which are required",
            ),
        ] {
            let read = filter(answer.encode_to_vec().into(), 3, Wanted::Wanted, ApiVersion::NEWEST)
                .and_then(Reply::inline);
            let failure = read.unwrap_err();
            assert_eq!((failure.kind, failure.detail.as_str()), (FailureKind::Malformed, detail));
        }
        let kept = filter(
            answer(Some(result(3)), vec![rejection(&[0, 2])]).encode_to_vec().into(),
            3,
            Wanted::Wanted,
            ApiVersion::NEWEST,
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
        let answer = |result, values: &[i32]| ScoreResponse {
            result,
            scores: Some(Scores { values: values.into(), absent: Vec::new() }),
        };
        for (answer, detail) in [
            (ScoreResponse { result: Some(result(2)), scores: None }, "response has no scores"),
            (answer(Some(result(2)), &[1]), "1 scores for 2 nodes"),
            (answer(Some(result(2)), &[1, 2, 3]), "3 scores for 2 nodes"),
            (answer(None, &[1, 2]), "response has no result"),
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

    /// The largest possible answers about 5,000 nodes.
    #[test]
    fn an_answer_of_nothing_many_times_costs_nothing() {
        const NODES: u32 = 5_000;
        let fill = |piece: &[u8]| Bytes::from(piece.repeat(largest_answer(NODES) / piece.len()));
        let packed = {
            let mut packed = vec![0x12, 0x80, 0x80, 0x80, 0x02, 0x1a, 0xfa, 0xff, 0xff, 0x01];
            packed.resize(10 + (4 << 20) - 6, 0);
            Bytes::from(packed)
        };
        for (name, message) in [
            ("empty rejections", fill(&[0x12, 0])),
            ("rejections of one position", fill(&[0x12, 2, 0x18, 0])),
            ("positions", packed),
            ("empty scores", fill(&[0x1a, 0])),
            ("scores", fill(&[0x1a, 2, 0x08, 0])),
        ] {
            let cost = measure(|| {
                assert!(
                    filter(message.clone(), NODES, Wanted::Wanted, ApiVersion::NEWEST).is_err(),
                    "{name}"
                );
            });
            assert!(cost.bytes_max < 64 << 10, "{name}: {cost:?}");
        }
        let scores = fill(&[0x12, 2, 0x08, 0]);
        let cost = measure(|| assert!(score(scores.clone(), NODES).is_err()));
        assert!(cost.bytes_max < 4096, "{cost:?}");
    }

    #[test]
    fn a_rejection_that_says_nothing_about_evictions_is_kube_schedulers_default() {
        use RejectionKind::{Unresolvable, Unschedulable, Unspecified};
        let helps = |api| {
            [Unspecified as i32, Unschedulable as i32, Unresolvable as i32, 9]
                .map(|kind| preemption_may_help(kind, api))
        };
        assert_eq!(helps(ApiVersion::V1Beta1), [true, true, false, true]);
        // There it was a boolean.
        assert_eq!(helps(ApiVersion::V1Alpha1)[..2], [false, true]);
    }

    #[test]
    fn a_zero_that_is_written_is_no_miss() {
        let read = |result: &[u8]| {
            let result = Outcome::decode(result).unwrap();
            evaluated(Some(result), 3).map_err(|failure| failure.detail)
        };
        let answered = Ok(Reply::Answered(String::new()));
        for (result, expected) in [
            (&[8, 3, 16, 0][..], answered.clone()),
            (&[16, 0, 8, 3], answered),
            (&[8, 0, 16, 2], Ok(Reply::Missed)),
            (&[16, 2, 8, 0], Ok(Reply::Missed)),
            (&[16, 0], Ok(Reply::Missed)),
            (&[8, 0, 16, 0], Err("evaluated 0 nodes, expected 3".to_owned())),
        ] {
            assert_eq!(read(result), expected, "{result:?}");
        }
    }

    #[test]
    fn a_long_reason_is_cut() {
        for text in ["%", "é"] {
            let long = Rejection { reason: format!("a{}", text.repeat(5 << 20)), ..rejection(&[0]) };
            let answer = FilterResponse { result: Some(result(1)), rejections: vec![long], scores: None };
            let read = filter(answer.encode_to_vec().into(), 1, Wanted::Unwanted, ApiVersion::NEWEST)
                .and_then(Reply::inline);
            let reason = &read.unwrap().value.refusals[0].reason;
            assert!((4093..=4096).contains(&reason.len()) && reason.capacity() <= 4096, "{}", reason.len());
        }
    }

    #[test]
    fn what_is_refused_is_not_read_to_its_end() {
        let broken_behind = |mut message: Vec<u8>| {
            message.push(0xff);
            Bytes::from(message)
        };
        let rejections = FilterResponse { result: None, rejections: vec![rejection(&[0]); 4], scores: None };
        let positions =
            FilterResponse { result: None, rejections: vec![rejection(&[0, 1]); 2], scores: None };
        for (answer, detail) in
            [(rejections, "4 rejections for 3 nodes"), (positions, "4 rejected positions for 3 nodes")]
        {
            let failure =
                filter(broken_behind(answer.encode_to_vec()), 3, Wanted::Wanted, ApiVersion::NEWEST)
                    .unwrap_err();
            assert_eq!(failure.detail, detail);
        }
        let scores =
            ScoreResponse { result: None, scores: Some(Scores { values: vec![7; 4], absent: Vec::new() }) };
        let failure = score(broken_behind(scores.encode_to_vec()), 3).unwrap_err();
        assert_eq!(failure.detail, "4 scores for 3 nodes");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), count in 0_u32..5) {
            let bytes = Bytes::from(bytes);
            let _ = filter(bytes.clone(), count, Wanted::Wanted, ApiVersion::NEWEST);
            let _ = score(bytes, count);
        }
    }
}

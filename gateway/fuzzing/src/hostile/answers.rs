//! Answers of backends.

use extender_policy_api::v1beta1::{
    BindOutcome, BindResponse, FilterResponse, KeptCandidate, PreemptResponse, Rejection,
    Result as Evaluated, ScoreResponse, Scores,
};
use proptest::prelude::*;
use prost::Message;

use super::changed;
use crate::answers;

/// The number of nodes in the answers.
const COUNT: u8 = 3;

/// Tags and lengths of protobuf, and numbers that are too large.
const PIECES: &[&[u8]] = &[
    b"\x08",
    b"\x0a",
    b"\x12",
    b"\x1a",
    b"\x0a\x00",
    b"\x08\x03",
    b"\xff\xff\xff\xff\x0f",
    b"\x80",
    b"\xff",
    b"\x02\x01",
];

fn result() -> Evaluated {
    Evaluated::answered(COUNT.into(), "r")
}

fn filters() -> Vec<Vec<u8>> {
    let rejection = |positions: &[u32]| Rejection {
        reason: "50%\n".into(),
        kind: 1,
        positions: positions.into(),
        rule: "r\u{1b}".into(),
        retry_after_seconds: Some(u32::MAX),
    };
    let answer =
        |rejections| FilterResponse { result: Some(result()), rejections, scores: None }.encode_to_vec();
    vec![answer(vec![]), answer(vec![rejection(&[0, 2]), rejection(&[1])]), answer(vec![rejection(&[1])])]
}

fn scores() -> Vec<Vec<u8>> {
    let answer = |values| {
        ScoreResponse { result: Some(result()), scores: Some(Scores { values, absent: vec![0] }) }
            .encode_to_vec()
    };
    vec![answer(vec![1, 2, 3]), answer(vec![i32::MIN, -1, i32::MAX])]
}

fn preempts() -> Vec<Vec<u8>> {
    let kept = |position, victims: &[u32]| KeptCandidate {
        position,
        victims: victims.into(),
        added_uids: vec!["x".into()],
        pdb_violations: Some(u32::MAX),
    };
    let answer = |kept| PreemptResponse { result: Some(result()), kept }.encode_to_vec();
    vec![answer(vec![]), answer(vec![kept(2, &[0, 1]), kept(0, &[1])]), answer(vec![kept(1, &[])])]
}

fn binds() -> Vec<Vec<u8>> {
    let answer = |outcome: BindOutcome| {
        BindResponse { outcome: outcome as i32, message: "not\n5%".into() }.encode_to_vec()
    };
    [BindOutcome::Bound, BindOutcome::Declined, BindOutcome::NotBound].map(answer).into()
}

/// The answer to a request about all nodes.
fn input(message: &[u8]) -> Vec<u8> {
    [&[COUNT | answers::WANT_SCORES], message].concat()
}

proptest! {
    #[test]
    fn a_filter_answer_is_refused_or_decides(message in changed(filters(), PIECES)) {
        answers::filter(&input(&message));
    }

    #[test]
    fn a_score_answer_is_refused_or_has_a_score_for_each_node(message in changed(scores(), PIECES)) {
        answers::score(&input(&message));
    }

    #[test]
    fn a_preempt_answer_is_refused_or_leaves_a_part(message in changed(preempts(), PIECES)) {
        answers::preempt(&input(&message));
    }

    #[test]
    fn a_bind_answer_is_refused_or_says_one_of_two_things(message in changed(binds(), PIECES)) {
        answers::bind(&input(&message));
    }
}

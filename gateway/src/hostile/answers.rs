//! Answers of backends.

use extender_gateway_core::{
    FailurePolicy,
    filter::{Again, FilterFold, Preemption, Seat, Turn, Verdict},
    preempt::{Added, Candidate, Chain, Taken, Terms},
};
use extender_policy_api::v1alpha1::{
    BindOutcome, BindResponse, FilterResponse, KeptCandidate, PreemptResponse, Rejection,
    Result as Evaluated, ScoreResponse, Scores,
};
use proptest::prelude::*;
use prost::Message;

use super::changed;
use crate::contract::{
    answer::{self, Reply},
    bind, preempt,
    question::ScoresWanted as Wanted,
};

/// The number of nodes in the answers.
const COUNT: u32 = 3;

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
    Evaluated { evaluated: COUNT, revision: "r".into(), ..Evaluated::default() }
}

fn filters() -> Vec<Vec<u8>> {
    let rejection = |positions: &[u32]| Rejection {
        reason: "50%\n".into(),
        preemption_may_help: true,
        positions: positions.into(),
        rule: "r\u{1b}".into(),
    };
    let answer =
        |rejections| FilterResponse { result: Some(result()), rejections, scores: None }.encode_to_vec();
    vec![answer(vec![]), answer(vec![rejection(&[0, 2]), rejection(&[1])]), answer(vec![rejection(&[1])])]
}

fn scores() -> Vec<Vec<u8>> {
    let answer =
        |values| ScoreResponse { result: Some(result()), scores: Some(Scores { values }) }.encode_to_vec();
    vec![answer(vec![1, 2, 3]), answer(vec![i32::MIN, -1, i32::MAX])]
}

fn preempts() -> Vec<Vec<u8>> {
    let kept = |position, victims: &[u32]| KeptCandidate {
        position,
        victims: victims.into(),
        added_uids: vec!["x".into()],
    };
    let answer = |kept| PreemptResponse { result: Some(result()), kept }.encode_to_vec();
    vec![answer(vec![]), answer(vec![kept(2, &[0, 1]), kept(0, &[1])]), answer(vec![kept(1, &[])])]
}

fn binds() -> Vec<Vec<u8>> {
    let answer = |outcome: BindOutcome| {
        BindResponse { outcome: outcome as i32, message: "not\n5%".into() }.encode_to_vec()
    };
    vec![answer(BindOutcome::Bound), answer(BindOutcome::Declined)]
}

fn candidates() -> Vec<Candidate> {
    let victims = || vec!["u".to_owned(), "v".to_owned()];
    (0..COUNT).map(|node| Candidate { node, victims: victims(), pdb_violations: 1 }).collect()
}

proptest! {
    #[test]
    fn a_filter_answer_is_refused_or_decides(message in changed(filters(), PIECES)) {
        let Ok(Reply::Answered(answered)) = answer::filter(message, COUNT, Wanted::Wanted) else { return Ok(()) };
        let (policy, turn, preemption) = (FailurePolicy::Fail, Turn::Parallel, Preemption::Honored);
        let refused: usize = answered.value.refusals.iter().map(|refusal| refusal.positions.len()).sum();
        prop_assert!(answered.value.scores.is_none_or(|scores| scores.len() == COUNT as usize));
        let (mut fold, _) = FilterFold::begin(COUNT, vec![Seat { policy, turn, preemption, unknown: Vec::new(), deleted: Vec::new(), oversize: Vec::new() }]);
        fold.answer(0, Ok(answered.value.refusals), Again::TooLate);
        let Some(Verdict::Decided(rejected)) = fold.end().0 else { panic!("it counts") };
        prop_assert_eq!(rejected.nodes.iter().flatten().count(), refused);
        prop_assert!(rejected.nodes.iter().flatten().all(|group| (*group as usize) < rejected.groups.len()));
    }

    #[test]
    fn a_score_answer_is_refused_or_has_a_score_for_each_node(message in changed(scores(), PIECES)) {
        if let Ok(Reply::Answered(answered)) = answer::score(message, COUNT) {
            prop_assert_eq!(answered.value.len(), COUNT as usize);
        }
    }

    #[test]
    fn a_preempt_answer_is_refused_or_leaves_a_part(message in changed(preempts(), PIECES)) {
        let Ok(answered) = preempt::answer(message, COUNT, 2 * COUNT as usize) else { return Ok(()) };
        let asked = candidates();
        for policy in [FailurePolicy::Fail, FailurePolicy::Ignore] {
            for added in [Added::Refused, Added::Checked(&|_, uid| if uid == "x" { Ok(()) } else { Err(String::new()) })] {
                let mut chain = Chain::begin(asked.clone());
                let taken = chain.take(&asked, Ok(answered.value.clone()), Terms { policy, added });
                prop_assert!(taken == Taken::Counted || chain.left() == asked);
                let may_be_added = matches!(added, Added::Checked(_));
                for left in chain.left() {
                    prop_assert!(left.node < COUNT && !left.victims.is_empty());
                    let known = |uid: &String| uid == "u" || uid == "v" || (may_be_added && uid == "x");
                    prop_assert!(left.victims.iter().all(known));
                    let distinct: std::collections::BTreeSet<_> = left.victims.iter().collect();
                    prop_assert_eq!(distinct.len(), left.victims.len());
                }
            }
        }
    }

    #[test]
    fn a_bind_answer_is_refused_or_says_one_of_two_things(message in changed(binds(), PIECES)) {
        if let Ok(bind::Bound::Declined(why)) = bind::answer(message) {
            prop_assert!(!why.contains(['\n', '%']));
        }
    }
}

use proptest::prelude::*;

use super::*;
use crate::FailureKind;

fn seat(policy: FailurePolicy, turn: Turn) -> Seat {
    Seat { policy, turn, preemption: Preemption::Honored, not_sent: NotSent::default() }
}

fn refuse(reason: &str, positions: &[u32]) -> Vec<Refusal> {
    vec![Refusal { reason: reason.into(), positions: positions.into(), ..Refusal::default() }]
}

fn down() -> BackendFailure {
    BackendFailure::new(FailureKind::Unreachable, "connection refused")
}

/// Reasons by node; `None` where it is accepted.
fn reasons(verdict: &Verdict, count: u32) -> Vec<Option<String>> {
    let Verdict::Decided(rejected) = verdict else { panic!("not decided: {verdict:?}") };
    (0..count as usize)
        .map(|at| rejected.nodes.get(at).copied().flatten())
        .map(|group| group.map(|group| rejected.groups[group as usize].reason.clone()))
        .collect()
}

const FAIL: FailurePolicy = FailurePolicy::Fail;
const IGNORE: FailurePolicy = FailurePolicy::Ignore;

#[test]
fn the_first_backend_in_order_gives_the_reason_whoever_answers_first() {
    let (mut fold, asks) = FilterFold::begin(3, vec![seat(FAIL, Turn::Parallel), seat(FAIL, Turn::Parallel)]);
    assert_eq!(asks.len(), 2);
    assert!(fold.answer(1, Ok(refuse("second", &[0, 1])), Again::InTime).is_empty());
    assert_eq!(fold.verdict(), None);
    fold.answer(0, Ok(refuse("first", &[1])), Again::InTime);
    let expected = [Some("second".into()), Some("first".into()), None];
    assert_eq!(reasons(fold.verdict().unwrap(), 3), expected);
}

#[test]
fn calls_without_backends_or_nodes_are_decided_at_once() {
    let nothing = Verdict::Decided(Rejected::default());
    assert_eq!(FilterFold::begin(3, vec![]).0.verdict(), Some(&nothing));
    let (fold, asks) = FilterFold::begin(0, vec![seat(FAIL, Turn::Parallel)]);
    assert_eq!((fold.verdict(), asks.len()), (Some(&nothing), 0));
}

#[test]
fn a_refusal_of_no_node_rejects_nothing() {
    let (mut fold, _) = FilterFold::begin(3, vec![seat(FAIL, Turn::Parallel)]);
    fold.answer(0, Ok(refuse("nobody", &[])), Again::InTime);
    assert_eq!(fold.verdict(), Some(&Verdict::Decided(Rejected::default())));
}

#[test]
fn a_failure_after_the_last_node_fell_does_not_count() {
    let (mut fold, _) = FilterFold::begin(2, vec![seat(FAIL, Turn::Parallel), seat(FAIL, Turn::Parallel)]);
    fold.answer(1, Err(down()), Again::InTime);
    fold.answer(0, Ok(refuse("all", &[0, 1])), Again::InTime);
    assert!(matches!(fold.verdict(), Some(Verdict::Decided(_))));
}

#[test]
fn a_failed_backend_ends_the_call_or_is_left_out() {
    for (policy, fails) in [(FAIL, true), (IGNORE, false)] {
        let (mut fold, _) = FilterFold::begin(2, vec![seat(policy, Turn::Parallel)]);
        fold.answer(0, Err(down()), Again::InTime);
        let failed = matches!(fold.verdict(), Some(Verdict::Failed { seat: 0, .. }));
        assert_eq!(failed, fails, "{policy:?}");
    }
}

#[test]
fn a_failure_for_more_nodes_than_survived_is_repeated_once() {
    let seats = vec![seat(FAIL, Turn::Parallel), seat(FAIL, Turn::Parallel)];
    let (mut fold, _) = FilterFold::begin(3, seats);
    fold.answer(1, Err(down()), Again::InTime);
    let asks = fold.answer(0, Ok(refuse("first", &[1])), Again::InTime);
    assert_eq!(asks, [Ask { seat: 1, nodes: Asked::Some(vec![0, 2]) }]);
    fold.answer(1, Ok(refuse("second", &[1])), Again::InTime);
    let expected = [None, Some("first".into()), Some("second".into())];
    assert_eq!(reasons(fold.verdict().unwrap(), 3), expected);
}

#[test]
fn a_repetition_that_fails_too_and_one_without_time_are_failures() {
    for again in [Again::InTime, Again::TooLate] {
        let seats = vec![seat(FAIL, Turn::Parallel), seat(FAIL, Turn::Parallel)];
        let (mut fold, _) = FilterFold::begin(3, seats);
        fold.answer(1, Err(down()), again);
        let asks = fold.answer(0, Ok(refuse("first", &[1])), Again::InTime);
        assert_eq!(asks.len(), usize::from(again == Again::InTime));
        fold.answer(1, Err(down()), Again::InTime);
        assert!(matches!(fold.verdict(), Some(Verdict::Failed { seat: 1, .. })), "{again:?}");
    }
}

#[test]
fn a_backend_in_turn_sees_the_survivors_of_the_earlier_ones() {
    let seats = vec![seat(FAIL, Turn::Parallel), seat(FAIL, Turn::InTurn), seat(IGNORE, Turn::Parallel)];
    let (mut fold, asks) = FilterFold::begin(3, seats);
    assert_eq!(asks.iter().map(|ask| ask.seat).collect::<Vec<_>>(), [0, 2]);
    fold.answer(2, Ok(vec![]), Again::InTime);
    let asks = fold.answer(0, Ok(refuse("first", &[0])), Again::InTime);
    assert_eq!(asks, [Ask { seat: 1, nodes: Asked::Some(vec![1, 2]) }]);
    assert_eq!(fold.outstanding().collect::<Vec<_>>(), [1]);
    fold.answer(1, Ok(refuse("turn", &[0])), Again::InTime);
    assert_eq!(reasons(fold.verdict().unwrap(), 3), [Some("first".into()), Some("turn".into()), None]);
}

#[test]
fn unknown_nodes_fall_at_the_place_of_the_backend_that_needed_them() {
    let mut needy = seat(FAIL, Turn::Parallel);
    needy.not_sent.unknown = vec![0, 2];
    let (mut fold, asks) = FilterFold::begin(3, vec![seat(FAIL, Turn::Parallel), needy.clone()]);
    assert_eq!(asks[1].nodes, Asked::Some(vec![1]));
    fold.answer(1, Ok(vec![]), Again::InTime);
    fold.answer(0, Ok(refuse("first", &[0])), Again::InTime);
    let Some(Verdict::Decided(rejected)) = fold.end().0 else { panic!("not decided") };
    assert_eq!(rejected.nodes, [Some(0), None, Some(1)]);
    assert_eq!(rejected.groups[1].by, By::Unknown(1));

    let (mut fold, _) = FilterFold::begin(3, vec![needy]);
    fold.answer(0, Ok(refuse("no", &[0])), Again::InTime);
    assert_eq!(fold.verdict(), Some(&Verdict::NotYetKnown { nodes: 2 }));
}

#[test]
fn a_failed_backend_that_may_be_ignored_rejects_no_unknown_node_either() {
    let mut needy = seat(IGNORE, Turn::Parallel);
    needy.not_sent.unknown = vec![1];
    let (mut fold, _) = FilterFold::begin(2, vec![needy]);
    fold.answer(0, Err(down()), Again::InTime);
    assert_eq!(reasons(fold.verdict().unwrap(), 2), [None, None]);
}

#[test]
fn an_unexpected_answer_is_ignored() {
    let seats = vec![seat(FAIL, Turn::Parallel), seat(FAIL, Turn::Parallel)];
    let (mut fold, _) = FilterFold::begin(2, seats);
    fold.answer(1, Ok(refuse("first word", &[0])), Again::InTime);
    assert!(fold.answer(1, Err(down()), Again::InTime).is_empty());
    fold.answer(0, Ok(vec![]), Again::InTime);
    assert_eq!(reasons(fold.verdict().unwrap(), 2), [Some("first word".into()), None]);
}

#[test]
fn preemption_helps_only_where_the_operator_lets_it() {
    for (preemption, helps) in [(Preemption::Ignored, false), (Preemption::Honored, true)] {
        let (mut fold, _) = FilterFold::begin(1, vec![Seat { preemption, ..seat(FAIL, Turn::Parallel) }]);
        let mut refusals = refuse("full", &[0]);
        refusals[0].preemption_may_help = true;
        fold.answer(0, Ok(refusals), Again::InTime);
        let Some(Verdict::Decided(rejected)) = fold.end().0 else { panic!("not decided") };
        assert_eq!(rejected.groups[0].preemption_may_help, helps);
    }
}

/// A backend as a function of the set of nodes in its call.
#[derive(Debug, Clone)]
struct Backend {
    seat: Seat,
    /// Refuses these nodes.
    refuses: Vec<bool>,
    /// Fails with more nodes than this.
    most: usize,
}

impl Backend {
    /// The answer about the nodes at these positions of the call, with positions in the request.
    fn answer(&self, asked: &[u32]) -> Result<Vec<Refusal>, BackendFailure> {
        if asked.len() > self.most {
            return Err(down());
        }
        // A whole-set backend refuses by rank, so that the other nodes of the call matter.
        let refused = |rank: usize, at: u32| match self.seat.turn {
            Turn::Parallel => self.refuses[at as usize],
            Turn::InTurn => self.refuses[rank],
        };
        let refused = asked.iter().enumerate().filter(|&(rank, &at)| refused(rank, at));
        Ok(refuse("no", &refused.map(|(rank, _)| u32::try_from(rank).unwrap()).collect::<Vec<_>>()))
    }
}

/// The result of calling the backends one after the other: the seat that rejected each node, or the seat that
/// failed the call.
fn in_turn(count: u32, backends: &[Backend]) -> Result<Vec<Option<By>>, By> {
    let mut fallen = vec![None; count as usize];
    let mut unknown = 0;
    for (seat, backend) in backends.iter().enumerate() {
        let left = (0..count).filter(|&at| fallen[at as usize].is_none());
        let NotSent { unknown: not_known, unreadable, deleted, oversize } = &backend.seat.not_sent;
        let untold = [
            (not_known, By::Unknown(seat)),
            (unreadable, By::Unreadable(seat)),
            (deleted, By::Deleted(seat)),
            (oversize, By::Oversize(seat)),
        ];
        let by = |at: u32| untold.iter().find(|(nodes, _)| nodes.contains(&at)).map(|(_, by)| *by);
        let (untold_here, asked): (Vec<u32>, Vec<u32>) = left.partition(|at| by(*at).is_some());
        let answer = if asked.is_empty() { Ok(refuse("no", &[])) } else { backend.answer(&asked) };
        match answer {
            Ok(refusals) => {
                let refused = refusals[0].positions.iter().map(|&rank| asked[rank as usize]);
                refused.for_each(|at| fallen[at as usize] = Some(By::Seat(seat)));
                for at in untold_here {
                    unknown += usize::from(not_known.contains(&at));
                    fallen[at as usize] = by(at);
                }
            }
            Err(_) if backend.seat.policy == IGNORE => {}
            Err(_) => return Err(By::Seat(seat)),
        }
    }
    if unknown > 0 && fallen.iter().all(Option::is_some) {
        return Err(By::Unknown(unknown));
    }
    Ok(fallen)
}

/// The result of the fold when answers arrive in the order that `pick` chooses.
fn folded(
    count: u32,
    backends: &[Backend],
    mut pick: impl FnMut(usize) -> usize,
) -> Result<Vec<Option<By>>, By> {
    let seats = backends.iter().map(|backend| backend.seat.clone()).collect();
    let (mut fold, mut asks) = FilterFold::begin(count, seats);
    while fold.verdict().is_none() {
        let Ask { seat, nodes } = asks.remove(pick(asks.len()));
        let asked = match nodes {
            Asked::All => (0..count).collect(),
            Asked::Some(positions) => positions,
        };
        assert!(!asked.is_empty(), "called without a node");
        asks.extend(fold.answer(seat, backends[seat].answer(&asked), Again::InTime));
    }
    match fold.end().0.unwrap() {
        Verdict::Failed { seat, .. } => Err(By::Seat(seat)),
        Verdict::NotYetKnown { nodes } => Err(By::Unknown(nodes as usize)),
        Verdict::Decided(rejected) => Ok((0..count as usize)
            .map(|at| rejected.nodes.get(at).copied().flatten())
            .map(|group| group.map(|group| rejected.groups[group as usize].by))
            .collect()),
    }
}

fn backend(count: usize) -> impl Strategy<Value = Backend> {
    let turn = prop_oneof![3 => Just(Turn::Parallel), 1 => Just(Turn::InTurn)];
    let policy = prop_oneof![Just(FAIL), Just(IGNORE)];
    let refuses = prop::collection::vec(prop::bool::weighted(0.4), count);
    let untold = prop::collection::btree_map(0..count.max(1), 0..4, 0..3);
    let most = prop_oneof![2 => Just(usize::MAX), 1 => 0..=count];
    (turn, policy, refuses, untold, most).prop_map(move |(turn, policy, refuses, untold, most)| {
        let nodes = |why| {
            let nodes = untold.iter().filter(|(at, reason)| **at < count && **reason == why);
            nodes.map(|(at, _)| u32::try_from(*at).unwrap()).collect()
        };
        let [unknown, deleted, oversize, unreadable] = [0, 1, 2, 3].map(nodes);
        let not_sent = NotSent { unknown, unreadable, deleted, oversize };
        Backend { seat: Seat { not_sent, ..seat(policy, turn) }, refuses, most }
    })
}

fn cases() -> impl Strategy<Value = (usize, Vec<Backend>, Vec<u8>)> {
    (0_usize..8).prop_flat_map(|count| {
        let backends = prop::collection::vec(backend(count), 0..6);
        (Just(count), backends, prop::collection::vec(any::<u8>(), 16))
    })
}

proptest! {
    #[test]
    fn in_parallel_and_in_turn_give_the_same((count, backends, picks) in cases()) {
        let count = u32::try_from(count).unwrap();
        let mut picks = picks.into_iter().cycle();
        let pick = |len: usize| usize::from(picks.next().unwrap()) % len;
        prop_assert_eq!(folded(count, &backends, pick), in_turn(count, &backends));
    }
}

#[test]
fn a_deleted_node_is_rejected_and_the_call_is_decided_all_the_same() {
    let seat = |unknown: &[u32]| Seat {
        not_sent: NotSent { unknown: unknown.to_vec(), deleted: vec![0], ..NotSent::default() },
        ..seat(FailurePolicy::Fail, Turn::Parallel)
    };
    let refusal = || Refusal { reason: "full".into(), positions: vec![0], ..Refusal::default() };
    let (mut fold, asks) = FilterFold::begin(2, vec![seat(&[])]);
    assert_eq!(asks, [Ask { seat: 0, nodes: Asked::Some(vec![1]) }]);
    fold.answer(0, Ok(vec![refusal()]), Again::InTime);
    let Some(Verdict::Decided(rejected)) = fold.verdict() else { panic!("{fold:?}") };
    let by: Vec<_> =
        rejected.nodes.iter().flatten().map(|group| rejected.groups[*group as usize].by).collect();
    assert_eq!(by, [By::Deleted(0), By::Seat(0)]);

    let (mut fold, _) = FilterFold::begin(3, vec![seat(&[2])]);
    fold.answer(0, Ok(vec![refusal()]), Again::InTime);
    assert_eq!(fold.verdict(), Some(&Verdict::NotYetKnown { nodes: 1 }), "the deleted one does not count");
}

#[test]
fn a_node_that_is_too_large_is_rejected_and_the_others_are_decided() {
    let mut seat = seat(FailurePolicy::Fail, Turn::Parallel);
    seat.not_sent.oversize = vec![1];
    let (mut fold, asks) = FilterFold::begin(3, vec![seat]);
    assert_eq!(asks, [Ask { seat: 0, nodes: Asked::Some(vec![0, 2]) }]);
    let refusal = Refusal { reason: "full".into(), positions: vec![0, 1], ..Refusal::default() };
    fold.answer(0, Ok(vec![refusal]), Again::InTime);
    let Some(Verdict::Decided(rejected)) = fold.verdict() else { panic!("{fold:?}") };
    let by: Vec<_> =
        rejected.nodes.iter().flatten().map(|group| rejected.groups[*group as usize].by).collect();
    assert_eq!(by, [By::Seat(0), By::Oversize(0), By::Seat(0)]);
}

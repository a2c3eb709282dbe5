use proptest::prelude::*;

use super::*;

fn candidate(node: u32, victims: &[&str]) -> Candidate {
    let victims = victims.iter().map(|&uid| uid.to_owned()).collect();
    Candidate { node, victims, pdb_violations: i64::from(node) + 1 }
}

fn kept(position: u32, victims: &[u32]) -> Kept {
    Kept { position, victims: victims.into(), ..Kept::default() }
}

fn adding(position: u32, victims: &[u32], added: &[&str]) -> Kept {
    Kept { added: added.iter().map(|&uid| uid.to_owned()).collect(), ..kept(position, victims) }
}

fn two() -> Vec<Candidate> {
    vec![candidate(3, &["a", "b"]), candidate(7, &["c"])]
}

const FAIL: Terms<'_> = Terms { policy: FailurePolicy::Fail, added: Added::Refused };
const IGNORE: Terms<'_> = Terms { policy: FailurePolicy::Ignore, added: Added::Refused };

/// Lets node 3 take "x" as well.
fn only_x(node: u32, uid: &str) -> Result<(), String> {
    if (node, uid) == (3, "x") { Ok(()) } else { Err("it is on another node".to_owned()) }
}

#[test]
fn what_is_kept_stays_in_the_order_of_the_call() {
    let mut chain = Chain::begin(two());
    let taken = chain.take(&two(), Ok(vec![kept(1, &[0]), kept(0, &[1, 0])]), FAIL);
    assert_eq!((taken, chain.left()), (Taken::Counted, &two()[..]));
    chain.take(&two(), Ok(vec![kept(0, &[1])]), FAIL);
    assert_eq!(chain.left(), [candidate(3, &["b"])]);
    chain.take(&[candidate(3, &["b"])], Ok(vec![]), FAIL);
    assert!(chain.left().is_empty());
}

#[test]
fn candidates_not_sent_to_a_backend_fall_with_its_answer_and_stay_without_one() {
    let mut chain = Chain::begin(two());
    let failure = BackendFailure::new(FailureKind::Late, "late");
    let taken = chain.take(&two()[1..], Err(failure.clone()), IGNORE);
    assert_eq!((taken, chain.left()), (Taken::Skipped(failure), &two()[..]));
    chain.take(&two()[1..], Ok(vec![kept(0, &[0])]), IGNORE);
    assert_eq!(chain.left(), &two()[1..]);
}

#[test]
fn an_answer_that_breaks_the_contract_is_a_failure() {
    let checked = Added::Checked(&only_x);
    for (answer, added, detail) in [
        (vec![kept(2, &[0])], Added::Refused, "position 2 is out of range: the request has 2 candidates"),
        (vec![kept(1, &[0]), kept(1, &[0])], Added::Refused, "position 1 is kept twice"),
        (vec![kept(1, &[1])], Added::Refused, "victim 1 of position 1 is out of range: it has 1 victims"),
        (vec![kept(0, &[1, 1])], Added::Refused, "victim 1 of position 0 is kept twice"),
        (
            vec![adding(0, &[0], &["x"])],
            Added::Refused,
            "victim x was not offered, and preempt.addedVictims is Refused",
        ),
        (vec![adding(0, &[0], &["y"])], checked, "cannot add victim y: it is on another node"),
        (vec![adding(1, &[0], &["x"])], checked, "cannot add victim x: it is on another node"),
        (vec![adding(0, &[0], &["x", "x"])], checked, "added victim x is already a victim"),
        (vec![adding(0, &[0], &["b"])], checked, "added victim b is already a victim"),
    ] {
        for policy in [FailurePolicy::Fail, FailurePolicy::Ignore] {
            let mut chain = Chain::begin(two());
            let taken = chain.take(&two(), Ok(answer.clone()), Terms { policy, added });
            let failure = BackendFailure::new(FailureKind::Malformed, detail);
            let expected = match policy {
                FailurePolicy::Fail => Taken::Failed(failure),
                FailurePolicy::Ignore => Taken::Skipped(failure),
            };
            assert_eq!((taken, chain.left()), (expected, &two()[..]));
        }
    }
}

#[test]
fn a_node_without_victims_fails_the_backend_or_falls() {
    let answer = || Ok(vec![kept(0, &[]), kept(1, &[0])]);
    let mut chain = Chain::begin(two());
    let Taken::Failed(failure) = chain.take(&two(), answer(), FAIL) else { panic!("a failure") };
    assert_eq!(failure.detail, "a candidate is kept without any victim");
    assert_eq!(chain.take(&two(), answer(), IGNORE), Taken::Counted);
    assert_eq!(chain.left(), &two()[1..]);
}

/// As newer kube-schedulers do it: an extender may leave a node without victims to the next one.
#[test]
fn a_placeholder_stays_until_a_backend_names_victims() {
    let offered = || vec![candidate(3, &[]), candidate(7, &["c"])];
    let checked = Added::Checked(&only_x);
    for policy in [FailurePolicy::Fail, FailurePolicy::Ignore] {
        let mut chain = Chain::begin(offered());
        let terms = Terms { policy, added: Added::Refused };
        let taken = chain.take(&offered(), Ok(vec![kept(0, &[]), kept(1, &[0])]), terms);
        assert_eq!((taken, chain.left()), (Taken::Counted, &offered()[..]));
        let terms = Terms { policy, added: checked };
        let taken = chain.take(&offered(), Ok(vec![adding(0, &[], &["x"])]), terms);
        assert_eq!((taken, chain.left()), (Taken::Counted, &[candidate(3, &["x"])][..]));
    }
    let mut chain = Chain::begin(offered());
    chain.take(&offered(), Ok(vec![]), FAIL);
    assert!(chain.left().is_empty(), "a backend may drop it");
}

#[test]
fn a_backend_that_may_add_victims_counts_the_violations() {
    let counted = |added, count| {
        let mut chain = Chain::begin(two());
        let kept = Kept { pdb_violations: Some(count), ..kept(0, &[1]) };
        chain.take(&two(), Ok(vec![kept]), Terms { added, ..FAIL });
        chain.left()[0].pdb_violations
    };
    assert_eq!(counted(Added::Refused, 9), 4, "kube-scheduler's");
    assert_eq!(counted(Added::Checked(&only_x), 9), 9);
    let many = Candidate { pdb_violations: i64::MAX, ..candidate(3, &["a"]) };
    let mut chain = Chain::begin(vec![many.clone()]);
    let kept = Kept { pdb_violations: Some(u32::MAX), ..kept(0, &[0]) };
    let terms = Terms { added: Added::Checked(&only_x), ..FAIL };
    chain.take(std::slice::from_ref(&many), Ok(vec![kept]), terms);
    assert_eq!(chain.left(), [many], "what was sent is not a new number");
}

#[test]
fn a_victim_that_passes_the_check_goes_behind_the_others() {
    let mut chain = Chain::begin(two());
    let terms = Terms { added: Added::Checked(&only_x), ..FAIL };
    assert_eq!(chain.take(&two(), Ok(vec![adding(0, &[1], &["x"])]), terms), Taken::Counted);
    assert_eq!(chain.left(), [candidate(3, &["b", "x"])]);
    assert_eq!(chain.take(&two(), Ok(vec![adding(0, &[], &["x"])]), terms), Taken::Counted);
    assert_eq!(chain.left(), [candidate(3, &["x"])]);
}

fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let candidate = (1_usize..4, 0_i64..3);
    prop::collection::vec(candidate, 0..5).prop_map(|shapes| {
        let nodes = (0_u32..).zip(shapes);
        let uids = |node: u32, count| (0..count).map(|at| format!("{node}-{at}")).collect();
        nodes
            .map(|(node, (count, pdb_violations))| Candidate {
                node,
                victims: uids(node, count),
                pdb_violations,
            })
            .collect()
    })
}

fn answer() -> impl Strategy<Value = Result<Vec<Kept>, BackendFailure>> {
    let added =
        prop_oneof![9 => Just(vec![]), 1 => Just(vec!["0-0".to_owned()]), 1 => Just(vec!["x".to_owned()])];
    let kept = (0_u32..5, prop::collection::vec(0_u32..4, 0..4), added);
    let kept =
        kept.prop_map(|(position, victims, added)| Kept { position, victims, added, pdb_violations: None });
    let failure = BackendFailure::new(FailureKind::Status, "no");
    prop_oneof![4 => prop::collection::vec(kept, 0..5).prop_map(Ok), 1 => Just(Err(failure))]
}

/// Whether `part` is `whole` without some of its elements.
fn is_part<T: PartialEq>(part: &[T], whole: &[T]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|wanted| whole.any(|there| there == wanted))
}

proptest! {
    #[test]
    fn whatever_backends_say_only_a_part_is_left(
        offered in candidates(),
        steps in prop::collection::vec((answer(), any::<bool>()), 0..5),
    ) {
        let mut chain = Chain::begin(offered.clone());
        for (answer, fail) in steps {
            let before = chain.clone();
            let terms = if fail { FAIL } else { IGNORE };
            let taken = chain.take(&before.left, answer, terms);
            prop_assert!(taken == Taken::Counted || chain == before);
        }
        let nodes = |candidates: &[Candidate]| candidates.iter().map(|one| one.node).collect::<Vec<_>>();
        prop_assert!(is_part(&nodes(chain.left()), &nodes(&offered)));
        for left in chain.left() {
            let sent = &offered[left.node as usize];
            prop_assert!(!left.victims.is_empty() && is_part(&left.victims, &sent.victims));
            prop_assert_eq!(left.pdb_violations, sent.pdb_violations);
        }
    }
}

use extender_gateway_core::filter::{By, Group, Rejected};
use extender_gateway_wire::reply::Reason;

use super::*;

const POD: u64 = 1;
const POLICIES: u64 = 7;
const HELD: Duration = Duration::from_mins(2);

/// What is told for a refusal of this many nodes with each of these texts.
fn tell(conditions: &mut Conditions, pod: u64, policies: u64, texts: &[(&str, usize)]) -> Told {
    let group = Group { by: By::Seat(0), reason: String::new(), preemption_may_help: false };
    let nodes = (0_u32..).zip(texts).flat_map(|(at, (_, nodes))| vec![Some(at); *nodes]).collect();
    let rejected = Rejected { groups: vec![group; texts.len()], nodes };
    let reason = |(text, _): &(&str, usize)| Reason { text: (*text).to_owned(), ..Reason::default() };
    let reasons: Vec<_> = texts.iter().map(reason).collect();
    conditions.tell(pod, policies, &Tally::of(&rejected, &reasons), Instant::now())
}

fn summary(texts: &str) -> Told {
    Told::Summary(format!("no node passes the policies: {texts}").into())
}

#[tokio::test(start_paused = true)]
async fn the_condition_changes_once() {
    let mut conditions = Conditions::new(HELD);
    let mut told = |texts: &[(&str, usize)]| tell(&mut conditions, POD, POLICIES, texts);
    let first = [("racks: drained", 99), ("quota: full", 45)];
    assert_eq!(told(&first), Told::Reasons);
    assert_eq!(told(&first), Told::Reasons, "the condition would be the same");
    let expected = summary("racks: drained (99), quota: full (45)");
    assert_eq!(told(&[("racks: drained", 98), ("quota: full", 46)]), expected);
    assert_eq!(told(&first), expected, "the condition is the summary now");
    assert_eq!(told(&[("usage: 3 are free", 144)]), expected);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_one_reason_needs_no_summary() {
    let mut conditions = Conditions::new(HELD);
    for nodes in [144, 150, 144] {
        assert_eq!(tell(&mut conditions, POD, POLICIES, &[("quota: full", nodes)]), Told::Reasons);
    }
}

/// Brings a pod to the state in which the summary is sent.
fn summarized() -> Conditions {
    let mut conditions = Conditions::new(HELD);
    for text in ["usage: 1", "usage: 2"] {
        tell(&mut conditions, POD, POLICIES, &[(text, 3)]);
    }
    conditions
}

#[tokio::test(start_paused = true)]
async fn a_summary_is_held_for_a_while() {
    let mut conditions = summarized();
    tokio::time::advance(HELD.checked_sub(Duration::from_millis(1)).unwrap()).await;
    assert_eq!(tell(&mut conditions, POD, POLICIES, &[("usage: 3", 3)]), summary("usage: 1 (3)"));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(tell(&mut conditions, POD, POLICIES, &[("usage: 4", 3)]), Told::Reasons);
    assert_eq!(tell(&mut conditions, POD, POLICIES, &[("usage: 5", 3)]), summary("usage: 4 (3)"));
}

#[tokio::test(start_paused = true)]
async fn a_summary_ends_with_an_acceptance_and_with_other_policies() {
    let mut conditions = summarized();
    assert_eq!(tell(&mut conditions, 2, POLICIES, &[("usage: 3", 3)]), Told::Reasons, "another pod");
    conditions.forget(POD);
    assert_eq!(tell(&mut conditions, POD, POLICIES, &[("usage: 3", 3)]), Told::Reasons);
    let mut conditions = summarized();
    assert_eq!(tell(&mut conditions, POD, POLICIES + 1, &[("usage: 3", 3)]), Told::Reasons);
    assert_eq!(tell(&mut conditions, POD, POLICIES + 1, &[("usage: 4", 3)]), summary("usage: 3 (3)"));
}

#[tokio::test(start_paused = true)]
async fn half_an_attempt_is_told_what_holds_and_is_not_remembered() {
    let mut conditions = Conditions::new(HELD);
    assert_eq!(conditions.tell_half(POD, POLICIES, Instant::now()), Told::Reasons);
    assert!(conditions.pods.is_empty());
    let mut conditions = summarized();
    assert_eq!(conditions.tell_half(POD, POLICIES, Instant::now()), summary("usage: 1 (3)"));
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_and_comes_back() {
    let mut conditions = Conditions::new(HELD);
    for pod in 0..MOST_PODS as u64 {
        assert_eq!(tell(&mut conditions, pod, POLICIES, &[("a", 1)]), Told::Reasons);
    }
    assert_eq!(tell(&mut conditions, u64::MAX, POLICIES, &[("a", 1)]), Told::Untracked);
    assert_eq!(tell(&mut conditions, POD, POLICIES, &[("b", 1)]), summary("a (1)"), "it is remembered");
    assert_eq!(tell(&mut conditions, POD, POLICIES + 1, &[("b", 1)]), Told::Reasons, "it has its place");
    tokio::time::advance(HELD).await;
    assert_eq!(tell(&mut conditions, u64::MAX, POLICIES, &[("a", 1)]), Told::Reasons);
    assert_eq!(conditions.pods.len(), 1);
}

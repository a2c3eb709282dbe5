//! Answers of backends: frames of gRPC, and the messages in them.
//!
//! The first byte selects the number of nodes, whether scores are wanted, and whether the frame of the message is
//! generated or part of the input.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use extender_gateway_contract::{
    answer::{self, FilterAnswer, Reply},
    api::ApiVersion,
    bind as contract_bind,
    change::{
        ChangedParts, change_pod, changed_row, node_in_words, parts_of_node, parts_of_pod, pod_in_words,
    },
    facts, hook, preempt as contract_preempt,
    protobuf::put_prefix,
    question::ScoresWanted,
    row::{RowFields, RowMessage, RowView},
    scores::NO_OPINION,
};
use extender_gateway_core::{
    BackendFailure, FailureKind, FailurePolicy,
    filter::{Again, FilterFold, NotSent, Preemption, Refusal, Seat, Turn, Verdict},
    preempt::{Added, Candidate, Chain, Kept, Taken, Terms},
    reason,
};
use extender_gateway_grpc as grpc;
use extender_gateway_object::view::{KeyPrefixes, PodFactsView};
use extender_policy_api::limits::REASON_BYTES;
use extender_policy_api::v1beta1::{
    ChangedPart, FilterResponse, MapReads, NodeFacts, NodeReads, NodeUsage, PodFacts, PreemptResponse,
    Resources, ScoreResponse, Scores,
};
use prost::Message;

/// The longest text of a failure, in bytes.
const LONGEST_FAILURE: usize = 300;
/// The longest text about a change, in bytes.
const LONGEST_WORDS: usize = 400;

/// Selects the frame of the input instead of a generated one.
pub const OWN_FRAME: u8 = 0x80;
/// Selects that scores are wanted.
pub const WANT_SCORES: u8 = 0x10;

/// An answer, and what was asked.
struct Answer {
    message: Bytes,
    count: u32,
    wanted: ScoresWanted,
}

impl Answer {
    /// `None` without a frame that holds one message.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (control, rest) = bytes.split_first()?;
        let wanted = if control & WANT_SCORES == 0 { ScoresWanted::Unwanted } else { ScoresWanted::Wanted };
        let framed = if control & OWN_FRAME == 0 { framed(rest) } else { Bytes::copy_from_slice(rest) };
        match grpc::message(framed.clone()) {
            Ok(message) => {
                assert_eq!(message, framed[5..]);
                Some(Self { message, count: u32::from(control & 7), wanted })
            }
            Err(failure) => {
                malformed(&failure);
                None
            }
        }
    }
}

fn framed(message: &[u8]) -> Bytes {
    let mut framed = Vec::new();
    put_prefix(message.len(), &mut framed).expect("input of a fuzzer is short");
    framed.extend_from_slice(message);
    framed.into()
}

/// The changes of a hook are refused, or are within the limits and can be applied to every view.
pub fn hook(bytes: &[u8]) {
    let Some(Answer { message, count, wanted }) = Answer::read(bytes) else { return };
    // Wanted: every part may change. Otherwise none.
    let parts = (1..=12).filter_map(|part| ChangedPart::try_from(part).ok());
    let allowed = ChangedParts::new(parts.filter(|_| wanted == ScoresWanted::Wanted));
    let changes = match hook::changes(message, count, allowed).and_then(Reply::inline) {
        Ok(answered) => answered.value,
        Err(failure) => return malformed(&failure),
    };
    let positions: Vec<u32> = changes.nodes.iter().flat_map(|changed| changed.positions.clone()).collect();
    assert_eq!(positions.iter().collect::<BTreeSet<_>>().len(), positions.len());
    assert!(positions.iter().all(|position| *position < count));
    for changed in &changes.nodes {
        assert!(!changed.positions.is_empty());
        assert!(allowed.lacks(parts_of_node(&changed.change)).is_none());
        assert!(node_in_words(&changed.change).len() <= LONGEST_WORDS);
        for view in row_views() {
            let row = changed_row(&plain_row(&view), &view, [&*changed.change].into_iter());
            assert!(row.is_none_or(|row| row != plain_row(&view)));
        }
    }
    if let Some(change) = &changes.pod {
        assert!(allowed.lacks(parts_of_pod(change)).is_none());
        assert!(pod_in_words(change).len() <= LONGEST_WORDS);
        let view = PodFactsView::complete();
        let mut facts = PodFacts { requests: Some(Resources::default()), ..PodFacts::default() };
        change_pod(&mut facts, &view, change);
        let Resources { milli_cpu, memory, others, .. } = facts.requests.unwrap_or_default();
        assert!(milli_cpu >= 0 && memory >= 0 && others.values().all(|amount| *amount >= 0));
    }
}

/// Views with every fact by key, with one label by position, and with names alone.
fn row_views() -> [RowView; 3] {
    let labels = MapReads { keys: vec!["zone".to_owned()], ..MapReads::default() };
    let reads = NodeReads { labels: Some(labels), ..NodeReads::default() };
    let facts = Arc::new((&reads).into());
    let by_position = RowFields { facts, usage: true, nominated: true, ..RowFields::default() };
    [RowView::Facts(KeyPrefixes::all().into()), RowView::Facts(by_position), RowView::Name]
}

/// The row of a node that has reported no more than an amount.
fn plain_row(view: &RowView) -> Bytes {
    let facts = NodeFacts { allocatable: Some(Resources::default()), ..NodeFacts::default() };
    let facts = view.facts().map(|view| facts::in_view(&facts.encode_to_vec(), view, &[]));
    let usage = NodeUsage::default();
    let row = RowMessage {
        name: if view.has_name() { "node" } else { "" },
        facts: facts.as_deref(),
        usage: view.wants_usage().then_some(&usage),
        nominated: view.wants_nominated().then_some(&usage),
        ..RowMessage::default()
    };
    let mut entry = Vec::new();
    row.encode(&mut entry);
    entry.into()
}

/// A filter answer is refused, or decides about each node at most once.
pub fn filter(bytes: &[u8]) {
    let Some(Answer { message, count, wanted }) = Answer::read(bytes) else { return };
    let answered =
        match answer::filter(message.clone(), count, wanted, ApiVersion::NEWEST).and_then(Reply::inline) {
            Ok(answered) => answered,
            Err(failure) => return malformed(&failure),
        };
    let FilterAnswer { refusals, scores } = answered.value;
    assert!(scores.as_ref().is_none_or(|scores| scores.len() == count as usize));
    assert!(scores.is_none() || wanted == ScoresWanted::Wanted);
    let positions: Vec<u32> = refusals.iter().flat_map(|refusal| refusal.positions.clone()).collect();
    assert_eq!(positions, generated_positions(&message));
    assert!(positions.iter().all(|position| *position < count));
    assert!(refusals.iter().all(|refusal| refusal.reason.len() <= REASON_BYTES));
    decided(refusals, count, positions.len());
}

/// The rejected positions as the generated types have them.
fn generated_positions(message: &Bytes) -> Vec<u32> {
    let generated = FilterResponse::decode(message.clone()).expect("an accepted answer is protobuf");
    generated.rejections.into_iter().flat_map(|rejection| rejection.positions).collect()
}

/// The answer as the only one of a call: as many nodes are rejected as it names.
fn decided(refusals: Vec<Refusal>, count: u32, refused: usize) {
    let (policy, turn, preemption) = (FailurePolicy::Fail, Turn::Parallel, Preemption::Honored);
    let seat = Seat { policy, turn, preemption, not_sent: NotSent::default() };
    let (mut fold, _) = FilterFold::begin(count, vec![seat]);
    fold.answer(0, Ok(refusals), Again::TooLate);
    let Some(Verdict::Decided(rejected)) = fold.end().0 else { panic!("it counts") };
    assert_eq!(rejected.nodes.iter().flatten().count(), refused);
    assert!(rejected.nodes.iter().flatten().all(|group| (*group as usize) < rejected.groups.len()));
}

/// A score answer is refused, or has a score for each node.
pub fn score(bytes: &[u8]) {
    let Some(Answer { message, count, .. }) = Answer::read(bytes) else { return };
    match answer::score(message.clone(), count).and_then(Reply::inline) {
        Ok(answered) => {
            let generated = ScoreResponse::decode(message).expect("an accepted answer is protobuf");
            assert_eq!(Some(&answered.value), generated.scores.map(opinions).as_ref());
            assert_eq!(answered.value.len(), count as usize);
        }
        Err(failure) => malformed(&failure),
    }
}

/// The scores, with `NO_OPINION` where there is none.
fn opinions(Scores { mut values, absent }: Scores) -> Vec<i32> {
    for score in &mut values {
        *score = (*score).max(NO_OPINION + 1);
    }
    for position in absent {
        values[position as usize] = NO_OPINION;
    }
    values
}

/// A preempt answer is refused, or leaves a part of the candidates.
pub fn preempt(bytes: &[u8]) {
    let Some(Answer { message, count, .. }) = Answer::read(bytes) else { return };
    let asked = candidates(count);
    let offered = asked.iter().map(|candidate| candidate.victims.len()).sum();
    let kept = match contract_preempt::answer(message.clone(), count, offered) {
        Ok(answered) => answered.value,
        Err(failure) => return malformed(&failure),
    };
    let generated = PreemptResponse::decode(message).expect("an accepted answer is protobuf");
    assert_eq!(kept.len(), generated.kept.len());
    assert!(kept.len() <= count as usize);
    let only_x = |_: u32, uid: &str| if uid == "x" { Ok(()) } else { Err(String::new()) };
    for policy in [FailurePolicy::Fail, FailurePolicy::Ignore] {
        for added in [Added::Refused, Added::Checked(&only_x)] {
            left(&asked, kept.clone(), Terms { policy, added });
        }
    }
}

/// What such an answer leaves are asked candidates with victims that were offered or may be added.
fn left(asked: &[Candidate], kept: Vec<Kept>, terms: Terms<'_>) {
    let may_be_added = matches!(terms.added, Added::Checked(_));
    let mut chain = Chain::begin(asked.to_vec());
    let taken = chain.take(asked, Ok(kept), terms);
    assert!(taken == Taken::Counted || chain.left() == asked);
    for left in chain.left() {
        let offered = &asked[left.node as usize].victims;
        assert!(!left.victims.is_empty());
        assert!(left.victims.iter().all(|uid| offered.contains(uid) || (may_be_added && uid == "x")));
        let distinct: BTreeSet<_> = left.victims.iter().collect();
        assert_eq!(distinct.len(), left.victims.len());
    }
}

fn candidates(count: u32) -> Vec<Candidate> {
    let victims = || vec!["u".to_owned(), "v".to_owned()];
    (0..count).map(|node| Candidate { node, victims: victims(), pdb_violations: 1 }).collect()
}

/// A bind answer is refused, or says one of two things.
pub fn bind(bytes: &[u8]) {
    let Some(Answer { message, .. }) = Answer::read(bytes) else { return };
    match contract_bind::answer(message) {
        Ok(contract_bind::Bound::Yes) => {}
        Ok(contract_bind::Bound::Declined(why) | contract_bind::Bound::No(why)) => {
            one_line(&why, reason::LONGEST);
        }
        Err(failure) => malformed(&failure),
    }
}

/// The failure is the backend's, in one short line.
fn malformed(failure: &BackendFailure) {
    assert_eq!(failure.kind, FailureKind::Malformed, "{failure}");
    assert!(!failure.detail.is_empty());
    one_line(&failure.detail, LONGEST_FAILURE);
}

/// The text is safe for kube-scheduler.
pub(super) fn one_line(text: &str, longest: usize) {
    assert!(text.len() <= longest, "{} bytes", text.len());
    assert!(!text.chars().any(|c| c.is_control() || c == '%'), "{text:?}");
}

//! What is remembered is what was answered last for exactly this, or nothing.

use std::collections::BTreeMap;

use bytes::Bytes;
use extender_gateway_core::filter::Refusal;
use proptest::prelude::*;

use super::{Answers, CHECK_EVERY, MOST_REASONS, Memory, Remembered, Verdicts};
use crate::cluster::table::{Line, Row};

fn line(slot: u32, version: u64) -> Line {
    Line { slot, id: slot + 1, row: Row { bytes: Bytes::new(), version } }
}

fn lines(slots: u32) -> Vec<Line> {
    (0..slots).map(|slot| line(slot, 1)).collect()
}

fn refusal(reason: &str, positions: &[u32]) -> Refusal {
    Refusal { reason: reason.into(), preemption_may_help: reason.len() > 1, positions: positions.into() }
}

#[test]
fn refusals_come_back_as_they_were() {
    let verdicts = Verdicts::default();
    let (pod, lines) = (Bytes::from_static(b"web"), lines(5));
    let refusals = vec![refusal("a", &[0, 3]), refusal("bb", &[2])];
    let read = verdicts.read(&refusals, 5);
    verdicts.file(&pod, lines.iter().zip(read));
    let recalled = verdicts.recall(&pod, lines.iter());
    assert_eq!(verdicts.refusals(&recalled), refusals);
    assert!(recalled.iter().all(Option::is_some));
    assert!(verdicts.recall(b"other", lines.iter()).iter().all(Option::is_none));
}

#[test]
fn endless_reasons_are_not_remembered() {
    let verdicts = Verdicts::default();
    for number in 0..MOST_REASONS {
        assert_eq!(verdicts.read(&[refusal(&format!("{number}"), &[0])], 1).len(), 1);
    }
    let read = verdicts.read(&[refusal("one more", &[1])], 3);
    assert_eq!(read, [Some(0), None, Some(0)]);
}

#[test]
fn memory_is_bounded_and_the_latest_pods_stay() {
    let answers = Answers::bounded(100_000);
    let lines = lines(100);
    let pod = |number: u32| Bytes::from(format!("pod-{number}"));
    for number in 0..1000 {
        answers.file(&pod(number), lines.iter().map(|line| (line, 1)));
        let inner = answers.lock();
        let taken: usize = inner.by_pod.iter().map(|(pod, class)| pod.len() + class.sheet.bytes()).sum();
        assert_eq!(inner.bytes, taken, "the count is right");
        assert!(taken <= 100_000, "{taken} bytes after {number} pods");
    }
    assert_eq!(answers.recall(&pod(999), lines.iter())[99], Some(1));
    assert_eq!(answers.recall(&pod(0), lines.iter())[0], None);
}

#[test]
fn one_call_in_a_thousand_is_a_check_of_each_verb() {
    let memory = Memory::new(Remembered { filter: true, score: true });
    let (verdicts, scores) = (memory.verdicts.as_ref().unwrap(), memory.scores.as_ref().unwrap());
    let due = (0..3 * CHECK_EVERY).map(|_| (verdicts.is_check_due(), scores.is_check_due()));
    let checks = due.fold((0, 0), |(one, other), due| (one + u32::from(due.0), other + u32::from(due.1)));
    assert_eq!(checks, (3, 3));
    assert!(memory.is_trusted() && memory.distrust() && !memory.distrust() && !memory.is_trusted());
}

#[test]
fn a_handshake_settles_a_doubt_and_nothing_else() {
    let memory = Memory::new(Remembered { filter: false, score: true });
    let (scores, pod, lines) = (memory.scores.as_ref().unwrap(), Bytes::from_static(b"web"), lines(1));
    let recall = || scores.recall(&pod, lines.iter())[0];
    scores.file(&pod, [(&lines[0], 7)].into_iter());
    memory.confirm();
    assert_eq!(recall(), Some(7), "there was no doubt");
    memory.doubt();
    assert!(!memory.is_trusted());
    memory.confirm();
    assert!(memory.is_trusted() && recall().is_none());
    memory.distrust();
    memory.doubt();
    memory.confirm();
    assert!(!memory.is_trusted(), "a verb that is not pure stays so");
}

proptest! {
    /// Against a plain map from pod, slot and version to the answer.
    #[test]
    fn is_what_was_filed_last(
        steps in prop::collection::vec((0_u8..3, prop::collection::vec((0_u32..6, 1_u64..4, any::<i32>()), 0..6)), 0..30),
    ) {
        let answers = Answers::<i32>::default();
        let mut model: BTreeMap<(u8, u32), (u64, i32)> = BTreeMap::new();
        for (pod, filed) in steps {
            let lines: Vec<_> = filed.iter().map(|(slot, version, answer)| (line(*slot, *version), *answer)).collect();
            answers.file(&Bytes::from(vec![pod]), lines.iter().map(|(line, answer)| (line, *answer)));
            model.extend(filed.iter().map(|(slot, version, answer)| ((pod, *slot), (*version, *answer))));
            for pod in 0..3 {
                for (slot, version) in (0..6).flat_map(|slot| (1..4).map(move |version| (slot, version))) {
                    let expected = model.get(&(pod, slot)).filter(|known| known.0 == version).map(|known| known.1);
                    prop_assert_eq!(answers.recall(&[pod], [line(slot, version)].iter()), [expected]);
                }
            }
        }
    }
}

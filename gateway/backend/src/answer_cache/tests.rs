//! The cache returns the latest answer for exactly this pod and row, or nothing.

use std::{collections::BTreeMap, num::NonZeroU32};

use bytes::Bytes;
use extender_gateway_cluster::table::RowKey;
use extender_gateway_core::{PerPolicyVerb, PolicyVerb, filter::Refusal};
use proptest::prelude::*;

use super::{AnswerCache, Answers, InternedCache, MOST_BYTES, VerbCache, interned::MOST_DIFFERENT};

/// No call is a check.
const NEVER: NonZeroU32 = NonZeroU32::MAX;

fn row(slot: u32, version: u64) -> RowKey {
    RowKey { slot, version }
}

fn rows(slots: u32) -> Vec<RowKey> {
    (0..slots).map(|slot| row(slot, 1)).collect()
}

/// The cached answers one by one.
fn recalled<A: Copy + Default>(answers: &VerbCache<A>, pod: &[u8], rows: &[RowKey]) -> Vec<Option<A>> {
    let Answers { all, unknown } = answers.recall(pod, rows.iter().copied());
    (0..).zip(all).map(|(at, answer)| (!unknown.contains(&at)).then_some(answer)).collect()
}

fn refusal(reason: &str, positions: &[u32]) -> Refusal {
    Refusal {
        reason: reason.into(),
        rule: reason.to_uppercase(),
        preemption_may_help: reason.len() > 1,
        retry_after: (reason.len() > 1).then_some(30),
        positions: positions.into(),
    }
}

#[test]
fn refusals_come_back_as_they_were() {
    let verdicts = InternedCache::new(NEVER);
    let (pod, rows) = (Bytes::from_static(b"web"), rows(5));
    let refusals = vec![refusal("a", &[0, 3]), refusal("bb", &[2])];
    let read = verdicts.read(&refusals, 5);
    let read = read.into_iter().map(Option::unwrap);
    verdicts.answers.store(&pod, rows.iter().copied().zip(read));
    let recalled = verdicts.answers.recall(&pod, rows.iter().copied());
    assert_eq!(verdicts.groups(&recalled.all), refusals);
    assert_eq!(recalled.unknown, [0; 0]);
    assert!(!verdicts.answers.recall(b"other", rows.iter().copied()).are_some_known());
}

#[test]
fn endless_reasons_are_not_remembered() {
    let verdicts = InternedCache::new(NEVER);
    for number in 0..MOST_DIFFERENT {
        assert_eq!(verdicts.read(&[refusal(&format!("{number}"), &[0])], 1).len(), 1);
    }
    let read = verdicts.read(&[refusal("one more", &[1])], 3);
    assert_eq!(read, [Some(0), None, Some(0)]);
}

#[test]
fn memory_is_bounded_and_the_latest_pods_stay() {
    let answers = VerbCache::new(100_000, NEVER);
    let rows = rows(100);
    let pod = |number: u32| Bytes::from(format!("pod-{number}"));
    for number in 0..1000 {
        answers.store(&pod(number), rows.iter().map(|row| (*row, 1)));
        let inner = answers.classes.lock();
        let taken: usize = inner.by_pod.iter().map(|(pod, class)| class.bytes(pod)).sum();
        assert_eq!(inner.bytes, taken, "the count is right");
        assert!(taken <= 100_000, "{taken} bytes after {number} pods");
    }
    assert_eq!(recalled(&answers, &pod(999), &rows)[99], Some(1));
    assert_eq!(recalled(&answers, &pod(0), &rows)[0], None);
}

#[test]
fn pods_that_come_once_leave_those_that_come_again() {
    let answers = VerbCache::new(1 << 20, NEVER);
    let rows = rows(1000);
    let pod = |name: &str, number: u32| Bytes::from(format!("{name}-{number}"));
    let file = |pod: &Bytes, rows: &[RowKey]| answers.store(pod, rows.iter().map(|row| (*row, 1)));
    for number in 0..10 {
        file(&pod("deployment", number), &rows);
    }
    // 40 of these take about 270 kB, and the ten above 120 kB: less than half of the limit.
    for number in 0..4000 {
        file(&pod("job", number), &rows[580..]);
        if number % 4 == 0 {
            let recalled = recalled(&answers, &pod("deployment", number / 4 % 10), &rows);
            assert!(recalled.iter().all(Option::is_some), "after {number} others");
        }
    }
    assert_eq!(recalled(&answers, &pod("job", 0), &rows[580..])[0], None, "room was short");
}

#[test]
fn a_class_that_is_larger_than_half_of_everything_is_no_harm() {
    let answers = VerbCache::new(20_000, NEVER);
    let rows = rows(1000);
    for pod in ["large", "small", "large"] {
        let count = if pod == "large" { 1000 } else { 100 };
        answers.store(&Bytes::from(pod), rows[..count].iter().map(|row| (*row, 1)));
        assert!(answers.classes.lock().bytes <= 20_000);
    }
    answers.store(&Bytes::from("small"), rows[..100].iter().map(|row| (*row, 1)));
    assert_eq!(recalled(&answers, b"small", &rows[..1]), [Some(1)]);
}

#[test]
fn one_call_in_so_many_is_a_check() {
    let every = NonZeroU32::new(7).unwrap();
    let answers = VerbCache::<i32>::new(MOST_BYTES, every);
    let checks = (0..3 * every.get()).filter(|_| answers.take_check()).count();
    assert_eq!(checks, 3);
}

#[test]
fn a_mix_of_revisions_and_a_refutation_are_told_apart() {
    let cache = AnswerCache::new(&PerPolicyVerb::from_fn(|verb| verb == PolicyVerb::Filter), NEVER);
    assert!(cache.is_trusted() && !cache.is_outdated());
    cache.mark_outdated();
    assert!(!cache.is_trusted() && cache.is_outdated());
    let cache = AnswerCache::new(&PerPolicyVerb::from_fn(|verb| verb == PolicyVerb::Filter), NEVER);
    assert!(cache.mark_impure() && !cache.mark_impure());
    assert!(!cache.is_trusted() && cache.is_impure() && !cache.is_outdated());
    cache.mark_outdated();
    assert!(!cache.is_trusted() && cache.is_impure() && cache.is_outdated());
}

/// Stores answers for a pod about nodes from this slot on, or recalls one.
#[derive(Debug, Clone)]
enum Use {
    File(u8, u32, u32),
    Recall(u8),
}

fn uses() -> impl Strategy<Value = Vec<Use>> {
    let file = (0..20_u8, 0..100_u32, 1..100_u32).prop_map(|(pod, from, count)| Use::File(pod, from, count));
    prop::collection::vec(prop_oneof![file, (0..20_u8).prop_map(Use::Recall)], 0..60)
}

proptest! {
    /// The most recently used classes stay, up to half of the limit, whatever else is cached.
    #[test]
    fn the_classes_used_last_stay(uses in uses()) {
        const MOST: usize = 10_000;
        let answers = VerbCache::<i32>::new(MOST, NEVER);
        // Each cached pod with the size of its class, the most recently used one last.
        let mut known: Vec<(u8, usize)> = Vec::new();
        for step in uses {
            let (Use::File(pod, ..) | Use::Recall(pod)) = step;
            match step {
                Use::File(_, from, count) => {
                    let rows = (from..from + count).map(|slot| row(slot, 1));
                    answers.store(&Bytes::from(vec![pod]), rows.map(|row| (row, 1)));
                }
                Use::Recall(_) => drop(recalled(&answers, &[pod], &[])),
            }
            let inner = answers.classes.lock();
            let bytes_of = |pod: u8| inner.by_pod.get_key_value(&[pod][..]).map(|(pod, class)| class.bytes(pod));
            known.retain(|(other, _)| *other != pod);
            known.extend(bytes_of(pod).map(|bytes| (pod, bytes)));
            let mut taken = 0;
            for (pod, bytes) in known.iter().rev() {
                taken += bytes;
                prop_assert!(taken > MOST / 2 || bytes_of(*pod).is_some(), "pod {} is forgotten", pod);
            }
            known.retain(|(pod, _)| bytes_of(*pod).is_some());
            let taken: usize = known.iter().map(|(_, bytes)| bytes).sum();
            prop_assert_eq!((inner.bytes, inner.by_pod.len()), (taken, known.len()));
            prop_assert!(taken <= MOST);
        }
    }

    /// Compares the cache with a plain map from pod, slot and version to the answer.
    #[test]
    fn is_what_was_filed_last(
        steps in prop::collection::vec((0_u8..3, prop::collection::vec((0_u32..6, 1_u64..4, any::<i32>()), 0..6)), 0..30),
    ) {
        let answers = VerbCache::<i32>::new(MOST_BYTES, NEVER);
        let mut model: BTreeMap<(u8, u32), (u64, i32)> = BTreeMap::new();
        for (pod, filed) in steps {
            // Slots far apart and close together, so that sparse and dense answers occur.
            let filed: Vec<_> = filed.iter().map(|(slot, version, answer)| (slot.pow(3), *version, *answer)).collect();
            let answered = filed.iter().map(|(slot, version, answer)| (row(*slot, *version), *answer));
            answers.store(&Bytes::from(vec![pod]), answered);
            model.extend(filed.iter().map(|(slot, version, answer)| ((pod, *slot), (*version, *answer))));
            for pod in 0..3 {
                for (slot, version) in (0..6).flat_map(|slot| (1..4).map(move |version| (u32::pow(slot, 3), version))) {
                    let expected = model.get(&(pod, slot)).filter(|known| known.0 == version).map(|known| known.1);
                    prop_assert_eq!(recalled(&answers, &[pod], &[row(slot, version)]), [expected]);
                }
            }
        }
    }
}

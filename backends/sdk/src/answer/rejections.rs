//! Groups verdicts: the contract wants one entry for each reason and rule, not one for each node.

use std::{collections::HashMap, time::Duration};

use extender_policy_api::{limits::RULE_BYTES, v1beta1 as api};
use foldhash::fast::RandomState;

use crate::{Reason, Refusal, RejectionKind, Verdict};

/// The longest reason. The gateway shows 200 bytes of it, and accepts an answer of 1 KiB per node.
const MAX_REASON_BYTES: usize = 900;

/// The refused nodes, by reason, kind, rule and when to try again, in the order of their first occurrence.
pub(super) fn rejections(verdicts: &[Verdict]) -> Vec<api::Rejection> {
    let mut groups = Vec::new();
    let mut known: HashMap<_, usize, RandomState> = HashMap::default();
    for (position, verdict) in (0..).zip(verdicts) {
        let Verdict::Reject(refusal) = verdict else { continue };
        let Refusal { reason, kind, rule, retry_after } = refusal;
        let key = (reason.as_str(), kind, rule.as_ref().map(Reason::as_str), retry_after.map(seconds));
        let group = *known.entry(key).or_insert_with(|| {
            groups.push(group(refusal));
            groups.len() - 1
        });
        let group: &mut api::Rejection = &mut groups[group];
        group.positions.push(position);
    }
    groups
}

fn group(refusal: &Refusal) -> api::Rejection {
    let Refusal { reason, kind, rule, retry_after } = refusal;
    api::Rejection {
        reason: cut(reason, MAX_REASON_BYTES),
        kind: match kind {
            RejectionKind::Unschedulable => api::RejectionKind::Unschedulable,
            RejectionKind::Unresolvable => api::RejectionKind::Unresolvable,
        }
        .into(),
        positions: Vec::new(),
        rule: rule.as_ref().map(|rule| cut(rule, RULE_BYTES)).unwrap_or_default(),
        retry_after_seconds: retry_after.map(seconds),
    }
}

/// Rounded up, so that nobody tries too early.
fn seconds(time: Duration) -> u32 {
    let part = u64::from(time.subsec_nanos() > 0);
    time.as_secs().saturating_add(part).try_into().unwrap_or(u32::MAX)
}

fn cut(text: &Reason, most: usize) -> String {
    let text = text.as_str();
    text[..text.floor_char_boundary(most)].to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;

    fn verdict() -> impl Strategy<Value = Verdict> {
        prop_oneof![
            Just(Verdict::Accept),
            (0..4).prop_map(|reason| Verdict::reject(format!("reason {reason}"))),
            (0..4).prop_map(|reason| Verdict::reject(format!("reason {reason}")).unresolvable()),
            (0..4, 0..2).prop_map(|(reason, rule)| {
                Verdict::reject(format!("reason {reason}")).by_rule(format!("rule {rule}"))
            }),
            (0..4, 0..3_u64).prop_map(|(reason, seconds)| {
                Verdict::reject(format!("reason {reason}")).retry_after(Duration::from_secs(seconds))
            }),
        ]
    }

    /// The verdicts that the gateway would read from the answer.
    fn read_back(rejections: &[api::Rejection], count: usize) -> Vec<Verdict> {
        let mut verdicts = vec![Verdict::Accept; count];
        for rejection in rejections {
            let verdict = Verdict::reject(rejection.reason.clone());
            let verdict = match rejection.kind() {
                api::RejectionKind::Unspecified => panic!("{rejection:?}"),
                api::RejectionKind::Unschedulable => verdict,
                api::RejectionKind::Unresolvable => verdict.unresolvable(),
            };
            let rule = rejection.rule.clone();
            let verdict = if rule.is_empty() { verdict } else { verdict.by_rule(rule) };
            let verdict = match rejection.retry_after_seconds {
                Some(seconds) => verdict.retry_after(Duration::from_secs(seconds.into())),
                None => verdict,
            };
            for &position in &rejection.positions {
                let place = &mut verdicts[usize::try_from(position).unwrap()];
                assert_eq!(*place, Verdict::Accept, "position {position} twice");
                *place = verdict.clone();
            }
        }
        verdicts
    }

    #[test]
    fn a_long_reason_is_cut() {
        let long = "ä".repeat(70_000);
        let rejections = rejections(&[Verdict::reject(long.clone()).by_rule(long)]);
        assert_eq!((&*rejections[0].reason, &*rejections[0].rule), (&*"ä".repeat(450), &*"ä".repeat(31)));
        // The gateway's limit for each node.
        assert!(rejections[0].encoded_len() < 1 << 10);
    }

    #[test]
    fn the_time_is_in_whole_seconds_rounded_up() {
        for (time, expected) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_secs(7), 7),
            (Duration::from_millis(7_001), 8),
            (Duration::from_secs(u32::MAX.into()), u32::MAX),
            (Duration::MAX, u32::MAX),
        ] {
            let rejections = rejections(&[Verdict::reject("closed").retry_after(time)]);
            assert_eq!(rejections[0].retry_after_seconds, Some(expected), "{time:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_reason_comes_twice(verdicts in prop::collection::vec(verdict(), 0..60)) {
            let rejections = rejections(&verdicts);
            prop_assert_eq!(read_back(&rejections, verdicts.len()), verdicts);
            let mut reasons: Vec<_> = rejections.iter().map(|r| (&r.reason, r.kind, &r.rule, r.retry_after_seconds)).collect();
            reasons.sort();
            reasons.dedup();
            prop_assert_eq!(reasons.len(), rejections.len());
        }
    }
}

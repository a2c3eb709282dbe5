//! Groups verdicts: the contract wants one entry for each reason, not one for each node.

use std::collections::HashMap;

use extender_policy_api::v1alpha1 as api;
use foldhash::fast::RandomState;

use crate::{Preemption, Verdict, verdict::Refusal};

/// The longest reason. The gateway shows 200 bytes of it, and accepts an answer of 1 KiB per node.
const MAX_REASON_BYTES: usize = 1_000;

/// The refused nodes, by reason and kind, in the order of their first occurrence.
pub(super) fn rejections(verdicts: &[Verdict]) -> Vec<api::Rejection> {
    let mut groups = Vec::new();
    let mut known: HashMap<_, usize, RandomState> = HashMap::default();
    for (position, verdict) in (0..).zip(verdicts) {
        let Verdict::Reject(refusal) = verdict else { continue };
        let group = *known.entry((refusal.reason.as_str(), refusal.preemption)).or_insert_with(|| {
            groups.push(group(refusal));
            groups.len() - 1
        });
        let group: &mut api::Rejection = &mut groups[group];
        group.positions.push(position);
    }
    groups
}

fn group(refusal: &Refusal) -> api::Rejection {
    let reason = refusal.reason.as_str();
    api::Rejection {
        reason: reason[..reason.floor_char_boundary(MAX_REASON_BYTES)].to_owned(),
        preemption_may_help: refusal.preemption == Preemption::MayHelp,
        positions: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn verdict() -> impl Strategy<Value = Verdict> {
        prop_oneof![
            Just(Verdict::Accept),
            (0..4).prop_map(|reason| Verdict::reject(format!("reason {reason}"))),
            (0..4).prop_map(|reason| Verdict::reject(format!("reason {reason}")).preemption_may_help()),
        ]
    }

    /// The verdicts that the gateway would read from the answer.
    fn read_back(rejections: &[api::Rejection], count: usize) -> Vec<Verdict> {
        let mut verdicts = vec![Verdict::Accept; count];
        for rejection in rejections {
            let verdict = Verdict::reject(rejection.reason.clone());
            let verdict = if rejection.preemption_may_help { verdict.preemption_may_help() } else { verdict };
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
        let rejections = rejections(&[Verdict::reject("ä".repeat(70_000))]);
        assert_eq!(rejections[0].reason, "ä".repeat(500));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_reason_comes_twice(verdicts in prop::collection::vec(verdict(), 0..60)) {
            let rejections = rejections(&verdicts);
            prop_assert_eq!(read_back(&rejections, verdicts.len()), verdicts);
            let mut reasons: Vec<_> = rejections.iter().map(|r| (&r.reason, r.preemption_may_help)).collect();
            reasons.sort();
            reasons.dedup();
            prop_assert_eq!(reasons.len(), rejections.len());
        }
    }
}

//! How a new or changed policy is introduced: for a share of the pods, and with a limit for what it rejects.

use std::time::Duration;

use extender_config::{Cursor, Value};

use super::setting::{Setting, Yaml, choices, settings};
use super::telemetry::Ratio;

const DEFAULT_WINDOW: Duration = Duration::from_mins(5);
pub(super) const DEFAULT_SHADOW: Duration = Duration::from_mins(30);

settings! {
    /// The pods for which the answers of a backend count; for the others it is in shadow.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CanarySettings: "a mapping such as {percent: 10}";
    /// Its answers count for this share of the pods, a whole number from 0 to 100; for the others it is in shadow, and its
    /// [hooks](hooks.md) do not run.
    percent "percent": Percent, required(PERCENT);
}

settings! {
    /// The largest share of nodes that a backend may reject.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RejectShareSettings: "a mapping such as {share: 0.9}";
    /// The share of nodes, from 0 to 1, that its filter may reject.
    share "share": Ratio, required("a number from 0 to 1 such as 0.9");
    /// The time over which the share is computed.
    window "window": Duration, default(DEFAULT_WINDOW);
    /// What to do if it rejects more. `Report`: log, `status` and the metric `extender_gateway_backend_reject_share_exceeded` say so.
    /// `Shadow`: it is also in shadow for `shadowFor`, as if an operator had [set that](operations.md#disable-a-policy).
    on_excess "onExcess": OnExcess, default(OnExcess::Report);
    /// For how long; then its answers count again, and are judged from the beginning, as after the end of any override. What an
    /// operator has set meanwhile stays.
    shadow_for "shadowFor": Duration, default(DEFAULT_SHADOW);
}

choices! {
    /// What happens when a backend rejects more nodes than it may.
    pub enum OnExcess {
        /// The log, the status and a metric say so.
        Report = "Report",
        /// The backend is also in shadow for a while.
        Shadow = "Shadow",
    }
}

const PERCENT: &str = "a whole number from 0 to 100 such as 10";

/// A share of pods: a whole number from 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(u8);

impl Percent {
    /// A share; `None` for any other number.
    pub fn new(number: i128) -> Option<Self> {
        u8::try_from(number).ok().filter(|number| *number <= 100).map(Self)
    }

    /// The number, 0 to 100.
    pub fn value(self) -> u8 {
        self.0
    }
}

impl Setting for Percent {
    fn read(field: &Cursor<'_>) -> Option<Self> {
        match field.value() {
            Value::Integer(number) => {
                field.accepted(Self::new(*number).ok_or_else(|| format!("{number} is out of range")), PERCENT)
            }
            Value::Fraction(number) => {
                field.accepted(Err(format!("{number:?} is not a whole number")), PERCENT)
            }
            _ => {
                field.wrong_kind(PERCENT);
                None
            }
        }
    }

    fn write(&self, out: &mut Yaml) {
        out.inline(&self.0.to_string());
    }
}

impl CanarySettings {
    /// Whether the answers of this backend count for the pods of this controller, or for this pod if it has none. The
    /// same in all replicas; a larger share has all pods of a smaller one.
    pub fn counts_for(self, backend: &str, uid: &str) -> bool {
        let bytes = backend.bytes().chain([0]).chain(uid.bytes());
        mixed(bytes) % 100 < u64::from(self.percent.value())
    }
}

/// FNV-1a with the finalizer of `SplitMix64`: well distributed, and the same in every build.
fn mixed(bytes: impl Iterator<Item = u8>) -> u64 {
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canary(percent: i128) -> CanarySettings {
        CanarySettings { percent: Percent::new(percent).unwrap() }
    }

    #[test]
    fn about_the_share_of_owners_counts() {
        for percent in [0, 1, 10, 50, 99, 100] {
            let counted =
                (0..10_000).filter(|uid| canary(percent).counts_for("racks", &format!("uid-{uid}")));
            let counted = i128::try_from(counted.count()).unwrap();
            assert!((counted - 100 * percent).abs() <= 200, "{percent} percent: {counted} of 10,000");
        }
    }

    #[test]
    fn another_version_of_the_gateway_chooses_the_same_pods() {
        let chosen: Vec<_> =
            (0..40).filter(|uid| canary(10).counts_for("racks", &format!("uid-{uid}"))).collect();
        assert_eq!(chosen, [3, 6, 12, 23]);
    }

    proptest! {
        #[test]
        fn a_larger_share_has_the_pods_of_a_smaller_one(uid in "[0-9a-f-]{0,36}", a in 0_i128..=100, b in 0_i128..=100) {
            let (less, more) = (canary(a.min(b)), canary(a.max(b)));
            prop_assert!(!less.counts_for("racks", &uid) || more.counts_for("racks", &uid));
        }
    }
}

//! Decides which traces are kept, by a key or a trace id only, so that all replicas, and all processes of a trace,
//! decide the same.

use opentelemetry::trace::TraceId;

use crate::TraceContext;

/// A share of traces, from none to all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio(f64);

/// A number outside 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{0} is not a ratio; expected 0 to 1")]
pub struct OutOfRange(pub f64);

impl Ratio {
    /// Everything.
    pub const ALL: Self = Self(1.0);
    /// Nothing.
    pub const NONE: Self = Self(0.0);

    /// A share between 0 and 1, both included.
    ///
    /// # Errors
    /// The number is outside this range, or NaN.
    pub fn new(share: f64) -> Result<Self, OutOfRange> {
        if (0.0..=1.0).contains(&share) { Ok(Self(share)) } else { Err(OutOfRange(share)) }
    }

    /// The share, 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        self.0
    }

    /// Whether this key is kept. A larger ratio keeps everything that a smaller one keeps.
    #[must_use]
    pub fn keeps(self, key: &[u8]) -> bool {
        self.takes(mixed(key) >> 1)
    }

    /// Whether the trace is kept: decided as by the OpenTelemetry SDKs' `TraceIdRatioBased`, by its last 63 bits.
    #[must_use]
    pub fn keeps_trace(self, trace: TraceId) -> bool {
        let last = trace.to_bytes()[8..].iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        self.takes(last >> 1)
    }

    /// `number` has 63 bits.
    fn takes(self, number: u64) -> bool {
        number < self.bound()
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the share is within 0 and 1, and the last digits of a bound are no matter"
    )]
    fn bound(self) -> u64 {
        (self.0 * (1_u64 << 63) as f64) as u64
    }
}

/// A stable hash: FNV-1a with the finalizer of `SplitMix64`, since FNV alone leaves the first bits of similar keys
/// similar.
fn mixed(key: &[u8]) -> u64 {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, fnv);
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// The sampler of `OTEL_TRACES_SAMPLER`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampler {
    /// The caller's decision; without a caller, this share. `parentbased_…`.
    Parent(Ratio),
    /// This share, regardless of the caller's decision. `always_on`, `always_off`, `traceidratio`.
    Own(Ratio),
}

impl Sampler {
    /// The share of traces that begin here.
    #[must_use]
    pub fn ratio(self) -> Ratio {
        match self {
            Self::Parent(ratio) | Self::Own(ratio) => ratio,
        }
    }

    /// Whether the caller's trace is continued here.
    #[must_use]
    pub fn continues(self, caller: &TraceContext) -> bool {
        match self {
            Self::Parent(_) => caller.sampled,
            Self::Own(ratio) => ratio.keeps_trace(caller.trace_id),
        }
    }

    /// Whether a trace with this key begins here.
    #[must_use]
    pub fn begins(self, key: &[u8]) -> bool {
        self.ratio().keeps(key)
    }
}

impl Default for Sampler {
    /// `parentbased_always_on`, the default of the OpenTelemetry SDKs.
    fn default() -> Self {
        Self::Parent(Ratio::ALL)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids;

    #[test]
    fn only_shares_are_ratios() {
        for share in [-0.1, 1.000_001, f64::NAN, f64::INFINITY] {
            let refused = Ratio::new(share).unwrap_err();
            assert!(refused.to_string().ends_with("is not a ratio; expected 0 to 1"), "{refused}");
        }
        assert!((Ratio::new(0.25).unwrap().share() - 0.25).abs() < f64::EPSILON);
    }

    /// Other processes and later builds must decide the same about a pod.
    #[test]
    fn the_hash_is_fixed() {
        assert_eq!(mixed(b""), 0xf52a_15e9_a9b5_e89b);
        assert_eq!(mixed(b"7f3c2c0e-5f0e-4f0a-9a52-3c7d0f8f7a11"), 0xe431_93e6_ecfb_1421);
    }

    #[test]
    fn a_share_of_keys_that_look_alike_is_kept() {
        let kept = |ratio: f64| {
            let ratio = Ratio::new(ratio).unwrap();
            (0..10_000).filter(|n| ratio.keeps(format!("0000-{n:08}").as_bytes())).count()
        };
        assert_eq!((kept(0.0), kept(1.0)), (0, 10_000));
        assert!((2_300..2_700).contains(&kept(0.25)), "{}", kept(0.25));
        assert!((50..150).contains(&kept(0.01)), "{}", kept(0.01));
    }

    #[test]
    fn a_share_of_traces_is_kept() {
        let ratio = Ratio::new(0.5).unwrap();
        let kept = (0..10_000).filter(|_| ratio.keeps_trace(ids::trace())).count();
        assert!((4_500..5_500).contains(&kept), "{kept}");
        // The first half of the id does not matter, and the bound is exclusive.
        assert!(ratio.keeps_trace(TraceId::from((7 << 64) | 0x7fff_ffff_ffff_ffff)));
        assert!(!ratio.keeps_trace(TraceId::from((7 << 64) | 0x8000_0000_0000_0000)));
        assert!(!Ratio::NONE.keeps_trace(TraceId::from(1)));
    }

    #[test]
    fn a_sampler_follows_its_caller_or_does_not() {
        let sampled = TraceContext::root();
        let unsampled = TraceContext { sampled: false, ..sampled };
        for (sampler, expected) in [
            (Sampler::default(), (true, false, true)),
            (Sampler::Parent(Ratio::NONE), (true, false, false)),
            (Sampler::Own(Ratio::ALL), (true, true, true)),
            (Sampler::Own(Ratio::NONE), (false, false, false)),
        ] {
            let decided =
                (sampler.continues(&sampled), sampler.continues(&unsampled), sampler.begins(b"uid"));
            assert_eq!(decided, expected, "{sampler:?}");
        }
    }

    proptest! {
        #[test]
        fn a_larger_share_keeps_what_a_smaller_one_keeps(key: Vec<u8>, trace: u128, a in 0.0..=1.0, b in 0.0..=1.0) {
            let (less, more) = (Ratio::new(f64::min(a, b)).unwrap(), Ratio::new(f64::max(a, b)).unwrap());
            prop_assert!(!less.keeps(&key) || more.keeps(&key));
            let trace = TraceId::from(trace);
            prop_assert!(!less.keeps_trace(trace) || more.keeps_trace(trace));
            prop_assert!(Ratio::ALL.keeps(&key) && Ratio::ALL.keeps_trace(trace));
        }
    }
}

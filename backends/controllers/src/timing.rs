//! The times of an election. Mirrors `LeaderElectionConfig` of k8s.io/client-go/tools/leaderelection, with its checks and
//! the defaults of kube-scheduler and kube-controller-manager.

use std::{
    hash::{BuildHasher as _, RandomState},
    time::Duration,
};

use extender_policy_sdk::ControllersFailed;

/// The renew deadline is longer than this many retry periods, and a replica without the lease waits up to this many
/// periods more: `JitterFactor` of client-go.
const JITTER: f64 = 1.2;

/// When a lease expires, and how often replicas try to renew or obtain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    lease_duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

impl Timing {
    /// - `lease_duration`: replicas without the lease take it when it has not changed for this long. Whole seconds.
    /// - `renew_deadline`: the leader gives up when it could not renew for this long.
    /// - `retry_period`: the time between two attempts.
    ///
    /// # Errors
    ///
    /// A time is too short in comparison with the next one.
    pub fn new(
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, ControllersFailed> {
        let seconds = i32::try_from(lease_duration.as_secs()).is_ok_and(|seconds| seconds > 0);
        let mistakes = [
            (!seconds || lease_duration.subsec_nanos() > 0)
                .then(|| format!("the lease duration is {lease_duration:?}; expected whole seconds, such as 15s")),
            (lease_duration <= renew_deadline).then(|| {
                format!("the lease duration {lease_duration:?} is not longer than the renew deadline {renew_deadline:?}")
            }),
            (renew_deadline <= times(retry_period, JITTER)).then(|| {
                format!("the renew deadline {renew_deadline:?} is not longer than {JITTER} retry periods of {retry_period:?}")
            }),
            retry_period.is_zero().then(|| "the retry period is 0; expected a time such as 2s".to_owned()),
        ];
        let mistakes: Vec<_> = mistakes.into_iter().flatten().collect();
        if mistakes.is_empty() {
            Ok(Self { lease_duration, renew_deadline, retry_period })
        } else {
            Err(ControllersFailed(format!("invalid times of the election: {}", mistakes.join("; "))))
        }
    }

    pub(crate) fn lease_duration(self) -> Duration {
        self.lease_duration
    }

    /// For `leaseDurationSeconds`.
    pub(crate) fn lease_seconds(self) -> i32 {
        // `new` has checked it.
        i32::try_from(self.lease_duration.as_secs()).unwrap_or(i32::MAX)
    }

    pub(crate) fn renew_deadline(self) -> Duration {
        self.renew_deadline
    }

    pub(crate) fn retry_period(self) -> Duration {
        self.retry_period
    }

    /// The most that one attempt may take, so that another one fits into the deadline.
    pub(crate) fn attempt(self) -> Duration {
        self.renew_deadline / 2
    }

    /// The time until a replica without the lease tries again: replicas that began at the same time spread out.
    pub(crate) fn jittered_retry(self) -> Duration {
        let fraction = f64::from(u32::try_from(random() >> 32).unwrap_or(0)) / f64::from(u32::MAX);
        self.retry_period + times(self.retry_period, JITTER * fraction)
    }
}

impl Default for Timing {
    /// 15 s, 10 s, 2 s.
    fn default() -> Self {
        let [lease_duration, renew_deadline, retry_period] = [15, 10, 2].map(Duration::from_secs);
        Self { lease_duration, renew_deadline, retry_period }
    }
}

/// As `mul_f64`, which panics on what is too long.
fn times(period: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(period.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

/// A random number, for jitter and names: the keys of the standard hasher come from the system's source.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0_u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_pass_the_check() {
        let Timing { lease_duration, renew_deadline, retry_period } = Timing::default();
        assert_eq!(Timing::new(lease_duration, renew_deadline, retry_period), Ok(Timing::default()));
    }

    #[test]
    fn all_mistakes_come_together() {
        let error = |lease: u64, renew: u64, retry: u64| {
            let [lease, renew, retry] = [lease, renew, retry].map(Duration::from_millis);
            Timing::new(lease, renew, retry).unwrap_err().0
        };
        assert!(error(1_500, 1_000, 100).contains("the lease duration is 1.5s; expected whole seconds"));
        assert!(error(0, 0, 0).contains("expected whole seconds"));
        assert!(error(0, 0, 0).contains("the retry period is 0"));
        assert!(error(10_000, 10_000, 100).contains("is not longer than the renew deadline 10s"));
        assert!(error(15_000, 1_200, 1_000).contains("is not longer than 1.2 retry periods of 1s"));
        let error = Timing::new(Duration::MAX, Duration::MAX, Duration::MAX).unwrap_err().0;
        assert!(error.contains("is not longer than 1.2 retry periods"), "{error}");
    }

    #[test]
    fn retries_are_spread_over_the_jitter() {
        let retries: Vec<_> = (0..1_000).map(|_| Timing::default().jittered_retry()).collect();
        let bounds = Duration::from_secs(2)..=Duration::from_millis(4_400);
        assert!(retries.iter().all(|retry| bounds.contains(retry)));
        let (least, most) = (retries.iter().min().unwrap(), retries.iter().max().unwrap());
        assert!(*most > *least + Duration::from_secs(1), "{least:?} to {most:?}");
    }
}

//! The state of a watch between attempts: its pauses, and the failure that was last logged.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use extender_apiserver::RequestError;

/// Pauses that double up to a limit, each extended by a random fraction of itself. Mirrors the backoff of client-go's
/// `Reflector`.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(Duration::from_millis(800), Duration::from_secs(30))
    }
}

impl Backoff {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The pause after another failure.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause + pause.mul_f64(random())
    }

    /// Continues with the first pause.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }
}

/// A number from 0 to 1, so that gateways that lost their watches together do not reconnect together.
fn random() -> f64 {
    let [a, b, c, d, ..] = RandomState::new().hash_one(0_u8).to_ne_bytes();
    f64::from(u32::from_ne_bytes([a, b, c, d])) / f64::from(u32::MAX)
}

/// Decides what is logged: changes of state instead of each attempt. Methods return true if there is something to log.
#[derive(Debug, Default)]
pub(super) struct WatchState {
    listed: bool,
    failing: Option<WatchErrorCause>,
}

impl WatchState {
    /// All objects are listed. Does not end a failure of an earlier watch: the next one may fail again.
    pub(super) fn listed(&mut self) -> bool {
        let is_first = !std::mem::replace(&mut self.listed, true);
        if is_first {
            self.failing = None;
        }
        is_first
    }

    /// The watch is open.
    pub(super) fn watching(&mut self) -> bool {
        self.failing.take().is_some()
    }

    /// An attempt failed.
    pub(super) fn failed(&mut self, cause: WatchErrorCause) -> bool {
        self.failing.replace(cause) != Some(cause)
    }
}

/// Failures with different remedies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchErrorCause {
    /// 403: the account is not authorized.
    Forbidden,
    /// 401: the credentials are not accepted.
    Unauthorized,
    /// Anything else, mostly that the apiserver is unreachable.
    Other,
}

impl WatchErrorCause {
    pub(super) fn of(error: &RequestError) -> Self {
        match error.code() {
            Some(401) => Self::Unauthorized,
            Some(403) => Self::Forbidden,
            _ => Self::Other,
        }
    }

    /// The remedy for operators. `objects` are those that cannot be watched.
    pub(super) fn remedy(self, objects: &str) -> String {
        match self {
            Self::Forbidden => format!(
                "Bind the gateway's service account to a ClusterRole with the rule \
                 {{apiGroups: [\"\"], resources: [{objects}], verbs: [list, watch]}}"
            ),
            Self::Unauthorized => {
                "Check the token or client certificate of the kubeconfig or the service account".to_owned()
            }
            Self::Other => {
                "Check that the apiserver runs and is reachable from the gateway; the watch is retried"
                    .to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let mut backoff = Backoff::default();
        for milliseconds in [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000] {
            let (least, pause) = (Duration::from_millis(milliseconds), backoff.pause());
            assert!(pause >= least && pause <= 2 * least, "{pause:?}");
        }
        backoff.reset();
        assert!(backoff.pause() <= Duration::from_millis(1_600));
    }

    fn refused(code: u16) -> RequestError {
        RequestError::Refused { code, message: "no".to_owned() }
    }

    /// The first word of the remedy that is logged, if any.
    fn failed(state: &mut WatchState, error: &RequestError) -> String {
        let cause = WatchErrorCause::of(error);
        let remedy = state.failed(cause).then(|| cause.remedy("nodes"));
        remedy.map_or("-".to_owned(), |remedy| remedy.split(' ').next().unwrap().to_owned())
    }

    #[test]
    fn a_change_is_logged_once() {
        let mut healthy = WatchState::default();
        assert_eq!((healthy.listed(), healthy.watching(), healthy.listed()), (true, false, false));

        let mut forbidden = WatchState::default();
        assert_eq!([403, 403].map(|code| failed(&mut forbidden, &refused(code))), ["Bind", "-"]);
        assert_eq!((forbidden.listed(), forbidden.watching()), (true, false));

        let mut away = WatchState::default();
        away.listed();
        let lost = RequestError::Failed("connection refused".to_owned());
        assert_eq!(
            [lost, refused(500), refused(401)].map(|error| failed(&mut away, &error)),
            ["Check", "-", "Check"]
        );
        assert!(!away.listed(), "the watch may still fail");
        assert_eq!((away.watching(), away.watching()), (true, false));
    }
}

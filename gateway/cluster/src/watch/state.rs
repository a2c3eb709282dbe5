//! The state of a watch between attempts: its pauses, and the failure that was last logged.

use std::time::Duration;

use extender_apiserver::RequestError;
use extender_gateway_pace::backoff::Backoff;

/// The pauses after failures, with jitter. They mirror the backoff of client-go's `Reflector`, except while the apiserver
/// is unreachable: attempts to connect cost it nothing, and decisions need the present nodes as soon as it is back.
#[derive(Debug)]
pub(super) struct Pauses {
    usual: Backoff,
    /// While the apiserver is unreachable.
    unreachable: Backoff,
    /// Whether it was in the latest attempt.
    was_unreachable: bool,
}

/// The longest pause while the apiserver is unreachable, before it is extended.
const LONGEST_UNREACHABLE: Duration = Duration::from_secs(2);

impl Default for Pauses {
    fn default() -> Self {
        Self::new(Duration::from_millis(800), Duration::from_secs(30))
    }
}

impl Pauses {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        let unreachable = Backoff::new(first, longest.min(LONGEST_UNREACHABLE));
        Self { usual: Backoff::new(first, longest), unreachable, was_unreachable: false }
    }

    /// The pause after another failure.
    pub(super) fn after(&mut self, error: &RequestError) -> Duration {
        let is_unreachable = matches!(error, RequestError::Unreachable(_));
        if is_unreachable != self.was_unreachable {
            // An apiserver that starts rejects requests for a moment.
            self.reset();
        }
        self.was_unreachable = is_unreachable;
        let pauses = if is_unreachable { &mut self.unreachable } else { &mut self.usual };
        pauses.next_pause_with_jitter()
    }

    /// Continues with the first pause.
    pub(super) fn reset(&mut self) {
        self.usual.reset();
        self.unreachable.reset();
    }
}

/// Decides what is logged: changes of state instead of each attempt.
#[derive(Debug, Default)]
pub(super) struct WatchState {
    listed: bool,
    failing: Option<WatchErrorCause>,
    /// Of the latest attempt, if it failed.
    latest: Option<WatchErrorCause>,
}

impl WatchState {
    /// All objects are listed. Does not end a failure of an earlier watch: the next one may fail again.
    pub(super) fn set_listed(&mut self) -> bool {
        let is_first = !std::mem::replace(&mut self.listed, true);
        if is_first {
            self.failing = None;
        }
        is_first
    }

    /// The watch is open. Returns true if there is something to log.
    pub(super) fn set_watching(&mut self) -> bool {
        self.latest = None;
        self.failing.take().is_some()
    }

    /// An attempt failed. Returns what is to be logged. One 403 may come from an apiserver that starts and has not loaded its
    /// rules yet, so the next attempt decides.
    pub(super) fn set_failed(&mut self, cause: WatchErrorCause) -> Option<WatchErrorCause> {
        let before = self.latest.replace(cause);
        if cause == WatchErrorCause::Forbidden && before != Some(cause) {
            return None;
        }
        (self.failing.replace(cause) != Some(cause)).then_some(cause)
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

    fn expect_pauses(pauses: &mut Pauses, error: &RequestError, milliseconds: &[u64]) {
        for &milliseconds in milliseconds {
            let (least, pause) = (Duration::from_millis(milliseconds), pauses.after(error));
            assert!(pause >= least && pause <= 2 * least, "{error:?}: {pause:?}");
        }
    }

    #[test]
    fn pauses_double_up_to_a_limit() {
        let mut pauses = Pauses::default();
        let away = RequestError::Unreachable("connection refused".to_owned());
        expect_pauses(
            &mut pauses,
            &refused(500),
            &[800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000],
        );
        expect_pauses(&mut pauses, &away, &[800, 1_600, 2_000, 2_000]);
        expect_pauses(&mut pauses, &refused(503), &[800, 1_600, 3_200]);
        pauses.reset();
        expect_pauses(&mut pauses, &refused(503), &[800]);
    }

    fn refused(code: u16) -> RequestError {
        RequestError::Refused { code, message: "no".to_owned() }
    }

    /// The first word of the remedy that is logged, if any.
    fn failed(state: &mut WatchState, error: &RequestError) -> String {
        let cause = WatchErrorCause::of(error);
        let remedy = state.set_failed(cause).map(|cause| cause.remedy("nodes"));
        remedy.map_or("-".to_owned(), |remedy| remedy.split(' ').next().unwrap().to_owned())
    }

    #[test]
    fn a_change_is_logged_once() {
        let mut healthy = WatchState::default();
        assert_eq!(
            (healthy.set_listed(), healthy.set_watching(), healthy.set_listed()),
            (true, false, false)
        );

        let mut forbidden = WatchState::default();
        let codes = [403, 500, 403, 403, 403].map(|code| failed(&mut forbidden, &refused(code)));
        assert_eq!(codes, ["-", "Check", "-", "Bind", "-"], "one 403 may come from an apiserver that starts");
        assert_eq!((forbidden.set_listed(), forbidden.set_watching()), (true, false));

        let mut away = WatchState::default();
        away.set_listed();
        let lost = RequestError::Failed("connection refused".to_owned());
        assert_eq!(
            [lost, refused(500), refused(401)].map(|error| failed(&mut away, &error)),
            ["Check", "-", "Check"]
        );
        assert!(!away.set_listed(), "the watch may still fail");
        assert_eq!((away.set_watching(), away.set_watching()), (true, false));
    }
}

//! How a watch is doing, so that a log says when that changes and not at every attempt.

use extender_apiserver::RequestError;

/// What the watch last knew about itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum WatchState {
    /// Nothing was heard yet.
    #[default]
    Starting,
    /// Objects arrive.
    Watching,
    /// The last attempt failed. Whether objects ever arrived determines the next log line.
    Failing { cause: WatchErrorCause, after: Before },
}

/// Whether the table was complete before a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    Synced,
    NotSynced,
}

/// Failures that want different things from the operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchErrorCause {
    /// 403: the account is not authorized.
    Forbidden,
    /// 401: the credentials are not accepted.
    Unauthorized,
    /// Anything else, mostly that it cannot be reached.
    Other,
}

/// What the log should say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Notice {
    /// For the first time.
    Synced,
    Recovered,
    Failed {
        error: String,
        cause: WatchErrorCause,
    },
}

impl WatchState {
    /// All objects are known. After a failure of the watch that does not end it: the watch may fail again.
    pub(super) fn listed(&mut self) -> Option<Notice> {
        let first = matches!(self, Self::Starting | Self::Failing { after: Before::NotSynced, .. });
        first.then(|| {
            *self = Self::Watching;
            Notice::Synced
        })
    }

    /// The watch is open.
    pub(super) fn watching(&mut self) -> Option<Notice> {
        matches!(self, Self::Failing { .. }).then(|| {
            *self = Self::Watching;
            Notice::Recovered
        })
    }

    /// An attempt failed.
    pub(super) fn failed(&mut self, error: &RequestError) -> Option<Notice> {
        let cause = WatchErrorCause::of(error);
        let after = match *self {
            Self::Starting => Before::NotSynced,
            Self::Watching => Before::Synced,
            Self::Failing { cause: same, .. } if same == cause => return None,
            Self::Failing { after, .. } => after,
        };
        *self = Self::Failing { cause, after };
        Some(Notice::Failed { error: error.to_string(), cause })
    }
}

impl WatchErrorCause {
    fn of(error: &RequestError) -> Self {
        match error.code() {
            Some(401) => Self::Unauthorized,
            Some(403) => Self::Forbidden,
            _ => Self::Other,
        }
    }

    /// What an operator can do about it. `objects` is what could not be watched.
    pub(super) fn remedy(self, objects: &str) -> String {
        let remedy = match self {
            Self::Forbidden => {
                return format!(
                    "Bind the gateway's service account to a ClusterRole with the rule \
                     {{apiGroups: [\"\"], resources: [{objects}], verbs: [list, watch]}}"
                );
            }
            Self::Unauthorized => {
                "Check the token or client certificate of the kubeconfig or the service account"
            }
            Self::Other => {
                "Check that the apiserver runs and is reachable from the gateway; the watch is retried"
            }
        };
        remedy.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16) -> RequestError {
        RequestError::Refused { code, message: "no".to_owned() }
    }

    /// What the log says about a failure.
    fn failed(state: &mut WatchState, error: &RequestError) -> String {
        let notice = state.failed(error);
        notice.map_or("-".to_owned(), |notice| match notice {
            Notice::Failed { cause, .. } => cause.remedy("nodes").split(' ').next().unwrap().to_owned(),
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn a_change_is_said_once() {
        let mut healthy = WatchState::default();
        assert_eq!(
            (healthy.listed(), healthy.watching(), healthy.listed()),
            (Some(Notice::Synced), None, None)
        );

        let mut forbidden = WatchState::default();
        assert_eq!([403, 403].map(|code| failed(&mut forbidden, &refused(code))), ["Bind", "-"]);
        assert_eq!((forbidden.listed(), forbidden.watching()), (Some(Notice::Synced), None));

        let mut away = WatchState::default();
        away.listed();
        let lost = RequestError::Failed("connection refused".to_owned());
        assert_eq!(
            [lost, refused(500), refused(401)].map(|error| failed(&mut away, &error)),
            ["Check", "-", "Check"]
        );
        assert_eq!(away.listed(), None, "the watch fails all the same");
        assert_eq!((away.watching(), away.watching()), (Some(Notice::Recovered), None));
    }
}

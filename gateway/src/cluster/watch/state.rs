//! How the watch is doing, so that a log says when that changes and not every time that it is tried.

use kube::{
    Error as ClientError,
    runtime::{watcher, watcher::Event},
};

use crate::cluster::error_text::whole_text;

/// What the watch last knew about itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum WatchState {
    /// Nothing was heard yet.
    #[default]
    Starting,
    /// Objects arrive.
    Watching,
    /// The last attempt failed. Whether objects ever arrived decides what is said when they do.
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
    /// The apiserver knows who asks, and does not allow it.
    Forbidden,
    /// The apiserver does not know who asks.
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
    /// An event came. That a list begins says nothing yet: it begins before the apiserver is asked.
    pub(super) fn heard<K>(&mut self, event: &Event<K>) -> Option<Notice> {
        let notice = match (&*self, event) {
            (Self::Watching, _) | (_, Event::Init) => return None,
            (Self::Failing { after: Before::Synced, .. }, _) => Notice::Recovered,
            (_, Event::InitDone) => Notice::Synced,
            _ => return None,
        };
        *self = Self::Watching;
        Some(notice)
    }

    /// An attempt failed. That the apiserver has forgotten our place is no failure: the objects are
    /// listed again.
    pub(super) fn failed(&mut self, error: &watcher::Error) -> Option<Notice> {
        if code(error) == Some(410) {
            return None;
        }
        let cause = WatchErrorCause::of(error);
        let after = match *self {
            Self::Starting => Before::NotSynced,
            Self::Watching => Before::Synced,
            Self::Failing { cause: same, .. } if same == cause => return None,
            Self::Failing { after, .. } => after,
        };
        *self = Self::Failing { cause, after };
        Some(Notice::Failed { error: whole_text(error), cause })
    }
}

impl WatchErrorCause {
    fn of(error: &watcher::Error) -> Self {
        match code(error) {
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
            Self::Other => "Check that the apiserver runs and can be reached from here; it is tried again",
        };
        remedy.to_owned()
    }
}

/// The HTTP status that the apiserver answered with.
fn code(error: &watcher::Error) -> Option<u16> {
    use watcher::Error::{InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(ClientError::Api(status))
        | WatchStartFailed(ClientError::Api(status))
        | WatchFailed(ClientError::Api(status))
        | WatchError(status) => Some(status.code),
        InitialListFailed(_) | WatchStartFailed(_) | WatchFailed(_) | NoResourceVersion => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Notice, WatchState};
    use kube::{
        core::Status,
        runtime::{watcher::Error, watcher::Event},
    };

    fn status(code: u16) -> Error {
        Error::WatchError(Status::failure("no", "No").with_code(code).boxed())
    }

    /// What the log says to each of these.
    fn notices(steps: Vec<Result<Event<()>, Error>>) -> Vec<String> {
        let mut standing = WatchState::default();
        let said = steps.into_iter().map(|step| match step {
            Ok(event) => standing.heard(&event),
            Err(error) => standing.failed(&error),
        });
        let words = said.map(|notice| match notice {
            None => "-".to_owned(),
            Some(Notice::Failed { cause, .. }) => cause.remedy("nodes").split(' ').next().unwrap().to_owned(),
            Some(other) => format!("{other:?}"),
        });
        words.collect()
    }

    #[test]
    fn a_change_is_said_once() {
        use Event::{Apply, Init, InitApply, InitDone};
        let healthy = vec![Ok(Init), Ok(InitApply(())), Ok(InitDone), Ok(Apply(())), Ok(Init), Ok(InitDone)];
        assert_eq!(notices(healthy), ["-", "-", "Synced", "-", "-", "-"]);

        let forbidden = vec![Ok(Init), Err(status(403)), Ok(Init), Err(status(403)), Ok(Init), Ok(InitDone)];
        assert_eq!(notices(forbidden), ["-", "Bind", "-", "-", "-", "Synced"]);

        let away = vec![
            Ok(InitDone),
            Err(Error::NoResourceVersion),
            Err(status(500)),
            Err(status(401)),
            Ok(Apply(())),
        ];
        assert_eq!(notices(away), ["Synced", "Check", "-", "Check", "Recovered"]);
    }

    #[test]
    fn the_text_goes_down_to_the_cause() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let outer = kube::Error::ReadEvents(std::io::Error::other(NoWay(refused)));
        let Some(Notice::Failed { error, .. }) = WatchState::default().failed(&Error::WatchFailed(outer))
        else {
            panic!("a failure is said")
        };
        assert_eq!(error, "watch stream failed: Error reading events stream: no way: connection refused");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("no way")]
    struct NoWay(#[source] std::io::Error);

    #[test]
    fn listing_again_is_no_failure() {
        let gone = vec![Ok(Event::InitDone), Err(status(410)), Ok(Event::Init), Ok(Event::InitDone)];
        assert_eq!(notices(gone), ["Synced", "-", "-", "-"]);
    }
}

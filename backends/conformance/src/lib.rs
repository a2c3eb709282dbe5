//! Checks that a running policy backend keeps the rules of `proto/SPEC.md`: the program `policy-conformance`.
//!
//! [`cases`] has the questions, [`suite`] what they share; [`spec`] finds the sentence behind each of them, and
//! [`report`] and [`junit()`] print how they ended. The suite speaks gRPC and protobuf alone: it shares no code with the
//! gateway or an SDK, so that it does not share their mistakes.

mod answer;
#[cfg(test)]
mod broken;
mod case;
mod cases;
mod client;
mod declared;
mod junit;
mod objects;
mod options;
mod question;
mod random;
mod report;
mod sent;
mod spec;
mod speed;
mod suite;
mod table;

use std::{
    error::Error,
    time::{Duration, Instant},
};

use self::client::shown;
pub use self::{
    case::{Case, Level, Outcome},
    cases::all,
    junit::junit,
    options::{Asking, ListFormat, Options, Target, UsageError},
    report::{list, markdown, progress, summary, title},
    speed::{Measured, Mode, measure, median},
    suite::Suite,
};

/// How a case ended.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The case.
    pub case: Case,
    /// Its end.
    pub outcome: Outcome,
    /// The time that it took.
    pub took: Duration,
}

/// Why no case could be run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Nobody listens, or TLS fails.
    #[error("cannot connect to {url}: {why}; is the backend running, and is --tls-... as it needs it?")]
    Connect {
        /// As given.
        url: String,
        /// The causes, one after the other.
        why: String,
    },
    /// The backend refuses the handshake with the right args.
    #[error("{url} refuses the handshake: {why}; --args has the operator's args")]
    Handshake {
        /// As given.
        url: String,
        /// The status.
        why: String,
    },
}

/// Connects, and asks the backend what it declares.
///
/// # Errors
///
/// [`StartError`] if the backend cannot be reached, or refuses.
pub async fn begin(target: Target) -> Result<Suite, StartError> {
    let url = target.url.clone();
    let client = target
        .connect()
        .await
        .map_err(|error| StartError::Connect { url: url.clone(), why: causes(&error) })?;
    match client.info(&target.info_request()).await {
        Ok(Ok(info)) => Ok(Suite::new(target, client, info)),
        Ok(Err(status)) => Err(StartError::Handshake { url, why: shown(&status) }),
        Err(case::Stop::Failed(why) | case::Stop::Skipped(why)) => Err(StartError::Handshake { url, why }),
    }
}

impl Case {
    /// Asks the backend.
    pub async fn run(&self, suite: &Suite) -> Finding {
        let begun = Instant::now();
        let ended = (self.check)(suite, self.verb).await;
        Finding { outcome: Outcome::of(self.level, ended), case: self.clone(), took: begun.elapsed() }
    }
}

/// An error and its causes as one text.
pub(crate) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

//! Checks that a running policy backend keeps the rules of `proto/SPEC.md`: the program `policy-conformance`.
//!
//! [`cases`] has the questions, [`suite`] what they share; [`spec`] finds the sentence behind each of them, and
//! [`report`] and [`junit()`] print how they ended. The suite speaks gRPC and protobuf alone: it shares no code with the
//! gateway or an SDK, so that it does not share their mistakes.

mod answer;
mod asked;
mod case;
mod cases;
mod client;
mod declared;
mod hook;
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

use extender_policy_api::v1alpha1::GetInfoResponse;
use tonic::{Code, Status};

use self::client::{Client, shown};
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
    /// The backend refuses the handshake, or another service answers it.
    #[error("{url} refuses the handshake: {why}{remedy}")]
    Handshake {
        /// As given.
        url: String,
        /// The status.
        why: String,
        /// What helps, after a semicolon, if the status says that.
        remedy: &'static str,
    },
}

impl StartError {
    fn refused(url: String, status: &Status) -> Self {
        Self::Handshake { url, why: shown(status), remedy: remedy(status) }
    }
}

/// What helps if a handshake ends with this status. An error of the protocol comes from this side of the connection.
fn remedy(status: &Status) -> &'static str {
    let is_other_protocol = status.source().is_some() || status.message().contains("h2 protocol error");
    match status.code() {
        Code::InvalidArgument => "; --args has the operator's args",
        Code::Unimplemented => "; does another service listen there?",
        _ if is_other_protocol => {
            "; the server does not speak gRPC there: does another service listen, or is TLS missing (an https:// URL)?"
        }
        _ => "",
    }
}

/// Connects, and asks the backend what it declares, with all args; a replica, too, so that no case runs without it.
///
/// # Errors
///
/// [`StartError`] if one of both cannot be reached, or refuses.
pub async fn begin(target: Target) -> Result<Suite, StartError> {
    let url = target.url.clone();
    let (client, info) = greeted(url, &target, target.connect().await).await?;
    if let Some((url, connected)) = target.connect_replica().await {
        greeted(url, &target, connected).await?;
    }
    if let Some(other) = target.other() {
        greeted(other.url.clone(), &other, Ok(client.clone())).await?;
    }
    Ok(Suite::new(target, client, info).await)
}

/// A connection with the answer to its handshake.
async fn greeted(
    url: String,
    target: &Target,
    connected: Result<Client, tonic::transport::Error>,
) -> Result<(Client, GetInfoResponse), StartError> {
    let client = match connected {
        Ok(client) => client,
        Err(error) => return Err(StartError::Connect { url, why: causes(&error) }),
    };
    match client.info(&target.info_request()).await {
        Ok(Ok(info)) => Ok((client, info)),
        Ok(Err(status)) => Err(StartError::refused(url, &status)),
        Err(case::Stop::Failed(why) | case::Stop::Skipped(why)) => {
            Err(StartError::Handshake { url, why, remedy: "" })
        }
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

#[cfg(test)]
mod tests;

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
